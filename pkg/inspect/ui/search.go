package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"
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
	ID          string   `json:"id"`                    // in full
	Author      string   `json:"author,omitempty"`      // "Name <address>"
	CommittedAt string   `json:"committedAt,omitempty"` // RFC 3339
	Versions    []string `json:"versions"`              // "profile version", introduced or made current
	Nodes       int      `json:"nodes"`                 // existing nodes with these
}

// ProfileRow is a version of a profile.
type ProfileRow struct {
	Profile     string `json:"profile"`               // by name
	Version     string `json:"version"`               // of the profile
	Source      string `json:"source,omitempty"`      // the ProfileSource
	Commit      string `json:"commit,omitempty"`      // that introduced the version
	Author      string `json:"author,omitempty"`      // "Name <address>"
	CommittedAt string `json:"committedAt,omitempty"` // RFC 3339
	Nodes       int    `json:"nodes"`                 // existing nodes with it
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
	nodes := f.nodesByOrigin()
	v.Commits = f.findCommits(words, nodes)
	v.Profiles = f.findProfiles(words, nodes)
	for _, p := range f.order {
		if len(v.Pools) < maxFound && containsAll(words, p.key(), p.profile) {
			v.Pools = append(v.Pools, rowOf(p))
		}
	}
	var fit []*node
	for _, n := range f.nodes {
		if containsAll(words, n.Node, n.Pool, n.Profile, n.Version, n.Record) || begins(words, n.Commit) || n.gen != nil && begins(words, n.gen.change) || containsAll(words, authorOf(n.gen)) {
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

func (f *Model) findCommits(words []string, nodes map[originKey]int) []CommitRow {
	out := []CommitRow{}
	for id, c := range f.commits {
		row := CommitRow{ID: id, Versions: []string{}}
		for _, or := range slices.Concat(c.origins, c.selected) {
			row.Versions = append(row.Versions, or.Profile+" "+or.Version)
			row.Nodes += nodes[originKey{or.Profile, or.Version, or.Commit}]
		}
		for _, or := range c.origins {
			row.Author = cmp.Or(row.Author, or.Author)
			row.CommittedAt = max(row.CommittedAt, or.CommittedAt)
		}
		if begins(words, id) || row.Author != "" && containsAll(words, row.Author) {
			slices.Sort(row.Versions)
			row.Versions = slices.Compact(row.Versions)
			out = append(out, row)
		}
	}
	slices.SortFunc(out, func(a, b CommitRow) int {
		return cmp.Or(cmp.Compare(b.CommittedAt, a.CommittedAt), cmp.Compare(a.ID, b.ID))
	})
	return out[:min(len(out), maxFound)]
}

func (f *Model) findProfiles(words []string, nodes map[originKey]int) []ProfileRow {
	out := []ProfileRow{}
	for key, or := range f.origins {
		if containsAll(words, or.Profile, or.Version, or.Source, or.Object) {
			out = append(out, profileRow(or, nodes[key]))
		}
	}
	slices.SortFunc(out, func(a, b ProfileRow) int {
		return cmp.Or(cmp.Compare(a.Profile, b.Profile), cmp.Compare(b.CommittedAt, a.CommittedAt), cmp.Compare(b.Version, a.Version))
	})
	return out[:min(len(out), maxFound)]
}

func profileRow(or *origin, nodes int) ProfileRow {
	return ProfileRow{Profile: or.Profile, Version: or.Version, Source: or.Source, Commit: or.Commit, Author: or.Author, CommittedAt: or.CommittedAt, Nodes: nodes}
}

// committed returns the time of the commit; zero if unknown.
func (o *origin) committed() time.Time {
	t, err := time.Parse(time.RFC3339, o.CommittedAt)
	if err != nil {
		return time.Time{}
	}
	return t
}
