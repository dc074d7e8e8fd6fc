package version

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

const (
	// maxPinBytes is the same limit as for a range of a source's tags.
	maxPinBytes = 244
	// MaxProposed is the number of versions proposed instead of one that does not exist.
	MaxProposed = 5
)

// Pin is a request for another version than the current one: an exact version, or the
// highest in a range.
type Pin struct {
	text  string
	exact string // "" for a range
	in    *semver.Constraints
}

// ParsePin reads a version, "v1.8.0" or "1.8.0", or a range such as "~1.8", "1.x" or
// ">=1.2.0 <2.0.0". A range includes pre-releases only if it names one.
func ParsePin(text string) (Pin, error) {
	p := Pin{text: strings.TrimSpace(text)}
	if p.text == "" || len(p.text) > maxPinBytes {
		return p, fmt.Errorf("has %d bytes: write a version such as v1.8.0, or a range such as ~1.8, of at most %d", len(p.text), maxPinBytes)
	}
	for _, v := range []string{p.text, "v" + p.text} {
		if _, err := Parse(v); err == nil {
			p.exact = v
			return p, nil
		}
	}
	in, err := semver.NewConstraint(p.text)
	if err != nil {
		return p, errors.New("is neither a version such as v1.8.0 nor a range such as ~1.8, 1.x or \">=1.2.0 <2.0.0\"")
	}
	p.in = in
	return p, nil
}

// String returns the pin as it was written.
func (p Pin) String() string { return p.text }

// Best returns the version that the pin selects from versions.
func (p Pin) Best(versions []string) (string, bool) {
	best := ""
	for _, v := range versions {
		if p.Allows(v) && (best == "" || IsPreferred(v, best)) {
			best = v
		}
	}
	return best, best != ""
}

// Allows reports whether a version is the requested one, or in the range.
func (p Pin) Allows(version string) bool {
	if p.in == nil {
		return version == p.exact
	}
	v, err := Parse(version)
	return err == nil && p.in.Check(v)
}

var firstNumber = regexp.MustCompile(`\d+(\.\d+){0,2}`)

// Nearest returns a few of the versions, highest first: those near the first number in
// the pin.
func (p Pin) Nearest(versions []string) []string {
	versions = SortDescending(versions)
	from := 0
	if about, err := semver.NewVersion(firstNumber.FindString(p.text)); err == nil {
		below := slices.IndexFunc(versions, func(s string) bool {
			v, err := Parse(s)
			return err == nil && v.LessThan(about)
		})
		if below < 0 {
			below = len(versions)
		}
		from = max(0, min(below-MaxProposed/2-1, len(versions)-MaxProposed))
	}
	return versions[from:min(from+MaxProposed, len(versions))]
}

// SortDescending returns versions in order, highest first, without duplicates.
func SortDescending(versions []string) []string {
	out := slices.Clone(versions)
	slices.SortFunc(out, func(a, b string) int {
		va, errA := Parse(a)
		vb, errB := Parse(b)
		if errA == nil && errB == nil {
			if c := vb.Compare(va); c != 0 {
				return c
			}
		}
		return strings.Compare(b, a)
	})
	return slices.Compact(out)
}
