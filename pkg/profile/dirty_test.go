package profile

import (
	"strings"
	"testing"
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
		if _, err := ParseVersion("v1.0.0-dirty." + want); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A release is preferred to a pre-release, then the later version. A version of an edited
// file counts as the version that was edited.
func TestHigher(t *testing.T) {
	order := []string{"v0.9.0-rc.1", "v1.0.0-rc.1", "v1.0.0-rc.2", "v2.0.0-rc.1", "v0.9.0", "v1.0.0", "v1.0.0-dirty.abcdef01", "v1.0.1-dirty.12345678", "v1.2.0", "v1.10.0"}
	for i, a := range order {
		for j, b := range order {
			if got := higher(a, b); got != (i > j) {
				t.Errorf("higher(%q, %q) = %t", a, b, got)
			}
		}
	}
}
