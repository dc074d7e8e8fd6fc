package overlay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// An overlay replaces of a unit and of a file only what it gives.
func TestReplaceKeepsTheRest(t *testing.T) {
	yes, no, content := true, false, "[Service]"
	base := osm.Unit{Name: "a.service", Enable: &yes, Mask: &no, Content: &content, DropIns: []osm.DropIn{{Name: "a.conf", Content: "a"}}}
	other := "[Unit]"
	for name, c := range map[string]struct{ given, want osm.Unit }{
		"nothing":  {osm.Unit{}, base},
		"enable":   {osm.Unit{Enable: &no}, osm.Unit{Name: base.Name, Enable: &no, Mask: base.Mask, Content: base.Content, DropIns: base.DropIns}},
		"mask":     {osm.Unit{Mask: &yes}, osm.Unit{Name: base.Name, Enable: base.Enable, Mask: &yes, Content: base.Content, DropIns: base.DropIns}},
		"content":  {osm.Unit{Content: &other}, osm.Unit{Name: base.Name, Enable: base.Enable, Mask: base.Mask, Content: &other, DropIns: base.DropIns}},
		"drop-ins": {osm.Unit{DropIns: []osm.DropIn{}}, osm.Unit{Name: base.Name, Enable: base.Enable, Mask: base.Mask, Content: base.Content, DropIns: []osm.DropIn{}}},
	} {
		if diff := cmp.Diff(c.want, mergeUnit(base, c.given)); diff != "" {
			t.Errorf("unit, %s (-want +got):\n%s", name, diff)
		}
	}
	file := osm.File{Path: "/a", Permissions: 0o644, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "a"}}}
	inline := osm.FileContent{Inline: &osm.FileContentInline{Data: "b"}}
	for name, c := range map[string]struct{ given, want osm.File }{
		"nothing":     {osm.File{}, file},
		"permissions": {osm.File{Permissions: 0o600}, osm.File{Path: "/a", Permissions: 0o600, Content: file.Content}},
		"content":     {osm.File{Content: inline}, osm.File{Path: "/a", Permissions: 0o644, Content: inline}},
	} {
		if diff := cmp.Diff(c.want, mergeFile(file, c.given)); diff != "" {
			t.Errorf("file, %s (-want +got):\n%s", name, diff)
		}
	}
}
