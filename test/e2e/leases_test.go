package e2e

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ended waits until the controller has ended by itself, and not as if asked to.
func (s *system) ended(exited <-chan struct{}, why string) {
	s.t.Helper()
	select {
	case <-exited:
	case <-time.After(patience):
		s.t.Fatalf("the controller still runs (%s)", why)
	}
	if code := s.process.ProcessState.ExitCode(); code != 1 {
		s.t.Errorf("it ended with %d (%s)", code, why)
	}
}

// lease applies one that another holds.
func (s *system) lease(name string) {
	s.t.Helper()
	s.apply(map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": name, "namespace": namespace},
		"spec": map[string]any{"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": microTime(), "renewTime": microTime()},
	})
}

func (s *system) deleteLease(name string) {
	s.t.Helper()
	s.noError(s.client.Delete(s.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
}

// What a replica that does not lead tells of the worker cluster is what is, and not what
// once was: an alert takes the best that any replica says.
func TestReplicaThatWaits(t *testing.T) {
	t.Parallel()
	a := newApart(t)
	m, w := a.management, a.worker
	m.lease(mainLease)
	a.start("--leader-elect=true")
	reachable := func(want string) {
		t.Helper()
		m.eventually("the metric to be "+want, func() error {
			if !strings.Contains(m.scrape(a.metrics[0]), `osm_gitops_cluster_reachable{cluster="worker"} `+want) {
				return errors.New("it is not")
			}
			return nil
		})
	}
	m.probeSays(a.workerProbe, http.StatusOK, "[+]worker cluster: ok, waits until this replica leads")
	reachable("1")
	w.cluster.Stop()
	reachable("0")
	w.restart()
	reachable("1")
}

// Both leases of the contract are needed: as long as another, such as the reference,
// holds the one of the worker cluster, nothing is written there. Whoever loses
// either ends. When a replica ends, another takes over.
func TestLeases(t *testing.T) {
	t.Parallel()
	a := newApart(t)
	m, w := a.management, a.worker
	w.lease(workerLease)
	first := m.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	m.source()
	// machine-controller comes later.
	w.noError(w.cluster.Uninstall(t.Context(), func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Name == "machinedeployments.cluster.k8s.io"
	}))
	a.start("--leader-elect=true")
	m.ready(first)
	m.probeSays(a.workerProbe, http.StatusServiceUnavailable, "[-]worker cluster: ", "MachineDeployment")
	if err := w.cluster.Apply(t.Context(), repoPath("test/crds")); err != nil {
		t.Fatal(err)
	}
	w.client = w.cluster.Client(t)
	w.pool("web", "osp-a")
	m.probeSays(a.workerProbe, http.StatusOK, "waits for the lease kube-system/"+workerLease)
	if md := w.machineDeployment("web"); len(md.Finalizers) > 0 {
		t.Errorf("the pool was written to without the lease: %q", md.Finalizers)
	}
	w.deleteLease(workerLease)
	w.served("web", "v1.0.0")

	next := &system{t: t, cluster: m.cluster, client: m.client, git: m.git, cache: t.TempDir(), log: &bytes.Buffer{}}
	t.Cleanup(next.stop)
	nextProbe := freeAddress(t)
	next.start(slices.Concat(a.flags, []string{"--leader-elect=true", "--health-probe-address", nextProbe,
		"--worker-health-probe-address", "0", "--metrics-address", "0", "--worker-metrics-address", "0"})...)
	m.probeSays(nextProbe, http.StatusOK, "[+]worker cluster: ok, waits until this replica leads")
	a.management.stop()
	w.process = nil
	m.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	w.served("web", "v1.1.0")

	for _, lost := range []struct {
		s    *system
		name string
	}{{w, workerLease}, {m, mainLease}} {
		t.Run("without "+lost.name, func(t *testing.T) {
			if next.process == nil {
				next.start(slices.Concat(a.flags, []string{"--leader-elect=true"})...)
				m.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.2.0", "echo three")})
				w.served("web", "v1.2.0")
			}
			lost.s.lease(lost.name)
			next.ended(next.exited, "without "+lost.name)
			next.process = nil
			lost.s.deleteLease(lost.name)
			kept, name := m, mainLease
			if lost.s == m {
				kept, name = w, workerLease
			}
			var lease coordinationv1.Lease
			m.noError(kept.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &lease))
			if holder := lease.Spec.HolderIdentity; holder == nil || *holder != "" {
				t.Errorf("the lease %s is not given back: %+v", name, lease.Spec)
			}
		})
	}
}
