package nodescripts_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

const matchScript = "/opt/bin/match.sh"

// matching is a node that has booted, with the certificate of its kubelet.
func matching(t *testing.T) *rehearsal {
	t.Helper()
	parallel(t)
	r := rehearse(t, scenarios[0])
	r.up()
	r.onCall = nil
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	r.must(err)
	certificate, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + machineName}, NotAfter: time.Now().Add(time.Hour),
	}, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"}}, &key.PublicKey, key)
	r.must(err)
	encoded, err := x509.MarshalECPrivateKey(key)
	r.must(err)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	r.write(clientCertificate, string(append(text, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})...)), 0o600)
	return r
}

// compares runs scripts, and after each of them the check as its service does. It returns what the
// Node gets; nil if nothing. Each run has a new /run.
func (r *rehearsal) compares(before ...string) []string {
	r.t.Helper()
	_, command, ok := strings.Cut(r.read(unitDir+"osm-gitops-match.service"), "\nExecStart=/bin/bash -c '")
	command, _, end := strings.Cut(command, "'\n")
	if !ok || !end {
		r.t.Fatal("the service does not start a command of bash")
	}
	r.cloud.matches = nil
	script := "check() { /bin/bash -c '" + command + "'; }\n"
	for _, text := range append(before, "") {
		script += text + "\ncheck\n"
	}
	if got := r.run(nil, "/bin/bash", "-c", script); got.status != 0 {
		r.t.Fatalf("it ends with %d: %s", got.status, got.output)
	}
	return r.cloud.matches
}

// differences returns those of the last report, "PATH REASON" each, and fails if there is none.
func (r *rehearsal) differences() []string {
	r.t.Helper()
	sent := r.compares()
	if len(sent) != 1 || len(sent[0]) > 2048 {
		r.t.Fatalf("the Node gets %q", sent)
	}
	var report struct {
		V           int
		Config      string
		State       api.MatchState
		Differences []api.MatchDifference
		Others      int
		Time        time.Time
	}
	r.must(json.Unmarshal([]byte(sent[0]), &report))
	m, err := manifest.Parse([]byte(r.rendered(manifest.Path)))
	r.must(err)
	if report.V != 1 || report.Config != m.Config || report.Others > 0 || (report.State == api.MatchStateMatches) != (len(report.Differences) == 0) {
		r.t.Errorf("the report is %+v, want one of %s", report, m.Config)
	}
	var out []string
	for _, d := range report.Differences {
		out = append(out, d.Path+" "+string(d.Reason))
	}
	return out
}

// rendered is the content of a file of the provisioning stage.
func (r *rehearsal) rendered(path string) string {
	r.t.Helper()
	for _, f := range r.made.OSC.ProvisioningConfig.Files {
		if f.Path == path {
			return f.Content.Inline.Data
		}
	}
	r.t.Fatalf("the provisioning stage has no %s", path)
	return ""
}

// wantDifferences fails if a check finds others.
func (r *rehearsal) wantDifferences(when string, want ...string) {
	r.t.Helper()
	if diff := gocmp.Diff(want, r.differences()); diff != "" {
		r.t.Errorf("%s (-want +reported):\n%s", when, diff)
	}
}

// TestMatchIsReportedOnce: a node that matches writes once, and again after its kubelet was started,
// which creates a deleted Node again.
func TestMatchIsReportedOnce(t *testing.T) {
	r := matching(t)
	r.wantDifferences("after a boot")
	if sent := r.compares("", "", ""); len(sent) != 1 {
		t.Errorf("four checks send %q, want one report", sent)
	}
	r.machine.unsigned = 1 // it has its certificate
	if sent := r.compares("", "systemctl restart kubelet.service", ""); len(sent) != 2 {
		t.Errorf("with a start of the kubelet the Node gets %q, want two reports", sent)
	}
	if sent := r.compares("", "chmod 600 /etc/crictl.yaml", "", "chmod 644 /etc/crictl.yaml"); len(sent) != 3 {
		t.Errorf("with two changes the Node gets %q, want three reports", sent)
	}
}

// TestMatchFinds: what is changed on a node, and nothing else.
func TestMatchFinds(t *testing.T) {
	r := matching(t)
	text := r.read(manifest.Path)
	for _, c := range []struct {
		name         string
		does, undoes func()
		want         []string
	}{
		{"no manifest", func() { r.must(os.Remove(r.path(manifest.Path))) }, func() { r.write(manifest.Path, text, 0o644) }, []string{manifest.Path + " Missing"}},
		{"an empty manifest", func() { r.write(manifest.Path, "", 0o644) }, func() { r.write(manifest.Path, text, 0o644) }, []string{manifest.Path + " Content"}},
		{"a folder", func() { r.must(os.Remove(r.path(manifest.Path))); r.must(os.Mkdir(r.path(manifest.Path), 0o755)) }, func() { r.write(manifest.Path, text, 0o644) }, []string{manifest.Path + " Type"}},
		{"no script", func() { r.must(os.Rename(r.path(matchScript), r.path("/root/kept"))) }, func() { r.must(os.Rename(r.path("/root/kept"), r.path(matchScript))) },
			[]string{matchScript + " Missing"}},
		{"a script that nobody may execute", func() { r.must(os.Chmod(r.path(matchScript), 0o644)) }, func() { r.must(os.Chmod(r.path(matchScript), 0o755)) },
			[]string{matchScript + " Mode"}},
		{"set-property", func() {
			r.write("/etc/systemd/system.control/kubelet.service.d/50-CPUQuota.conf", "[Service]\nCPUQuota=5%\n", 0o644)
		},
			func() { r.must(os.RemoveAll(r.path("/etc/systemd/system.control"))) }, []string{"/etc/systemd/system.control/kubelet.service.d/50-CPUQuota.conf DropIn"}},
		{"stopped timer", func() { delete(r.machine.active, "osm-gitops-match.timer") }, func() { r.machine.active["osm-gitops-match.timer"] = true },
			[]string{"unit:osm-gitops-match.timer Disabled"}},
		// A path with a link instead of a folder in it.
		{"a link to itself", func() {
			r.must(os.Symlink("loop", r.path("/etc/loop")))
			r.write(manifest.Path, text+fileEntry("", "/etc/loop/x"), 0o644)
		},
			func() { r.must(os.Remove(r.path("/etc/loop"))); r.write(manifest.Path, text, 0o644) }, []string{"/etc/loop/x Missing"}},
	} {
		c.does()
		r.wantDifferences(c.name, c.want...)
		c.undoes()
		r.wantDifferences("after " + c.name)
	}
}

// fileEntry is a line of a manifest.
func fileEntry(content, path string) string {
	return fmt.Sprintf("file %s 0644 root:root %s\n", sum([]byte(content)), path)
}

// TestMatchTakesPathsLiterally: the only pattern is a "/*" at the end of a path that changes by design.
func TestMatchTakesPathsLiterally(t *testing.T) {
	r := matching(t)
	dropIns := unitDir + "kubelet.service.d/"
	odd := []string{"/etc/a b ", "/etc/c[x]", "/etc/d*", "/etc/e?]", "/etc/ f"}
	text := r.read(manifest.Path)
	for _, path := range odd {
		text += fileEntry(path, path)
		r.write(path, path, 0o644)
	}
	r.write(manifest.Path, text, 0o644)
	r.wantDifferences("with odd names")
	r.write(odd[0], "mine", 0o644)
	r.write(odd[1], "mine", 0o644)
	r.must(os.Remove(r.path(odd[2])))
	r.wantDifferences("with changed files", odd[0]+" Content", odd[1]+" Content", odd[2]+" Missing")
	for i, path := range odd {
		r.write(odd[i], path, 0o644)
	}

	r.write(dropIns+"91.conf", "", 0o644)
	for _, c := range []struct{ mutable, want string }{
		{dropIns + "9?.conf", dropIns + "91.conf DropIn"}, {dropIns + "[0-9]*", dropIns + "91.conf DropIn"}, {dropIns + "9*", dropIns + "91.conf DropIn"},
		{dropIns + "91.conf", ""}, {dropIns + "*", ""}, {"/*", ""},
	} {
		r.write(manifest.Path, text+"mutable "+c.mutable+"\n", 0o644)
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		r.wantDifferences("mutable "+c.mutable, want...)
	}
	// A profile that excludes everything has units only.
	var units []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "file ") {
			units = append(units, line)
		}
	}
	r.write(manifest.Path, strings.Join(append(units, "mutable /*\n"), ""), 0o644)
	r.wantDifferences("without files")
}

// TestMatchWithFailingPrograms: a program that fails tells nothing about the node. The next check does.
func TestMatchWithFailingPrograms(t *testing.T) {
	const edited = "/etc/osm-gitops/provenance.json"
	r := matching(t)
	r.wantDifferences("after a boot")
	kept := r.read(edited)
	for name, script := range map[string]string{
		"stat fails":                     "stat exit 1",
		"stat ends early":                `stat /usr/bin/stat "$@" | head -n 3; exit 1`,
		"stat says more":                 "stat echo 'stat: cannot statx: Input/output error' >&2; exit 1",
		"sha256sum fails":                "sha256sum exit 1",
		"sha256sum ends early":           `sha256sum /usr/bin/sha256sum "$@" | head -n 3; exit 1`,
		"awk fails":                      "awk exit 2",
		"cat fails":                      "cat exit 1",
		"sort fails":                     "sort exit 2",
		"od fails":                       "od exit 1",
		"systemctl fails":                "systemctl echo 'Failed to connect to bus: Connection refused' >&2; exit 1",
		"list-unit-files fails":          `systemctl [[ $1 != list-unit-files ]] && exec /usr/bin/systemctl "$@"; echo 'Failed to list unit files: Connection timed out' >&2; exit 1`,
		"list-unit-files killed":         `systemctl [[ $1 != list-unit-files ]] && exec /usr/bin/systemctl "$@"; exit 137`,
		"is-system-running says nothing": `systemctl if [[ $1 == show ]]; then echo ActiveState=inactive; elif [[ $1 == is-system-running ]]; then exit 1; else exec /usr/bin/systemctl "$@"; fi`,
	} {
		program, text, _ := strings.Cut(script, " ")
		wrapper := "/usr/local/sbin/" + program
		r.write(edited, "mine", 0o644)
		r.write(wrapper, "#!/bin/bash\n"+text+"\n", 0o755)
		if sent := r.compares(); sent != nil {
			t.Errorf("%s, and the Node gets %q", name, sent)
		}
		r.must(os.Remove(r.path(wrapper)))
		r.wantDifferences(name+": at the next check", edited+" Content")
		r.write(edited, kept, 0o644)
		r.wantDifferences(name + ": in the end")
	}
}

// TestMatchAfterAnOlderStage: if the first stage is of a configuration without a manifest, its files
// are no difference until they are changed.
func TestMatchAfterAnOlderStage(t *testing.T) {
	r := matching(t)
	const fetch, supervise, later = "/opt/bin/fetch-secret", "/opt/bin/supervise.sh", "/etc/crictl.yaml"
	info, err := os.Stat(r.path(manifest.Path))
	r.must(err)
	old := func(path string) {
		at := info.ModTime().Add(-time.Minute)
		r.write(path, "# of an older profile\n", os.FileMode(0o755))
		r.must(os.Chtimes(r.path(path), at, at))
	}
	old(fetch)
	r.wantDifferences("with a stage of its own configuration", fetch+" Content")
	old(supervise)
	r.wantDifferences("with an older stage")
	r.write(fetch, "# mine\n", 0o755)
	r.must(os.Chmod(r.path(later), 0o600))
	r.wantDifferences("after changes", later+" Mode", fetch+" Content")
}

// TestHealthMonitorComparesSeldom: the health monitor looks every ten minutes whether the timer of
// the check was stopped.
func TestHealthMonitorComparesSeldom(t *testing.T) {
	r := matching(t)
	delete(r.machine.active, "osm-gitops-match.timer")
	sleeps, slept := 0, []int(nil)
	r.override = func(c protocol.Call) *protocol.Reply {
		switch {
		case c.Argv[0] == "sleep":
			if sleeps++; sleeps > 130 {
				r.off()
			}
		case slices.Contains(c.Argv, "is-active"):
			slept = append(slept, sleeps)
		case c.Argv[0] == "curl" && slices.Contains(c.Argv, "http://127.0.0.1:10248/healthz"):
			return &protocol.Reply{}
		}
		return nil
	}
	r.cloud.matches = nil
	if got := r.run(nil, "/opt/bin/health-monitor.sh", "kubelet"); !got.died {
		t.Fatalf("it ends with %d: %s", got.status, got.output)
	}
	if want := []int{1, 61, 121}; !slices.Equal(slept, want) || len(r.cloud.matches) != 1 || !strings.Contains(r.cloud.matches[0], "osm-gitops-match.timer") {
		t.Errorf("it has looked after %d pauses, want %d, and the Node gets %q", slept, want, r.cloud.matches)
	}
}
