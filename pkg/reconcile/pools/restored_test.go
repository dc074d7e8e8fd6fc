package pools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// manyRotate offers another profile, at a time when rotations are not reported.
func (f *fixture) manyRotate() {
	f.t.Helper()
	next := f.handProfile()
	next.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-next"}
	next.Spec.ProvisioningConfig.Files[0].Content.Inline.Data = "next"
	f.ensure(next)
	for f.r.Routine.AllowN(f.clock.Now(), 1) {
	}
}

// While many pools rotate, a configuration is not read before it is deleted. If the API server
// rejects the next one, it is rendered again from its record.
func TestRejectedRotationRestoresFromTheRecord(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	was := f.config()
	f.manyRotate()
	f.r.Management.Live = awayFor[*osm.OperatingSystemConfig]{f.client}
	f.r.Management.Client = refusing{digesting{f.client}, func(obj client.Object) bool {
		osc, ok := obj.(*osm.OperatingSystemConfig)
		return ok && strings.Contains(osc.Annotations[api.AnnotationRecord], "osp-next")
	}}
	f.ask(map[string]string{api.AnnotationOSP: "osp-next"})
	now := f.config()
	if now.UID == was.UID {
		t.Fatal("the configuration was not replaced")
	}
	if diff := cmp.Diff(was.Spec, now.Spec); diff != "" || recordOf(now).Object != recordOf(was).Object {
		t.Errorf("the configuration is of %s (-was +now):\n%s", recordOf(now).Object, diff)
	}
}

// A configuration that a user edits at the moment of its replacement is not deleted.
func TestEditBeforeReplacementIsSeen(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	f.manyRotate()
	stale := f.config()
	f.patch(f.config(), `{"metadata":{"annotations":{"example.com/by":"a user"}}}`)
	f.patch(f.pool.DeepCopy(), `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":"osp-next"}}}`)
	f.r.Management.Client = staleConfig{digesting{f.client}, stale}
	if res := f.reconcile(); res.RequeueAfter != racedRetry {
		t.Errorf("the next run is in %s", res.RequeueAfter)
	}
	if now := f.config(); now.UID != stale.UID {
		t.Error("the configuration was replaced")
	}
}

// staleConfig is a cache that does not have the last change of a configuration.
type staleConfig struct {
	digesting
	stale *osm.OperatingSystemConfig
}

func (s staleConfig) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if osc, ok := obj.(*metav1.PartialObjectMetadata); ok {
		s.stale.ObjectMeta.DeepCopyInto(&osc.ObjectMeta)
		return nil
	}
	return s.digesting.Get(ctx, key, obj, opts...)
}

// What cannot be rendered again from its record with certainty is read before it is deleted.
func TestWhatDiffersIsReadBeforeItIsDeleted(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"made with other settings": func(f *fixture) { f.r.Settings.ClusterDNS = []string{"10.96.0.11"} },
		"made by another engine": func(f *fixture) {
			record := strings.Replace(f.config().Annotations[api.AnnotationRecord], `"engine":"`+render.EngineVersion, `"engine":"other`, 1)
			f.patch(f.config(), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationRecord, record))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.reconcile()
			f.manyRotate()
			change(f)
			was := f.config()
			f.patch(f.pool.DeepCopy(), `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":"osp-next"}}}`)
			f.r.Management.Live = awayFor[*osm.OperatingSystemConfig]{f.client}
			if _, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)}); err == nil || !strings.Contains(err.Error(), "does not answer") {
				t.Errorf("it was not read: %v", err)
			}
			if now := f.config(); now.UID != was.UID {
				t.Error("it was deleted")
			}
		})
	}
}

// panicking is an engine with a defect.
type panicking struct{ Renderer }

func (panicking) Render(render.Input) (*render.Output, error) { panic("a defect of a library") }

// A panic of a library while a pool is planned stays in the goroutine of its reconciliation, where
// controller-runtime makes it an error.
func TestPanicStaysInItsRun(t *testing.T) {
	f := newFixture(t)
	f.r.Engine = panicking{f.r.Engine}
	defer func() {
		if recover() == nil {
			t.Error("nothing was rendered")
		}
	}()
	_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
	t.Errorf("got %v", err)
}

// If the next configuration cannot be created and the one before cannot be restored, its record
// is retained, and the first error decides what follows.
func TestRecordOfWhatCannotBeRestored(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	was := f.config()
	f.manyRotate()
	f.patch(f.pool.DeepCopy(), `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":"osp-next"}}}`)
	f.r.Management.Client = unanswered{digesting{f.client}}
	f.r.Engine = rejecting{f.r.Engine, "osp-hand"}
	_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
	if err == nil || !strings.Contains(err.Error(), errCutOff.Error()) || !strings.Contains(err.Error(), "putting the one before back") {
		t.Errorf("it is not tried again: %v", err)
	}
	if f.configOrNil() != nil {
		t.Fatal("there is a configuration")
	}
	if got := f.r.cache.get(f.pool).deleted; got.uid != was.UID || got.record != was.Annotations[api.AnnotationRecord] {
		t.Errorf("the record of %q is retained: %s", got.uid, got.record)
	}
}

// unanswered is an API server that does not answer to the creation of configurations.
type unanswered struct{ digesting }

func (u unanswered) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	if _, ok := obj.(*osm.OperatingSystemConfig); ok {
		return errCutOff
	}
	return u.digesting.Create(ctx, obj, opts...)
}

// rejecting is an engine that finds a profile invalid.
type rejecting struct {
	Renderer
	profile string
}

func (r rejecting) Render(in render.Input) (*render.Output, error) {
	if in.Profile.Object == r.profile {
		return nil, &render.InvalidError{Err: errors.New("it is invalid")}
	}
	return r.Renderer.Render(in)
}
