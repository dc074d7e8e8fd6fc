package webhook

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// TestValidatePool warns about profiles that do not exist or do not suit a pool, or
// rejects them if enabled, and never about anything that a change did not change.
func TestValidatePool(t *testing.T) {
	s := newSite(t)
	osp := profileObject(system, "osp-here")
	do(t, s.client.Create(t.Context(), osp))
	t.Cleanup(func() { remove(t, s.client, osp) })

	for _, deny := range []bool{false, true} {
		name := map[bool]string{false: "warned of", true: "refused"}[deny]
		t.Run(name, func(t *testing.T) {
			r := s.start(func(_ *Options, h *Handlers) { h.DenyUnknownProfiles = deny })
			defer r.stop()
			s.configure(r.address)
			s.ready()
			pool := func(name, osp, providerSpec string) *unstructured.Unstructured {
				return s.pool(name, providerSpec, map[string]any{api.AnnotationOSP: osp})
			}
			said := func(err error) string {
				if err != nil && !deny {
					t.Errorf("refused: %v", err)
				}
				if warned := s.warned(); err == nil {
					return warned
				}
				if !apierrors.IsForbidden(err) {
					t.Errorf("refused as %q: %v", apierrors.ReasonForError(err), err)
				}
				return err.Error()
			}
			eventually(t, "the webhook to be called", func() error {
				if said(s.client.Create(t.Context(), pool("probe", "osp-nowhere", ubuntu), client.DryRunAll)) == "" {
					return errors.New("nothing was said")
				}
				return nil
			})
			for what, c := range map[string]struct{ osp, providerSpec, want string }{
				"a profile that suits": {"osp-here", ubuntu, ""},
				"no such profile":      {"osp-nowhere", ubuntu, `offers a profile "osp-nowhere"`},
				"another provider":     {"osp-here", `{"cloudProvider":"gce","operatingSystem":"ubuntu"}`, `cloudProvider: is "gce", which the profile does not list`},
				"another system":       {"osp-here", `{"cloudProvider":"aws","operatingSystem":"rhel"}`, `operatingSystem: is "rhel", but the profile is for "ubuntu"`},
				"a misspelt field":     {"osp-here", `{"cloudProvider":"aws","operatingSytem":"ubuntu"}`, `did you mean "operatingSystem"?`},
				"control characters":   {"osp-\x1b[31m", ubuntu, `offers a profile "osp-`},
			} {
				got := said(s.client.Create(t.Context(), pool("case", c.osp, c.providerSpec), client.DryRunAll))
				if !strings.Contains(got, c.want) || (c.want == "") != (got == "") || strings.Contains(got, "\x1b") {
					t.Errorf("%s: %q was said, want %q", what, got, c.want)
				}
			}

			// A pool that existed before its profile was deleted.
			md := pool("standing-"+strings.ReplaceAll(name, " ", "-"), "osp-going", ubuntu)
			going := profileObject(system, "osp-going")
			do(t, s.client.Create(t.Context(), going))
			do(t, s.client.Create(t.Context(), md))
			do(t, s.client.Delete(t.Context(), going))
			s.warned()
			patch := func(text string) error {
				return s.client.Patch(t.Context(), md, client.RawPatch(types.MergePatchType, []byte(text)))
			}
			for _, text := range []string{
				`{"metadata":{"annotations":{"machinedeployment.clusters.k8s.io/revision":"2"},"finalizers":["example.com/hold"]}}`,
				`{"spec":{"replicas":7,"template":{"spec":{"versions":{"kubelet":"1.36.3"}}}}}`,
			} {
				if got := said(patch(text)); got != "" {
					t.Errorf("of %s it was said: %s", text, got)
				}
			}
			for _, text := range []string{
				`{"spec":{"template":{"spec":{"providerSpec":{"value":{"sshPublicKeys":["ssh-ed25519 AAAA"]}}}}}}`,
				`{"metadata":{"annotations":{"gitops.k8c.io/ignition-version":"3.4.0"}}}`,
			} {
				if got := said(patch(text)); !strings.Contains(got, `"osp-going"`) {
					t.Errorf("of %s it was said: %q", text, got)
				}
			}
			do(t, s.client.Delete(t.Context(), md))
			// A warning is possible: the API server can ask about a state from before the
			// deletion, from its cache, and then asks again.
			if err := patch(`{"metadata":{"annotations":{"k8c.io/operating-system-profile":"osp-nowhere"},"finalizers":null}}`); err != nil {
				t.Errorf("a pool that is being deleted: %v", err)
			}
		})
	}
}

// TestValidateProfile warns of templates that no pool could use.
func TestValidateProfile(t *testing.T) {
	s := newSite(t)
	r := s.start()
	s.configure(r.address)
	s.ready()
	broken := func(o *osm.OperatingSystemProfile) {
		for _, path := range []string{"/a", "/b"} {
			o.Spec.BootstrapConfig.Files = append(o.Spec.BootstrapConfig.Files, osm.File{Path: path, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "{{ .KubeVersio }}"}}})
		}
	}
	create := func(edits ...func(*osm.OperatingSystemProfile)) string {
		osp := profileObject(system, "osp-checked")
		for _, edit := range edits {
			edit(osp)
		}
		s.warned()
		do(t, s.client.Create(t.Context(), osp, client.DryRunAll))
		return s.warned()
	}
	eventually(t, "the webhook to be called", func() error {
		if create(broken) == "" {
			return errors.New("nothing was said")
		}
		return nil
	})
	if got := create(broken); strings.Count(got, "\n") != 1 || !strings.Contains(got, `files[1] "/b"`) || !strings.Contains(got, `did you mean "KubeVersion"?`) {
		t.Errorf("it was said: %s", got)
	}
	if got := create(func(o *osm.OperatingSystemProfile) { o.Spec.BootstrapConfig.Units = []osm.Unit{{Name: "a.service"}} }); got != "" {
		t.Errorf("of units on Ubuntu: %s", got)
	}
	if got := create(broken, func(o *osm.OperatingSystemProfile) { o.Labels = map[string]string{api.LabelSource: "osps"} }); got != "" {
		t.Errorf("of a profile from Git, which was checked there: %s", got)
	}
}
