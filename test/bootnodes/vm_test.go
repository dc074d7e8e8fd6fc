package bootnodes_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// virtual is a machine with a kernel of its own, emulated.
var virtual = &system{name: "ubuntu-vm", profile: "osp-ubuntu", os: "ubuntu", provider: "hetzner", image: vmImage, virtual: true, reads: cloudInit}

// vmImage is bookworm with a kernel.
const vmImage = "vm"

// TestVirtualMachine: the same checks on a machine with its own kernel and without stand-ins, with
// the kubelet as its unit starts it: the kubelet refuses to start unless the profile has made the
// kernel settings that it requires.
func TestVirtualMachine(t *testing.T) {
	onlyOurs(t)
	if !soak {
		t.Skip("a virtual machine takes minutes: OSM_SOAK=1, or make soak")
	}
	need(t)
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("nothing emulates a machine here (hack/prerequisites installs it, with OSM_SOAK=1): %v", err)
	}
	r := rehearse(t, virtual, virtual.name, "first")
	start := time.Now()
	vm := r.emulate()
	r.isNode()
	t.Logf("%s: a Node that is Ready %.1f s after it was switched on", virtual.name, time.Since(start).Seconds())
	vm.noted()
	vm.powerDown()
	r.hasWhatWasRendered()
	r.kernelIsRight()
	for _, unit := range []string{"bootstrap.service", "setup.service"} {
		if r.exists("/etc/systemd/system/multi-user.target.wants/" + unit) {
			t.Errorf("%s is enabled", unit)
		}
	}
}

// vm is a running qemu.
type vm struct {
	r       *rehearsal
	process *testenv.Process
	dir     string
	out     bool // its files are taken out
}

// notes is the script that records the state of the finished machine.
const notes = `#!/bin/bash
set -euo pipefail
until [[ -e /etc/bootstrap-complete && ! -e /etc/systemd/system/multi-user.target.wants/setup.service ]]; do
  sleep 1
done
state=$(systemctl is-system-running --wait || true)
{
  echo "state $state"
  systemctl list-units --failed --no-legend --plain | sed 's/^/failed /'
  sed 's/^\([^ ]*\) .*/module \1/' /proc/modules
  sed 1d /proc/swaps | sed 's/^/swap /'
  sysctl --all 2>/dev/null
} >` + kernelRecord + `
echo "` + noted + `" >/dev/console
`

// noted is what the console says then.
const noted = "rehearsal: noted"

// inMachine gives the machine what an image for this kind has: a network card with an
// address, and a disk, here also with swap.
func (r *rehearsal) inMachine() {
	r.t.Helper()
	r.write("/etc/systemd/network/10-all.network", "[Match]\nName=en*\n\n[Network]\nDHCP=yes\n", 0o644)
	r.write("/usr/local/sbin/rehearsal-notes", notes, 0o755)
	r.write("/usr/lib/systemd/system/rehearsal-notes.service", "[Unit]\nDescription=Notes how the machine is\n\n"+
		"[Service]\nExecStart=/usr/local/sbin/rehearsal-notes\n", 0o644)
	for _, unit := range []string{"systemd-networkd.service", "systemd-networkd-wait-online.service", "rehearsal-notes.service"} {
		r.wanted(unit)
	}
	// Not of zeros: a disk's file system would leave these out, and swap has no holes.
	r.write("/swapfile", strings.Repeat("swap", 4<<20), 0o600)
	if out, err := exec.Command("mkswap", r.path("/swapfile")).CombinedOutput(); err != nil {
		r.t.Fatalf("mkswap: %v: %s", err, out)
	}
	r.write("/etc/fstab", "/dev/vda / ext4 rw 0 1\n/swapfile none swap sw 0 0\n", 0o644)
	r.must(r.system.reads(r.machine))
}

// emulate puts the file system on a disk, and switches a machine with it on.
func (r *rehearsal) emulate() *vm {
	r.t.Helper()
	v := &vm{r: r, dir: filepath.Dir(r.root)}
	// A kubelet reserves gibibytes of its disk; what is not written takes no memory.
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-d", r.root, v.disk(), "12G").CombinedOutput(); err != nil {
		r.t.Fatalf("mke2fs: %v: %s", err, out)
	}
	kernels, err := filepath.Glob(r.path("/boot/vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		r.t.Fatalf("the image has the kernels %q: %v", kernels, err)
	}
	initrd := strings.Replace(kernels[0], "vmlinuz-", "initrd.img-", 1)
	r.consoles = 1
	// Emulated, so that it needs nothing of this machine's processor. Of its network it
	// sees what this process sees: the cloud.
	v.process, err = testenv.Start(r.console(1), "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off", "-m", "1536", "-smp", "2",
		"-nographic", "-no-reboot", "-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0,romfile=", "-kernel", kernels[0], "-initrd", initrd,
		"-append", "root=/dev/vda rw console=ttyS0 mitigations=off random.trust_cpu=on", "-drive", "file="+v.disk()+",if=virtio,format=raw,cache=unsafe",
		"-monitor", "unix:"+v.monitor()+",server=on,wait=off", "-serial", "stdio")
	r.must(err)
	r.t.Cleanup(func() {
		v.process.Kill()
		if r.t.Failed() && !v.out {
			v.takeOut("/var/log/journal") // for the report
		}
	})
	return v
}

func (v *vm) monitor() string { return filepath.Join(v.dir, "monitor") }
func (v *vm) disk() string    { return filepath.Join(v.dir, "disk") }

// noted waits until the machine has noted how it is.
func (v *vm) noted() {
	v.r.t.Helper()
	v.r.cloud.eventually(v.r.t, v.r.name+" is done", func() error {
		select {
		case <-v.process.Exited:
			v.r.t.Fatal("the machine went off by itself")
		default:
		}
		console, err := os.ReadFile(v.r.console(1))
		if err == nil && !bytes.Contains(console, []byte(noted)) {
			err = errors.New("it has not said so")
		}
		return err
	})
}

// powerDown presses the button, and takes the files out.
func (v *vm) powerDown() {
	t := v.r.t
	t.Helper()
	conn, err := net.Dial("unix", v.monitor())
	v.r.must(err)
	defer conn.Close()
	_, err = io.WriteString(conn, "system_powerdown\n")
	v.r.must(err)
	select {
	case <-v.process.Exited:
	case <-time.After(patience):
		t.Fatal("it does not go off")
	}
	v.takeOut("/")
}

// takeOut brings files of the disk to where those of the machine are looked for.
func (v *vm) takeOut(path string) {
	v.r.t.Helper()
	v.out = true
	root := filepath.Join(v.dir, "taken")
	to := filepath.Join(root, filepath.Dir(path))
	v.r.must(os.MkdirAll(to, 0o755))
	// Without -w it changes nothing, and does not look for what a crash has left.
	if out, err := exec.Command("debugfs", "-R", fmt.Sprintf("rdump %s %s", path, to), v.disk()).CombinedOutput(); err != nil {
		v.r.t.Fatalf("debugfs: %v: %s", err, out)
	}
	v.r.root, v.r.upper = root, root
}

var setting = regexp.MustCompile(`(?m)^([a-z0-9_.-]+) *= *(\S+)$`)

// kernelIsRight: no unit has failed, and the kernel has the modules and the settings of
// the profile, and no swap.
func (r *rehearsal) kernelIsRight() {
	r.t.Helper()
	noted := r.read(kernelRecord)
	if !strings.HasPrefix(noted, "state running\n") || strings.Contains(noted, "\nfailed ") {
		r.t.Errorf("units have failed:\n%s", noted[:min(len(noted), 1<<10)])
	}
	for _, module := range []string{"ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_sh", "nf_conntrack", "br_netfilter"} {
		if !strings.Contains(noted, "\nmodule "+module+"\n") {
			r.t.Errorf("the module %s is not loaded", module)
		}
	}
	settings := setting.FindAllStringSubmatch(r.files()["/etc/sysctl.d/k8s.conf"].Content, -1)
	if len(settings) < 5 {
		r.t.Errorf("the profile has the settings %q", settings)
	}
	for _, s := range settings {
		if want := s[1] + " = " + s[2]; !strings.Contains(noted, "\n"+want+"\n") {
			r.t.Errorf("the kernel has not %s", want)
		}
	}
	if swap := regexp.MustCompile(`(?m)^swap .*`).FindString(noted); swap != "" {
		r.t.Errorf("it has %s", swap)
	}
	if fstab := r.read("/etc/fstab"); strings.Contains(fstab, "swapfile") || !strings.Contains(r.read("/etc/fstab.orig"), "swapfile") {
		r.t.Errorf("its swap is to come back: %s", fstab)
	}
	for _, complaint := range []string{"load-kernel-modules: ", "not every kernel setting was taken"} {
		if strings.Contains(r.journal("cat"), complaint) {
			r.t.Errorf("the journal has %q", complaint)
		}
	}
	if !strings.Contains(r.journal("cat"), "Activated swap") {
		r.t.Error("there was no swap to begin with")
	}
}
