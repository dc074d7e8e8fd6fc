package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// Commit is the page of a commit: what it changed, and which pools and nodes have it.
type Commit struct {
	About
	ID          string     `json:"id"`                    // in full
	Repository  string     `json:"repository,omitempty"`  // without credentials
	Subject     string     `json:"subject,omitempty"`     // of the author's commit
	Author      string     `json:"author,omitempty"`      // "Name <address>"
	CommittedAt string     `json:"committedAt,omitempty"` // RFC 3339
	Signature   string     `json:"signature,omitempty"`   // signer, if verified
	Link        string     `json:"link,omitempty"`        // to the repository's host, if known
	LinkGuessed bool       `json:"linkGuessed,omitempty"` // the kind of host was guessed
	Rejected    []Notice   `json:"rejected,omitempty"`    // sources that rejected files of it
	Profiles    []Change   `json:"profiles"`              // versions that it introduced or made current
	Rotations   []Rotation `json:"rotations"`             // of pools because of it, latest first, at most 200
	Rotated     int        `json:"rotated"`               // their number
	Pools       int        `json:"pools"`                 // number of these pools
	Rendered    *Rendered  `json:"rendered,omitempty"`    // changes on nodes of one of these pools
	Items       []NodeRow  `json:"items"`                 // nodes of this page, provisioned from it
	Paging
}

// The relation of a version to a commit.
const (
	// Brought: the commit is the first one on the followed history that contains the version.
	Brought = "Brought"
	// Written: the author wrote it in that commit, and a later one introduced it.
	Written = "Written"
	// Selected: the commit made it current again.
	Selected = "Selected"
)

// Change is a version of a profile, and its difference from the one before.
type Change struct {
	ProfileRow
	Object       string     `json:"object"`                 // the OperatingSystemProfile
	Path         string     `json:"path,omitempty"`         // of the file in the repository
	Digest       string     `json:"digest,omitempty"`       // of the profile's spec
	Signature    string     `json:"signature,omitempty"`    // signer, if verified
	Role         string     `json:"role"`                   // Brought, Written if a later commit introduced it, Selected if made current again
	ChangeID     string     `json:"change,omitempty"`       // the author's commit
	SelectedBy   string     `json:"selectedBy,omitempty"`   // that made it current
	Before       string     `json:"before,omitempty"`       // version before; empty for the first
	BeforeCommit string     `json:"beforeCommit,omitempty"` // that introduced it
	Files        []FileDiff `json:"files"`                  // the differences
	Note         string     `json:"note,omitempty"`         // why there is no comparison

	object, before string // namespace/name of the objects to compare
}

// Rotation is a change of a pool's version.
type Rotation struct {
	Pool    string    `json:"pool"`             // namespace/name
	Profile string    `json:"profile"`          // by name
	Version string    `json:"version"`          // new version
	Before  string    `json:"before,omitempty"` // version before; empty for the first
	From    time.Time `json:"from"`             // when the pool got it
	Until   time.Time `json:"until,omitzero"`   // when it got another
	Nodes   int       `json:"nodes"`            // of the pool with this version

	after, was *configuration
}

// Rendered is how the configuration of a pool changed, rendered with placeholders instead
// of credentials.
type Rendered struct {
	Pool   string     `json:"pool"`             // parameter pool
	Before string     `json:"before,omitempty"` // previous version
	After  string     `json:"after"`            // new version
	Files  []FileDiff `json:"files"`            // rendered with placeholders
	Note   string     `json:"note,omitempty"`   // why there is no comparison

	after, was *configuration
}

// maxRotations bounds the listed pools of a commit.
const maxRotations = 200

// Resolve finds the commit for a prefix of its id; "" if none or several match.
func (f *Model) Resolve(id string) string {
	if f.commits[id] != nil {
		return id
	}
	found := ""
	if len(id) < minPrefix {
		return ""
	}
	for full := range f.commits {
		if strings.HasPrefix(full, id) {
			if found != "" {
				return ""
			}
			found = full
		}
	}
	return found
}

// ViewCommit builds the page of a commit without the differences. It returns false if the
// commit is unknown. Pool selects the rendered configuration to compare.
func ViewCommit(f *Model, id, pool string, page int) (Commit, bool) {
	c := f.commits[id]
	if c == nil {
		return Commit{}, false
	}
	v := Commit{About: About{"Commit", f.At}, ID: clean(id), Profiles: []Change{}, Rotations: f.rotations(c)}
	v.Rotated, v.Pools = len(v.Rotations), poolsOf(v.Rotations)
	counts := f.nodesByOrigin()
	for _, or := range c.origins {
		role := Brought
		if or.Commit != id {
			role = Written
		}
		v.Profiles = append(v.Profiles, f.changeOf(or, role, v.Rotations, counts))
	}
	for _, or := range c.selected {
		v.Profiles = append(v.Profiles, f.changeOf(or, Selected, v.Rotations, counts))
	}
	slices.SortFunc(v.Profiles, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Version, b.Version))
	})
	v.describe(c)
	for _, r := range v.Rotations {
		if v.Rendered == nil || r.Pool == pool {
			v.Rendered = &Rendered{Pool: r.Pool, Before: r.Before, After: r.Version, after: r.after, was: r.was, Files: []FileDiff{}}
			if pool == "" || r.Pool == pool {
				break
			}
		}
	}
	v.Rotations = v.Rotations[:min(len(v.Rotations), maxRotations)]
	var born []*node
	for _, n := range f.nodes {
		if n.gen != nil && isProvisionedFrom(n, id) {
			born = append(born, n)
		}
	}
	shown, paging := paged(born, page)
	v.Items, v.Paging = rowsOf(shown), paging
	return v, true
}

// describe copies the data about a commit from the profiles that came with it.
func (v *Commit) describe(c *commit) {
	for _, or := range c.origins {
		v.Author, v.Subject, v.Repository = cmp.Or(v.Author, or.Author), cmp.Or(v.Subject, or.Subject), cmp.Or(v.Repository, or.Repository)
		if or.Commit == c.id {
			v.CommittedAt, v.Signature = cmp.Or(v.CommittedAt, or.CommittedAt), cmp.Or(v.Signature, or.Signature)
		}
	}
	for _, or := range c.selected {
		v.Repository = cmp.Or(v.Repository, or.Repository)
	}
	for _, g := range c.configurations {
		v.Repository = cmp.Or(v.Repository, g.repository)
	}
	for _, ps := range c.rejectedBy {
		v.Repository = cmp.Or(v.Repository, clean(ps.Status.Repository))
		v.Rejected = append(v.Rejected, rejectionOf(ps))
	}
}

// isProvisionedFrom reports whether a node was provisioned from a version that a commit introduced, or
// one that it made current again.
func isProvisionedFrom(n *node, id string) bool {
	if n.gen.commit == id || n.gen.change == id {
		return true
	}
	return slices.ContainsFunc(n.gen.generations, func(g lineage.Generation) bool {
		return g.SelectedBy == id && !n.Joined.Time.Before(g.From) && (g.Until.IsZero() || n.Joined.Time.Before(g.Until))
	})
}

// changeOf compares a version with the previous one: the one that pools had until then,
// otherwise the one that was committed before.
func (f *Model) changeOf(or *origin, role string, rotations []Rotation, counts map[originKey]int) Change {
	ch := Change{
		ProfileRow: profileRow(or, counts[originKey{or.Profile, or.Version, or.Commit}]), Object: or.Object, Path: or.Path, Digest: or.Digest,
		Signature: or.Signature, Role: role, ChangeID: or.Change, SelectedBy: or.SelectedBy, Files: []FileDiff{}, object: or.Namespace + "/" + or.Object,
	}
	var before *origin
	for _, r := range rotations {
		if r.after.origin == or && r.was != nil && r.was.profile == or.Profile && r.was.origin != nil {
			before = r.was.origin
		}
	}
	if before == nil && role != Selected {
		before = f.committedBefore(or)
	}
	switch {
	case before != nil:
		ch.Before, ch.BeforeCommit, ch.before = before.Version, before.Commit, before.Namespace+"/"+before.Object
	case role == Selected:
		ch.Note = "The previous version is unknown: no pool had another one."
	default:
		ch.Note = "No earlier version of this profile is in the cluster."
	}
	return ch
}

// committedBefore returns the preceding version of the same profile and source by commit
// time; nil for none.
func (f *Model) committedBefore(or *origin) *origin {
	var found *origin
	for _, o := range f.origins {
		if o == or || o.Profile != or.Profile || o.Source != or.Source || o.Namespace != or.Namespace || !o.committed().Before(or.committed()) {
			continue
		}
		if found == nil || found.committed().Before(o.committed()) {
			found = o
		}
	}
	return found
}

// rotations returns the pools that got another version because of a commit.
func (f *Model) rotations(c *commit) []Rotation {
	out := []Rotation{}
	seen := map[string]bool{}
	for _, g := range c.configurations {
		if seen[g.pool] {
			continue
		}
		seen[g.pool] = true
		p := f.pools[g.pool]
		var reached []Rotation // oldest first
		for i, use := range p.timeline {
			s := f.configurations[use.InputDigest]
			cause := cmp.Or(use.SelectedBy, s.commit)
			if cause != c.id && (cause != s.commit || s.change != c.id) {
				continue
			}
			r := Rotation{Pool: p.key(), Profile: s.profile, Version: s.version, From: use.From, Until: use.Until, after: s}
			if i > 0 {
				was := f.configurations[p.timeline[i-1].InputDigest]
				if was.profile == s.profile && was.version == s.version && was.commit == s.commit {
					continue // other settings with the same version
				}
				r.Before, r.was = was.version, was
			}
			for _, n := range p.nodes {
				if n.gen != nil && n.gen.version == s.version && n.gen.commit == s.commit && n.gen.profile == s.profile {
					r.Nodes++
				}
			}
			reached = append(reached, r)
		}
		slices.Reverse(reached)
		out = append(out, reached...)
	}
	slices.SortStableFunc(out, func(a, b Rotation) int { return cmp.Or(b.From.Compare(a.From), cmp.Compare(a.Pool, b.Pool)) })
	return out
}
