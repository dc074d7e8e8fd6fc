package lint

import (
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// Report contains the findings of a run and the extent of its checks, so that readers can
// judge a report without findings.
type Report struct {
	// Findings in the order of Sort, without those that are suppressed.
	Findings []Finding `json:"findings"`
	// Suppressed are the findings that the configuration justifies.
	Suppressed []Suppressed `json:"suppressed,omitempty"`
	// Profiles is the number of profiles that were checked.
	Profiles int `json:"profiles"`
	// Renderings is how many combinations of a profile, a pool and settings were
	// rendered, and Contents how many distinct texts resulted.
	Renderings int `json:"renderings"`
	Contents   int `json:"texts"`
	// Branches is how many branches the templates have: an if, with or range has two.
	Branches int `json:"branches"`
	// UnexecutedBranches are the branches that no combination executed.
	UnexecutedBranches []Branch `json:"notReached,omitempty"`
	// Missing are the programs that would have found more, and are not installed.
	Missing []MissingTool `json:"missing,omitempty"`
	// Documents are the profiles that could be read.
	Documents []profile.Document `json:"-"`
}

// Suppressed is a finding that .osm-gitops.yaml suppresses.
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
	// Path and Line are the position of the condition.
	Path string `json:"path"`
	Line int    `json:"line"`
	// Profile and Version are those of the document.
	Profile string `json:"profile"`
	Version string `json:"version"`
	// Field contains the template; File is the path on the node if it is the template of a file.
	Field string `json:"field"`
	File  string `json:"file,omitempty"`
	// Condition is the source text, such as "if .HTTPProxy".
	Condition string `json:"condition"`
	// Else: the alternative branch of the condition, whether it is written or implied.
	Else bool `json:"else,omitempty"`
	// Reason is why the tool could not reach it.
	Reason string `json:"reason"`

	inner bool // it is inside another branch of the list
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
