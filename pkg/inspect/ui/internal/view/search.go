package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Search has the results by kind. Nodes, which can be many, are paged.
type Search struct {
	About
	Query    string       `json:"query"`    // the search text
	Commits  []CommitRow  `json:"commits"`  // at most 25, newest first
	Profiles []ProfileRow `json:"profiles"` // at most 25
	Pools    []PoolRow    `json:"pools"`    // at most 25
	Items    []NodeRow    `json:"items"`    // nodes of this page
	Paging
}

// CommitRow is a commit in a list.
type CommitRow struct {
	ID        string    `json:"id"`                  // in full
	Subject   string    `json:"subject,omitempty"`   // of the author's commit
	Author    string    `json:"author,omitempty"`    // "Name <address>"
	At        time.Time `json:"at,omitzero"`         // when it was committed, otherwise when it was rejected or the first pool got it
	Signature string    `json:"signature,omitempty"` // signer, if verified
	Versions  []string  `json:"versions"`            // "profile version", introduced or made current
	Rejected  string    `json:"rejected,omitempty"`  // reason, if files of it were rejected
	Pools     int       `json:"pools"`               // that got a version because of it
	Nodes     int       `json:"nodes"`               // provisioned from it, also deleted ones

	commit *fleet.Commit
}

// ProfileRow is a version of a profile.
type ProfileRow struct {
	Profile     string `json:"profile"`               // by name
	Version     string `json:"version"`               // of the profile
	Source      string `json:"source,omitempty"`      // the ProfileSource
	Commit      string `json:"commit,omitempty"`      // that introduced the version
	Subject     string `json:"subject,omitempty"`     // of the author's commit
	Author      string `json:"author,omitempty"`      // "Name <address>"
	CommittedAt string `json:"committedAt,omitempty"` // RFC 3339
	Nodes       int    `json:"nodes"`                 // existing nodes with it
	Current     bool   `json:"current,omitempty"`     // new machines get it; on the page of a profile
}

// Limits of a search.
const (
	maxQuery = 256 // bytes
	maxFound = 25  // of each kind except nodes
)

// NewSearch finds nodes, commits, authors, profiles and pools by a part of their name, and
// commits by a prefix. A result matches all words.
func NewSearch(f *fleet.Model, query string, page int) Search {
	query = strings.TrimSpace(redact.PrintableLine(query))
	query = query[:min(len(query), maxQuery)]
	v := Search{About: About{"Search", f.At}, Query: query, Commits: []CommitRow{}, Profiles: []ProfileRow{}, Pools: []PoolRow{}, Items: []NodeRow{}}
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		_, v.Paging = selectPage([]*fleet.Node(nil), page)
		return v
	}
	v.Commits = commitRows(f, func(r CommitRow) bool {
		return isCommitPrefix(words, r.ID) || r.Author != "" && containsAllWords(words, r.Author) || r.Subject != "" && containsAllWords(words, r.Subject)
	})
	v.Commits = v.Commits[:min(len(v.Commits), maxFound)]
	countPoolsAndNodes(f, v.Commits)
	v.Profiles = profileRows(f, func(or *fleet.Origin) bool {
		return containsAllWords(words, or.Profile, or.Version, or.Source, or.Object)
	})
	v.Profiles = v.Profiles[:min(len(v.Profiles), maxFound)]
	for _, p := range f.SortedPools {
		if len(v.Pools) < maxFound && containsAllWords(words, p.Key(), p.Profile) {
			v.Pools = append(v.Pools, rowOf(p))
		}
	}
	var fit []*fleet.Node
	for _, n := range f.Nodes {
		if matchesNode(n, words) {
			fit = append(fit, n)
		}
	}
	shown, paging := selectPage(fit, page)
	v.Items, v.Paging = rowsOf(shown), paging
	return v
}

func authorOf(g *fleet.Configuration) string {
	if g == nil || g.Origin == nil {
		return ""
	}
	return g.Origin.Author
}

// containsAllWords reports whether every word is in one of the texts.
func containsAllWords(words []string, texts ...string) bool {
	for _, w := range words {
		if !slices.ContainsFunc(texts, func(t string) bool { return t != "" && strings.Contains(strings.ToLower(t), w) }) {
			return false
		}
	}
	return true
}

// isCommitPrefix reports whether a single word is a prefix of a commit.
func isCommitPrefix(words []string, commit string) bool {
	return len(words) == 1 && len(words[0]) >= fleet.MinPrefix && strings.HasPrefix(commit, words[0])
}

// commitRows returns the rows of the commits that match, newest first.
func commitRows(f *fleet.Model, matches func(CommitRow) bool) []CommitRow {
	out := []CommitRow{}
	for _, c := range f.Commits {
		if row := commitRow(f, c); matches(row) {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b CommitRow) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return out
}

// commitRow returns the row of a commit without its pools and nodes.
func commitRow(f *fleet.Model, c *fleet.Commit) CommitRow {
	row := CommitRow{ID: redact.PrintableLine(c.ID), Versions: []string{}, commit: c}
	for _, or := range slices.Concat(c.Origins, c.Selected) {
		row.Versions = append(row.Versions, or.Profile+" "+or.Version)
	}
	slices.Sort(row.Versions)
	row.Versions = slices.Compact(row.Versions)
	for _, or := range c.Origins {
		row.Author, row.Subject = cmp.Or(row.Author, or.Author), cmp.Or(row.Subject, or.Subject)
		if or.Commit == c.ID {
			row.Signature = cmp.Or(row.Signature, or.Signature)
		}
		if at := or.CommitTime(); at.After(row.At) {
			row.At = at
		}
	}
	for _, ps := range c.RejectedBy {
		rejection := rejectionNotice(ps)
		row.Rejected = cmp.Or(row.Rejected, rejection.Reason)
		if ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition); ready != nil && row.At.IsZero() {
			row.At = ready.LastTransitionTime.Time
		}
	}
	if row.At.IsZero() {
		row.At = firstUse(f, c)
	}
	return row
}

// firstUse returns when the first pool got a configuration because of a commit; zero if
// none did.
func firstUse(f *fleet.Model, c *fleet.Commit) time.Time {
	var first time.Time
	for _, r := range f.RotationsCausedBy(c) { // latest first
		first = r.From
	}
	return first
}

// countPoolsAndNodes counts pools and nodes of the shown commits, as the page of each does.
func countPoolsAndNodes(f *fleet.Model, rows []CommitRow) {
	for i := range rows {
		rows[i].Pools = countPools(f.RotationsCausedBy(rows[i].commit))
		for _, n := range f.Nodes {
			if n.IsProvisionedFrom(rows[i].commit.ID) {
				rows[i].Nodes++
			}
		}
	}
}

// countPools counts the pools of rotations, since a pool can get a version twice.
func countPools(rotations []fleet.Rotation) int {
	pools := map[string]bool{}
	for _, r := range rotations {
		pools[r.Pool] = true
	}
	return len(pools)
}

// profileRows returns the rows of the versions that match, newest first for each profile.
func profileRows(f *fleet.Model, matches func(*fleet.Origin) bool) []ProfileRow {
	nodes := f.CountExistingNodesByOrigin()
	out := []ProfileRow{}
	for key, or := range f.Origins {
		if matches(or) {
			out = append(out, profileRow(or, nodes[key]))
		}
	}
	slices.SortFunc(out, func(a, b ProfileRow) int {
		return cmp.Or(cmp.Compare(a.Profile, b.Profile), cmp.Compare(b.CommittedAt, a.CommittedAt), cmp.Compare(b.Version, a.Version))
	})
	return out
}

func profileRow(or *fleet.Origin, nodes int) ProfileRow {
	return ProfileRow{
		Profile: or.Profile, Version: or.Version, Source: or.Source, Commit: or.Commit, Subject: or.Subject, Author: or.Author, CommittedAt: or.CommittedAt, Nodes: nodes,
	}
}
