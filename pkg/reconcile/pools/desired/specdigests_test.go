package desired

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// The digest is the one of the profile's generation, and the number of cached digests is bounded.
func TestForgottenDigests(t *testing.T) {
	var d SpecDigestCache
	osp := &osm.OperatingSystemProfile{}
	for n := range maxDigests + 10 {
		osp.UID = types.UID(strconv.Itoa(n))
		for generation, version := range []string{"v1.0.0", "v1.1.0"} {
			osp.Generation, osp.Spec.Version = int64(generation), version
			if got, want := d.SpecDigest(osp), profile.Digest(osp.Spec); got != want || d.SpecDigest(osp) != want {
				t.Fatalf("the digest of %s is %s, want %s", osp.Spec.Version, got, want)
			}
		}
	}
	if n := d.digests.Len(); n != maxDigests {
		t.Errorf("%d digests are remembered", n)
	}
}
