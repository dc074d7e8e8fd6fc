package fleet

import (
	"slices"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// Period is a time in which a pool had a configuration. A configuration that comes
// back, for instance by a revert, has a second period.
type Period struct {
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

// PeriodsOfPool are those of a pool, newest first.
func (f *Model) PeriodsOfPool(key string) []Period {
	out := []Period{}
	if p := f.Pools[key]; p != nil {
		for _, use := range slices.Backward(p.Timeline) {
			out = append(out, f.periodOf(use))
		}
	}
	return out
}

func (f *Model) periodOf(g lineage.Generation) Period {
	c := Period{
		InputDigest: g.InputDigest, Profile: g.Profile, Version: g.Version, Commit: g.Commit,
		Current: g.Until.IsZero(), From: g.From, Until: g.Until,
	}
	if of := f.Configurations[g.InputDigest]; of.Origin != nil {
		c.Author, c.Subject = of.Origin.Author, of.Origin.Subject
	}
	return c
}
