package running

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// TestApart runs what needs a management and a worker cluster, one after the other on the same two.
func TestApart(t *testing.T) {
	// Each half has the kinds that docs/controller.md installs there, and machine-controller's.
	management := newHalf(t, []string{"profilesources", "operatingsystemprofiles", "operatingsystemconfigs", "nodeprovenances"},
		e2e.ManagementCluster, "deploy/controller-policy.yaml")
	worker := newHalf(t, []string{"nodeprovenances", "bootreports", "machinedeployments", "machinesets", "machines"},
		e2e.WorkerCluster, "deploy/cloud-init-settings.yaml", "deploy/controller-policy.yaml")
	worker.Pools = worker.Cluster.Namespace(t)
	worker.ClusterInfo("https://worker.example.com:6443", e2e.CaOf(t, worker.Cluster))
	worker.Eventually("the getter's token", func() error {
		var secret corev1.Secret
		return worker.Get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &secret)
	})
	initial := map[*system]map[string]client.Object{management: management.everything(), worker: worker.everything()}
	for name, test := range map[string]func(*testing.T, *apart){
		"cluster away": testClusterAway,
		"leases":       testLeases,
		"rollout":      testRolloutAcrossClusters,
		"two clusters": testTwoClusters,
	} {
		t.Run(name, func(t *testing.T) {
			for half, objects := range initial {
				half.T = t
				half.restore(objects)
			}
			test(t, newApart(t, management, worker))
		})
	}
	audited(t, map[string]*cluster.Cluster{e2e.ManagementCluster: management.Cluster, e2e.WorkerCluster: worker.Cluster})
}

// newHalf starts one of two clusters, with the controller's rights in it and other manifests.
func newHalf(t *testing.T, kinds []string, manifests ...string) *system {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Audit: true, Kinds: kinds})
	for i, path := range manifests {
		manifests[i] = e2e.RepoPath(path)
	}
	if err := c.Apply(t.Context(), manifests...); err != nil {
		t.Fatal(err)
	}
	return &system{&e2e.System{T: t, Cluster: c, Client: c.Client(t)}}
}

// restore deletes all objects except the initial ones and those that Kubernetes makes in each namespace.
func (s *system) restore(initial map[string]client.Object) {
	s.T.Helper()
	for name, o := range s.everything() {
		if initial[name] != nil || o.GetName() == "default" || o.GetName() == "kube-root-ca.crt" {
			continue
		}
		if len(o.GetFinalizers()) > 0 {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			s.NoError(client.IgnoreNotFound(s.Client.Patch(s.T.Context(), o, patch)))
		}
		s.NoError(client.IgnoreNotFound(s.Client.Delete(s.T.Context(), o)))
	}
}

// apart are two clusters, each with the rights that deploy/two-clusters gives there, and one
// controller. Profiles are management's, pools the worker's.
type apart struct {
	management, worker *system
	flags              []string
	probe, workerProbe string // addresses
	metrics            []string
}

func newApart(t *testing.T, management, worker *system) *apart {
	t.Helper()
	git := e2e.NewGitServer(t)
	half := func(of *system) *system {
		return &system{&e2e.System{T: t, Cluster: of.Cluster, Client: of.Client, Pools: of.Pools, Git: git, Cache: t.TempDir(), Log: &bytes.Buffer{}, Link: e2e.NewLink(t, of.Cluster.URL)}}
	}
	a := &apart{
		management: half(management), worker: half(worker),
		probe: e2e.FreeAddress(t), workerProbe: e2e.FreeAddress(t), metrics: []string{e2e.FreeAddress(t), e2e.FreeAddress(t)},
	}
	t.Cleanup(func() {
		if t.Failed() {
			a.management.LogMu.Lock()
			t.Logf("the controller's log:\n%s", e2e.Tail(a.management.Log.String(), 12_000))
			a.management.LogMu.Unlock()
		}
		a.management.Stop()
	})
	a.management.Identity = a.management.Kubeconfig()
	a.flags = []string{
		"--worker-cluster-kubeconfig", a.worker.Kubeconfig(),
		"--health-probe-address", a.probe, "--worker-health-probe-address", a.workerProbe,
		"--metrics-address", a.metrics[0], "--worker-metrics-address", a.metrics[1],
	}
	return a
}

func (a *apart) start(flags ...string) {
	a.management.T.Helper()
	a.management.Start(slices.Concat(a.flags, flags)...)
	a.worker.Process, a.worker.Exited = a.management.Process, a.management.Exited
}

// readyz is the answer of a probe.
func readyz(t *testing.T, address string) (status int, text string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/readyz?verbose", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// says waits until a probe answers with a status and says all of the texts.
func (s *system) probeSays(address string, want int, says ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("/readyz to answer %d and say %q", want, says), func() error {
		status, text, err := readyz(s.T, address)
		if err == nil && (status != want || !e2e.ContainsAll(text, says)) {
			err = fmt.Errorf("it answers %d: %s", status, text)
		}
		return err
	})
}

// everything lists all objects of a cluster that can be listed, but for what
// Kubernetes itself writes all the time.
func (s *system) everything() map[string]client.Object {
	s.T.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(s.Cluster.Config)
	if err != nil {
		s.T.Fatal(err)
	}
	kinds, err := d.ServerPreferredResources()
	if err != nil {
		s.T.Fatal(err)
	}
	out, lists := map[string]client.Object{}, 0
	for _, group := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, kinds) {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			s.T.Fatal(err)
		}
		for _, r := range group.APIResources {
			var list metav1.PartialObjectMetadataList
			list.SetGroupVersionKind(gv.WithKind(r.Kind + "List"))
			if err := s.Client.List(s.T.Context(), &list); err != nil {
				s.T.Fatalf("listing %s: %v", r.Name, err)
			}
			lists++
			for i := range list.Items {
				o := &list.Items[i]
				o.SetGroupVersionKind(gv.WithKind(r.Kind))
				out[r.Name+" "+o.Namespace+"/"+o.Name] = o
			}
		}
	}
	if lists < 30 {
		s.T.Fatalf("listed %d kinds only", lists)
	}
	return out
}

// newSince are the objects that were not there before, with the random parts of
// names replaced.
func (s *system) newSince(before map[string]client.Object) []string {
	s.T.Helper()
	seen := map[string]bool{}
	for name := range s.everything() {
		if before[name] != nil {
			continue
		}
		for _, prefix := range []string{"secrets kube-system/bootstrap-token-", "configmaps kube-system/osm-gitops-settings-", "rolebindings cloud-init-settings/node-", "roles cloud-init-settings/node-", "serviceaccounts cloud-init-settings/node-"} {
			if strings.HasPrefix(name, prefix) {
				name = prefix + "*"
			}
		}
		if kind, rest, _ := strings.Cut(name, " "); kind == "events" {
			ns, _, _ := strings.Cut(rest, "/")
			name = kind + " " + ns + "/*"
		}
		seen[name] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// A profile of a repository becomes an object in the management cluster, a pool of the worker
// cluster gets its configuration in the management cluster and its Secrets in the worker cluster,
// and nothing more is written in either. Each half has exactly the rights of its file in
// deploy/two-clusters.
func testTwoClusters(t *testing.T, a *apart) {
	m, w := a.management, a.worker
	// Objects in the wrong cluster are ignored.
	m.ClusterInfo("https://management.example.com:6443", e2e.CaOf(t, m.Cluster))
	m.Apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "registries", "namespace": e2e.Namespace},
		"stringData": map[string]any{"registry.example.com": `{"username":"puller","password":"pull-1"}`},
	})
	m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v0.9.0", "echo old")})
	first := m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "{{ .ContainerRuntimeConfig }}")})
	m.Source(func(spec map[string]any) { spec["historyLimit"] = 0 }) // but what pools ask for
	before := map[*system]map[string]client.Object{m: m.everything(), w: w.everything()}

	page := e2e.FreeAddress(t)
	a.start("--leader-elect=true", "--disable-default-osps", "--node-registry-credentials-secret", e2e.Namespace+"/registries", "--ui-address", page)
	m.Ready(first)
	w.Pool("web", "osp-a")
	bootstrap, provisioning := w.Served("web", "v1.0.0")
	w.Event("web", api.EventConfigCreated, `profile "osp-a" v1.0.0`)
	m.probeSays(a.probe, http.StatusOK, "[+]management cluster: ok", "[+]worker cluster: ok")
	m.probeSays(a.workerProbe, http.StatusOK, "[+]worker cluster: ok")
	m.Listening(sorted(append([]string{a.probe, a.workerProbe, page}, a.metrics...))...)

	if document := string(bootstrap.Data[api.UserDataKey]); !strings.Contains(document, "https://worker.example.com:6443") {
		t.Error("nodes are not told of the worker cluster's API server")
	}
	if !bytes.Contains(provisioning.Data[api.UserDataKey], []byte("pull-1")) {
		t.Error("the credentials of the registry, which are in the management cluster, do not reach nodes")
	}
	config := "web-" + w.Pools + "-config"
	expected := map[*system][]string{
		m: {
			"configmaps kube-system/osm-gitops-settings-*", "events kube-system/*",
			"leases kube-system/" + e2e.MainLease, "operatingsystemconfigs kube-system/" + config,
			"operatingsystemprofiles kube-system/osp-a-v1.0.0", "secrets kube-system/" + api.KeySecretName,
		},
		w: {
			"events " + w.Pools + "/*", "events kube-system/*",
			"leases kube-system/" + e2e.WorkerLease,
			"machinedeployments " + w.Pools + "/web", // the test's own
			"secrets cloud-init-settings/" + w.Pools + "-web-kubelet-bootstrap-config",
			"secrets cloud-init-settings/web-" + w.Pools + "-bootstrap-config",
			"secrets cloud-init-settings/web-" + w.Pools + "-inputs", // of the registry
			"secrets cloud-init-settings/web-" + w.Pools + "-provisioning-config",
			"secrets kube-system/bootstrap-token-*",
			"rolebindings cloud-init-settings/node-*", "roles cloud-init-settings/node-*", "serviceaccounts cloud-init-settings/node-*",
		},
	}
	for s, want := range expected {
		s.Eventually("everything that is written", func() error {
			if got := s.newSince(before[s]); !slices.Equal(got, sorted(want)) {
				return fmt.Errorf("new are %q, want %q", got, sorted(want))
			}
			return nil
		})
	}
	for _, address := range a.metrics {
		body := m.Scrape(address)
		if !strings.Contains(body, `controller_runtime_reconcile_total{controller="pool"`) {
			t.Errorf("%s has no metrics of the pool controller", address)
		}
		if strings.Contains(body, "pull-1") {
			t.Errorf("%s tells a credential", address)
		}
	}

	m.Run("the audit page knows both clusters", func(t *testing.T) {
		for path, want := range map[string]string{"/": "web", "/pools/" + w.Pools + "/web": "v1.0.0", "/commits/" + first: "osp-a v1.0.0"} {
			m.Eventually("the page "+path, func() error {
				res, err := http.Get("http://" + page + path)
				if err != nil {
					return err
				}
				defer res.Body.Close()
				b, err := io.ReadAll(res.Body)
				if err == nil && (res.StatusCode != http.StatusOK || !strings.Contains(string(b), want) || strings.Contains(string(b), "pull-1")) {
					err = fmt.Errorf("it is %s: %.2000s", res.Status, b)
				}
				return err
			})
		}
	})
	m.Run("a version that a pool of the worker cluster asks for", func(*testing.T) {
		w.Pool("old", "osp-a", e2e.Annotate(api.AnnotationVersionPin, "v0.9.0"))
		w.Served("old", "v0.9.0")
	})
	m.Run("trace reads both clusters, and so does a dump of them", func(t *testing.T) {
		node := w.Joins("web", "one", provisioning)
		w.ComesFrom(node, api.EvidenceReported, "v1.0.0", first, api.BehindNo)
		both := []string{"--worker-cluster-kubeconfig", w.Cluster.Kubeconfig}
		tr := m.Trace(m.Cluster.Kubeconfig, "node/"+node.Name, both...)
		for _, step := range tr.Steps {
			if step.State != trace.Found {
				t.Errorf("got %+v", step)
			}
		}
		dump := filepath.Join(t.TempDir(), "dump.jsonl")
		if status, _, errs := m.Runs(append([]string{"trace", "--dump", dump, "--kubeconfig", m.Cluster.Kubeconfig}, both...)...); status != 0 {
			t.Fatal(errs)
		}
		if status, out, errs := m.Runs("trace", "node/"+node.Name, "--from", dump); status != 0 || !strings.Contains(out, "  commit      "+first+"\n") {
			t.Errorf("from the dump: status %d\n%s%s", status, errs, out)
		}
		w.NoError(w.Client.Delete(t.Context(), node))
		w.NoError(w.Client.Delete(t.Context(), &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: tr.Node.Provenance}}))
	})
	m.Run("doctor finds nothing in either", func(*testing.T) {
		status, out, errs := m.Runs("doctor", "--kubeconfig", m.Cluster.Kubeconfig, "--worker-cluster-kubeconfig", w.Cluster.Kubeconfig)
		for _, want := range []string{"ok       rights (management): ", "ok       rights (worker): ", "ok       lease (worker): ", "ok       cluster-info (worker): nodes join https://worker.example.com:6443"} {
			if status != 0 || !strings.Contains(out, want) {
				t.Errorf("status %d, and it does not print %q:\n%s%s", status, want, out, errs)
			}
		}
	})
	m.Run("with the pools everything goes", func(*testing.T) {
		w.NoError(w.Client.Delete(t.Context(), w.MachineDeployment("old")))
		w.NoError(w.Client.Delete(t.Context(), w.MachineDeployment("web")))
		m.Gone(e2e.Namespace, config, &osm.OperatingSystemConfig{})
		want := []string{"events " + w.Pools + "/*", "events kube-system/*", "leases kube-system/" + e2e.WorkerLease}
		w.Eventually("nothing to be left", func() error {
			if got := w.newSince(before[w]); !slices.Equal(got, sorted(want)) {
				return fmt.Errorf("left are %q", got)
			}
			return nil
		})
	})
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

// Either cluster can be unreachable, at the start and later: the probes name it and the cause,
// work that needs only the other one continues, and all work continues when it answers again.
func testClusterAway(t *testing.T, a *apart) {
	m, w := a.management, a.worker
	first := m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	m.Source()
	w.Pool("web", "osp-a")
	m.Link.Cut()
	w.Link.Cut()
	a.start()
	m.probeSays(a.probe, http.StatusServiceUnavailable, "[-]management cluster:", "connection refused", "[!]worker cluster:")
	m.Link.Restore()
	m.Ready(first)
	m.probeSays(a.probe, http.StatusOK, "[+]management cluster: ok", "[!]worker cluster:", "connection refused")
	m.probeSays(a.workerProbe, http.StatusServiceUnavailable, "[-]worker cluster:", "connection refused")
	w.Link.Restore()
	w.Served("web", "v1.0.0")
	m.probeSays(a.workerProbe, http.StatusOK, "[+]worker cluster: ok")

	// The worker cluster leaves: Git is followed all the same.
	w.Link.Cut()
	second := m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	m.Ready(second)
	m.probeSays(a.workerProbe, http.StatusServiceUnavailable, "[-]worker cluster:", "does not answer since")
	w.Link.Restore()
	w.Served("web", "v1.1.0")
	m.probeSays(a.workerProbe, http.StatusOK, "[+]worker cluster: ok")

	// The management cluster stops answering: the documents that nodes boot from are still maintained.
	m.Link.Cut()
	m.probeSays(a.probe, http.StatusServiceUnavailable, "[-]management cluster:", "does not answer since")
	w.TokenEnds("web", time.Minute*5)
	w.tokenRenewed("web")
	bootstrap, _ := w.Served("web", "v1.1.0")
	w.NoError(w.Client.Delete(t.Context(), bootstrap))
	w.Eventually("another Secret", func() error {
		again, _, err := w.Secrets("web")
		if err == nil && again.UID == bootstrap.UID {
			err = errors.New("it is the one before")
		}
		return err
	})
	third := m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.2.0", "echo three")})
	m.Link.Restore()
	m.Ready(third)
	w.Served("web", "v1.2.0")
	m.probeSays(a.probe, http.StatusOK, "[+]management cluster: ok", "[+]worker cluster: ok")
	// It is one process that went through all this.
	select {
	case <-m.Exited:
		t.Error("the controller ended")
	default:
	}
	m.Stop()

	// With leader election an API server can be away for longer than the 10 seconds that
	// controller-runtime allows by default.
	a.start("--leader-elect=true")
	a.probeHeld(t, m)
	m.Link.Cut()
	w.Link.Cut()
	time.Sleep(12 * time.Second) // no condition: the time that it is away is what is tested
	m.Link.Restore()
	w.Link.Restore()
	a.probeHeld(t, m)
	w.TokenEnds("web", time.Minute*5)
	w.tokenRenewed("web")

	// The worker cluster's lease is lost with it after a longer one: the process ends,
	// once. The next one follows Git, and waits.
	w.Link.Cut()
	m.ended(m.Exited, "--leader-elect=true")
	m.Process = nil
	fourth := m.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.3.0", "echo four")})
	a.start("--leader-elect=true")
	m.Ready(fourth)
	m.probeSays(a.workerProbe, http.StatusServiceUnavailable, "[-]worker cluster:", "connection refused")
	w.Link.Restore()
	w.DeleteLease(e2e.WorkerLease) // which the first could not give back: it would run out
	w.Served("web", "v1.3.0")
}

// tokenRenewed waits until it lives for long again.
func (s *system) tokenRenewed(pool string) {
	s.T.Helper()
	s.Eventually("the token to be renewed", func() error {
		ends, err := time.Parse(time.RFC3339, string(s.TokenOf(pool).Data["expiration"]))
		if err == nil && time.Until(ends) < 30*time.Minute {
			err = fmt.Errorf("it ends at %s", ends)
		}
		return err
	})
}

// probeHeld waits until both leases are held.
func (a *apart) probeHeld(t *testing.T, m *system) {
	t.Helper()
	m.Eventually("both leases to be held", func() error {
		_, text, err := readyz(t, a.probe)
		if err == nil && (!e2e.ContainsAll(text, []string{"[+]management cluster: ok\n", "[+]worker cluster: ok\n"})) {
			err = errors.New(text)
		}
		return err
	})
}
