package profile

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

// Problems of the overlay itself are reported without its base.
func TestDecodeOverlay(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a misspelt field":            {profiletest.Overlay + "  bootstrapConfig: {file: {}}\n", `over.yaml:8: spec.bootstrapConfig.file: is not a field of spec.bootstrapConfig: did you mean "files"?`},
		"no base":                     {strings.Replace(profiletest.Overlay, "  from: {profile: osp-base, version: v1.0.0}\n", "", 1), "spec.from: is required"},
		"a range for a base":          {strings.Replace(profiletest.Overlay, "version: v1.0.0}", `version: "~1.0"}`, 1), `over.yaml:7: spec.from.version: invalid version "~1.0"`},
		"itself":                      {strings.Replace(profiletest.Overlay, "{profile: osp-base, version: v1.0.0}", "{profile: osp-over, version: v2.0.0}", 1), "spec.from: is the overlay itself"},
		"another API":                 {strings.Replace(profiletest.Overlay, "gitops.k8c.io/v1alpha1", "gitops.k8c.io/v1", 1), `is not a ProfileOverlay: expected apiVersion "gitops.k8c.io/v1alpha1", found "gitops.k8c.io/v1"`},
		"no version":                  {strings.Replace(profiletest.Overlay, "v2.0.0", "2", 1), "spec.version: invalid version 2, which YAML reads as a number: write v2.0.0"},
		"a file without content":      {profiletest.Overlay + "  bootstrapConfig: {files: {add: [{path: /x, content: {}}]}}\n", "has no inline"},
		"nothing to replace":          {profiletest.Overlay + "  bootstrapConfig: {files: {replace: [{path: /x}]}}\n", "replaces nothing: set content, permissions, or both"},
		"a unit with nothing":         {profiletest.Overlay + "  bootstrapConfig: {units: {replace: [{name: x.service}]}}\n", "replaces nothing"},
		"one file twice":              {profiletest.Overlay + "  bootstrapConfig: {files: {remove: [/x, /x]}}\n", `files.remove[1]: "/x" is named twice, first in spec.bootstrapConfig.files.remove[0]`},
		"removed and replaced":        {profiletest.Overlay + "  bootstrapConfig: {templates: {replace: {a: b}, remove: [a]}}\n", `"a" is named twice`},
		"appended and replaced":       {profiletest.Overlay + "  bootstrapConfig: {modules: {replace: {runcmd: [a]}, append: {runcmd: [a]}}}\n", `"runcmd" is named twice`},
		"an unknown module":           {profiletest.Overlay + "  bootstrapConfig: {modules: {remove: [runcmds]}}\n", `is "runcmds", but must be one of bootcmd, rh_subscription, runcmd`},
		"a mode that is none":         {profiletest.Overlay + "  bootstrapConfig: {files: {replace: [{path: /x, permissions: 999}]}}\n", "invalid file mode 999"},
		"twice in one file":           {profiletest.Overlay + "---\n" + profiletest.Overlay, `profile "osp-over" v2.0.0 is in this file twice, first on line 4`},
		"beside a profile of its key": {profiletest.Overlay + "---\n" + strings.NewReplacer("osp-test", "osp-over", "v1.0.0", "v2.0.0").Replace(profiletest.Small), `profile "osp-over" v2.0.0 is in this file twice`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodeFile("over.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got\n%v\nwant\n%s", err, c.want)
			}
		})
	}
	in, err := DecodeFile("both.yaml", []byte(profiletest.Base+"---\n"+profiletest.Overlay))
	if err != nil || len(in.Profiles) != 1 || len(in.Overlays) != 1 {
		t.Errorf("a file with both: %d and %d: %v", len(in.Profiles), len(in.Overlays), err)
	}
	if _, err := Decode("over.yaml", []byte(profiletest.Overlay)); err == nil || !strings.Contains(err.Error(), "over.yaml:2: kind: is a ProfileOverlay") {
		t.Errorf("Decode of an overlay: %v", err)
	}
}
