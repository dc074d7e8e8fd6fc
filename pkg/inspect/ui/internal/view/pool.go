package view

import (
	"cmp"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Pool is the page of one pool.
type Pool struct {
	About
	PoolRow
	Pin            string         `json:"pin,omitempty"`  // requested version
	Failing        []BootRow      `json:"failing"`        // its machines that do not boot with its version
	Configurations []fleet.Period `json:"configurations"` // one for each period, newest first, at most 50
	Items          []NodeRow      `json:"items"`          // nodes of this page
	Paging
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
	Match    string    `json:"match,omitempty"`   // Matches, Differs, NotReported or NotSupported
	Joined   time.Time `json:"joined"`            // when the Node was created
	Removed  time.Time `json:"removed,omitzero"`  // when this was noticed
}

// BootRow is a machine that does not boot.
type BootRow struct {
	Pool    string    `json:"pool"`            // namespace/name
	Machine string    `json:"machine"`         // can be deleted already
	Profile string    `json:"profile"`         // that it boots with
	Version string    `json:"version"`         // of the profile
	Stage   string    `json:"stage"`           // Bootstrap, Setup or Join
	Attempt int32     `json:"attempt"`         // reported last
	Since   time.Time `json:"since"`           // of the first report
	Cause   string    `json:"cause,omitempty"` // file and line, exit status
	Commit  string    `json:"commit"`          // that introduced the version
}

// bootRow describes a boot that fails, without command and output.
func bootRow(m fleet.MachineBoot) BootRow {
	b := m.Boot
	r := BootRow{
		Pool: m.Pool, Machine: m.Machine, Profile: b.Profile, Version: b.Version, Stage: string(b.Stage), Attempt: b.Attempt,
		Since: b.Since.Time, Cause: redact.PrintableLine(b.Cause.String()),
	}
	if b.Cause != nil {
		r.Commit = redact.PrintableLine(b.Cause.Commit)
	}
	return r
}

// NewPool builds the page of a pool; false if there is none with this name.
func NewPool(f *fleet.Model, key string, page int) (Pool, bool) {
	p := f.Pools[key]
	if p == nil {
		return Pool{}, false
	}
	v := Pool{About: About{"Pool", f.At}, PoolRow: rowOf(p), Pin: p.Pin}
	v.Failing = []BootRow{}
	for _, m := range p.Failing {
		// Those of earlier versions remain after their machines.
		if p.Current != nil && m.Boot.Profile == p.Current.Profile && m.Boot.Version == p.Current.Version {
			v.Failing = append(v.Failing, bootRow(m))
		}
	}
	v.Configurations, _ = selectPage(f.PeriodsOfPool(key), 1)
	shown, paging := selectPage(p.Nodes, page)
	v.Items, v.Paging = rowsOf(shown), paging
	return v, true
}

func rowsOf(nodes []*fleet.Node) []NodeRow {
	out := make([]NodeRow, 0, len(nodes))
	for _, n := range nodes {
		r := NodeRow{
			Name: n.Node, Record: n.Record, Pool: n.Pool, Profile: n.Profile, Version: n.Version, Commit: n.Commit,
			Evidence: string(n.Evidence), Behind: cmp.Or(string(n.Behind), "Unknown"), Disputed: n.Disputed, Match: string(n.Match), Joined: n.Joined.Time,
		}
		if n.Configuration != nil && n.Configuration.Origin != nil {
			r.Subject = n.Configuration.Origin.Subject
		}
		if n.Removed != nil {
			r.Removed = n.Removed.Time
		}
		out = append(out, r)
	}
	return out
}
