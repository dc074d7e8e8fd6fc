package running

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// ended waits until the controller has ended by itself, and not as if asked to.
func (s *system) ended(exited <-chan struct{}, why string) {
	s.T.Helper()
	select {
	case <-exited:
	case <-time.After(e2e.Patience):
		s.T.Fatalf("the controller still runs (%s)", why)
	}
	if code := s.Process.ProcessState.ExitCode(); code != 1 {
		s.T.Errorf("it ended with %d (%s)", code, why)
	}
}

// A replica that waits for the lease logs who holds it, and a Deployment of operating-system-manager
// that would take it next, once. Then it leads.
func TestHolderIsReported(t *testing.T) {
	s := newSystem(t)
	s.Lease(e2e.MainLease)
	if err := s.Cluster.Apply(t.Context(), e2e.RepoPath("test/platforms/kubeone/deployments.yaml")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		s.NoError(s.Client.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(e2e.Namespace)))
		s.NoError(s.Client.Delete(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "operating-system-manager-webhook"}}))
	})
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	s.Start("--leader-elect=true", "--log-format=JSON")
	lines := func(says ...string) int {
		s.LogMu.Lock()
		defer s.LogMu.Unlock()
		n := 0
		for line := range strings.Lines(s.Log.String()) {
			if e2e.ContainsAll(line, says) {
				n++
			}
		}
		return n
	}
	holder := []string{`"waiting for the lease"`, `"lease":"kube-system/operating-system-manager"`, `"holder":"another"`}
	successor := []string{`"operating-system-manager takes the lease as soon as this controller releases it"`, `"image":"quay.io/kubermatic/operating-system-manager:v1.11.2"`, "KubeOne: ", "KKP: "}
	s.Eventually("the log to name both", func() error {
		if lines(holder...) == 0 || lines(successor...) == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	s.DeleteLease(e2e.MainLease)
	s.Ready(first)
	if n := lines(successor...); n != 1 {
		t.Errorf("the Deployment is reported %d times", n)
	}
}

// releaseFailed reports whether client-go's release of a lease failed when the controller ended, as it
// does if a renewal is on its way then. Such a lease has to expire.
func (s *system) releaseFailed(lease string) bool {
	s.LogMu.Lock()
	defer s.LogMu.Unlock()
	for line := range strings.Lines(s.Log.String()) {
		if e2e.ContainsAll(line, []string{"Failed to release lease", e2e.Namespace + "/" + lease}) {
			return true
		}
	}
	return false
}

// Both leases are required: while another program, such as operating-system-manager, holds the
// lease of the worker cluster, nothing is written there. A replica that loses either lease
// exits. When a replica exits, another takes over.
func testLeases(t *testing.T, a *apart) {
	m, w := a.management, a.worker
	w.Lease(e2e.WorkerLease)
	first := m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	m.Source()
	// machine-controller comes later. Other tests need its kind, even if this one fails before.
	t.Cleanup(func() { w.NoError(w.Cluster.Apply(context.WithoutCancel(t.Context()), e2e.RepoPath("test/crds"))) })
	w.NoError(w.Cluster.Uninstall(t.Context(), func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Name == "machinedeployments.cluster.k8s.io"
	}))
	a.start("--leader-elect=true")
	m.Ready(first)
	m.probeSays(a.workerProbe, http.StatusServiceUnavailable, "[-]worker cluster: ", "MachineDeployment")
	if err := w.Cluster.Apply(t.Context(), e2e.RepoPath("test/crds")); err != nil {
		t.Fatal(err)
	}
	w.Client = w.Cluster.Client(t)
	w.Pool("web", "osp-a")
	m.probeSays(a.workerProbe, http.StatusOK, "waits for the lease kube-system/"+e2e.WorkerLease)
	if md := w.MachineDeployment("web"); len(md.Finalizers) > 0 {
		t.Errorf("the pool was written to without the lease: %q", md.Finalizers)
	}
	w.DeleteLease(e2e.WorkerLease)
	w.Served("web", "v1.0.0")

	next := &system{&e2e.System{T: t, Cluster: m.Cluster, Client: m.Client, Git: m.Git, Cache: t.TempDir(), Log: &bytes.Buffer{}}}
	t.Cleanup(func() {
		next.LogMu.Lock()
		if t.Failed() {
			t.Logf("the next replica's log:\n%s", e2e.Tail(next.Log.String(), 12_000))
		}
		next.LogMu.Unlock()
		next.Stop()
	})
	nextProbe := e2e.FreeAddress(t)
	next.Start(slices.Concat(a.flags, []string{"--leader-elect=true", "--health-probe-address", nextProbe,
		"--worker-health-probe-address", "0", "--metrics-address", "0", "--worker-metrics-address", "0"})...)
	m.probeSays(nextProbe, http.StatusOK, "[+]worker cluster: ok, waits until this replica leads")
	a.management.Stop()
	w.Process, w.Exited = next.Process, next.Exited
	m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	w.Served("web", "v1.1.0")

	for _, lost := range []struct {
		s    *system
		name string
	}{{w, e2e.WorkerLease}, {m, e2e.MainLease}} {
		t.Run("without "+lost.name, func(t *testing.T) {
			if next.Process == nil {
				next.Start(slices.Concat(a.flags, []string{"--leader-elect=true"})...)
				w.Process, w.Exited = next.Process, next.Exited
				m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.2.0", "echo three")})
				w.Served("web", "v1.2.0")
			}
			lost.s.Lease(lost.name)
			next.ended(next.Exited, "without "+lost.name)
			next.Process = nil
			lost.s.DeleteLease(lost.name)
			kept, name := m, e2e.MainLease
			if lost.s == m {
				kept, name = w, e2e.WorkerLease
			}
			var lease coordinationv1.Lease
			m.NoError(kept.Client.Get(t.Context(), client.ObjectKey{Namespace: e2e.Namespace, Name: name}, &lease))
			if holder := lease.Spec.HolderIdentity; (holder == nil || *holder != "") && !next.releaseFailed(name) {
				t.Errorf("the lease %s is not given back: %+v", name, lease.Spec)
			}
		})
	}

	// The metrics of a replica that does not lead show the current state of the worker cluster, not
	// an earlier one: alerts take the best value of all replicas.
	m.Lease(e2e.MainLease)
	next.Start(slices.Concat(a.flags, []string{"--leader-elect=true"})...)
	reachable := func(want string) {
		t.Helper()
		next.Eventually("the metric to be "+want, func() error {
			if !strings.Contains(next.Scrape(a.metrics[0]), `osm_gitops_cluster_reachable{cluster="worker"} `+want) {
				return errors.New("it is not")
			}
			return nil
		})
	}
	next.probeSays(a.workerProbe, http.StatusOK, "[+]worker cluster: ok, waits until this replica leads")
	reachable("1")
	w.Link.Cut()
	reachable("0")
	w.Link.Restore()
	reachable("1")
}
