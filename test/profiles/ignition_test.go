package profiles_test

import (
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/test/ignition"
)

// TestIgnition: the parsers that Flatcar's images have take every document, without a
// warning.
func TestIgnition(t *testing.T) {
	start := time.Now()
	var all distinct[[]byte]
	versions := map[string]int{}
	for _, r := range renderings(t) {
		for _, s := range r.stages() {
			if s.ignition {
				all.add(r.anonymous(string(s.document)), s.document, r.name)
				versions[s.version]++
				if want := r.values[matrix.IgnitionVersion]; s.version != want {
					t.Errorf("%s: its document is of version %s, want %s", r.name, s.version, want)
				}
			}
		}
	}
	if len(versions) != 3 {
		t.Fatalf("documents of the versions %v, want three", versions)
	}
	docs := make([][]byte, len(all.list))
	for i, d := range all.list {
		docs[i] = d.what
	}
	var out report
	for i, findings := range ignition.Findings(t, docs...) {
		for _, f := range findings {
			out.add(f, all.list[i].in)
		}
	}
	out.fail(t)
	t.Logf("%d documents of %v in %s", len(docs), versions, time.Since(start).Round(time.Millisecond))
}
