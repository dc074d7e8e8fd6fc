package observe

import (
	"fmt"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

// The cache has the manifests of many pools, in bounded memory, those that were used last.
func TestManifestCache(t *testing.T) {
	var m manifest.Manifest
	for i := range 60 {
		m.Files = append(m.Files, manifest.File{Path: fmt.Sprintf("/etc/systemd/system/%d.service", i), Digest: strings.Repeat("0", 64), Owner: "root:root"})
	}
	var c manifestCache
	has := func(i int) bool { _, ok := c.get(fmt.Sprint(i)); return ok }
	for i := range 20_000 {
		if _, err := c.put(fmt.Sprint(i), &m, nil); err != nil || !has(0) {
			t.Fatalf("%d: %v", i, err)
		}
		if i == 4000 && (!has(1) || !has(2000)) {
			t.Fatal("4,000 manifests do not fit")
		}
	}
	if _, err := c.put("0", &m, nil); err != nil || has(1) || !has(0) || c.bytes > maxManifestBytes || c.bytes != c.of.Len()*(cachedManifest{made: &m}).size() {
		t.Errorf("it has %d bytes in %d manifests", c.bytes, c.of.Len())
	}
}
