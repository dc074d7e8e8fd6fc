package pools

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// manyRotate offers another profile, at a time when rotations are not reported.
func (f *fixture) manyRotate() {
	f.t.Helper()
	next := f.handProfile()
	next.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-next"}
	next.Spec.ProvisioningConfig.Files[0].Content.Inline.Data = "next"
	f.ensure(next)
	for f.r.routine.allow(f.clock.Now()) {
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
