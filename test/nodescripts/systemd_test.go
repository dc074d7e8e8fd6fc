package nodescripts_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

const (
	unitDir  = "/etc/systemd/system/"
	wantsDir = unitDir + "multi-user.target.wants/"
)

// ignitionPreset is where Ignition says which units are to be enabled:
// https://github.com/coreos/ignition/blob/v2.26.0/internal/exec/util/unit.go
const ignitionPreset = "/etc/systemd/system-preset/20-ignition.preset"

// clientCertificate is the file in which the kubelet stores its signed certificate, below
// --cert-dir: https://github.com/kubernetes/client-go/blob/v0.36.0/util/certificate/certificate_store.go
const clientCertificate = "/etc/kubernetes/pki/kubelet-client-current.pem"

// machine is what a node's systemd and package manager know.
type machine struct {
	packages map[string]bool // installed; survives a reboot
	active   map[string]bool // units, since the boot
	queue    []string        // services to start
	reboot   bool            // a script has requested it
	// kubelets counts how often the kubelet was started, at a boot or by hand.
	kubelets int
	// unsigned says how often the cluster does not sign the kubelet's certificate.
	unsigned int
}

func newMachine() machine { return machine{packages: map[string]bool{}, active: map[string]bool{}} }

// unitName adds the suffix that systemctl adds.
func unitName(name string) string {
	for _, suffix := range []string{".service", ".socket", ".target", ".timer"} {
		if strings.HasSuffix(name, suffix) {
			return name
		}
	}
	return name + ".service"
}

func (n *node) hasUnit(unit string) bool {
	if !n.system.has(unit) {
		return false
	}
	if info, err := os.Lstat(n.path(unitDir, unit)); err == nil && info.Mode().IsRegular() {
		return true
	}
	for name := range n.machine.packages {
		if packaged[name] == unit {
			return true
		}
	}
	return slices.Contains(n.system.units, unit)
}

// isMasked reports whether a unit is a link to /dev/null.
func (n *node) isMasked(unit string) bool {
	target, err := os.Readlink(n.path(unitDir, unit))
	return err == nil && target == "/dev/null"
}

// systemctl knows every unit, enables by link as systemd does, and refuses what is
// not there. Even `mask` does, which of some releases is not true: scripts must not
// count on either.
func (n *node) systemctl(args []string) protocol.Reply {
	var flags, words []string
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			flags = append(flags, arg)
		} else {
			words = append(words, arg)
		}
	}
	if len(words) == 0 {
		return failure(1, "the stand-in for systemctl needs a command")
	}
	verb, units := words[0], words[1:]
	switch verb {
	case "daemon-reload":
		return protocol.Reply{}
	case "reboot":
		n.machine.reboot = true
		n.off()
		return protocol.Reply{}
	case "is-system-running":
		return protocol.Reply{Stdout: "running\n"}
	case "list-unit-files":
		return n.unitFiles(units)
	case "show":
		return n.show(units)
	}
	if len(units) == 0 {
		return failure(1, "systemctl %s: too few arguments", verb)
	}
	for _, name := range units {
		unit := unitName(name)
		if !n.hasUnit(unit) && !n.isMasked(unit) {
			if verb == "is-active" {
				return protocol.Reply{Stdout: "inactive\n", Exit: 4}
			}
			return failure(5, "Failed to %s unit: Unit %s does not exist.", verb, unit)
		}
		if r := n.unit(verb, unit, flags); r.Exit != 0 {
			return r
		}
	}
	return protocol.Reply{}
}

// unitFiles is `systemctl list-unit-files`, which fails if it lists none.
func (n *node) unitFiles(units []string) protocol.Reply {
	r := protocol.Reply{}
	for _, unit := range units {
		state := "disabled"
		switch {
		case n.isMasked(unit):
			state = "masked"
		case !n.hasUnit(unit):
			continue
		case n.exists(wantsDir+unit) || n.machine.active[unit]:
			state = "enabled"
		}
		r.Stdout += unit + " " + state + " enabled\n"
	}
	if r.Stdout == "" {
		r.Exit = 1
	}
	return r
}

// show is `systemctl show --property NAME UNIT`. Each start of the kubelet is at another time.
func (n *node) show(words []string) protocol.Reply {
	if len(words) != 2 {
		return failure(1, "the stand-in shows one property of one unit, not %q", words)
	}
	value := map[bool]string{true: "active", false: "inactive"}[n.machine.active[words[1]]]
	if words[0] != "ActiveState" {
		value = fmt.Sprint(n.machine.kubelets)
	}
	return protocol.Reply{Stdout: words[0] + "=" + value + "\n"}
}

// unit executes one verb of systemctl for one existing unit.
func (n *node) unit(verb, unit string, flags []string) protocol.Reply {
	link := n.path(wantsDir, unit)
	switch verb {
	case "enable":
		n.enable(unit)
		if slices.Contains(flags, "--now") {
			return n.start(unit, flags)
		}
	case "disable", "mask":
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return failure(1, "%v", err)
		}
		if verb == "mask" {
			n.machine.active[unit] = n.machine.active[unit] && slices.Contains(flags, "--now")
			if err := os.Symlink("/dev/null", n.path(unitDir, unit)); err != nil && !n.isMasked(unit) {
				return failure(1, "Failed to mask unit: File %s already exists.", unitDir+unit)
			}
		}
	case "start", "restart", "reload-or-restart":
		return n.start(unit, flags)
	case "try-restart":
		if n.machine.active[unit] {
			return n.start(unit, flags)
		}
	case "stop", "kill":
		delete(n.machine.active, unit)
	case "is-active":
		if !n.machine.active[unit] {
			return protocol.Reply{Stdout: "inactive\n", Exit: 3}
		}
	case "cat":
		return protocol.Reply{Stdout: "# " + unit + "\n"}
	default:
		return failure(1, "the stand-in for systemctl does not know the command %q", verb)
	}
	return protocol.Reply{}
}

func (n *node) enable(unit string) {
	n.must(os.MkdirAll(n.path(wantsDir), 0o755))
	if err := os.Symlink(unitDir+unit, n.path(wantsDir, unit)); !errors.Is(err, os.ErrExist) {
		n.must(err)
	}
}

func (n *node) start(unit string, flags []string) protocol.Reply {
	switch {
	case n.isMasked(unit):
		return failure(1, "Failed to start %s: Unit %s is masked.", unit, unit)
	case unit == "kubelet.service":
		n.machine.kubelets++
		if n.onKubelet != nil {
			n.onKubelet()
		}
		if n.machine.unsigned > 0 {
			n.machine.unsigned--
		} else {
			n.write(clientCertificate, "certificate", 0o600)
		}
	case unit == "bootstrap.service" || unit == "setup.service":
		// Both run until they succeed: who waits for them may wait for ever.
		if !slices.Contains(flags, "--no-block") {
			n.t.Errorf("systemctl start %s is called without --no-block", unit)
		}
		if !slices.Contains(n.machine.queue, unit) && !n.machine.active[unit] {
			n.machine.queue = append(n.machine.queue, unit)
		}
		return protocol.Reply{}
	}
	n.machine.active[unit] = true
	return protocol.Reply{}
}

// maxBoots is more often than any machine needs to boot.
const maxBoots = 4

// boot boots the machine, again when it asks for that, and runs its services until
// all have succeeded. It reports false when the power has failed in between.
func (n *node) boot() bool {
	n.t.Helper()
	for range maxBoots {
		n.mu.Lock()
		n.machine.active, n.machine.queue, n.machine.reboot = map[string]bool{}, nil, false
		if n.document != nil {
			n.document.atBoot(n)
		}
		n.firstBoot()
		n.startEnabled()
		n.mu.Unlock()
		if n.services() {
			return true
		}
		if n.mu.Lock(); !n.machine.reboot {
			n.mu.Unlock()
			return false
		}
		n.mu.Unlock()
	}
	n.t.Errorf("the machine has booted %d times and wants to again", maxBoots)
	return false
}

// firstBoot enables the existing units of the preset, if this is a first boot for systemd: one
// without a machine id.
// https://www.freedesktop.org/software/systemd/man/latest/systemd.preset.html
func (n *node) firstBoot() {
	if n.exists("/etc/machine-id") {
		return
	}
	if n.exists(ignitionPreset) {
		for line := range strings.Lines(n.read(ignitionPreset)) {
			if unit, ok := strings.CutPrefix(strings.TrimSpace(line), "enable "); ok && n.hasUnit(unit) {
				n.enable(unit)
			}
		}
	}
	n.write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n", 0o444)
}

// startEnabled starts what a boot starts. The containerd of an image needs no link.
func (n *node) startEnabled() {
	if slices.Contains(n.system.units, "containerd.service") {
		n.machine.active["containerd.service"] = true
	}
	links, err := os.ReadDir(n.path(wantsDir))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	n.must(err)
	for _, link := range links {
		if unit := link.Name(); n.hasUnit(unit) && !n.isMasked(unit) {
			n.start(unit, []string{"--no-block"})
		}
	}
}

// services runs what is in the queue. It reports false when the machine went off.
func (n *node) services() bool {
	for {
		n.mu.Lock()
		if len(n.machine.queue) == 0 {
			n.mu.Unlock()
			return true
		}
		unit := n.machine.queue[0]
		n.machine.queue = n.machine.queue[1:]
		n.machine.active[unit] = true
		n.mu.Unlock()
		u := n.parseUnit(unit)
		if path, ok := strings.CutPrefix(u.condition, "!"); ok && n.exists(path) || !ok && path != "" && !n.exists(path) {
			continue
		}
		for _, argv := range slices.Concat(u.before, [][]string{u.exec}) {
			r := n.run(u.env, argv...)
			if r.died {
				return false
			}
			if r.status != 0 {
				n.t.Errorf("%s: %q ends with status %d: %s", unit, argv, r.status, r.output)
				return true
			}
		}
	}
}

// unitFile is what a service of ours says.
type unitFile struct {
	condition string
	before    [][]string
	exec      []string
	env       []string
}

// parseUnit reads what our services use of systemd's language: continued lines,
// EnvironmentFile and ${NAME}.
func (n *node) parseUnit(unit string) unitFile {
	n.t.Helper()
	var u unitFile
	for line := range strings.Lines(strings.ReplaceAll(n.read(unitDir+unit), "\\\n", " ")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "ConditionPathExists":
			u.condition = value
		case "Environment":
			u.env = append(u.env, value)
		case "EnvironmentFile":
			path, optional := strings.CutPrefix(value, "-")
			if !n.exists(path) {
				if !optional {
					n.t.Errorf("%s: %s is not there", unit, path)
				}
				continue
			}
			for line := range strings.Lines(n.read(path)) {
				if line = strings.TrimSpace(line); strings.Contains(line, "=") && !strings.HasPrefix(line, "#") {
					name, value, _ := strings.Cut(line, "=")
					u.env = append(u.env, name+"="+strings.Trim(value, `"'`))
				}
			}
		case "ExecStartPre":
			u.before = append(u.before, strings.Fields(value))
		case "ExecStart":
			u.exec = strings.Fields(value)
		}
	}
	for _, path := range n.dropIns(unit) {
		for line := range strings.Lines(n.read(path)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStartPre="); ok {
				u.before = append(u.before, strings.Fields(value))
			}
		}
	}
	for i, arg := range u.exec {
		u.exec[i] = os.Expand(arg, func(name string) string {
			for _, e := range slices.Backward(u.env) {
				if value, ok := strings.CutPrefix(e, name+"="); ok {
					return value
				}
			}
			return ""
		})
	}
	return u
}

func (n *node) dropIns(unit string) []string {
	found, err := filepath.Glob(n.path(unitDir, unit+".d", "*.conf"))
	n.must(err)
	for i, path := range found {
		found[i] = strings.TrimPrefix(path, n.dir)
	}
	return found
}

// kubelet runs the kubelet's unit as systemd would, once, and returns the arguments
// that it gets.
func (n *node) kubelet() []string {
	n.t.Helper()
	for _, argv := range n.parseUnit("kubelet.service").before {
		if r := n.run(nil, argv...); r.status != 0 {
			n.t.Fatalf("kubelet.service: %q ends with status %d: %s", argv, r.status, r.output)
		}
	}
	u := n.parseUnit("kubelet.service") // what ran first has written its environment
	r := n.run(u.env, u.exec...)
	if r.status != 0 {
		n.t.Fatalf("kubelet.service: %q ends with status %d: %s", u.exec, r.status, r.output)
	}
	return strings.Split(strings.TrimSpace(r.output), "\n")
}

// up is boot, for a machine whose power does not fail.
func (n *node) up() {
	n.t.Helper()
	if !n.boot() {
		n.t.Fatal(fmt.Errorf("the machine went off, which nobody has asked for"))
	}
}
