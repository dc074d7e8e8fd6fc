package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
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

	commit *commit
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
	// minPrefix is the shortest accepted prefix of a commit.
	minPrefix = 4
)

// ViewSearch finds nodes, commits, authors, profiles and pools by a part of their name, and
// commits by a prefix. A result matches all words.
func ViewSearch(f *Model, query string, page int) Search {
	query = strings.TrimSpace(clean(query))
	query = query[:min(len(query), maxQuery)]
	v := Search{About: About{"Search", f.At}, Query: query, Commits: []CommitRow{}, Profiles: []ProfileRow{}, Pools: []PoolRow{}, Items: []NodeRow{}}
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		_, v.Paging = paged([]*node(nil), page)
		return v
	}
	v.Commits = f.commitRows(func(r CommitRow) bool {
		return begins(words, r.ID) || r.Author != "" && containsAll(words, r.Author) || r.Subject != "" && containsAll(words, r.Subject)
	})
	v.Commits = v.Commits[:min(len(v.Commits), maxFound)]
	f.count(v.Commits)
	v.Profiles = f.profileRows(func(or *origin) bool { return containsAll(words, or.Profile, or.Version, or.Source, or.Object) })
	v.Profiles = v.Profiles[:min(len(v.Profiles), maxFound)]
	for _, p := range f.order {
		if len(v.Pools) < maxFound && containsAll(words, p.key(), p.profile) {
			v.Pools = append(v.Pools, rowOf(p))
		}
	}
	var fit []*node
	for _, n := range f.nodes {
		if n.matches(words) {
			fit = append(fit, n)
		}
	}
	shown, paging := paged(fit, page)
	v.Items, v.Paging = rowsOf(shown), paging
	return v
}

func authorOf(g *configuration) string {
	if g == nil || g.origin == nil {
		return ""
	}
	return g.origin.Author
}

// containsAll reports whether every word is in one of the texts.
func containsAll(words []string, texts ...string) bool {
	for _, w := range words {
		if !slices.ContainsFunc(texts, func(t string) bool { return t != "" && strings.Contains(strings.ToLower(t), w) }) {
			return false
		}
	}
	return true
}

// begins reports whether a single word is a prefix of a commit.
func begins(words []string, commit string) bool {
	return len(words) == 1 && len(words[0]) >= minPrefix && strings.HasPrefix(commit, words[0])
}

// nodesByOrigin counts the existing nodes by commit and version.
func (f *Model) nodesByOrigin() map[originKey]int {
	out := map[originKey]int{}
	for _, n := range f.nodes {
		if n.Removed == nil {
			out[originKey{n.Profile, n.Version, n.Commit}]++
		}
	}
	return out
}

// commitRows returns the rows of the commits that match, newest first.
func (f *Model) commitRows(matches func(CommitRow) bool) []CommitRow {
	out := []CommitRow{}
	for _, c := range f.commits {
		if row := f.commitRow(c); matches(row) {
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b CommitRow) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return out
}

// commitRow returns the row of a commit without its pools and nodes.
func (f *Model) commitRow(c *commit) CommitRow {
	row := CommitRow{ID: clean(c.id), Versions: []string{}, commit: c}
	for _, or := range slices.Concat(c.origins, c.selected) {
		row.Versions = append(row.Versions, or.Profile+" "+or.Version)
	}
	slices.Sort(row.Versions)
	row.Versions = slices.Compact(row.Versions)
	for _, or := range c.origins {
		row.Author, row.Subject = cmp.Or(row.Author, or.Author), cmp.Or(row.Subject, or.Subject)
		if or.Commit == c.id {
			row.Signature = cmp.Or(row.Signature, or.Signature)
		}
		if at := or.committed(); at.After(row.At) {
			row.At = at
		}
	}
	for _, ps := range c.rejectedBy {
		rejection := rejectionOf(ps)
		row.Rejected = cmp.Or(row.Rejected, rejection.Reason)
		if ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition); ready != nil && row.At.IsZero() {
			row.At = ready.LastTransitionTime.Time
		}
	}
	if row.At.IsZero() {
		row.At = f.firstUse(c)
	}
	return row
}

// firstUse returns when the first pool got a configuration because of a commit; zero if
// none did.
func (f *Model) firstUse(c *commit) time.Time {
	var first time.Time
	for _, r := range f.rotations(c) { // latest first
		first = r.From
	}
	return first
}

// count counts pools and nodes of the shown commits, as the page of each does.
func (f *Model) count(rows []CommitRow) {
	for i := range rows {
		rows[i].Pools = poolsOf(f.rotations(rows[i].commit))
		for _, n := range f.nodes {
			if n.gen != nil && isProvisionedFrom(n, rows[i].commit.id) {
				rows[i].Nodes++
			}
		}
	}
}

// poolsOf counts the pools of rotations, since a pool can get a version twice.
func poolsOf(rotations []Rotation) int {
	pools := map[string]bool{}
	for _, r := range rotations {
		pools[r.Pool] = true
	}
	return len(pools)
}

// profileRows returns the rows of the versions that match, newest first for each profile.
func (f *Model) profileRows(matches func(*origin) bool) []ProfileRow {
	nodes := f.nodesByOrigin()
	out := []ProfileRow{}
	for key, or := range f.origins {
		if matches(or) {
			out = append(out, profileRow(or, nodes[key]))
		}
	}
	slices.SortFunc(out, func(a, b ProfileRow) int {
		return cmp.Or(cmp.Compare(a.Profile, b.Profile), cmp.Compare(b.CommittedAt, a.CommittedAt), cmp.Compare(b.Version, a.Version))
	})
	return out
}

func profileRow(or *origin, nodes int) ProfileRow {
	return ProfileRow{
		Profile: or.Profile, Version: or.Version, Source: or.Source, Commit: or.Commit, Subject: or.Subject, Author: or.Author, CommittedAt: or.CommittedAt, Nodes: nodes,
	}
}

// committed returns the time of the commit; zero if unknown.
func (o *origin) committed() time.Time {
	t, err := time.Parse(time.RFC3339, o.CommittedAt)
	if err != nil {
		return time.Time{}
	}
	return t
}
