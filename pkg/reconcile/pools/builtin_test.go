package pools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/builtin"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// TestWhichProfileAPoolGets tests the precedence of origins, each of which takes over and
// yields as soon as it is created and deleted: a ProfileSource, an object of that name, a
// built-in profile.
func TestWhichProfileAPoolGets(t *testing.T) {
	f := newFixture(t)
	root := t.TempDir()
	f.start(root)
	f.pool = &machines.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "builtin", Annotations: map[string]string{api.AnnotationOSP: "osp-a"}},
		Spec:       *f.pool.Spec.DeepCopy(),
	}
	f.ensure(f.pool)

	// serves waits until the pool has an object, and returns its record.
	serves := func(what string, is func(object string) bool) {
		t.Helper()
		var osc osm.OperatingSystemConfig
		testenv.Await(t, 30*time.Second, "the pool has "+what, func() error {
			if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}, &osc); err != nil {
				return err
			}
			if object := recordOf(&osc).Object; !is(object) {
				return fmt.Errorf("it has %q", object)
			}
			return nil
		})
		if rec := recordOf(&osc); rec.Profile != "osp-a" || rec.Commit != "" {
			t.Errorf("%s: the record says profile %q, commit %q", what, rec.Profile, rec.Commit)
		}
		if _, ok := osc.Annotations[api.AnnotationCommit]; ok {
			t.Errorf("%s: the configuration names a commit: %v", what, osc.Annotations)
		}
	}
	builtin := func(object string) bool {
		return strings.HasPrefix(object, "osp-a-") && strings.HasSuffix(object, "-v1.0.0") && object != "osp-a-v1.0.0"
	}
	serves("a built-in profile", builtin)

	byHand := &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-a"}}
	var hand osm.OperatingSystemProfile
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: "osp-hand"}, &hand); err != nil {
		t.Fatal(err)
	}
	byHand.Spec = hand.Spec
	f.ensure(byHand)
	serves("an object of that name", func(object string) bool { return object == "osp-a" })

	if err := os.WriteFile(filepath.Join(root, "a.yaml"), []byte(profileFile("v0.1.0")), 0o600); err != nil {
		t.Fatal(err)
	}
	team := &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "team"},
		Spec: api.ProfileSourceSpec{
			Directory: &api.DirectorySource{Path: root},
			Interval:  metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
		},
	}
	f.ensure(team)
	serves("a ProfileSource", func(object string) bool { return strings.HasPrefix(object, "osp-a-v0.1.0-dirty.") })

	f.delete(team)
	serves("the object again", func(object string) bool { return object == "osp-a" })
	f.delete(byHand)
	serves("the built-in profile again", builtin)
}

func profileFile(version string) string {
	return fmt.Sprintf(`apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata: {name: osp-a}
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: %s
  supportedCloudProviders: [{name: aws}]
  bootstrapConfig: {}
  provisioningConfig: {}
`, version)
}

// start runs the fixture's reconciler in a manager, together with that of ProfileSources
// with a built-in profile osp-a, as the controller does.
func (f *fixture) start(directoryRoot string) {
	f.t.Helper()
	c := cluster.Shared(f.t)
	scheme, err := cluster.Scheme()
	if err != nil {
		f.t.Fatal(err)
	}
	objects := AccessCacheOptions()
	objects[&corev1.Secret{}] = cache.ByObject{Namespaces: map[string]cache.Config{
		api.NamespaceCloudInitSettings: {Transform: DigestSecretsAndTrim}, metav1.NamespaceSystem: {},
	}}
	mgr, err := ctrl.NewManager(c.Config, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache: cache.Options{
			// The second namespace is that of a pool with the same object names.
			DefaultNamespaces: map[string]cache.Config{f.r.Namespace: {}, strings.TrimPrefix(f.r.Namespace, "test-"): {}},
			ByObject:          objects,
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	info, err := cache.New(c.Config, cache.Options{Scheme: scheme, HTTPClient: mgr.GetHTTPClient(), Mapper: mgr.GetRESTMapper(), DefaultNamespaces: map[string]cache.Config{metav1.NamespacePublic: {}}})
	if err == nil {
		err = mgr.Add(info)
	}
	recorder := events.NewFakeRecorder(10_000)
	here := kubeclient.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	f.r.Management, f.r.Worker, f.r.Recorder = here, here, recorder
	sources := &profilesource.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: recorder,
		Fetcher: &fetcher.Fetcher{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), DirectoryRoot: directoryRoot,
			Builtin: &source.Embedded{FS: fstest.MapFS{"osp-a.yaml": {Data: []byte(profileFile("v1.0.0"))}}, Path: "profiles"},
		},
	}
	keeper := &builtin.Reconciler{Client: mgr.GetClient(), Recorder: recorder, Namespace: f.r.Namespace}
	for _, setUp := range []func() error{
		func() error { return err },
		func() error { return sources.Setup(mgr, 1) },
		func() error { return keeper.Setup(mgr) },
		func() error {
			return f.r.Setup(f.t.Context(), mgr, Watches{Management: mgr.GetCache(), ClusterInfo: info, Concurrency: 1})
		},
	} {
		if err := setUp(); err != nil {
			f.t.Fatal(err)
		}
	}
	ended := make(chan struct{})
	f.t.Cleanup(func() { <-ended })
	go func() {
		defer close(ended)
		if err := mgr.Start(f.t.Context()); err != nil {
			f.t.Errorf("the manager: %v", err)
		}
	}()
}
