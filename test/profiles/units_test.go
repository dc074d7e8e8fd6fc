package profiles_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// unitSet is one unit with its drop-ins, by path below unitDir.
type unitSet struct {
	name  string
	files map[string]string
}

// environment are units of an operating system that our units name. Each stands in for a real one;
// systemd only checks that it exists.
var environment = []string{
	"basic.target", "multi-user.target", "network-online.target", "network.target", "shutdown.target", "sysinit.target",
	"containerd.service", "crio.service", "docker.service", "kubelet.service", "locksmithd.service", "rpc-statd.service", "setup.service", "bootstrap.service",
	"systemd-networkd.service", "systemd-resolved.service", "update-engine.service", "vmtoolsd.service", "iscsid.service", "qemu-guest-agent.service",
	"system.slice", "-.slice",
}

// TestUnits: systemd has nothing to say about any unit.
func TestUnits(t *testing.T) {
	analyze := tool(t, "systemd-analyze", "systemd")
	start := time.Now()
	var out report
	units := unitSets(t, &out)
	if len(units) < 4 {
		t.Fatalf("found %d units: there were more", len(units))
	}
	dir := newRoot(t)
	for _, u := range units {
		for _, line := range verify(t, analyze, dir, u.what) {
			out.add(u.what.name+": "+line, u.in)
		}
	}
	out.fail(t)
	t.Logf("%d distinct units in %s", len(units), time.Since(start).Round(time.Millisecond))
}

// TestUnitsFinds: systemd finds mistakes.
func TestUnitsFinds(t *testing.T) {
	analyze := tool(t, "systemd-analyze", "systemd")
	dir := newRoot(t)
	for want, u := range map[string]unitSet{
		"Enviroment":        {"x.service", map[string]string{"x.service": "[Service]\nEnviroment=A=1\nExecStart=/usr/bin/stand-in\n"}},
		"Unknown section":   {"x.service", map[string]string{"x.service": "[Service]\nExecStart=/usr/bin/stand-in\n", "x.service.d/1.conf": "[Srevice]\nRestart=always\n"}},
		"is not executable": {"x.service", map[string]string{"x.service": "[Service]\nExecStart=/opt/bin/gone\n"}},
		"gone.service":      {"x.service", map[string]string{"x.service": "[Unit]\nRequires=gone.service\n[Service]\nExecStart=/usr/bin/stand-in\n"}},
		"Failed to parse":   {"x.service", map[string]string{"x.service": "[Service]\nRestart=sometimes\nExecStart=/usr/bin/stand-in\n"}},
		"has no ExecStart=": {"x.service", map[string]string{"x.service": "[Service]\nRestart=always\n"}},
	} {
		lines := verify(t, analyze, dir, u)
		if !strings.Contains(strings.Join(lines, "\n"), want) {
			t.Errorf("it says %q of %v, want %q", lines, u.files, want)
		}
	}
}

// installed are programs that a unit may start although no profile writes them.
var installed = map[string]string{
	"/opt/bin/kubelet":    "/opt/bin/setup downloads it",
	"/usr/bin/kubelet":    "the examples install Kubernetes' package",
	"/usr/bin/nvidia-ctk": "osp-ubuntu-gpu installs the package of NVIDIA's container toolkit",
	"/usr/bin/env":        "it is part of every image",
	"/bin/bash":           "it is part of every image, or the scripts of the first stage would not run",
}

// unitSets are all units that the profiles write, each once. It reports those that
// start a program which is nowhere.
func unitSets(t *testing.T, out *report) []found[unitSet] {
	t.Helper()
	var all distinct[unitSet]
	for _, r := range renderings(t) {
		node := r.node()
		sets := map[string]unitSet{}
		for path, f := range node {
			name, ok := strings.CutPrefix(path, unitDir)
			if !ok || strings.HasPrefix(name, "multi-user.target.d/") || f.content == "" && !strings.Contains(name, "/") { // an empty one masks
				continue
			}
			owner, _, _ := strings.Cut(name, ".d/")
			if strings.HasSuffix(owner, ".wants") || strings.Contains(owner, ".wants/") {
				continue
			}
			if sets[owner].files == nil {
				sets[owner] = unitSet{owner, map[string]string{}}
			}
			sets[owner].files[name] = r.anonymous(f.content)
			for _, program := range programs(f.content) {
				if _, ours := node[program]; !ours && installed[program] == "" {
					out.add(path+" starts "+program+", which no file of the profile is", r.name)
				}
			}
		}
		for _, set := range sets {
			var key strings.Builder
			for _, name := range slices.Sorted(maps.Keys(set.files)) {
				key.WriteString(name + "\x00" + set.files[name] + "\x00")
			}
			all.add(key.String(), set, r.name)
		}
	}
	return all.list
}

var execLine = regexp.MustCompile(`(?m)^Exec[A-Za-z]+=[-@:+!]*(/\S+)`)

// programs are those that a unit starts.
func programs(content string) []string {
	var out []string
	for _, m := range execLine.FindAllStringSubmatch(content, -1) {
		out = append(out, m[1])
	}
	return out
}

// newRoot creates a file system with a stand-in for every unit of environment.
func newRoot(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range environment {
		content := "[Unit]\nDescription=A stand-in\n"
		if strings.HasSuffix(name, ".service") {
			content += "[Service]\nExecStart=/usr/bin/stand-in\n"
		}
		writeFile(t, filepath.Join(dir, "usr/lib/systemd/system", name), content, 0o644)
	}
	writeFile(t, filepath.Join(dir, "usr/bin/stand-in"), "#!/bin/sh\n", 0o755)
	return dir
}

// verify makes systemd check one unit in a root, and restores the root. Every program that the unit
// starts exists, except a sample's /opt/bin/gone.
func verify(t *testing.T, analyze, dir string, u unitSet) []string {
	t.Helper()
	etc := filepath.Join(dir, "etc/systemd/system")
	defer os.RemoveAll(etc)
	if _, whole := u.files[u.name]; !whole && !slices.Contains(environment, u.name) {
		return []string{"has drop-ins, but nobody brings the unit: name it in environment if the operating system does"}
	}
	for name, content := range u.files {
		writeFile(t, filepath.Join(etc, name), content, 0o644)
		for _, program := range programs(content) {
			if program != "/opt/bin/gone" {
				writeFile(t, filepath.Join(dir, program), "#!/bin/sh\n", 0o755)
			}
		}
	}
	cmd := exec.Command(analyze, "verify", "--man=no", "--root="+dir, u.name)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err := cmd.Run()
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(both.String()), "\n") {
		if line != "" {
			lines = append(lines, strings.ReplaceAll(line, dir, ""))
		}
	}
	if err != nil && len(lines) == 0 {
		lines = append(lines, "systemd-analyze: "+err.Error())
	}
	return lines
}

func writeFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Error(err)
	}
}
