package conformance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
)

// CompareOSC fails the test where two specs differ. Both hold the case's
// credentials: what is compared is not the OperatingSystemConfig that an API
// server gets, but the one with real values in place of placeholders.
func CompareOSC(t testing.TB, want, got osm.OperatingSystemConfigSpec) {
	t.Helper()
	want, got = *want.DeepCopy(), *got.DeepCopy()
	// Deliberate difference: the provider's spec, which may hold credentials, is
	// left out.
	want.CloudProvider.Spec = nil
	for _, s := range []struct {
		name      string
		want, got *osm.OSCConfig
	}{
		{"bootstrap", &want.BootstrapConfig, &got.BootstrapConfig},
		{"provisioning", &want.ProvisioningConfig, &got.ProvisioningConfig},
	} {
		if len(s.want.Files) != len(s.got.Files) {
			t.Errorf("%s: %d files, want %d", s.name, len(s.got.Files), len(s.want.Files))
			continue
		}
		for i := range s.want.Files {
			w, g := &s.want.Files[i], &s.got.Files[i]
			if want, got, same := equivalence.CompareContents(w.Path, w.Content.Inline.Data, g.Content.Inline.Data); !same {
				t.Errorf("%s file %q differs (-want +got):\n%s", s.name, w.Path, cmp.Diff(want, got))
			}
			w.Content.Inline.Data, g.Content.Inline.Data = "", "" // compared
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("OperatingSystemConfig differs (-want +got):\n%s", diff)
	}
}
