package profile

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
)

// The version of an edited file ends with digits of its digest that a semantic version
// takes: eight without a letter do not begin with 0.
func TestDirtySuffix(t *testing.T) {
	zeros := strings.Repeat("0", 56)
	for digits, want := range map[string]string{
		"12345678" + zeros:        "12345678",
		"0abc5678" + zeros:        "0abc5678",
		"01234567" + "89" + zeros: "12345678",
		"000000012" + zeros:       "12000000",
		zeros + "0000000a":        "0000000f",
		zeros + "000000a0":        "0000000a",
		zeros + "12345678":        "0000000f",
		zeros + "00000000":        "0000000f",
	} {
		if got := dirtySuffix(digestRecipe + digits); got != want {
			t.Errorf("dirtySuffix(%s) = %q, want %q", digits, got, want)
		}
		if _, err := version.Parse("v1.0.0-dirty." + want); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
}
