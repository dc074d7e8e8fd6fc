package nodescripts_test

import (
	"fmt"
	"strings"
	"testing"
)

// steps is at how many commands of a profile the power fails, if not at all of them.
const steps = 3

// TestPowerFails: a power failure before any command of any script. The next boot continues and
// ends with the same node. Unlike on a real machine, data that is not on disk yet is not lost.
func TestPowerFails(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			s.everyCommand = true
			want := withoutFaults(t, s)
			for _, step := range chosen(s.profile, want) {
				t.Run(fmt.Sprint(step), func(t *testing.T) {
					if soak {
						parallel(t)
					}
					r := rehearse(t, s)
					r.killAt = step
					if r.boot() {
						t.Skipf("it took %d commands only: pipes do not always start alike", len(r.calls))
					}
					at := strings.Join(r.calls[len(r.calls)-1].Argv, " ")
					r.up()
					r.finished()
					r.equals(want.tree)
					if t.Failed() {
						t.Logf("the power had failed before %q", at)
					}
				})
			}
		})
	}
}

// chosen are the steps of a profile: all in a soak, and otherwise some, others for
// each profile, the last among them, also of a stage that ends with a reboot: there the
// marks are set that end it all.
func chosen(profile string, h *healthy) []int {
	var list []int
	if soak {
		for step := 1; step <= h.calls; step++ {
			list = append(list, step)
		}
		return list
	}
	for i := range steps {
		list = append(list, 1+(i*h.calls+len(profile)*7%h.calls)/steps%h.calls)
	}
	if h.reboot > 0 {
		list = append(list, h.reboot-2, h.reboot-1, h.reboot)
	}
	return append(list, h.calls-2, h.calls-1, h.calls)
}

// TestPowerFailsTwice: also when it fails again, and again.
func TestPowerFailsTwice(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			s.everyCommand = true
			want := withoutFaults(t, s)
			r := rehearse(t, s)
			for _, part := range []int{5, 3, 2} { // of all commands of an undisturbed boot
				r.killAt = len(r.calls) + want.calls/part
				if r.boot() {
					t.Fatal("the machine has come up before its power failed")
				}
			}
			r.up()
			r.finished()
			r.equals(want.tree)
		})
	}
}

// TestSecondRun: once a node is one, running setup and the rest again, or booting,
// changes nothing.
func TestSecondRun(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			r := rehearse(t, s.with(withProxy))
			r.write("/etc/environment", "EDITOR=vi\nhttp_proxy=http://another.test:1\n", 0o644)
			r.cloud.proxy()
			r.up()
			r.finished()
			r.kubelet() // which turns swap off
			tree := r.tree()
			for _, script := range []string{"/opt/bin/setup", "/opt/disable-swap.sh", "/opt/load-kernel-modules.sh", "/opt/bin/setup_net_env.sh"} {
				if r.exists(script) {
					if got := r.run(proxyEnvironment, script); got.status != 0 {
						t.Errorf("%s ends with status %d when it is run again: %s", script, got.status, got.output)
					}
				}
			}
			if r.exists("/etc/bootstrap-complete") {
				if got := r.run(proxyEnvironment, "/opt/bin/bootstrap"); r.exists("/opt/bin/bootstrap") && got.status != 0 {
					t.Errorf("bootstrap ends with status %d when it is run again: %s", got.status, got.output)
				}
			}
			r.up()
			if link := wantsDir + "setup.service"; s.profile == "osp-flatcar-cloud-init" {
				tree[link] = r.tree()[link] // coreos-cloudinit enables it again at every boot
			}
			r.equals(tree)
			r.finished()
			environment := r.read("/etc/environment")
			for _, line := range append([]string{"EDITOR=vi"}, proxyEnvironment...) {
				if strings.Count("\n"+environment, "\n"+line+"\n") != 1 {
					t.Errorf("/etc/environment is %q: want %q in it once", environment, line)
				}
			}
			if strings.Contains(environment, "another.test") {
				t.Errorf("/etc/environment is %q: an older proxy is still there", environment)
			}
			if r.exists("/opt/disable-swap.sh") {
				if got, want := r.read("/etc/fstab"), "LABEL=root / ext4 defaults 0 1\n# /old none swap sw 0 0\n"; got != want {
					t.Errorf("/etc/fstab is %q, want %q", got, want)
				}
				if got := r.read("/etc/fstab.orig"); !strings.Contains(got, "/swap.img none swap") {
					t.Errorf("/etc/fstab.orig is %q, want the first /etc/fstab", got)
				}
			}
		})
	}
}
