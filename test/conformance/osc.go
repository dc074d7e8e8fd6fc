package conformance

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
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
			if diff := contentDiff(w.Path, w.Content.Inline.Data, g.Content.Inline.Data); diff != "" {
				t.Errorf("%s file %q differs (-want +got):\n%s", s.name, w.Path, diff)
			}
			w.Content.Inline.Data, g.Content.Inline.Data = "", "" // compared
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("OperatingSystemConfig differs (-want +got):\n%s", diff)
	}
}

func compareFiles(t testing.TB, want, got map[string]file) {
	t.Helper()
	for path, w := range want {
		g, ok := got[path]
		if !ok {
			t.Errorf("file %q is missing", path)
			continue
		}
		if w.mode != g.mode {
			t.Errorf("file %q has mode %o, want %o", path, g.mode, w.mode)
		}
		if diff := contentDiff(path, w.content, g.content); diff != "" {
			t.Errorf("file %q differs (-want +got):\n%s", path, diff)
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("file %q is too much", path)
		}
	}
}

// goDuration is how the reference prints the image GC ages, which the kubelet
// cannot read. Deliberate difference: ours print as durations.
var goDuration = regexp.MustCompile(`&Duration\{Duration:([^,}]*),\}`)

// contentDiff compares two files' contents, parsed where their form is known. A
// trailing line break is no difference.
func contentDiff(path, want, got string) string {
	want = strings.TrimRight(goDuration.ReplaceAllString(want, "$1"), "\n")
	got = strings.TrimRight(got, "\n")
	if want == got {
		return ""
	}
	if w, g, ok := parsed(path, want, got); ok {
		return cmp.Diff(w, g)
	}
	return cmp.Diff(want, got)
}

// parsed decodes both contents of a file in TOML, and of a kubeconfig.
func parsed(path, want, got string) (w, g map[string]any, ok bool) {
	decode := func(text string) (map[string]any, error) {
		m := map[string]any{}
		if strings.HasSuffix(path, ".toml") {
			return m, toml.Unmarshal([]byte(text), &m)
		}
		if err := yaml.Unmarshal([]byte(text), &m); err != nil {
			return nil, err
		}
		if !reflect.DeepEqual(m["kind"], "Config") {
			return nil, fmt.Errorf("%s has no form we know", path)
		}
		return m, nil
	}
	w, err := decode(want)
	if err != nil {
		return nil, nil, false
	}
	g, err = decode(got)
	return w, g, err == nil
}
