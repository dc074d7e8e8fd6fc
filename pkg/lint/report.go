package lint

import (
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// Report is what a run found, and what it looked at: a reader has to know what
// "nothing found" stands for.
type Report struct {
	// Findings in the order of Sort, without those that are suppressed.
	Findings []Finding `json:"findings"`
	// Suppressed are the findings that the configuration justifies.
	Suppressed []Suppressed `json:"suppressed,omitempty"`
	// Profiles is how many profiles were looked at.
	Profiles int `json:"profiles"`
	// Renderings is how many combinations of a profile, a pool and settings were
	// rendered, and Texts how many distinct texts came of that.
	Renderings int `json:"renderings"`
	Texts      int `json:"texts"`
	// Branches is how many branches the templates have: an if, with or range has two.
	Branches int `json:"branches"`
	// NotReached are the branches that no combination executed.
	NotReached []Branch `json:"notReached,omitempty"`
	// Missing are the programs that would have found more, and are not installed.
	Missing []MissingTool `json:"missing,omitempty"`
	// Documents are the profiles that could be read.
	Documents []profile.Document `json:"-"`
}

// Suppressed is a finding that somebody has accepted.
type Suppressed struct {
	Finding
	// Justification is why, in the words of the configuration.
	Justification string `json:"justification"`
}

// MissingTool is a program that is not there.
type MissingTool struct {
	// Name of the program.
	Name string `json:"name"`
	// Means is what was not checked, and how to get the program.
	Means string `json:"means"`
}

// Branch is one way through an if, with or range that was never taken.
type Branch struct {
	// Path and Line are where the condition stands.
	Path string `json:"path"`
	Line int    `json:"line"`
	// Profile and Version are those of the document.
	Profile string `json:"profile"`
	Version string `json:"version"`
	// Field of the template, and File on the node where it is that of a file.
	Field string `json:"field"`
	File  string `json:"file,omitempty"`
	// Condition as it is written, such as "if .HTTPProxy".
	Condition string `json:"condition"`
	// Else: what is executed when the condition does not hold, written or not.
	Else bool `json:"else,omitempty"`
	// Reason is why the tool could not reach it.
	Reason string `json:"reason"`

	inner bool // it stands in another one of them
}

// Worst returns the gravest severity among the findings, "" of none.
func (r *Report) Worst() Severity {
	var worst Severity
	for _, f := range r.Findings {
		if worst == "" || f.Severity.AtLeast(worst) {
			worst = f.Severity
		}
	}
	return worst
}

// AtLeast reports whether a severity is as grave as another one.
func (s Severity) AtLeast(other Severity) bool { return s.rank() <= other.rank() }

func (s Severity) rank() int {
	switch s {
	case SeverityError:
		return 0
	case SeverityWarning:
		return 1
	}
	return 2
}
