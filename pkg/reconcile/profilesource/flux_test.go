package profilesource

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// bench is the controller in a manager on a real control plane, with a file server like
// that of Flux's source-controller.
type bench struct {
	t         *testing.T
	cluster   *cluster.Cluster
	client    client.Client
	namespace string
	r         *Reconciler
	server    *httptest.Server

	mu       sync.Mutex
	archives map[string][]byte
	requests int
	lists    atomic.Int64
}

func newBench(t *testing.T, directoryRoot string) *bench {
	t.Helper()
	c := cluster.Start(t, cluster.Options{}) // its own cluster, because Flux must not be installed yet
	b := &bench{t: t, cluster: c, archives: map[string][]byte{}}
	b.client = c.Client(t, sourcev1.AddToScheme)
	b.namespace = c.Namespace(t)
	b.server = httptest.NewServer(b)
	t.Cleanup(b.server.Close)

	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, osm.AddToScheme, api.AddToScheme, sourcev1.AddToScheme} {
		b.do(add(scheme))
	}
	own := map[string]cache.Config{b.namespace: {}}
	skip := true
	counted := rest.CopyConfig(c.Config)
	counted.Wrap(b.counting)
	mgr, err := ctrl.NewManager(counted, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &skip}, Cache: cache.Options{DefaultNamespaces: own},
	})
	b.do(err)
	flux, err := cache.New(c.Config, cache.Options{Scheme: scheme, Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), DefaultNamespaces: own})
	b.do(err)
	b.do(mgr.Add(flux))
	b.r = &Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: events.NewFakeRecorder(10_000),
		Fetcher: &fetcher.Fetcher{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), DirectoryRoot: directoryRoot,
			Flux: &fetcher.Flux{Cache: flux, Artifacts: b.artifacts()},
		},
	}
	b.do(b.r.Setup(mgr, 2))
	ended := make(chan struct{})
	t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		if err := mgr.Start(t.Context()); err != nil {
			t.Errorf("the manager: %v", err)
		}
	}()
	return b
}

// counting counts the list and watch requests for GitRepositories.
func (b *bench) counting(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/gitrepositories") {
			b.lists.Add(1)
		}
		return next.RoundTrip(r)
	})
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (b *bench) artifacts() *source.Artifacts {
	return &source.Artifacts{Dir: b.t.TempDir(), Hosts: []string{strings.TrimPrefix(b.server.URL, "http://")}, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func (b *bench) do(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests++
	data, ok := b.archives[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(data)
}

func (b *bench) downloads() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.requests
}

// archive serves files and returns the artifact that source-controller would publish.
func (b *bench) archive(revision string, files map[string]string) *meta.Artifact {
	b.t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	for name, content := range files {
		b.do(w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(content))}))
		_, err := io.WriteString(w, content)
		b.do(err)
	}
	b.do(errors.Join(w.Close(), z.Close()))
	sum := fmt.Sprintf("%x", sha256.Sum256(buf.Bytes()))
	path := "/gitrepository/" + sum + ".tar.gz"
	b.mu.Lock()
	defer b.mu.Unlock()
	b.archives[path] = buf.Bytes()
	size := int64(buf.Len())
	return &meta.Artifact{
		URL: b.server.URL + path, Path: strings.TrimPrefix(path, "/"), Revision: revision, Digest: "sha256:" + sum,
		LastUpdateTime: metav1.Now(), Size: &size,
	}
}

// artifactProfile returns a profile with the given content.
func artifactProfile(name, version, content string) string {
	return strings.NewReplacer("NAME", name, "VERSION", version, "CONTENT", content).Replace(`apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata: {name: NAME}
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: VERSION
  supportedCloudProviders: [{name: aws}]
  bootstrapConfig:
    files:
    - path: /etc/a
      content: {inline: {data: CONTENT}}
  provisioningConfig: {}
`)
}

// source creates a ProfileSource with an interval so long that only events reconcile it.
func (b *bench) source(name string, spec api.ProfileSourceSpec) *api.ProfileSource {
	b.t.Helper()
	spec.Interval, spec.RetryInterval = metav1.Duration{Duration: 700 * time.Hour}, metav1.Duration{Duration: time.Second}
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}, Spec: spec}
	b.do(b.client.Create(b.t.Context(), ps))
	return ps
}

// change changes the spec of a ProfileSource.
func (b *bench) change(name string, with func(*api.ProfileSource)) {
	b.t.Helper()
	ps := b.get(name)
	before := ps.DeepCopy()
	with(ps)
	b.do(b.client.Patch(b.t.Context(), ps, client.MergeFrom(before)))
}

func (b *bench) get(name string) *api.ProfileSource {
	b.t.Helper()
	var ps api.ProfileSource
	b.do(b.client.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, &ps))
	return &ps
}

// until waits until the Ready condition of the current generation has a reason and a text.
func (b *bench) until(name, reason, says string) *api.ProfileSource {
	b.t.Helper()
	var ps *api.ProfileSource
	testenv.Await(b.t, 30*time.Second, "Ready has "+reason+" and says "+says, func() error {
		ps = b.get(name)
		ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
		if ready == nil || ready.Reason != reason || ready.ObservedGeneration != ps.Generation || !strings.Contains(ready.Message, says) {
			return fmt.Errorf("it is %+v", ready)
		}
		return nil
	})
	return ps
}

// fluxStatus writes an artifact to the status as Flux's source-controller does.
func (b *bench) fluxStatus(obj client.Object, artifact *meta.Artifact) {
	b.t.Helper()
	b.do(b.client.Get(b.t.Context(), client.ObjectKeyFromObject(obj), obj))
	status, generation := (*meta.Artifact)(artifact), obj.GetGeneration()
	switch o := obj.(type) {
	case *sourcev1.GitRepository:
		o.Status.Artifact, o.Status.ObservedGeneration = status, generation
	case *sourcev1.OCIRepository:
		o.Status.Artifact, o.Status.ObservedGeneration = status, generation
	case *sourcev1.Bucket:
		o.Status.Artifact, o.Status.ObservedGeneration = status, generation
	case *sourcev1.ExternalArtifact:
		o.Status.Artifact = status
	}
	b.do(b.client.Status().Update(b.t.Context(), obj))
}

func (b *bench) kstatus(ps *api.ProfileSource) status.Status {
	b.t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(ps)
	b.do(err)
	result, err := status.Compute(&unstructured.Unstructured{Object: content})
	b.do(err)
	return result.Status
}

func (b *bench) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: b.namespace, Name: name}
}

// uninstall deletes the kind GitRepository and all objects of it.
func (b *bench) uninstall() {
	b.t.Helper()
	definition := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "gitrepositories.source.toolkit.fluxcd.io"}}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	b.do(b.client.Delete(b.t.Context(), definition))
}

func TestFlux(t *testing.T) {
	b := newBench(t, "")
	revision := func(digit string) string { return "main@sha1:" + strings.Repeat(digit, 40) }
	ref := func(kind, name string) api.ProfileSourceSpec {
		return api.ProfileSourceSpec{SourceRef: &api.SourceReference{Kind: kind, Name: name}, Path: "profiles"}
	}

	// Without Flux the controller runs and reports what is missing; it continues with Flux.
	b.source("git", ref(sourcev1.GitRepositoryKind, "osps"))
	if got := b.kstatus(b.until("git", "DependencyNotReady", "install or upgrade Flux")); got != status.InProgressStatus {
		t.Errorf("without Flux it is %s", got)
	}
	b.do(b.cluster.Apply(t.Context(), "testdata/flux/source.toolkit.fluxcd.io_gitrepositories.yaml", "testdata/flux/source.toolkit.fluxcd.io_ocirepositories.yaml",
		"testdata/flux/source.toolkit.fluxcd.io_buckets.yaml", "testdata/flux/source.toolkit.fluxcd.io_externalartifacts.yaml"))
	b.client = b.cluster.Client(t, sourcev1.AddToScheme)
	b.until("git", "DependencyNotReady", "GitRepository "+b.namespace+"/osps does not exist")
	repository := &sourcev1.GitRepository{ObjectMeta: b.meta("osps"), Spec: sourcev1.GitRepositorySpec{URL: "https://git.example.com/osps.git", Interval: metav1.Duration{Duration: time.Minute}}}
	b.do(b.client.Create(t.Context(), repository))
	if got := b.kstatus(b.until("git", meta.ArtifactFailedReason, "no artifact yet")); got != status.InProgressStatus {
		t.Errorf("without an artifact it is %s", got)
	}

	files := map[string]string{
		"profiles/a.yaml":       artifactProfile("osp-a", "v1.0.0", "one"),
		"profiles/draft/d.yaml": artifactProfile("osp-d", "v1.0.0", "draft"),
		"profiles/.osmignore":   "draft/\n",
		"elsewhere/b.yaml":      artifactProfile("osp-b", "v1.0.0", "two"),
	}
	first := b.archive(revision("1"), files)
	b.fluxStatus(repository, first)
	ps := b.until("git", meta.SucceededReason, "applied "+revision("1")+": 1 profile")
	if got := b.kstatus(ps); got != status.CurrentStatus {
		t.Errorf("it is %s", got)
	}
	entry := ps.Status.Profiles[0]
	if entry.Commit != revision("1") || entry.SelectedBy != revision("1") || entry.Path != "profiles/a.yaml" || entry.Object != "osp-a-v1.0.0" {
		t.Errorf("the entry is %+v", entry)
	}
	var osp osm.OperatingSystemProfile
	b.do(b.client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: entry.Object}, &osp))
	a := osp.Annotations
	if a[api.AnnotationRepository] != "https://git.example.com/osps.git" || a[api.AnnotationCommit] != revision("1") || a[api.AnnotationRevision] != revision("1") || a[api.AnnotationAuthor] != "" {
		t.Errorf("annotations are %v", a)
	}

	t.Run("an unchanged artifact costs no download", func(t *testing.T) {
		before := b.downloads()
		b.change("git", func(ps *api.ProfileSource) {
			ps.Annotations = map[string]string{meta.ReconcileRequestAnnotation: "now"}
		})
		testenv.Await(t, 20*time.Second, "the request is handled", func() error {
			if got := b.get("git").Status.GetLastHandledReconcileRequest(); got != "now" {
				return fmt.Errorf("the last one is %q", got)
			}
			return nil
		})
		if after := b.downloads(); after != before {
			t.Errorf("%d downloads before, %d after", before, after)
		}
	})
	t.Run("another commit with the same profiles", func(t *testing.T) {
		files["elsewhere/README.md"] = "# changed\n"
		b.fluxStatus(repository, b.archive(revision("2"), files))
		ps := b.until("git", meta.SucceededReason, "applied "+revision("2"))
		if !equality.Semantic.DeepEqual(ps.Status.Profiles[0], entry) {
			t.Errorf("the entry is %+v, was %+v", ps.Status.Profiles[0], entry)
		}
	})
	t.Run("the same commit with another digest", func(t *testing.T) { // after a change of Flux's own ignore rules
		files["profiles/b.yaml"] = artifactProfile("osp-b", "v1.0.0", "two")
		b.fluxStatus(repository, b.archive(revision("2"), files))
		b.until("git", meta.SucceededReason, "applied "+revision("2")+": 2 profiles")
	})
	t.Run("other rules for the same artifact", func(t *testing.T) {
		rules := "!draft/\n/a.yaml\n"
		b.change("git", func(ps *api.ProfileSource) { ps.Spec.Ignore = &rules })
		ps := b.until("git", meta.SucceededReason, "2 profiles, 1 profile no longer in the source")
		if e := ps.Status.Profiles; len(e) != 3 || !e[0].Removed || e[1].Name != "osp-b" || e[2].Name != "osp-d" {
			t.Errorf("the inventory is %+v", e)
		}
		b.change("git", func(ps *api.ProfileSource) { ps.Spec.Ignore = nil })
		b.until("git", meta.SucceededReason, "2 profiles, 1 profile no longer in the source")
	})
	t.Run("what is not what its digest says", func(t *testing.T) { // security.md 10
		bad := b.archive(revision("3"), map[string]string{"profiles/a.yaml": artifactProfile("osp-a", "v6.6.6", "evil")})
		bad.Digest = first.Digest
		b.fluxStatus(repository, bad)
		ps := b.until("git", api.ReasonUnreachable, "sent content with the digest")
		if len(ps.Status.Profiles) != 3 || ps.Status.Revision != revision("2") {
			t.Errorf("the status is %+v", ps.Status)
		}
	})
	t.Run("an archive that wants out", func(t *testing.T) { // security.md 10
		b.fluxStatus(repository, b.archive(revision("4"), map[string]string{"../../etc/cron.d/evil.yaml": "x"}))
		if got := b.kstatus(b.until("git", api.ReasonSourceInvalid, "it is not trusted")); got != status.FailedStatus {
			t.Errorf("it is %s", got)
		}
	})
	t.Run("an address that is nobody's business", func(t *testing.T) { // security.md 9
		for _, address := range []string{"http://169.254.169.254/latest/meta-data", "http://kubernetes.default.svc/api", "file:///etc/passwd"} {
			evil := first.DeepCopy()
			evil.URL, evil.Revision = address, revision("5")
			b.fluxStatus(repository, evil)
			b.until("git", api.ReasonSourceInvalid, "")
			b.fluxStatus(repository, first)
			b.until("git", meta.SucceededReason, revision("1"))
		}
	})
	t.Run("an object of Flux that goes", func(t *testing.T) {
		b.do(b.client.Delete(t.Context(), repository))
		ps := b.until("git", "DependencyNotReady", "does not exist")
		if len(ps.Status.Profiles) != 3 {
			t.Errorf("the inventory is %+v", ps.Status.Profiles)
		}
	})

	t.Run("other namespaces", func(t *testing.T) { // security.md 24
		spec := ref(sourcev1.GitRepositoryKind, "osps")
		spec.SourceRef.Namespace = "flux-system"
		b.source("elsewhere", spec)
		if got := b.kstatus(b.until("elsewhere", api.ReasonAccessDenied, "other namespaces")); got != status.FailedStatus {
			t.Errorf("it is %s", got)
		}
		b.change("elsewhere", func(ps *api.ProfileSource) { ps.Spec.SourceRef.Namespace = b.namespace })
		b.until("elsewhere", "DependencyNotReady", "does not exist")
	})
	t.Run("an OCIRepository", func(t *testing.T) {
		oci := &sourcev1.OCIRepository{ObjectMeta: b.meta("osps"), Spec: sourcev1.OCIRepositorySpec{URL: "oci://ghcr.io/org/osps", Interval: metav1.Duration{Duration: time.Minute}}}
		b.do(b.client.Create(t.Context(), oci))
		artifact := b.archive("6.1.0@sha256:"+strings.Repeat("6", 64), map[string]string{"profiles/o.yaml": artifactProfile("osp-oci", "v1.0.0", "o")})
		artifact.Metadata = map[string]string{fetcher.RevisionAnnotation: revision("6")}
		b.fluxStatus(oci, artifact)
		b.source("oci", ref(sourcev1.OCIRepositoryKind, "osps"))
		if e := b.until("oci", meta.SucceededReason, "applied 6.1.0@sha256:").Status.Profiles; e[0].Commit != revision("6") {
			t.Errorf("the inventory is %+v", e)
		}
	})
	t.Run("a Bucket", func(t *testing.T) {
		bucket := &sourcev1.Bucket{ObjectMeta: b.meta("osps"), Spec: sourcev1.BucketSpec{BucketName: "osps", Endpoint: "minio.example.com", Interval: metav1.Duration{Duration: time.Minute}}}
		b.do(b.client.Create(t.Context(), bucket))
		b.fluxStatus(bucket, b.archive("sha256:"+strings.Repeat("7", 64), map[string]string{"profiles/k.yaml": artifactProfile("osp-k", "v1.0.0", "k")}))
		b.source("bucket", ref(sourcev1.BucketKind, "osps"))
		e := b.until("bucket", meta.SucceededReason, "1 profile").Status.Profiles[0]
		b.do(b.client.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: e.Object}, &osp))
		if osp.Annotations[api.AnnotationRepository] != "minio.example.com/osps" || e.Commit != "sha256:"+strings.Repeat("7", 64) {
			t.Errorf("the entry is %+v, annotations %v", e, osp.Annotations)
		}
	})
	t.Run("an ExternalArtifact", func(t *testing.T) {
		external := &sourcev1.ExternalArtifact{ObjectMeta: b.meta("osps")}
		b.do(b.client.Create(t.Context(), external))
		b.fluxStatus(external, b.archive("v1@sha256:"+strings.Repeat("8", 64), map[string]string{"profiles/x.yaml": artifactProfile("osp-x", "v1.0.0", "x")}))
		ps := b.source("external", ref(sourcev1.ExternalArtifactKind, "osps"))
		b.until("external", api.ReasonAccessDenied, "--allow-external-artifacts")
		allowed := &Reconciler{Client: b.client, Live: b.client, Recorder: events.NewFakeRecorder(100), Fetcher: &fetcher.Fetcher{
			Client: b.client, Live: b.client, Flux: &fetcher.Flux{Artifacts: b.artifacts(), AllowExternal: true},
		}}
		if _, err := allowed.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ps)}); err != nil {
			t.Fatal(err)
		}
		b.until("external", meta.SucceededReason, "1 profile")
	})
	t.Run("Flux goes and comes back", func(t *testing.T) {
		definitions := "testdata/flux/source.toolkit.fluxcd.io_gitrepositories.yaml"
		if b.lists.Load() == 0 {
			t.Fatal("GitRepositories were never watched")
		}
		b.uninstall()
		if ps := b.until("git", "DependencyNotReady", "does not have the kind GitRepository"); len(ps.Status.Profiles) != 3 {
			t.Errorf("the inventory is %+v", ps.Status.Profiles)
		}
		b.until("elsewhere", "DependencyNotReady", "does not have the kind GitRepository")
		asked := b.lists.Load()
		time.Sleep(6 * time.Second) // a reflector lists again after 0.8 s, and then after at most twice the last delay
		if now := b.lists.Load(); now != asked {
			t.Errorf("it was asked for %d times while it is not there", now-asked)
		}
		b.do(b.cluster.Apply(t.Context(), definitions))
		b.until("git", "DependencyNotReady", "GitRepository "+b.namespace+"/osps does not exist")
		// Both sources read this repository, and a profile that neither offers would be that of the faster one.
		offered := map[string]string{"profiles/a.yaml": files["profiles/a.yaml"]}
		again := &sourcev1.GitRepository{ObjectMeta: b.meta("osps"), Spec: repository.Spec}
		b.do(b.client.Create(t.Context(), again))
		b.fluxStatus(again, b.archive(revision("8"), offered))
		b.until("git", meta.SucceededReason, "applied "+revision("8"))
		b.fluxStatus(again, b.archive(revision("9"), offered)) // the interval is 700 hours
		b.until("git", meta.SucceededReason, "applied "+revision("9"))
	})
	t.Run("Flux goes while nobody names its kind", func(t *testing.T) {
		b.change("elsewhere", func(ps *api.ProfileSource) { ps.Spec.SourceRef.Kind = sourcev1.BucketKind })
		b.do(b.client.Delete(t.Context(), b.get("git")))
		testenv.Await(t, 30*time.Second, "the watch of GitRepositories ends", func() error {
			if b.r.Fetcher.Flux.IsWatching(sourcev1.GitRepositoryKind) {
				return errors.New("they are watched")
			}
			return nil
		})
		b.uninstall()
		asked := b.lists.Load()
		time.Sleep(4 * time.Second) // a reflector would have listed again after 0.8 s and after twice that
		if now := b.lists.Load(); now != asked {
			t.Errorf("it was asked for %d times", now-asked)
		}
		b.source("late", ref(sourcev1.GitRepositoryKind, "osps"))
		b.until("late", "DependencyNotReady", "does not have the kind GitRepository")
	})
}
