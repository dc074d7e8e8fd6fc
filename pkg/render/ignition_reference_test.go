package render

import (
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// security.md 21: Butane can copy local files and refer to remote ones. Nothing in a profile
// reaches those fields: a text that looks like such a reference is content of a file or a unit,
// and arrives unchanged.
func TestIgnitionHasNoReferences(t *testing.T) {
	const reference = "contents: {local: /etc/passwd, source: https://example.org/x}\n"
	files := map[string]string{
		"/etc/local":       "local: /etc/passwd",
		"/etc/inline":      reference,
		"/etc/source.json": `{"contents":{"source":"file:///etc/passwd"},"contents_local":"/etc/passwd"}`,
		"/etc/tree":        "storage: {trees: [{local: /etc, path: /etc}]}",
		"/etc/remote":      "https://example.org/x",
	}
	var config osm.OSCConfig
	for path, content := range files {
		config.Files = append(config.Files, inlineFile(path, content))
	}
	unit := "contents_local: /etc/passwd\n"
	config.Units = []osm.Unit{{Name: "a.service", Content: &unit, DropIns: []osm.DropIn{{Name: "a.conf", Content: unit}}}}
	for _, version := range userdata.IgnitionVersions {
		// readIgnition fails for each source that is not a data URL.
		got := readIgnition(t, encodeIgnition(t, version, &config))
		for path, content := range files {
			if got.files[path] != content {
				t.Errorf("%s: file %s has %q, want %q", version, path, got.files[path], content)
			}
		}
		if got.units["a.service"] != unit {
			t.Errorf("%s: the unit has %q, want %q", version, got.units["a.service"], unit)
		}
	}
}
