package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// About is part of every page.
type About struct {
	Kind string    `json:"kind"` // Fleet, Pool, Changes, Commit, Nodes, Node, Profiles, Profile, Rollouts, Sources, Search or Error
	AsOf time.Time `json:"asOf"` // when the cluster was read
}

// Head returns the part that every page has, for the layout.
func (a About) Head() About { return a }

// Fleet is the first page: which pool runs what, and what needs attention.
type Fleet struct {
	About
	Nodes   fleet.Counts `json:"nodes"`   // of all pools
	Pools   int          `json:"pools"`   // existing pools
	Notices []Notice     `json:"notices"` // what is paused or rejected
	Filter  Filter       `json:"filter"`  // as requested
	Items   []PoolRow    `json:"items"`   // of this page, those that need attention first
	Paging
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
	State     fleet.State    `json:"state"`             // its state
	Why       string         `json:"why,omitempty"`     // the reason for the state
	Nodes     fleet.Counts   `json:"nodes"`             // of the pool
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

// NewFleet builds the page.
func NewFleet(f *fleet.Model, filter Filter, page int) Fleet {
	v := Fleet{About: About{"Fleet", f.At}, Filter: filter, Notices: noticesOf(f)}
	var fit []*fleet.Pool
	for _, p := range f.SortedPools {
		c := p.Counts()
		v.Nodes.Add(c)
		if p.State != fleet.Deleted {
			v.Pools++
		}
		if filter.matches(p, c) {
			fit = append(fit, p)
		}
	}
	var shown []*fleet.Pool
	shown, v.Paging = selectPage(fit, page)
	v.Items = make([]PoolRow, 0, len(shown))
	for _, p := range shown {
		v.Items = append(v.Items, rowOf(p))
	}
	return v
}

// behindState selects pools with nodes that are behind, whatever the pool's own state is.
const behindState = "Behind"

// matches reports whether a pool matches the filter.
func (f Filter) matches(p *fleet.Pool, c fleet.Counts) bool {
	switch {
	case f.State == "" || strings.EqualFold(f.State, string(p.State)):
	case strings.EqualFold(f.State, behindState) && c.Behind > 0:
	default:
		return false
	}
	q := strings.ToLower(f.Query)
	if q == "" || strings.Contains(p.Key(), q) || strings.Contains(p.Profile, q) {
		return true
	}
	return p.Current != nil && (strings.Contains(strings.ToLower(p.Current.Version), q) || strings.HasPrefix(p.Current.Commit, q))
}

func rowOf(p *fleet.Pool) PoolRow {
	return PoolRow{
		Namespace: p.Namespace, Name: p.Name, Profile: p.Profile, State: p.State, Why: p.Why,
		Nodes: p.Counts(), Versions: sharesOf(p),
	}
}

// sharesOf counts the versions on the nodes of a pool, newest first and unknown last. The
// pool's current version is first, even if no node has it yet.
func sharesOf(p *fleet.Pool) []VersionShare {
	at := map[fleet.OriginKey]int{}
	var out []VersionShare
	share := func(g *fleet.Configuration, profile, version, commit string) *VersionShare {
		key := fleet.OriginKey{Profile: profile, Version: version, Commit: commit}
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, VersionShare{Profile: profile, Version: version, Commit: commit})
		}
		s := &out[i]
		if g != nil {
			if g.Origin != nil {
				s.Subject = g.Origin.Subject
			}
			if since := g.Since(); since.After(s.Since) {
				s.Since = since
			}
			s.Current = s.Current || g == p.Current
		}
		return s
	}
	if g := p.Current; g != nil {
		share(g, g.Profile, g.Version, g.Commit)
	}
	for _, n := range p.Nodes {
		share(n.Configuration, n.Profile, n.Version, n.Commit).Nodes++
	}
	slices.SortStableFunc(out, func(a, b VersionShare) int {
		return cmp.Or(compareTrueFirst(a.Version != "", b.Version != ""), compareTrueFirst(a.Current, b.Current), b.Since.Compare(a.Since), cmp.Compare(b.Version, a.Version))
	})
	for i := range out {
		out[i].Rank = i
		if out[i].Version == "" {
			out[i].Rank = -1
		}
	}
	return out
}

// compareTrueFirst sorts true before false.
func compareTrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func sourcesOf(f *fleet.Model) []Source {
	out := make([]Source, 0, len(f.Sources))
	for i := range f.Sources {
		ps := &f.Sources[i]
		s := Source{
			Namespace: ps.Namespace, Name: ps.Name, Repository: redact.PrintableLine(ps.Status.Repository), Revision: redact.PrintableLine(ps.Status.Revision),
			Commit: fleet.CommitOf(ps.Status.Revision), State: "Unknown", Profiles: len(ps.Status.Profiles), RejectedCommit: fleet.RejectedCommit(ps), HasPage: f.Commits[fleet.CommitOf(ps.Status.Revision)] != nil,
		}
		if ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition); ready != nil {
			s.State = map[metav1.ConditionStatus]string{metav1.ConditionTrue: "Ready", metav1.ConditionFalse: "NotReady"}[ready.Status]
			s.State = cmp.Or(s.State, "Reconciling")
			s.Reason = ready.Reason
			s.Message = redact.PrintableText(ready.Message, redact.MaxMessage)
		}
		if ps.Spec.Suspend {
			s.State = string(fleet.Suspended)
		}
		if c := apimeta.FindStatusCondition(ps.Status.Conditions, api.SourceVerifiedCondition); c != nil {
			s.Verified = redact.PrintableText(c.Message, redact.MaxMessage)
		}
		out = append(out, s)
	}
	return out
}

// maxNotices bounds the rejected pools and the disputed nodes in notices; the lists are
// complete.
const maxNotices = 10

// noticesOf returns what is paused or rejected: sources, then rollouts, then pools, then
// disputed nodes.
func noticesOf(f *fleet.Model) []Notice {
	out := []Notice{}
	for _, what := range f.ReadErrors {
		out = append(out, Notice{State: "Unreadable", What: "This page lacks something", Message: what})
	}
	for i := range f.Sources {
		ps := &f.Sources[i]
		rejection := rejectionNotice(ps)
		for _, kind := range []string{meta.ReadyCondition, api.SourceVerifiedCondition} {
			c := apimeta.FindStatusCondition(ps.Status.Conditions, kind)
			if c == nil || c.Status != metav1.ConditionFalse || kind == api.SourceVerifiedCondition && len(out) > 0 && out[len(out)-1].What == rejection.What {
				continue
			}
			rejection.Reason, rejection.Message = c.Reason, redact.PrintableText(c.Message, redact.MaxMessage)
			out = append(out, rejection)
		}
		for _, r := range ps.Status.Rollouts {
			if r.Held {
				out = append(out, Notice{
					State: string(fleet.Paused), What: "Profile " + r.Profile + " " + r.Version + " at wave " + strconv.Itoa(int(r.Wave)), Link: CommitLink(r.Commit),
					Reason: r.Reason, Message: redact.PrintableText(r.Message, redact.MaxMessage),
				})
			}
		}
	}
	named := 0
	for _, p := range f.SortedPools { // rejected ones are first
		if p.State != fleet.Rejected || named == maxNotices {
			break
		}
		named++
		out = append(out, Notice{State: string(fleet.Rejected), What: "Pool " + p.Key(), Link: PoolLink(p.Key()), Message: p.Why})
	}
	return append(out, disputeNotices(f)...)
}

// disputeNotices returns a notice for each node whose report contradicts the records.
func disputeNotices(f *fleet.Model) []Notice {
	var out []Notice
	for _, n := range f.Nodes {
		if n.Disputed && n.Removed == nil && len(out) < maxNotices {
			out = append(out, Notice{
				State: "Disputed", What: "Node " + n.Node, Link: NodeLink(n.Node), Reason: api.EventProvenanceDisputed,
				Message: "Its report does not agree with the records of its pool.",
			})
		}
	}
	return out
}

// PoolStates returns the states of the filter for pools.
func PoolStates() []string {
	out := []string{behindState}
	for _, s := range fleet.States {
		out = append(out, string(s))
	}
	return out
}
