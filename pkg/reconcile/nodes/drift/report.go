package drift

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

const (
	// reportVersion is the version of the annotation.
	reportVersion = 1
	// maxDifferences is the number of differences that are stored; more are counted.
	maxDifferences = 20
	// maxOthers bounds a number that a node can choose.
	maxOthers = 1_000_000
	// configDigits and foundDigits are the lengths of abbreviated digests.
	configDigits, foundDigits = 12, 12
	// UnitPrefix comes before the name of a unit in place of a path.
	UnitPrefix = "unit:"
	// maxAhead is how far the clock of a node can be ahead.
	maxAhead = 24 * time.Hour
)

// Report is what a node says in its annotation api.AnnotationMatch.
type Report struct {
	// Config is the configuration in the node's manifest, 12 hex digits.
	Config string
	// Time is when the node reported, by its own clock.
	Time time.Time
	// Differences are sorted by path and reason, at most 20. They have no version and commit.
	Differences []api.MatchDifference
	// Others is the number of further differences.
	Others int32
}

// annotation is the JSON that a node writes.
type annotation struct {
	Version     int                   `json:"v"`
	Config      string                `json:"config"`
	State       api.MatchState        `json:"state"`
	Time        metav1.Time           `json:"time"`
	Differences []api.MatchDifference `json:"differences"`
	Others      int64                 `json:"others"`
}

// Parse reads the value of api.AnnotationMatch. Differences that no manifest could have are
// counted in Others. The error says why the rest cannot be used.
func Parse(text string, now time.Time) (Report, error) {
	if len(text) > api.MaxMatchBytes {
		return Report{}, fmt.Errorf("it is longer than %d bytes", api.MaxMatchBytes)
	}
	var a annotation
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return Report{}, errors.New("it is not JSON of the expected form") // the message would quote it
	}
	switch {
	case a.Version != reportVersion:
		return Report{}, fmt.Errorf("it has version %d, and this controller reads version %d", a.Version, reportVersion)
	case !manifest.IsHex(a.Config, configDigits):
		return Report{}, errors.New("it names no configuration")
	case a.Time.IsZero():
		return Report{}, errors.New("it has no time")
	case a.Time.After(now.Add(maxAhead)):
		return Report{}, errors.New("its time is more than a day in the future: correct the clock of the node")
	}
	r := Report{Config: a.Config, Time: a.Time.Time, Others: int32(min(max(a.Others, 0), maxOthers))}
	for _, d := range a.Differences {
		if !isPossible(d) {
			r.Others++
			continue
		}
		d.Version, d.Commit = "", ""
		if d.Reason != api.DifferenceContent || !manifest.IsHex(d.Found, foundDigits) {
			d.Found = ""
		}
		r.Differences = append(r.Differences, d)
	}
	slices.SortFunc(r.Differences, func(a, b api.MatchDifference) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Reason, b.Reason), strings.Compare(a.Found, b.Found))
	})
	r.Differences = slices.CompactFunc(r.Differences, func(a, b api.MatchDifference) bool { return a.Path == b.Path && a.Reason == b.Reason })
	if n := len(r.Differences); n > maxDifferences {
		r.Others += int32(n - maxDifferences)
		r.Differences = r.Differences[:maxDifferences]
	}
	if a.State != r.state() {
		return Report{}, errors.New("its state and its differences contradict each other")
	}
	return r, nil
}

// isPossible reports whether a manifest can have the path of a difference, and its reason is known.
func isPossible(d api.MatchDifference) bool {
	switch d.Reason {
	case api.DifferenceDisabled, api.DifferenceEnabled, api.DifferenceMasked, api.DifferenceUnmasked:
		return isUnit(d.Path)
	case api.DifferenceMissing:
		return isUnit(d.Path) || manifest.IsPath(d.Path)
	case api.DifferenceContent, api.DifferenceMode, api.DifferenceOwner, api.DifferenceType, api.DifferenceDropIn, api.DifferenceMounted:
		return manifest.IsPath(d.Path)
	}
	return false
}

func isUnit(path string) bool {
	unit, ok := strings.CutPrefix(path, UnitPrefix)
	return ok && manifest.IsUnit(unit)
}
