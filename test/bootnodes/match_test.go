package bootnodes_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

// matchAnnotation is where a node says whether it matches its configuration.
const matchAnnotation = "gitops.k8c.io/match"

// match is what a node says.
type match struct {
	V           int          `json:"v"`
	Config      string       `json:"config"`
	State       string       `json:"state"`
	Time        string       `json:"time"`
	Differences []difference `json:"differences"`
	Others      int          `json:"others"`
}

type difference struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	Found  string `json:"found"`
}

// manipulation is what a user does to a machine by hand.
type manipulation struct {
	name string
	// does and undoes are scripts.
	does, undoes string
	// want is what the node says then, a path and a reason.
	want []difference
}

// mine is the text of a file that a user wrote.
const mine = "mine\n"

// manipulations leave nothing behind. Every profile has these files and units.
var manipulations = []manipulation{
	{"edit", "cp -p /etc/crictl.yaml /root/kept; echo '# mine' >>/etc/crictl.yaml", "mv /root/kept /etc/crictl.yaml", []difference{{Path: "/etc/crictl.yaml", Reason: "Content"}}},
	{"mode", "chmod 666 /etc/sysctl.d/k8s.conf", "chmod 644 /etc/sysctl.d/k8s.conf", []difference{{Path: "/etc/sysctl.d/k8s.conf", Reason: "Mode"}}},
	{"set-user-id bit", "chmod 4755 /opt/bin/health-monitor.sh", "chmod 755 /opt/bin/health-monitor.sh", []difference{{Path: "/opt/bin/health-monitor.sh", Reason: "Mode"}}},
	{"owner", "chown daemon /opt/bin/health-monitor.sh", "chown root /opt/bin/health-monitor.sh", []difference{{Path: "/opt/bin/health-monitor.sh", Reason: "Owner"}}},
	{"group", "chgrp 12345 /etc/osm-gitops/token-header", "chgrp root /etc/osm-gitops/token-header", []difference{{Path: "/etc/osm-gitops/token-header", Reason: "Owner"}}},
	{"delete", "mv /etc/systemd/journald.conf.d/max_disk_use.conf /root/kept", "mv /root/kept /etc/systemd/journald.conf.d/max_disk_use.conf",
		[]difference{{Path: "/etc/systemd/journald.conf.d/max_disk_use.conf", Reason: "Missing"}}},
	{"symbolic link", "mv /etc/crictl.yaml /root/kept; ln -s /root/kept /etc/crictl.yaml", "mv -T /root/kept /etc/crictl.yaml", []difference{{Path: "/etc/crictl.yaml", Reason: "Type"}}},
	{"folder", "mv /etc/crictl.yaml /root/kept; mkdir /etc/crictl.yaml", "rmdir /etc/crictl.yaml; mv /root/kept /etc/crictl.yaml", []difference{{Path: "/etc/crictl.yaml", Reason: "Type"}}},
	{"drop-in", "mkdir -p /etc/systemd/system/kubelet.service.d; touch /etc/systemd/system/kubelet.service.d/99-mine.conf", "rm /etc/systemd/system/kubelet.service.d/99-mine.conf",
		[]difference{{Path: "/etc/systemd/system/kubelet.service.d/99-mine.conf", Reason: "DropIn"}}},
	{"drop-in until the next boot", `mkdir -p /run/systemd/system/containerd.service.d; touch $'/run/systemd/system/containerd.service.d/a"\\\n\xff.conf'`, "rm -r /run/systemd/system/containerd.service.d",
		[]difference{{Path: "/run/systemd/system/containerd.service.d/a????.conf", Reason: "DropIn"}}},
	{"set-property", "systemctl set-property kubelet.service CPUWeight=50", "rm -r /etc/systemd/system.control; systemctl daemon-reload",
		[]difference{{Path: "/etc/systemd/system.control/kubelet.service.d/50-CPUWeight.conf", Reason: "DropIn"}}},
	{"no manifest", "mv /etc/osm-gitops/manifest /root/kept", "mv /root/kept /etc/osm-gitops/manifest", []difference{{Path: "/etc/osm-gitops/manifest", Reason: "Missing"}}},
	{"no script", "mv /opt/bin/match.sh /root/kept", "mv /root/kept /opt/bin/match.sh", []difference{{Path: "/opt/bin/match.sh", Reason: "Missing"}}},
	{"a script that nobody may execute", "chmod 644 /opt/bin/match.sh", "chmod 755 /opt/bin/match.sh", []difference{{Path: "/opt/bin/match.sh", Reason: "Mode"}}},
	{"mask", "systemctl mask containerd.service", "systemctl unmask containerd.service", []difference{{Path: "unit:containerd.service", Reason: "Masked"}}},
	{"disable", "systemctl disable kubelet.service", "systemctl enable kubelet.service", []difference{{Path: "unit:kubelet.service", Reason: "Disabled"}}},
	{"other content", "cp -p /etc/osm-gitops/provenance.json /root/kept; echo mine >/etc/osm-gitops/provenance.json", "mv /root/kept /etc/osm-gitops/provenance.json",
		[]difference{{Path: "/etc/osm-gitops/provenance.json", Reason: "Content", Found: shortSum(mine)}}},
	{"extra line in a unit", "cp -p /etc/systemd/system/kubelet.service /root/kept; sed -i '/^.Service.$/a Nice=5' /etc/systemd/system/kubelet.service; systemctl daemon-reload",
		"mv /root/kept /etc/systemd/system/kubelet.service; systemctl daemon-reload", []difference{{Path: "/etc/systemd/system/kubelet.service", Reason: "Content"}}},
	{"bind mount", "cp -p /etc/kubernetes/kubelet.conf /root/kept; mount --bind /root/kept /etc/kubernetes/kubelet.conf", "umount /etc/kubernetes/kubelet.conf; rm /root/kept",
		[]difference{{Path: "/etc/kubernetes/kubelet.conf", Reason: "Mounted"}}},
	{"stopped timer", "systemctl stop osm-gitops-match.timer", "systemctl start osm-gitops-match.timer", []difference{{Path: "unit:osm-gitops-match.timer", Reason: "Disabled"}}},
	{"two at once", "systemctl disable osm-gitops-match.timer; truncate -s 2M /etc/crictl.yaml.new; cp -p /etc/crictl.yaml /root/kept; cat /etc/crictl.yaml.new >/etc/crictl.yaml",
		"systemctl enable osm-gitops-match.timer; rm /etc/crictl.yaml.new; mv /root/kept /etc/crictl.yaml",
		[]difference{{Path: "/etc/crictl.yaml", Reason: "Content"}, {Path: "unit:osm-gitops-match.timer", Reason: "Disabled"}}},
}

// tellsChanges: the node says what users changed by hand, and nothing else: not after a reboot, with
// another certificate, or after packages were upgraded.
func (r *rehearsal) tellsChanges() {
	r.t.Helper()
	r.matches("when it is complete")
	r.mutablePathsChange()
	for _, m := range manipulations {
		r.script(m.does)
		r.differs(m)
		r.script(m.undoes)
		r.matches("after " + m.name + " was undone")
	}
	r.manyDifferences()
	if soak { // the health monitor looks after two minutes
		r.timerIsMissed()
	}

	r.nodeIsCreatedAgain()
	r.script("rm /etc/kubernetes/pki/kubelet-client-*; systemctl restart kubelet.service")
	r.cloud.eventually(r.t, "it has another certificate", func() error {
		if !r.exists(clientCertificate) {
			return errors.New("it has none")
		}
		return nil
	})
	r.script("rm /run/osm-gitops-match")
	r.matches("with another certificate")
	if soak && r.system.profile == "osp-ubuntu" {
		r.script("apt-get update && apt-get --yes upgrade && apt-get --yes --reinstall --allow-change-held-packages install containerd.io")
		r.matches("after an upgrade of packages")
	}
	starts := r.starts()
	_, _ = r.run("systemctl", "reboot") // the connection may end first
	r.cloud.eventually(r.t, "it boots again", func() error {
		if r.starts() == starts || !r.leads() {
			return errors.New("it does not")
		}
		return nil
	})
	r.running()
	r.matches("after a reboot")
	if out, err := r.run("systemctl", "is-active", "osm-gitops-match.timer"); err != nil {
		r.t.Errorf("the timer is %s", out)
	}
}

// script runs a script in the machine.
func (r *rehearsal) script(text string) string {
	r.t.Helper()
	out, err := r.run("bash", "-euc", text)
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return out
}

// checked runs a check now, and returns what the Node has then.
func (r *rehearsal) checked() match {
	r.t.Helper()
	r.script("systemctl reset-failed osm-gitops-match.service || true; systemctl start osm-gitops-match.service")
	return r.matchOfNode()
}

// matchOfNode returns what the Node has.
func (r *rehearsal) matchOfNode() match {
	r.t.Helper()
	var node corev1.Node
	r.must(r.cloud.client.Get(r.t.Context(), client.ObjectKey{Name: r.name}, &node))
	text := node.Annotations[matchAnnotation]
	if len(text) > 2048 || strings.Contains(text, "\n") {
		r.t.Errorf("the annotation has %d bytes: %q", len(text), text)
	}
	var m match
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&m); err != nil {
		r.t.Fatalf("the annotation is %q: %v\n%s", text, err, r.journal("cat"))
	}
	if m.V != 1 || m.Config != r.manifest().Config || m.Time == "" {
		r.t.Errorf("the annotation is %q", text)
	}
	return m
}

// manifest is what the machine compares itself with, as it was rendered.
func (r *rehearsal) manifest() manifest.Manifest {
	r.t.Helper()
	m, err := manifest.Parse([]byte(files(r.t, r.documents...)[manifest.Path].Content))
	r.must(err)
	if len(m.Files) < 20 {
		r.t.Fatalf("its manifest has %d files", len(m.Files))
	}
	return m
}

// matches: a check finds no difference.
func (r *rehearsal) matches(when string) {
	r.t.Helper()
	if m := r.checked(); m.State != "Matches" || len(m.Differences) > 0 || m.Others > 0 {
		r.t.Errorf("%s it says %+v", when, m)
	}
	r.t.Logf("%s: user and system seconds of a check: %s", r.name, r.script("TIMEFORMAT='%U %S'; time /opt/bin/match.sh"))
}

// differs: a check finds what was changed by hand, and nothing else.
func (r *rehearsal) differs(m manipulation) {
	r.t.Helper()
	got := r.checked()
	want := match{V: 1, Config: got.Config, State: "Differs", Time: got.Time, Differences: m.want}
	for i, d := range got.Differences {
		// What a script wrote is known here only if it is the same on all machines.
		if i < len(m.want) && m.want[i].Found == "" && d.Found != "" && d.Reason == "Content" {
			got.Differences[i].Found = ""
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("%s (-done by hand +the node says):\n%s", m.name, diff)
	}
}

// manyDifferences: the annotation stays small, and counts what it does not name.
func (r *rehearsal) manyDifferences() {
	r.t.Helper()
	files := r.manifest().Files
	var does, undoes strings.Builder
	for _, f := range files {
		fmt.Fprintf(&does, "chmod 777 '%s'\n", f.Path)
		fmt.Fprintf(&undoes, "chmod %04o '%s'\n", f.Mode, f.Path)
	}
	r.script(does.String())
	m := r.checked()
	if n := len(m.Differences); m.State != "Differs" || n > 20 || n < 10 || n+m.Others != len(files) {
		r.t.Errorf("of %d files it says %+v", len(files), m)
	}
	r.script(undoes.String())
	r.matches("after the modes were put back")
}

// nodeIsCreatedAgain: a kubelet that starts creates its Node again, which gets what the deleted one had.
func (r *rehearsal) nodeIsCreatedAgain() {
	r.t.Helper()
	node := &corev1.Node{}
	r.must(r.cloud.client.Get(r.t.Context(), client.ObjectKey{Name: r.name}, node))
	r.must(r.cloud.client.Delete(r.t.Context(), node))
	r.script("systemctl restart kubelet.service")
	r.isNode()
	r.matches("after its Node was created again")
}

// timerIsMissed: nobody has to start the check that tells that nothing starts it any more.
func (r *rehearsal) timerIsMissed() {
	r.t.Helper()
	r.script("systemctl stop osm-gitops-match.timer")
	r.cloud.eventually(r.t, "the node says that its timer does not run", func() error {
		if m := r.matchOfNode(); len(m.Differences) != 1 || m.Differences[0].Path != "unit:osm-gitops-match.timer" {
			return fmt.Errorf("it says %+v", m)
		}
		return nil
	})
	r.script("systemctl start osm-gitops-match.timer")
	r.matches("after the timer was started again")
}

// mutablePathsChange: each path that the profile excludes changes on a machine.
func (r *rehearsal) mutablePathsChange() {
	r.t.Helper()
	for _, p := range r.manifest().Mutable {
		rendered := files(r.t, r.documents...)
		p = strings.TrimSuffix(p, "/*")
		for at, w := range rendered {
			if at != p && !strings.HasPrefix(at, p+"/") {
				continue
			}
			if b, err := os.ReadFile(r.path(at)); err == nil && string(b) == w.Content {
				r.t.Errorf("%s is as it was rendered: remove it from the mutable paths of %s", at, r.system.profile)
			}
		}
	}
}

// shortSum are the 12 digits with which a node names a content.
func shortSum(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:6])
}
