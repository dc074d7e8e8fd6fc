package page

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

// About is on every page.
type About struct {
	// Kind of the page: Fleet, Pool, Commit, Node, Search or Error.
	Kind string `json:"kind"`
	// AsOf is when the cluster was read.
	AsOf time.Time `json:"asOf"`
}

// Fleet is the first page: which pool runs what, and what needs somebody.
type Fleet struct {
	About
	Nodes   Counts    `json:"nodes"`
	Pools   int       `json:"pools"`
	Notices []Notice  `json:"notices"`
	Sources []Source  `json:"sources"`
	Filter  Filter    `json:"filter"`
	Items   []PoolRow `json:"items"`
	Paging
}

// Counts are nodes that are there.
type Counts struct {
	Total int `json:"total"`
	// Current have the version that their pool gives to new machines, Behind another one.
	// Of Unknown one of the two is not known.
	Current int `json:"current"`
	Behind  int `json:"behind"`
	Unknown int `json:"unknown"`
	// Disputed say of themselves something else than the records do.
	Disputed int `json:"disputed"`
	// Gone are nodes that were removed and are still known.
	Gone int `json:"gone"`
}

// Notice is something that is held or refused, and why.
type Notice struct {
	// State is one word, such as Refused.
	State string `json:"state"`
	// What it is about: a ProfileSource, a pool, a profile.
	What string `json:"what"`
	// Link leads to more, where there is a page.
	Link    string `json:"link,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

// Source is a ProfileSource and whether what is in it was accepted.
type Source struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Repository string `json:"repository,omitempty"`
	Revision   string `json:"revision,omitempty"`
	Commit     string `json:"commit,omitempty"`
	// State is Ready, NotReady, Reconciling, Suspended or Unknown.
	State    string        `json:"state"`
	Reason   string        `json:"reason,omitempty"`
	Message  string        `json:"message,omitempty"`
	Verified string        `json:"verified,omitempty"`
	Profiles int           `json:"profiles"`
	Rollouts []RolloutLine `json:"rollouts,omitempty"`
}

// RolloutLine is how far a version of a profile has come.
type RolloutLine struct {
	Profile string `json:"profile"`
	Version string `json:"version"`
	Wave    int32  `json:"wave"`
	Held    bool   `json:"held"`
	Adopted int32  `json:"adopted"`
	Pools   int32  `json:"pools"`
	Reason  string `json:"reason"`
}

// PoolRow is one pool.
type PoolRow struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Profile   string `json:"profile,omitempty"`
	State     State  `json:"state"`
	Why       string `json:"why,omitempty"`
	Nodes     Counts `json:"nodes"`
	// Versions are what its nodes run, the newest first.
	Versions []VersionShare `json:"versions"`
}

// VersionShare are the nodes of a pool with one version from one commit.
type VersionShare struct {
	// Profile and Version are empty where it is not known what the nodes run.
	Profile string `json:"profile,omitempty"`
	Version string `json:"version,omitempty"`
	Commit  string `json:"commit,omitempty"`
	Nodes   int    `json:"nodes"`
	// Current is what the pool gives to new machines.
	Current bool `json:"current"`
	// Since is when the pool got it last.
	Since time.Time `json:"since,omitzero"`
	// Rank is its place in the bar: 0 is the newest, -1 not known.
	Rank int `json:"rank"`
}

// Filter is what was asked for.
type Filter struct {
	Query string `json:"query,omitempty"`
	State string `json:"state,omitempty"`
}

// ViewFleet makes the page.
func ViewFleet(f *Facts, filter Filter, page int) Fleet {
	v := Fleet{About: About{"Fleet", f.At}, Filter: filter, Notices: noticesOf(f), Sources: sourcesOf(f)}
	var fit []*pool
	for _, p := range f.order {
		c := countsOf(p)
		v.Nodes.add(c)
		if p.state != Gone {
			v.Pools++
		}
		if filter.takes(p, c) {
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

// behindState selects pools with nodes that are behind, whatever the pool's own state.
const behindState = "Behind"

// takes reports whether a pool is one that was asked for.
func (f Filter) takes(p *pool, c Counts) bool {
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
	c.Gone += o.Gone
}

func countsOf(p *pool) Counts {
	c := Counts{Total: len(p.nodes), Gone: p.removed}
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

// sharesOf counts what the nodes of a pool run, the newest first and the unknown last.
// What the pool has now is the first, also where no node has it yet.
func sharesOf(p *pool) []VersionShare {
	at := map[originKey]int{}
	var out []VersionShare
	share := func(g *generation, profile, version, commit string) *VersionShare {
		key := originKey{profile, version, commit}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, VersionShare{Profile: profile, Version: version, Commit: commit})
		}
		s := &out[i]
		if g != nil {
			if since := g.last(); since.After(s.Since) {
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

// compareBool sorts what is true first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func sourcesOf(f *Facts) []Source {
	out := make([]Source, 0, len(f.sources))
	for i := range f.sources {
		ps := &f.sources[i]
		s := Source{
			Namespace: ps.Namespace, Name: ps.Name, Repository: clean(ps.Status.Repository), Revision: clean(ps.Status.Revision),
			Commit: commitOf(ps.Status.Revision), State: "Unknown", Profiles: len(ps.Status.Profiles),
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
		for _, r := range ps.Status.Rollouts {
			if !r.Done {
				s.Rollouts = append(s.Rollouts, RolloutLine{r.Profile, r.Version, r.Wave, r.Held, r.Pools.Adopted, r.Pools.Total, r.Reason})
			}
		}
		out = append(out, s)
	}
	return out
}

// commitOf is the commit of a revision such as "main@sha1:<40 hex>"; "" for one that
// has none.
func commitOf(revision string) string {
	_, id, ok := strings.Cut(revision, "@sha1:")
	if !ok {
		return ""
	}
	return id
}

// maxNotices is how many pools are named of those that are held or refused; the list
// of pools has them all, in the same order.
const maxNotices = 10

// noticesOf are what is held or refused: sources first, then rollouts, then pools.
func noticesOf(f *Facts) []Notice {
	out := []Notice{}
	for _, what := range f.unread {
		out = append(out, Notice{State: "Unreadable", What: "This page lacks something", Message: what})
	}
	for i := range f.sources {
		ps := &f.sources[i]
		what := "ProfileSource " + ps.Namespace + "/" + ps.Name
		for _, kind := range []string{meta.ReadyCondition, api.SourceVerifiedCondition} {
			c := apimeta.FindStatusCondition(ps.Status.Conditions, kind)
			if c == nil || c.Status != metav1.ConditionFalse || kind == api.SourceVerifiedCondition && len(out) > 0 && out[len(out)-1].What == what {
				continue
			}
			out = append(out, Notice{State: string(Refused), What: what, Reason: c.Reason, Message: text(c.Message)})
		}
		for _, r := range ps.Status.Rollouts {
			if r.Held {
				out = append(out, Notice{
					State: string(Held), What: "Profile " + r.Profile + " " + r.Version + " at wave " + digit(r.Wave), Link: commitLink(r.Commit),
					Reason: r.Reason, Message: text(r.Message),
				})
			}
		}
	}
	named := 0
	for _, p := range f.order { // refused ones come first
		if p.state != Refused || named == maxNotices {
			break
		}
		named++
		out = append(out, Notice{State: string(Refused), What: "Pool " + p.key(), Link: poolLink(p.key()), Reason: api.ReasonNewerRefused, Message: p.why})
	}
	return out
}
