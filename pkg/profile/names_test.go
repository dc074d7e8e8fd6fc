package profile

import "testing"

func TestObjectName(t *testing.T) {
	digest := digestRecipe + "abcdef0123"
	for version, want := range map[string]string{
		"v1.9.0":        "osp-ubuntu-v1.9.0",
		"v1.9.0-rc.1":   "osp-ubuntu-v1.9.0-rc.1",
		"v1.9.0-RC.1":   "osp-ubuntu-abcdef-v1.9.0-rc.1",
		"v1.9.0+build1": "osp-ubuntu-abcdef-v1.9.0-build1",
	} {
		if got := ObjectName("osp-ubuntu", version, digest); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
	if got, want := BuiltinObjectName("osp-ubuntu", "v1.9.0", digest), "osp-ubuntu-abcdef-v1.9.0"; got != want {
		t.Errorf("built-in: got %s, want %s", got, want)
	}
	if got := LabelVersion("v1.9.0+build.1"); got != "v1.9.0_build.1" {
		t.Errorf("label %q", got)
	}
}
