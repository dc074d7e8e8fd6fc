package bootnodes_test

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinesapi "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
)

// fault is what goes wrong, and how that ends.
type fault struct {
	name   string
	system *system
	// breaks is called before the machine is switched on, heals afterwards.
	breaks, heals func(r *rehearsal)
	// refuses is what the journal has to say before heals is called. Until then the
	// machine gets no credential of a kubelet's.
	refuses string
	// reboots is the minimal number of further boots, without those of the system itself; more is
	// the number on top of it, which depends on the machine's progress.
	reboots, more int
	// alone: it has a pool of its own, which the fault changes.
	alone bool
	// always: it is part of every run, not only of a soak.
	always bool
}

// faults are all of them, one a line. Those of single fetches are at the end.
var faults = append([]fault{
	{name: "503", system: bookworm, breaks: allUnavailable, always: true},
	{name: "api-away", system: trixie, breaks: away, heals: back, always: true},
	{name: "reboots", system: bookworm, breaks: reboots("/secrets/", "/kubelet"), reboots: 2, always: true},
	{name: "wrong-ca", system: bookworm, breaks: func(r *rehearsal) { r.api().disguise() }, refuses: "SSL certificate problem", heals: func(r *rehearsal) { r.api().end() }},
	{name: "wrong-checksum", system: trixie, breaks: wrongChecksum, refuses: "what was downloaded has not the SHA-256 " + noSum, heals: func(r *rehearsal) { r.downloads().end() }},
	{name: "token-expired", system: bookworm, breaks: expire, alone: true},
	{name: "rotated", system: trixie, breaks: rotate, alone: true},
	{name: "mirror-down", system: bookworm, breaks: mirrorDown},
	{name: "reboots-packages", system: trixie, breaks: reboots("/InRelease", ".deb", "/gpg"), reboots: 3},
	{name: "reboots-kubeconfig", system: bookworm, breaks: func(r *rehearsal) { reboots("/secrets/" + r.kubeconfig)(r) }, reboots: 1},
	{name: "reboot-at-setup", system: trixie, breaks: rebootsAt("/opt/bin/setup"), reboots: 1},
	{name: "reboot-at-containerd", system: bookworm, breaks: rebootsAt(containerdProgram), reboots: 1},
	{name: "reboot-while-unpacking", system: bookworm, breaks: rebootsAt(unpacking), reboots: 1},
	{name: "reboot-while-unpacking-apt-3", system: trixie, breaks: rebootsAt(unpacking), reboots: 1},
	{name: "reboot-at-certificate", system: trixie, breaks: rebootsAt(clientCertificate), reboots: 1},
	{name: "flatcar-503", system: flatcar, breaks: allUnavailable},
	{name: "flatcar-reboot-at-mark", system: flatcar, breaks: rebootsAt(oemConfig), more: 1},
	{name: "flatcar-reboot-once-disabled", system: flatcar, breaks: rebootsWhen(onceDisabled), more: 1},
	{name: "rhel-503", system: rhel, breaks: allUnavailable},
}, wrongAnswers()...)

// wrongAnswers are the answers that no fetch must take for the right one, on each.
func wrongAnswers() []fault {
	var all []fault
	for i, place := range []string{"provisioning", "kubeconfig", "/gpg", "/kubelet", "/kubelet.sha256", "/kubectl", ".tgz", ".tar.gz", "/InRelease", "/Packages", ".deb"} {
		all = append(all, fault{
			name: "answers-" + strings.Trim(strings.ToLower(strings.ReplaceAll(place, ".", "-")), "/-"), system: []*system{bookworm, trixie}[i%2],
			breaks: func(r *rehearsal) {
				trouble, on := r.downloads(), place
				switch place {
				case "provisioning":
					trouble, on = r.api(), "/secrets/"+r.provisioning.Name
				case "kubeconfig":
					trouble, on = r.api(), "/secrets/"+r.kubeconfig
				}
				for _, answer := range []nodefixture.FaultyHandler{
					nodefixture.Says(http.StatusServiceUnavailable, "away\n"), nodefixture.Says(http.StatusUnauthorized, "who are you?\n"),
					nodefixture.Says(http.StatusNotFound, "not found\n"), nodefixture.Raw(nodefixture.WithLength, nodefixture.Half),
				} {
					trouble.Add(nodefixture.Fault{On: on, Times: 1, Handler: answer})
				}
			},
		})
	}
	return all
}

// TestFaults: after every fault the machine is equal, file by file, to one without faults, or it
// refuses to continue and logs the reason.
func TestFaults(t *testing.T) {
	onlyOurs(t)
	for _, f := range faults {
		if !f.always && !soak {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			want := healthy(t, f.system)
			pool := f.system.name
			if f.alone {
				pool = f.name
			}
			r := rehearse(t, f.system, pool, f.name)
			f.breaks(r)
			r.on()
			if f.refuses != "" {
				r.refuses(f.refuses)
			}
			if f.heals != nil {
				f.heals(r)
			}
			starts := 1 + f.system.reboots + f.reboots
			r.cloud.eventually(t, fmt.Sprintf("it has booted %d times", starts), func() error {
				if n := r.starts(); n < starts {
					return fmt.Errorf("it has %d times", n)
				}
				return nil
			})
			r.finished()
			r.equals(want, !f.alone)
			r.cloud.eventually(t, "the report of a machine that has joined ends", func() error {
				report, err := r.bootReport()
				if err == nil && (slices.ContainsFunc(report.Spec.Machines, func(m api.MachineBoot) bool { return m.Machine == r.name }) ||
					slices.ContainsFunc(report.Status.Machines, func(m api.MachineBootStatus) bool { return m.Machine == r.name })) {
					err = fmt.Errorf("it has %+v", report)
				}
				return err
			})
			if n := r.starts(); n > starts+f.more {
				t.Errorf("it has booted %d times, want %d", n, starts)
			}
			if n := r.api().Left() + r.downloads().Left(); n > 0 {
				t.Errorf("%d faults have not happened", n)
			}
		})
	}
}

// refuses: the journal has the reason why there is no Node yet, and the kubelet has no credential.
func (r *rehearsal) refuses(why string) {
	r.t.Helper()
	r.says(why)
	if r.exists("/etc/kubernetes/bootstrap-kubelet.conf") {
		r.t.Errorf("it says %q, and goes on", why)
	}
}

// says waits until the journal has a text.
func (r *rehearsal) says(text string) {
	r.t.Helper()
	r.cloud.eventually(r.t, fmt.Sprintf("%s says %q", r.name, text), func() error {
		if !strings.Contains(r.journal("cat"), text) {
			return errors.New("it does not")
		}
		return nil
	})
}

// allUnavailable lets every fetch fail with 503 once, both from the API server and from
// publishers.
func allUnavailable(r *rehearsal) {
	answer := nodefixture.Says(http.StatusServiceUnavailable, "no healthy upstream\n")
	files := []string{"/kubelet", "/kubelet.sha256", "/kubeadm"}
	switch r.system {
	case bookworm, trixie:
		files = append(files, "/gpg", "/InRelease")
	case rhel:
		files = append(files, "/gpg", "/repomd.xml")
	}
	for _, file := range files {
		r.downloads().Add(nodefixture.Fault{On: file, Times: 1, Handler: answer})
	}
	for _, secret := range []string{r.provisioning.Name, r.kubeconfig} {
		r.api().Add(nodefixture.Fault{On: "/secrets/" + secret, Times: 1, Handler: answer})
	}
}

func away(r *rehearsal) { r.api().leave() }

// back lets the API server come back after a number of attempts: in a soak after those
// of half a minute.
func back(r *rehearsal) {
	attempt := "again in 4 s"
	if soak {
		attempt = "again in 16 s"
	}
	r.says(attempt)
	r.api().end()
}

// noSum is a SHA-256 that nothing has.
var noSum = strings.Repeat("0", 64)

// wrongChecksum makes the kubelet's publisher serve the checksum of another file.
func wrongChecksum(r *rehearsal) {
	r.downloads().Add(nodefixture.Fault{On: "/kubelet.sha256", Times: 1 << 10, Handler: nodefixture.Says(http.StatusOK, noSum+"\n")})
}

// mirrorDown makes both package repositories unreachable for longer than one attempt of any
// client.
func mirrorDown(r *rehearsal) {
	r.downloads().Add(nodefixture.Fault{On: "/InRelease", Times: 12, Handler: nodefixture.Says(http.StatusBadGateway, "away\n")})
}

// powerFails restarts the machine without notice: all of its processes are frozen before the first
// is killed.
func (r *rehearsal) powerFails() {
	if err := r.freeze(); err != nil {
		r.t.Errorf("stopping %s: %v", r.name, err)
	}
	if out, err := r.run("systemctl", "reboot", "--force", "--force"); err != nil {
		r.t.Logf("rebooting: %v: %s", err, out)
	}
}

// reboots lets the power fail while these are fetched, "/secrets/" being the
// provisioning stage's.
func reboots(places ...string) func(r *rehearsal) {
	return func(r *rehearsal) {
		for _, on := range places {
			trouble := r.downloads()
			if strings.HasPrefix(on, "/secrets/") {
				trouble = r.api()
			}
			if on == "/secrets/" {
				on += r.provisioning.Name
			}
			trouble.Add(nodefixture.Fault{On: on, Times: 1, Handler: func(_ http.ResponseWriter, req *http.Request, _ []byte) {
				r.powerFails()
				<-req.Context().Done() // the answer never comes
			}})
		}
	}
}

// clientCertificate is the file in which the kubelet stores its signed certificate, below
// --cert-dir: https://github.com/kubernetes/client-go/blob/v0.36.0/util/certificate/certificate_store.go
const clientCertificate = "/etc/kubernetes/pki/kubelet-client-current.pem"

// unpacking is what dpkg writes while it unpacks containerd, before its larger files.
const unpacking = "/etc/containerd/config.toml.dpkg-new"

// onceDisabled is whether Flatcar's bootstrap stage, with all done, has disabled its unit,
// which it removes next.
func onceDisabled(r *rehearsal) bool {
	return r.exists(oemConfig) && !r.exists("/etc/systemd/system/multi-user.target.wants/bootstrap.service")
}

// rebootsAt cuts the power as soon as a file exists.
func rebootsAt(file string) func(r *rehearsal) {
	return rebootsWhen(func(r *rehearsal) bool { return r.exists(file) })
}

// rebootsWhen lets the power fail as soon as something holds.
func rebootsWhen(holds func(r *rehearsal) bool) func(r *rehearsal) {
	return func(r *rehearsal) {
		var done sync.WaitGroup
		done.Go(func() {
			for r.t.Context().Err() == nil {
				if holds(r) && r.leads() {
					r.powerFails()
					return
				}
				time.Sleep(time.Millisecond) // the power fails at once
			}
		})
		r.t.Cleanup(done.Wait)
	}
}

// expire lets the bootstrap token end while the machine fetches it. The controller makes
// another.
func expire(r *rehearsal) {
	r.api().Add(nodefixture.Fault{On: "/secrets/" + r.kubeconfig, Times: 1, Handler: func(w http.ResponseWriter, req *http.Request, healthy []byte) {
		if err := r.endToken(req); err != nil {
			r.t.Errorf("ending the token of %s: %v", r.pool, err)
		}
		_, _ = w.Write(healthy) // fails if the machine has closed the connection
	}})
}

func (r *rehearsal) endToken(req *http.Request) error {
	var list corev1.SecretList
	if err := r.cloud.client.List(req.Context(), &list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return err
	}
	for _, s := range list.Items {
		if s.Type == corev1.SecretTypeBootstrapToken && path.Base(s.Annotations[api.AnnotationPool]) == r.pool {
			s.Data["expiration"] = []byte(time.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
			return r.cloud.client.Update(req.Context(), &s)
		}
	}
	return fmt.Errorf("there is none among %d Secrets", len(list.Items))
}

// rotate changes the pool when the machine has its user-data already: it will fetch the
// provisioning stage of another generation.
func rotate(r *rehearsal) {
	md := &machinesapi.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.cloud.namespace, Name: r.pool}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"42"}}}`, api.AnnotationKubeletConfigPrefix+"MaxPods"))
	r.must(r.cloud.client.Patch(r.t.Context(), md, patch))
	r.cloud.eventually(r.t, "the Secret is another", func() error {
		_, next := r.cloud.documents(r.t, r.pool)
		if next.Annotations[api.AnnotationInputDigest] == r.provisioning.Annotations[api.AnnotationInputDigest] {
			return errors.New("it is not")
		}
		r.expects(next)
		return nil
	})
}
