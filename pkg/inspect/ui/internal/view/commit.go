package view

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/comparison"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Commit is the page of a commit: what it changed, and which pools and nodes have it.
type Commit struct {
	About
	ID          string           `json:"id"`                    // in full
	Repository  string           `json:"repository,omitempty"`  // without credentials
	Subject     string           `json:"subject,omitempty"`     // of the author's commit
	Author      string           `json:"author,omitempty"`      // "Name <address>"
	CommittedAt string           `json:"committedAt,omitempty"` // RFC 3339
	Signature   string           `json:"signature,omitempty"`   // signer, if verified
	Link        string           `json:"link,omitempty"`        // to the repository's host, if known
	LinkGuessed bool             `json:"linkGuessed,omitempty"` // the kind of host was guessed
	Rejected    []Notice         `json:"rejected,omitempty"`    // sources that rejected files of it
	Failing     []BootRow        `json:"failing"`               // machines that do not boot with its versions, at most 200
	Profiles    []Change         `json:"profiles"`              // versions that it introduced or made current
	Rotations   []fleet.Rotation `json:"rotations"`             // of pools because of it, latest first, at most 200
	Rotated     int              `json:"rotated"`               // their number
	Pools       int              `json:"pools"`                 // number of these pools
	Rendered    *Rendered        `json:"rendered,omitempty"`    // changes on nodes of one of these pools
	Items       []NodeRow        `json:"items"`                 // nodes of this page, provisioned from it
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
	Object       string                `json:"object"`                 // the OperatingSystemProfile
	Path         string                `json:"path,omitempty"`         // of the file in the repository
	Digest       string                `json:"digest,omitempty"`       // of the profile's spec
	Signature    string                `json:"signature,omitempty"`    // signer, if verified
	Role         string                `json:"role"`                   // Brought, Written if a later commit introduced it, Selected if made current again
	ChangeID     string                `json:"change,omitempty"`       // the author's commit
	SelectedBy   string                `json:"selectedBy,omitempty"`   // that made it current
	Before       string                `json:"before,omitempty"`       // version before; empty for the first
	BeforeCommit string                `json:"beforeCommit,omitempty"` // that introduced it
	Files        []comparison.FileDiff `json:"files"`                  // the differences
	Note         string                `json:"note,omitempty"`         // why there is no comparison

	object, before string // namespace/name of the objects to compare
}

// Rendered is how the configuration of a pool changed, rendered with placeholders instead
// of credentials.
type Rendered struct {
	Pool   string                `json:"pool"`             // parameter pool
	Before string                `json:"before,omitempty"` // previous version
	After  string                `json:"after"`            // new version
	Files  []comparison.FileDiff `json:"files"`            // rendered with placeholders
	Note   string                `json:"note,omitempty"`   // why there is no comparison

	after, was *fleet.Configuration
}

// Bounds of the page of a commit.
const (
	maxRotations = 200 // listed pools, and machines that do not boot
	maxCompared  = 25  // compared versions: each comparison reads two objects per request
)

// NewCommit builds the page of a commit without the differences. It returns false if the
// commit is unknown. Pool selects the rendered configuration to compare.
func NewCommit(f *fleet.Model, id, pool string, page int) (Commit, bool) {
	c := f.Commits[id]
	if c == nil {
		return Commit{}, false
	}
	v := Commit{About: About{"Commit", f.At}, ID: redact.PrintableLine(id), Failing: []BootRow{}, Profiles: []Change{}, Rotations: f.RotationsCausedBy(c)}
	v.Rotated, v.Pools = len(v.Rotations), countPools(v.Rotations)
	counts := f.CountExistingNodesByOrigin()
	for _, or := range c.Origins {
		role := Brought
		if or.Commit != id {
			role = Written
		}
		v.Profiles = append(v.Profiles, changeOf(f, or, role, v.Rotations, counts))
	}
	for _, or := range c.Selected {
		v.Profiles = append(v.Profiles, changeOf(f, or, Selected, v.Rotations, counts))
	}
	slices.SortFunc(v.Profiles, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Profile, b.Profile), cmp.Compare(a.Version, b.Version))
	})
	v.copyCommitData(c)
	for _, r := range v.Rotations {
		if v.Rendered == nil || r.Pool == pool {
			v.Rendered = &Rendered{Pool: r.Pool, Before: r.Before, After: r.Version, after: r.After, was: r.Was, Files: []comparison.FileDiff{}}
			if pool == "" || r.Pool == pool {
				break
			}
		}
	}
	for _, p := range f.SortedPools {
		for _, m := range p.Failing {
			ours := func(or *fleet.Origin) bool { return or.Profile == m.Boot.Profile && or.Version == m.Boot.Version }
			if len(v.Failing) < maxRotations && (slices.ContainsFunc(c.Origins, ours) || slices.ContainsFunc(c.Selected, ours)) {
				v.Failing = append(v.Failing, bootRow(m))
			}
		}
	}
	v.Rotations = v.Rotations[:min(len(v.Rotations), maxRotations)]
	var provisioned []*fleet.Node
	for _, n := range f.Nodes {
		if n.IsProvisionedFrom(id) {
			provisioned = append(provisioned, n)
		}
	}
	shown, paging := selectPage(provisioned, page)
	v.Items, v.Paging = rowsOf(shown), paging
	return v, true
}

// copyCommitData copies the data about a commit from the profiles that came with it.
func (v *Commit) copyCommitData(c *fleet.Commit) {
	for _, or := range c.Origins {
		v.Author = cmp.Or(v.Author, or.Author)
		v.Subject = cmp.Or(v.Subject, or.Subject)
		v.Repository = cmp.Or(v.Repository, or.Repository)
		if or.Commit == c.ID {
			v.CommittedAt, v.Signature = cmp.Or(v.CommittedAt, or.CommittedAt), cmp.Or(v.Signature, or.Signature)
		}
	}
	for _, or := range c.Selected {
		v.Repository = cmp.Or(v.Repository, or.Repository)
	}
	for _, g := range c.Configurations {
		v.Repository = cmp.Or(v.Repository, g.Repository)
	}
	for _, ps := range c.RejectedBy {
		v.Repository = cmp.Or(v.Repository, redact.PrintableLine(ps.Status.Repository))
		v.Rejected = append(v.Rejected, rejectionNotice(ps))
	}
}

// changeOf compares a version with the previous one: the one that pools had until then,
// otherwise the one that was committed before.
func changeOf(f *fleet.Model, or *fleet.Origin, role string, rotations []fleet.Rotation, counts map[fleet.OriginKey]int) Change {
	ch := Change{
		ProfileRow: profileRow(or, counts[fleet.OriginKey{Profile: or.Profile, Version: or.Version, Commit: or.Commit}]), Object: or.Object, Path: or.Path, Digest: or.Digest,
		Signature: or.Signature, Role: role, ChangeID: or.Change, SelectedBy: or.SelectedBy, Files: []comparison.FileDiff{}, object: or.Namespace + "/" + or.Object,
	}
	var before *fleet.Origin
	for _, r := range rotations {
		if r.After.Origin == or && r.Was != nil && r.Was.Profile == or.Profile && r.Was.Origin != nil {
			before = r.Was.Origin
		}
	}
	if before == nil && role != Selected {
		before = f.PrecedingVersion(or)
	}
	switch {
	case before != nil:
		ch.Before = before.Version
		ch.BeforeCommit = before.Commit
		ch.before = before.Namespace + "/" + before.Object
	case role == Selected:
		ch.Note = "The previous version is unknown: no pool had another one."
	default:
		ch.Note = "No earlier version of this profile is in the cluster."
	}
	return ch
}

// LoadDifferences reads the differences of the versions of a commit into the view.
func (v *Commit) LoadDifferences(ctx context.Context, from comparison.Inputs) error {
	for i := range v.Profiles {
		ch := &v.Profiles[i]
		if i >= maxCompared {
			ch.Note = "Not compared here, since more than " + strconv.Itoa(maxCompared) + " versions belong to this commit."
			continue
		}
		files, note, err := comparison.CompareProfiles(ctx, from, ch.before, ch.object)
		if err != nil {
			return err
		}
		if note != "" {
			ch.Note = note
			continue
		}
		ch.Files = files
	}
	r := v.Rendered
	if r == nil {
		return nil
	}
	if r.was == nil {
		r.Note = "This is the pool's first configuration."
		return nil
	}
	files, note, err := comparison.Renderings(ctx, from, r.Pool, r.was.Digest, r.after.Digest)
	if err != nil {
		return err
	}
	r.Note = note
	if note == "" {
		r.Files = files
	}
	return nil
}
