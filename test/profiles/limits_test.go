package profiles_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// room is the part of a provider's limit that shipped profiles leave free for users who extend
// them.
const room = 0.25

// TestLimits: every bootstrap document fits its provider with room to spare. Rendering
// refuses what does not fit at all; sizes are measured here by other code.
func TestLimits(t *testing.T) {
	type largest struct {
		bytes int
		in    string
	}
	found := map[string]largest{}
	var out report
	for _, r := range renderings(t) {
		if !r.shipped {
			continue
		}
		size, limit, counted := len(r.out.Bootstrap), 0, "as it is"
		if l, ok := render.UserDataLimits()[r.in.Pool.CloudProvider]; ok {
			limit = l.Bytes
			if counted = l.Measured; counted == "in base64" {
				size = (size + 2) / 3 * 4
			}
		}
		// machine-controller compresses for AWS, all but Flatcar's.
		if r.in.Pool.CloudProvider == "aws" && !r.coreOS() {
			size = gzipSize(t, r.out.Bootstrap)
		}
		key := fmt.Sprintf("%-22s limit %6d, %s", r.in.Pool.CloudProvider, limit, counted)
		if size > found[key].bytes {
			found[key] = largest{size, r.name}
		}
		if limit > 0 && float64(size) > float64(limit)*(1-room) {
			out.add(fmt.Sprintf("a bootstrap document is larger than %.0f%% of what %s takes, %d bytes", 100*(1-room), r.in.Pool.CloudProvider, limit), r.name)
		}
	}
	out.fail(t)
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Logf("%s: largest %5d: %s", key, found[key].bytes, found[key].in)
	}
}

func gzipSize(t *testing.T, document []byte) int {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(document); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}
