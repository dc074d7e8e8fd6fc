package webhook

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

const ubuntu = `{"cloudProvider":"aws","operatingSystem":"ubuntu","cloudProviderSpec":{"ofTomorrow":[{}]}}`

// TestDefault sets the default profile on a real API server, which calls the webhook in this process.
func TestDefault(t *testing.T) {
	s := newSite(t)
	r := s.start()
	s.configure(r.address)
	s.ready()
	i := 0
	create := func(t *testing.T, providerSpec string, annotations map[string]any) (sent, got *unstructured.Unstructured, err error) {
		t.Helper()
		i++
		sent = s.pool("pool-"+string(rune('a'+i)), providerSpec, annotations)
		got = sent.DeepCopy()
		err = s.client.Create(t.Context(), got)
		return sent, got, err
	}
	eventually(t, "the webhook to be called", func() error {
		probe := s.pool("probe", `{"cloudProvider":"aws","operatingSystem":"plan9"}`, nil)
		if err := s.client.Create(t.Context(), probe, client.DryRunAll); err == nil {
			return errNotOurs
		}
		return nil
	})

	for name, c := range map[string]struct {
		providerSpec string
		annotations  map[string]any
		want         string
	}{
		"no annotations":         {ubuntu, nil, "osp-ubuntu"},
		"other annotations":      {ubuntu, map[string]any{"a/b": "c"}, "osp-ubuntu"},
		"an empty annotation":    {ubuntu, map[string]any{api.AnnotationOSP: "", "a/b": "c"}, "osp-ubuntu"},
		"one that is there":      {ubuntu, map[string]any{api.AnnotationOSP: "osp-mine"}, "osp-mine"},
		"flatcar":                {`{"cloudProvider":"aws","operatingSystem":"flatcar"}`, nil, "osp-flatcar"},
		"rhel":                   {`{"cloudProvider":"aws","operatingSystem":"rhel"}`, nil, "osp-rhel"},
		"amzn2":                  {`{"cloudProvider":"aws","operatingSystem":"amzn2"}`, nil, "osp-amzn2"},
		"rockylinux":             {`{"cloudProvider":"aws","operatingSystem":"rockylinux"}`, nil, "osp-rockylinux"},
		"flatcar on anexia":      {`{"cloudProvider":"anexia","operatingSystem":"flatcar","operatingSystemSpec":{"provisioningUtility":"cloud-init"}}`, nil, "osp-flatcar-cloud-init"},
		"ignition on anexia":     {`{"cloudProvider":"anexia","operatingSystem":"flatcar"}`, nil, "osp-flatcar"},
		"unknown, but it is set": {`{"operatingSystem":"plan9"}`, map[string]any{api.AnnotationOSP: "osp-mine"}, "osp-mine"},
	} {
		t.Run(name, func(t *testing.T) {
			sent, got, err := create(t, c.providerSpec, c.annotations)
			do(t, err)
			if osp := got.GetAnnotations()[api.AnnotationOSP]; osp != c.want {
				t.Errorf("the profile is %q, want %q", osp, c.want)
			}
			// Nothing else differs, including fields that our types do not know.
			want := map[string]string{}
			for k, v := range c.annotations {
				want[k] = v.(string)
			}
			want[api.AnnotationOSP] = c.want
			if diff := cmp.Diff(want, got.GetAnnotations()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			delete(sent.Object, "metadata")
			delete(got.Object, "metadata")
			if diff := cmp.Diff(sent.Object, got.Object); diff != "" {
				t.Errorf("a field was lost (-sent +got):\n%s", diff)
			}
		})
	}

	for name, c := range map[string]struct{ providerSpec, want string }{
		"a system that there is not": {`{"cloudProvider":"aws","operatingSystem":"plan9"}`, `"plan9" is not supported: name one of amzn2, flatcar, rhel, rockylinux, ubuntu`},
		"an unknown field":           {`{"operatingSystem":"ubuntu","sshKeys":[]}`, "sshKeys: is not a field of the provider spec"},
		"no provider spec":           {`null`, "providerSpec.value: is missing"},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			if _, _, err := create(t, c.providerSpec, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}

	t.Run("an update that removes it", func(t *testing.T) {
		_, got, err := create(t, ubuntu, map[string]any{api.AnnotationOSP: "osp-mine"})
		do(t, err)
		do(t, s.client.Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`))))
		if osp := got.GetAnnotations()[api.AnnotationOSP]; osp != "osp-ubuntu" {
			t.Errorf("the profile is %q", osp)
		}
	})

	t.Run("a new one has the finalizer, which nobody owns", func(t *testing.T) {
		apply := func(name string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
			t.Helper()
			md := s.pool(name, ubuntu, map[string]any{api.AnnotationOSP: "osp-mine"})
			change(md)
			do(t, s.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(md), client.FieldOwner("kustomize-controller"), client.ForceOwnership))
			s.get(md)
			return md
		}
		unchanged := func(*unstructured.Unstructured) {}
		wantFinalizers := func(md *unstructured.Unstructured, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, md.GetFinalizers()); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
		}
		md := apply("applied", unchanged)
		wantFinalizers(md, api.FinalizerPool)
		for _, m := range md.GetManagedFields() {
			if strings.Contains(m.FieldsV1.GetRawString(), api.FinalizerPool) {
				t.Errorf("%s owns the finalizer", m.Manager)
			}
		}
		if again := apply("applied", unchanged); again.GetResourceVersion() != md.GetResourceVersion() {
			t.Error("the same object, applied again, is a change")
		}
		wantFinalizers(apply("applied", func(md *unstructured.Unstructured) { md.SetLabels(map[string]string{"a": "b"}) }), api.FinalizerPool)
		wantFinalizers(apply("held", func(md *unstructured.Unstructured) { md.SetFinalizers([]string{"example.com/hold"}) }), "example.com/hold", api.FinalizerPool)
		// A user can remove it.
		do(t, s.client.Patch(t.Context(), md, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
		wantFinalizers(md)
	})

	t.Run("nothing keeps one from being deleted, or released", func(t *testing.T) {
		_, got, err := create(t, ubuntu, map[string]any{api.AnnotationOSP: "osp-mine"})
		do(t, err)
		// Without a provider spec, then deleted while it has a finalizer.
		do(t, s.client.Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]},"spec":{"template":null}}`))))
		do(t, s.client.Delete(t.Context(), got))
		do(t, s.client.Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":null,"finalizers":null}}`))))
	})

	t.Run("everything is let through while nobody answers", func(t *testing.T) {
		r.stop()
		_, got, err := create(t, ubuntu, nil)
		do(t, err)
		if len(got.GetAnnotations()) != 0 {
			t.Errorf("somebody wrote %v", got.GetAnnotations())
		}
	})
}
