package page

import "time"

// Pool is the page of one pool.
type Pool struct {
	About
	PoolRow
	Pin string `json:"pin,omitempty"`
	// Configurations are those that it had, the newest first.
	Configurations []Configuration `json:"configurations"`
	// Items are its nodes.
	Items []NodeRow `json:"items"`
	Paging
}

// Configuration is one that a pool has, or had.
type Configuration struct {
	InputDigest string `json:"inputDigest"`
	Profile     string `json:"profile"`
	Version     string `json:"version"`
	Commit      string `json:"commit,omitempty"`
	Author      string `json:"author,omitempty"`
	Current     bool   `json:"current"`
	// From is when the pool got it last, Until when it got another.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Times is how often it had it.
	Times int `json:"times"`
}

// NodeRow is a node in a list.
type NodeRow struct {
	Name     string    `json:"name"`
	Record   string    `json:"record"`
	Pool     string    `json:"pool"`
	Profile  string    `json:"profile,omitempty"`
	Version  string    `json:"version,omitempty"`
	Commit   string    `json:"commit,omitempty"`
	Evidence string    `json:"evidence"`
	Behind   string    `json:"behind"`
	Disputed bool      `json:"disputed"`
	Joined   time.Time `json:"joined"`
	Removed  time.Time `json:"removed,omitzero"`
}

// ViewPool makes the page of a pool; false where there is none of that name.
func ViewPool(f *Facts, key string, page int) (Pool, bool) {
	p := f.pools[key]
	if p == nil {
		return Pool{}, false
	}
	v := Pool{About: About{"Pool", f.At}, PoolRow: rowOf(p), Pin: p.pin, Configurations: []Configuration{}}
	for _, g := range p.generations[:min(len(p.generations), pageSize)] {
		v.Configurations = append(v.Configurations, configurationOf(p, g))
	}
	shown, paging := paged(p.nodes, page)
	v.Items, v.Paging = rowsOf(shown), paging
	return v, true
}

func configurationOf(p *pool, g *generation) Configuration {
	c := Configuration{
		InputDigest: g.digest, Profile: g.profile, Version: g.version, Commit: g.commit, Current: p != nil && g == p.current,
		From: g.last(), Times: len(g.stood),
	}
	if g.origin != nil {
		c.Author = g.origin.Author
	}
	for _, in := range g.stood {
		if in.From.Time.Equal(c.From) {
			c.Until = in.Until.Time
		}
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
