package ui

import (
	"slices"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// Pool is the page of one pool.
type Pool struct {
	About
	PoolRow
	Pin            string          `json:"pin,omitempty"`  // requested version
	Configurations []Configuration `json:"configurations"` // one for each period, newest first, at most 50
	Items          []NodeRow       `json:"items"`          // nodes of this page
	Paging
}

// Configuration is a period in which a pool had a configuration. A configuration that comes
// back, for instance by a revert, has a second period.
type Configuration struct {
	InputDigest string    `json:"inputDigest"`       // identifies its record
	Profile     string    `json:"profile"`           // by name
	Version     string    `json:"version"`           // of the profile
	Commit      string    `json:"commit,omitempty"`  // that introduced the version
	Subject     string    `json:"subject,omitempty"` // of the author's commit
	Author      string    `json:"author,omitempty"`  // of the version
	Current     bool      `json:"current"`           // it is the current one
	From        time.Time `json:"from,omitzero"`     // when the pool got it
	Until       time.Time `json:"until,omitzero"`    // when it got another or none
}

// NodeRow is a node in a list.
type NodeRow struct {
	Name     string    `json:"name"`              // of the Node
	Record   string    `json:"record"`            // its NodeProvenance
	Pool     string    `json:"pool"`              // namespace/name
	Profile  string    `json:"profile,omitempty"` // provisioned from it
	Version  string    `json:"version,omitempty"` // of the profile
	Commit   string    `json:"commit,omitempty"`  // that introduced the version
	Subject  string    `json:"subject,omitempty"` // of the author's commit
	Evidence string    `json:"evidence"`          // Reported, Inferred or Unknown
	Behind   string    `json:"behind"`            // No, Yes or Unknown
	Disputed bool      `json:"disputed"`          // its report contradicts the records
	Joined   time.Time `json:"joined"`            // when the Node was created
	Removed  time.Time `json:"removed,omitzero"`  // when this was noticed
}

// ViewPool builds the page of a pool; false if there is none with this name.
func ViewPool(f *Model, key string, page int) (Pool, bool) {
	p := f.pools[key]
	if p == nil {
		return Pool{}, false
	}
	v := Pool{About: About{"Pool", f.At}, PoolRow: rowOf(p), Pin: p.pin}
	v.Configurations, _ = paged(f.Configurations(key), 1)
	shown, paging := paged(p.nodes, page)
	v.Items, v.Paging = rowsOf(shown), paging
	return v, true
}

// Configurations are all that a pool had, newest first.
func (f *Model) Configurations(key string) []Configuration {
	out := []Configuration{}
	if p := f.pools[key]; p != nil {
		for _, use := range slices.Backward(p.timeline) {
			out = append(out, f.configurationOf(use))
		}
	}
	return out
}

func (f *Model) configurationOf(g lineage.Generation) Configuration {
	c := Configuration{
		InputDigest: g.InputDigest, Profile: g.Profile, Version: g.Version, Commit: g.Commit,
		Current: g.Until.IsZero(), From: g.From, Until: g.Until,
	}
	if of := f.configurations[g.InputDigest]; of.origin != nil {
		c.Author, c.Subject = of.origin.Author, of.origin.Subject
	}
	return c
}

func rowsOf(nodes []*node) []NodeRow {
	out := make([]NodeRow, 0, len(nodes))
	for _, n := range nodes {
		r := NodeRow{
			Name: n.Node, Record: n.Record, Pool: n.Pool, Profile: n.Profile, Version: n.Version, Commit: n.Commit,
			Evidence: string(n.Evidence), Behind: string(n.Behind), Disputed: n.Disputed, Joined: n.Joined.Time,
		}
		if n.gen != nil && n.gen.origin != nil {
			r.Subject = n.gen.origin.Subject
		}
		if r.Behind == "" {
			r.Behind = "Unknown"
		}
		if n.Removed != nil {
			r.Removed = n.Removed.Time
		}
		out = append(out, r)
	}
	return out
}
