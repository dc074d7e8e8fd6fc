package fleet

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// Rotation is a change of a pool's version.
type Rotation struct {
	Pool    string    `json:"pool"`             // namespace/name
	Profile string    `json:"profile"`          // by name
	Version string    `json:"version"`          // new version
	Before  string    `json:"before,omitempty"` // version before; empty for the first
	From    time.Time `json:"from"`             // when the pool got it
	Until   time.Time `json:"until,omitzero"`   // when it got another
	Nodes   int       `json:"nodes"`            // of the pool with this version

	After *Configuration `json:"-"`
	Was   *Configuration `json:"-"` // nil for the first
}

// ResolveCommit finds the commit for a prefix of its id; "" if none or several match.
func (f *Model) ResolveCommit(id string) string {
	if f.Commits[id] != nil {
		return id
	}
	found := ""
	if len(id) < MinPrefix {
		return ""
	}
	for full := range f.Commits {
		if strings.HasPrefix(full, id) {
			if found != "" {
				return ""
			}
			found = full
		}
	}
	return found
}

// IsProvisionedFrom reports whether a node was provisioned from a version that a commit
// introduced, or one that it made current again.
func (n *Node) IsProvisionedFrom(id string) bool {
	if n.Configuration == nil {
		return false
	}
	if n.Configuration.Commit == id || n.Configuration.Change == id {
		return true
	}
	return slices.ContainsFunc(n.Configuration.Generations, func(g lineage.Generation) bool {
		return g.SelectedBy == id && !n.Joined.Time.Before(g.From) && (g.Until.IsZero() || n.Joined.Time.Before(g.Until))
	})
}

// PrecedingVersion returns the preceding version of the same profile and source by commit
// time; nil for none.
func (f *Model) PrecedingVersion(or *Origin) *Origin {
	var found *Origin
	for _, o := range f.Origins {
		if o == or || o.Profile != or.Profile || o.Source != or.Source || o.Namespace != or.Namespace || !o.CommitTime().Before(or.CommitTime()) {
			continue
		}
		if found == nil || found.CommitTime().Before(o.CommitTime()) {
			found = o
		}
	}
	return found
}

// RotationsCausedBy returns the pools that got another version because of a commit.
func (f *Model) RotationsCausedBy(c *Commit) []Rotation {
	out := []Rotation{}
	seen := map[string]bool{}
	for _, g := range c.Configurations {
		if seen[g.Pool] {
			continue
		}
		seen[g.Pool] = true
		p := f.Pools[g.Pool]
		var rotations []Rotation // oldest first
		for i, use := range p.Timeline {
			s := f.Configurations[use.InputDigest]
			cause := cmp.Or(use.SelectedBy, s.Commit)
			if cause != c.ID && (cause != s.Commit || s.Change != c.ID) {
				continue
			}
			r := Rotation{Pool: p.Key(), Profile: s.Profile, Version: s.Version, From: use.From, Until: use.Until, After: s}
			if i > 0 {
				was := f.Configurations[p.Timeline[i-1].InputDigest]
				if was.Profile == s.Profile && was.Version == s.Version && was.Commit == s.Commit {
					continue // other settings with the same version
				}
				r.Before, r.Was = was.Version, was
			}
			for _, n := range p.Nodes {
				if n.Configuration != nil && n.Configuration.Version == s.Version && n.Configuration.Commit == s.Commit && n.Configuration.Profile == s.Profile {
					r.Nodes++
				}
			}
			rotations = append(rotations, r)
		}
		slices.Reverse(rotations)
		out = append(out, rotations...)
	}
	slices.SortStableFunc(out, func(a, b Rotation) int { return cmp.Or(b.From.Compare(a.From), cmp.Compare(a.Pool, b.Pool)) })
	return out
}

// CommitOf returns the commit of a revision such as "main@sha1:<40 hex>"; "" for one that
// has none.
func CommitOf(revision string) string {
	_, id, ok := strings.Cut(revision, "@sha1:")
	if !ok {
		return ""
	}
	return id
}

// SubjectOf returns the subject of the commit of a version, if its object is there.
func (f *Model) SubjectOf(profile, version, commit string) string {
	if or := f.Origins[OriginKey{profile, version, commit}]; or != nil {
		return or.Subject
	}
	return ""
}

// RejectedCommit returns the last commit of a source, if files of it were rejected or if it is held
// because of a signature or a rewritten history; otherwise "". Any other reason concerns a later
// look at the repository.
func RejectedCommit(ps *api.ProfileSource) string {
	ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionFalse {
		return ""
	}
	switch ready.Reason {
	case api.ReasonProfilesInvalid:
		if ps.Status.LastAttemptedRevision != ps.Status.Revision {
			return CommitOf(ps.Status.LastAttemptedRevision)
		}
	case api.ReasonVerificationFailed, api.ReasonHistoryRewritten:
		return CommitOf(ps.Status.HeldRevision)
	}
	return ""
}

// MinPrefix is the shortest accepted prefix of a commit.
const MinPrefix = 4

// CountExistingNodesByOrigin counts the existing nodes by commit and version.
func (f *Model) CountExistingNodesByOrigin() map[OriginKey]int {
	out := map[OriginKey]int{}
	for _, n := range f.Nodes {
		if n.Removed == nil {
			out[OriginKey{n.Profile, n.Version, n.Commit}]++
		}
	}
	return out
}

// CommitTime returns the time of the commit; zero if unknown.
func (o *Origin) CommitTime() time.Time {
	t, err := time.Parse(time.RFC3339, o.CommittedAt)
	if err != nil {
		return time.Time{}
	}
	return t
}
