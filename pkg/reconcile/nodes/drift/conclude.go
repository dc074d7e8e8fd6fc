package drift

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

const (
	// interval is the time between two checks of a node, without the random delay.
	interval = 10 * time.Minute
	// settle is the time in which a node that is up reports.
	settle = 3 * interval
	// silence is the time after which a node that reports once a day has stopped to.
	silence = 24*time.Hour + settle
)

// Version is a version of a profile, rendered for the pool of a node.
type Version struct {
	Version, Commit string
	Manifest        *manifest.Manifest
}

// FindVersions returns differences with the first version that has the content found.
func FindVersions(differences []api.MatchDifference, versions []Version) []api.MatchDifference {
	out := slices.Clone(differences)
	for i := range out {
		d := &out[i]
		if d.Found == "" {
			continue
		}
		for _, v := range versions {
			if f, ok := v.Manifest.FileAt(d.Path); ok && strings.HasPrefix(f.Digest, d.Found) {
				d.Version, d.Commit = v.Version, v.Commit
				break
			}
		}
	}
	return out
}

// IsKnown reports whether a status already says what a report does, except for versions.
func IsKnown(have *api.NodeMatch, r Report) bool {
	return have != nil && have.State == r.state() && have.Config == r.Config && have.Others == r.Others &&
		slices.EqualFunc(have.Differences, r.Differences, func(a, b api.MatchDifference) bool {
			return a.Path == b.Path && a.Reason == b.Reason && a.Found == b.Found
		})
}

// Differs reports whether anything differs.
func (r Report) Differs() bool { return len(r.Differences) > 0 || r.Others > 0 }

func (r Report) state() api.MatchState {
	if r.Differs() {
		return api.MatchStateDiffers
	}
	return api.MatchStateMatches
}

// StatusFromReport returns the status that follows from a report. Its differences can have versions.
func StatusFromReport(r Report, now time.Time) *api.NodeMatch {
	at := metav1.NewTime(r.Time)
	return &api.NodeMatch{
		State: r.state(), Since: metav1.NewTime(now), Reported: &at, Config: r.Config, Differences: r.Differences, Others: r.Others,
	}
}

// WithoutReport returns the status of a node that reports nothing: NotReported or NotSupported.
func WithoutReport(state api.MatchState, now time.Time) *api.NodeMatch {
	return &api.NodeMatch{State: state, Since: metav1.NewTime(now)}
}

// Deadline is the time at which a node counts as one that does not report: from its last report,
// or from when it joined.
func Deadline(last time.Time) time.Time { return last.Add(silence) }

// Settled is the time at which a node has reported since it was Ready, if it reports.
func Settled(ready time.Time) time.Time { return ready.Add(settle) }

// Condition returns the condition of a status. invalid is why the annotation of the node cannot be
// read; nil if it can, or if there is none.
func Condition(m *api.NodeMatch, invalid error) metav1.Condition {
	c := metav1.Condition{Type: api.MatchesCondition, Status: metav1.ConditionFalse, ObservedGeneration: 1, LastTransitionTime: m.Since}
	c.Message = Describe(m, maxNamed)
	switch {
	case m.State == api.MatchStateMatches:
		c.Status, c.Reason = metav1.ConditionTrue, api.ReasonUnchanged
	case m.State == api.MatchStateNotSupported:
		c.Status, c.Reason = metav1.ConditionUnknown, api.ReasonNotSupported
	case m.State == api.MatchStateNotReported:
		c.Reason = api.ReasonNotReported
		if invalid != nil {
			c.Message = "the annotation " + api.AnnotationMatch + " of the node cannot be used: " + invalid.Error()
		}
	case m.Others == 0 && all(m, func(d api.MatchDifference) bool { return d.Version != "" }):
		c.Reason = api.ReasonOtherVersion
	case m.Others == 0 && all(m, func(d api.MatchDifference) bool {
		return d.Reason == api.DifferenceDisabled || d.Reason == api.DifferenceMasked
	}):
		c.Reason = api.ReasonDisabled
	default:
		c.Reason = api.ReasonEdited
	}
	return c
}

func all(m *api.NodeMatch, is func(api.MatchDifference) bool) bool {
	return !slices.ContainsFunc(m.Differences, func(d api.MatchDifference) bool { return !is(d) })
}

// maxNamed is the number of differences that a message names.
const maxNamed = 3

// Describe returns a status as a sentence that names at most some of the differences.
func Describe(m *api.NodeMatch, named int) string {
	switch m.State {
	case api.MatchStateMatches:
		return "the node has the files and units of its configuration"
	case api.MatchStateNotSupported:
		return "the configuration of the node does not make it report, or is not known"
	case api.MatchStateNotReported:
		return "the kubelet is Ready, but the node has not reported for more than a day, or its report cannot be read: see the unit osm-gitops-match.timer on the node"
	}
	var parts []string
	for _, d := range m.Differences[:min(named, len(m.Differences))] {
		parts = append(parts, describeDifference(d))
	}
	if more := len(m.Differences) - len(parts) + int(m.Others); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return "the node differs from its configuration: " + strings.Join(parts, "; ")
}

// describeDifference returns a difference as "PATH: what differs".
func describeDifference(d api.MatchDifference) string {
	text := strings.TrimPrefix(d.Path, UnitPrefix) + ": " + map[api.DifferenceReason]string{
		api.DifferenceContent: "other content", api.DifferenceMode: "other mode", api.DifferenceOwner: "other owner",
		api.DifferenceMissing: "missing", api.DifferenceType: "not a regular file", api.DifferenceDropIn: "a drop-in that is not of the configuration",
		api.DifferenceDisabled: "disabled", api.DifferenceEnabled: "enabled", api.DifferenceMasked: "masked", api.DifferenceUnmasked: "not masked", api.DifferenceMounted: "something is mounted over it",
	}[d.Reason]
	if d.Version != "" {
		text += ", that of version " + d.Version
		if d.Commit != "" {
			text += ", commit " + d.Commit
		}
	}
	return text
}
