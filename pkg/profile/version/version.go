package version

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// versionPattern is the pattern of the schema, anchored at both
// ends: versions are also used in object names and are ordered.
var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`)

// shortVersion matches versions with fewer than three numbers or without "v".
var shortVersion = regexp.MustCompile(`^[vV]?((?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){0,2})$`)

// SuggestValid returns the version that was probably meant, "v1.0.0" for "1.0"; "" for
// none.
func SuggestValid(text string) string {
	const most = 32 // characters of a mistyped version
	m := shortVersion.FindStringSubmatch(text)
	if m == nil || len(text) > most {
		return ""
	}
	return "v" + m[1] + strings.Repeat(".0", 2-strings.Count(m[1], "."))
}

// Parse reads a profile's version, such as "v1.9.0" or "v1.9.0-rc.1".
func Parse(v string) (*semver.Version, error) {
	if !versionPattern.MatchString(v) {
		if near := SuggestValid(v); near != "" {
			return nil, fmt.Errorf("invalid version %q: write %s", v, near)
		}
		return nil, fmt.Errorf("invalid version %q: write one such as \"v1.2.3\" or \"v1.2.3-rc.1\"", v)
	}
	parsed, err := semver.StrictNewVersion(strings.TrimPrefix(v, "v"))
	if err != nil {
		return nil, fmt.Errorf("invalid version %q: %w", v, err)
	}
	return parsed, nil
}

// IsPreferred reports whether version a is preferred to b: releases before pre-releases, then
// by semantic version, then by text.
func IsPreferred(a, b string) bool {
	va, errA := Parse(TrimDirtySuffix(a))
	vb, errB := Parse(TrimDirtySuffix(b))
	if errA != nil || errB != nil {
		return a > b // Decode accepts only valid versions
	}
	if pre := va.Prerelease() == ""; pre != (vb.Prerelease() == "") {
		return pre
	}
	if c := va.Compare(vb); c != 0 {
		return c > 0
	}
	return a > b
}

func TrimDirtySuffix(v string) string {
	if i := strings.LastIndex(v, "-dirty."); i > 0 {
		return v[:i]
	}
	return v
}
