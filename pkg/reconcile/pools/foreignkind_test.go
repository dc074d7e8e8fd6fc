package pools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// foreignKinds are definitions of OperatingSystemConfig that others install in place of
// ours.
var foreignKinds = map[string]func(v *apiextensionsv1.CustomResourceDefinitionVersion){
	"without status": func(v *apiextensionsv1.CustomResourceDefinitionVersion) {
		v.AdditionalPrinterColumns, v.Subresources = nil, nil
		spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
		spec.XValidations = nil
		v.Schema.OpenAPIV3Schema.Properties["spec"] = spec
	},
	"with a status that is no subresource": func(v *apiextensionsv1.CustomResourceDefinitionVersion) {
		v.Subresources = nil
		v.Schema.OpenAPIV3Schema.Properties["status"] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	},
	"with the status of an earlier release": func(v *apiextensionsv1.CustomResourceDefinitionVersion) {
		v.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
		v.Schema.OpenAPIV3Schema.Properties["status"] = apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	},
}

// definitions changes the definition of OperatingSystemConfig as another client; ours is restored
// at the end.
func definitions(t *testing.T) (change func(context.Context, func(v *apiextensionsv1.CustomResourceDefinitionVersion)) error) {
	t.Helper()
	cl := cluster.Shared(t).Client(t, apiextensionsv1.AddToScheme)
	ours := &apiextensionsv1.CustomResourceDefinition{}
	must(nil, cl.Get(t.Context(), client.ObjectKey{Name: "operatingsystemconfigs." + osm.GroupVersion.Group}, ours))
	change = func(ctx context.Context, to func(v *apiextensionsv1.CustomResourceDefinitionVersion)) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := cl.Get(ctx, client.ObjectKeyFromObject(ours), crd); err != nil {
				return err
			}
			crd.Spec = *ours.Spec.DeepCopy()
			to(&crd.Spec.Versions[0])
			return cl.Update(ctx, crd)
		})
	}
	t.Cleanup(func() {
		must(nil, change(context.WithoutCancel(t.Context()), func(*apiextensionsv1.CustomResourceDefinitionVersion) {}))
	})
	return change
}

// ready says what a pool lacks of a kubelet's version, as a waiting user sees it.
func (f *fixture) ready(md *machines.MachineDeployment, kubelet string) error {
	var osc osm.OperatingSystemConfig
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(md).Config}, &osc); err != nil {
		return err
	}
	var secret corev1.Secret
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: namesOf(md).Bootstrap}, &secret); err != nil {
		return err
	}
	a, has := osc.Annotations, recordOf(&osc).Pool.KubeletVersion
	switch {
	case a[api.AnnotationRefused] != "":
		return fmt.Errorf("%s is refused: %s", md.Name, a[api.AnnotationRefused])
	case a[api.AnnotationInputDigest] != secret.Annotations[api.AnnotationInputDigest]:
		return fmt.Errorf("the documents of %s are not of its configuration", md.Name)
	case has != kubelet:
		return fmt.Errorf("%s has kubelet %s, want %s", md.Name, has, kubelet)
	}
	return nil
}

// A pool is served with any existing definition of its configuration: a new one, a rotation, a
// rejection, and the generations after that. A status that an earlier release wrote has no effect.
func TestForeignKinds(t *testing.T) {
	change := definitions(t)
	for name, to := range foreignKinds {
		t.Run(name, func(t *testing.T) {
			must(nil, change(t.Context(), to))
			f := newFixture(t)
			told := f.told()
			f.reconcile()
			must(nil, f.ready(f.pool, "1.35.0"))
			status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"NewerRefused"}],"digests":{"input":"old"}}}`))
			if strings.Contains(name, "earlier") {
				must(nil, f.client.Status().Patch(t.Context(), f.config(), status))
			}
			f.kubelet("1.35.1", "1")
			must(nil, f.ready(f.pool, "1.35.1"))
			f.ask(map[string]string{api.AnnotationOSP: "none"})
			if err := f.ready(f.pool, "1.35.1"); err == nil || !strings.Contains(err.Error(), "is refused: ") {
				t.Errorf("it is not refused: %v", err)
			}
			if strings.Contains(name, "earlier") {
				must(nil, f.client.Status().Patch(t.Context(), f.config(), status))
				must(nil, change(t.Context(), func(*apiextensionsv1.CustomResourceDefinitionVersion) {}))
			}
			f.ask(map[string]string{api.AnnotationOSP: "osp-hand"})
			must(nil, f.ready(f.pool, "1.35.1"))
			f.kubelet("1.35.2", "2")
			must(nil, f.ready(f.pool, "1.35.2"))
			if all := strings.Join(told.told, "\n"); strings.Contains(all, api.EventWriteRefused) || strings.Count(all, api.EventProfileError) != 1 {
				t.Errorf("told was:\n%s", all)
			}
		})
	}
}

// If the definitions change all the time, for example because another controller applies its own
// again and again, pools still get what they request, and no rejection is reported. None of the
// definitions has the subresource status: if a status could be written now and then, a controller
// that has to write one would succeed after some retries.
func TestKindsThatChange(t *testing.T) {
	change := definitions(t)
	f := newFixture(t)
	f.start(t.TempDir())
	changing, stop := context.WithCancel(t.Context())
	defer stop()
	changes, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		for changing.Err() == nil {
			for _, kind := range []string{"without status", "with a status that is no subresource"} {
				to := foreignKinds[kind]
				if err := change(changing, to); err != nil && changing.Err() == nil {
					t.Errorf("changing the definition: %v", err)
				}
				changes++
				select {
				case <-time.After(200 * time.Millisecond):
				case <-changing.Done():
				}
			}
		}
	}()
	const pools, rotations = 6, 4
	var mds []*machines.MachineDeployment
	for i := range pools {
		md := &machines.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: fmt.Sprintf("pool-%d", i), Annotations: f.pool.Annotations},
			Spec:       *f.pool.Spec.DeepCopy(),
		}
		f.ensure(md)
		mds = append(mds, md)
	}
	for rotation := range rotations {
		kubelet := fmt.Sprintf("1.35.%d", rotation)
		for _, md := range mds {
			must(nil, f.client.Patch(t.Context(), md, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"spec":{"versions":{"kubelet":"`+kubelet+`"}}}}}`))))
		}
		testenv.Await(t, 2*time.Minute, fmt.Sprintf("rotation %d ends", rotation), func() (lacks error) {
			for _, md := range mds {
				lacks = errors.Join(lacks, f.ready(md, kubelet))
			}
			return lacks
		})
	}
	stop()
	<-done
	if changes < rotations {
		t.Errorf("the definition changed %d times", changes)
	}
	told := f.r.Recorder.(*events.FakeRecorder).Events
	for len(told) > 0 {
		if note := <-told; strings.Contains(note, "Warning") {
			t.Errorf("told was %q", note)
		}
	}
}
