package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// About is part of every page.
type About struct {
	Kind string    `json:"kind"` // Fleet, Pool, Changes, Commit, Nodes, Node, Profiles, Profile, Rollouts, Sources, Search or Error
	AsOf time.Time `json:"asOf"` // when the cluster was read
}

// about returns the part that every page has, for the layout.
func (a About) about() About { return a }

// Fleet is the first page: which pool runs what, and what needs attention.
type Fleet struct {
	About
	Nodes   Counts    `json:"nodes"`   // of all pools
	Pools   int       `json:"pools"`   // existing pools
	Notices []Notice  `json:"notices"` // what is paused or rejected
	Filter  Filter    `json:"filter"`  // as requested
	Items   []PoolRow `json:"items"`   // of this page, those that need attention first
	Paging
}

// Counts are numbers of existing nodes.
type Counts struct {
	Total    int `json:"total"`    // existing nodes
	Current  int `json:"current"`  // with the version of new machines
	Behind   int `json:"behind"`   // with another version
	Unknown  int `json:"unknown"`  // one of both is unknown
	Disputed int `json:"disputed"` // whose report contradicts the records
	Deleted  int `json:"deleted"`  // deleted, still known
}

// Notice is something that is paused or rejected, and why.
type Notice struct {
	State   string `json:"state"`            // Rejected, Paused, Disputed, or Unreadable if a permission is missing
	What    string `json:"what"`             // a ProfileSource, a profile, a pool, a node
	Link    string `json:"link,omitempty"`   // to details, if any
	Reason  string `json:"reason,omitempty"` // the condition's; empty for pools
	Message string `json:"message"`          // what is wrong, and what to do
}

// Source is a ProfileSource, and whether its content was accepted.
type Source struct {
	Namespace      string `json:"namespace"`                // of the ProfileSource
	Name           string `json:"name"`                     // of the ProfileSource
	Repository     string `json:"repository,omitempty"`     // without credentials
	Revision       string `json:"revision,omitempty"`       // the last with all files accepted
	Commit         string `json:"commit,omitempty"`         // of that revision
	State          string `json:"state"`                    // Ready, NotReady, Reconciling, Suspended or Unknown
	Reason         string `json:"reason,omitempty"`         // of condition Ready
	Message        string `json:"message,omitempty"`        // of condition Ready
	Verified       string `json:"verified,omitempty"`       // state in condition SourceVerified
	Profiles       int    `json:"profiles"`                 // in its inventory
	HasPage        bool   `json:"hasPage"`                  // its commit introduced a version or made one current
	RejectedCommit string `json:"rejectedCommit,omitempty"` // of which files were rejected
}

// PoolRow is one pool.
type PoolRow struct {
	Namespace string         `json:"namespace"`         // of the MachineDeployment
	Name      string         `json:"name"`              // of the MachineDeployment
	Profile   string         `json:"profile,omitempty"` // requested profile
	State     State          `json:"state"`             // its state
	Why       string         `json:"why,omitempty"`     // the reason for the state
	Nodes     Counts         `json:"nodes"`             // of the pool
	Versions  []VersionShare `json:"versions"`          // on its nodes, newest first
}

// VersionShare is the number of a pool's nodes with one version from one commit.
type VersionShare struct {
	Profile string    `json:"profile,omitempty"` // empty if unknown
	Version string    `json:"version,omitempty"` // empty if unknown
	Commit  string    `json:"commit,omitempty"`  // that introduced the version
	Subject string    `json:"subject,omitempty"` // of the author's commit
	Nodes   int       `json:"nodes"`             // nodes with it
	Current bool      `json:"current"`           // new machines get it
	Since   time.Time `json:"since,omitzero"`    // when the pool last got it
	Rank    int       `json:"rank"`              // 0 is the newest, -1 unknown
}

// Filter is the requested filter.
type Filter struct {
	Query string `json:"query,omitempty"` // the parameter q
	State string `json:"state,omitempty"` // the parameter state
}

// ViewFleet builds the page.
func ViewFleet(f *Model, filter Filter, page int) Fleet {
	v := Fleet{About: About{"Fleet", f.At}, Filter: filter, Notices: noticesOf(f)}
	var fit []*pool
	for _, p := range f.order {
		c := countsOf(p)
		v.Nodes.add(c)
		if p.state != Deleted {
			v.Pools++
		}
		if filter.matches(p, c) {
			fit = append(fit, p)
		}
	}
	var shown []*pool
	shown, v.Paging = paged(fit, page)
	v.Items = make([]PoolRow, 0, len(shown))
	for _, p := range shown {
		v.Items = append(v.Items, rowOf(p))
	}
	return v
}

// behindState selects pools with nodes that are behind, whatever the pool's own state is.
const behindState = "Behind"

// matches reports whether a pool matches the filter.
func (f Filter) matches(p *pool, c Counts) bool {
	switch {
	case f.State == "" || strings.EqualFold(f.State, string(p.state)):
	case strings.EqualFold(f.State, behindState) && c.Behind > 0:
	default:
		return false
	}
	q := strings.ToLower(f.Query)
	if q == "" || strings.Contains(p.key(), q) || strings.Contains(p.profile, q) {
		return true
	}
	return p.current != nil && (strings.Contains(strings.ToLower(p.current.version), q) || strings.HasPrefix(p.current.commit, q))
}

func (c *Counts) add(o Counts) {
	c.Total += o.Total
	c.Current += o.Current
	c.Behind += o.Behind
	c.Unknown += o.Unknown
	c.Disputed += o.Disputed
	c.Deleted += o.Deleted
}

func countsOf(p *pool) Counts {
	c := Counts{Total: len(p.nodes), Deleted: p.removed}
	for _, n := range p.nodes {
		switch n.Behind {
		case api.BehindNo:
			c.Current++
		case api.BehindYes:
			c.Behind++
		default:
			c.Unknown++
		}
		if n.Disputed {
			c.Disputed++
		}
	}
	return c
}

func rowOf(p *pool) PoolRow {
	return PoolRow{
		Namespace: p.namespace, Name: p.name, Profile: p.profile, State: p.state, Why: p.why,
		Nodes: countsOf(p), Versions: sharesOf(p),
	}
}

// sharesOf counts the versions on the nodes of a pool, newest first and unknown last. The
// pool's current version is first, even if no node has it yet.
func sharesOf(p *pool) []VersionShare {
	at := map[originKey]int{}
	var out []VersionShare
	share := func(g *configuration, profile, version, commit string) *VersionShare {
		key := originKey{profile, version, commit}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, VersionShare{Profile: profile, Version: version, Commit: commit})
		}
		s := &out[i]
		if g != nil {
			if g.origin != nil {
				s.Subject = g.origin.Subject
			}
			if since := g.since(); since.After(s.Since) {
				s.Since = since
			}
			s.Current = s.Current || g == p.current
		}
		return s
	}
	if g := p.current; g != nil {
		share(g, g.profile, g.version, g.commit)
	}
	for _, n := range p.nodes {
		share(n.gen, n.Profile, n.Version, n.Commit).Nodes++
	}
	slices.SortStableFunc(out, func(a, b VersionShare) int {
		return cmp.Or(compareBool(a.Version != "", b.Version != ""), compareBool(a.Current, b.Current), b.Since.Compare(a.Since), cmp.Compare(b.Version, a.Version))
	})
	for i := range out {
		out[i].Rank = i
		if out[i].Version == "" {
			out[i].Rank = -1
		}
	}
	return out
}

// compareBool sorts true before false.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func sourcesOf(f *Model) []Source {
	out := make([]Source, 0, len(f.sources))
	for i := range f.sources {
		ps := &f.sources[i]
		s := Source{
			Namespace: ps.Namespace, Name: ps.Name, Repository: clean(ps.Status.Repository), Revision: clean(ps.Status.Revision),
			Commit: commitOf(ps.Status.Revision), State: "Unknown", Profiles: len(ps.Status.Profiles), RejectedCommit: rejectedCommit(ps), HasPage: f.commits[commitOf(ps.Status.Revision)] != nil,
		}
		if ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition); ready != nil {
			s.State = map[metav1.ConditionStatus]string{metav1.ConditionTrue: "Ready", metav1.ConditionFalse: "NotReady"}[ready.Status]
			s.State, s.Reason, s.Message = cmp.Or(s.State, "Reconciling"), ready.Reason, text(ready.Message)
		}
		if ps.Spec.Suspend {
			s.State = string(Suspended)
		}
		if c := apimeta.FindStatusCondition(ps.Status.Conditions, api.SourceVerifiedCondition); c != nil {
			s.Verified = text(c.Message)
		}
		out = append(out, s)
	}
	return out
}

// commitOf returns the commit of a revision such as "main@sha1:<40 hex>"; "" for one that
// has none.
func commitOf(revision string) string {
	_, id, ok := strings.Cut(revision, "@sha1:")
	if !ok {
		return ""
	}
	return id
}

// maxNotices bounds the rejected pools and the disputed nodes in notices; the lists are
// complete.
const maxNotices = 10

// noticesOf returns what is paused or rejected: sources, then rollouts, then pools, then
// disputed nodes.
func noticesOf(f *Model) []Notice {
	out := []Notice{}
	for _, what := range f.readErrors {
		out = append(out, Notice{State: "Unreadable", What: "This page lacks something", Message: what})
	}
	for i := range f.sources {
		ps := &f.sources[i]
		rejection := rejectionOf(ps)
		for _, kind := range []string{meta.ReadyCondition, api.SourceVerifiedCondition} {
			c := apimeta.FindStatusCondition(ps.Status.Conditions, kind)
			if c == nil || c.Status != metav1.ConditionFalse || kind == api.SourceVerifiedCondition && len(out) > 0 && out[len(out)-1].What == rejection.What {
				continue
			}
			rejection.Reason, rejection.Message = c.Reason, text(c.Message)
			out = append(out, rejection)
		}
		for _, r := range ps.Status.Rollouts {
			if r.Held {
				out = append(out, Notice{
					State: string(Paused), What: "Profile " + r.Profile + " " + r.Version + " at wave " + digit(r.Wave), Link: commitLink(r.Commit),
					Reason: r.Reason, Message: text(r.Message),
				})
			}
		}
	}
	named := 0
	for _, p := range f.order { // rejected ones are first
		if p.state != Rejected || named == maxNotices {
			break
		}
		named++
		out = append(out, Notice{State: string(Rejected), What: "Pool " + p.key(), Link: poolLink(p.key()), Message: p.why})
	}
	return append(out, f.disputes()...)
}

// disputes returns a notice for each node whose report contradicts the records.
func (f *Model) disputes() []Notice {
	var out []Notice
	for _, n := range f.nodes {
		if n.Disputed && n.Removed == nil && len(out) < maxNotices {
			out = append(out, Notice{
				State: "Disputed", What: "Node " + n.Node, Link: nodeLink(n.Node), Reason: api.EventProvenanceDisputed,
				Message: "Its report does not agree with the records of its pool.",
			})
		}
	}
	return out
}
