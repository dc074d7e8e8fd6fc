package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
	"github.com/osm-gitops/osm-gitops/pkg/selection/windows"
)

// Changes lists the commits that introduced a version or made one current, or that have
// rejected files.
type Changes struct {
	About
	Filter Filter      `json:"filter"` // as requested
	Items  []CommitRow `json:"items"`  // of this page, newest first
	Paging
}

// Nodes lists nodes, also removed ones.
type Nodes struct {
	About
	Filter Filter    `json:"filter"` // as requested
	Items  []NodeRow `json:"items"`  // of this page, by name
	Paging
}

// Profiles lists profiles.
type Profiles struct {
	About
	Items []ProfileSummary `json:"items"` // of this page, by name
	Paging
}

// ProfileSummary is a profile with its current version.
type ProfileSummary struct {
	Name     string `json:"name"`              // of the profile
	Source   string `json:"source,omitempty"`  // the ProfileSource that offers it
	Version  string `json:"version,omitempty"` // current version
	Commit   string `json:"commit,omitempty"`  // that introduced the current version
	Subject  string `json:"subject,omitempty"` // of the author's commit
	Removed  bool   `json:"removed"`           // the source no longer has it
	Versions int    `json:"versions"`          // in the cluster
	Pools    int    `json:"pools"`             // that request it
	Nodes    int    `json:"nodes"`             // existing nodes with a version of it
}

// Profile is the page of one profile: its versions in the cluster.
type Profile struct {
	About
	ProfileSummary
	Items []ProfileRow `json:"items"` // versions of this page, newest first
	Paging
}

// Rollouts lists the rollouts of versions by wave.
type Rollouts struct {
	About
	Windows []Window  `json:"windows,omitempty"` // maintenance windows of the sources
	Items   []Rollout `json:"items"`             // of this page, unfinished ones first
	Paging
}

// Window is the state of the maintenance windows of a source for one use.
type Window struct {
	Source string `json:"source"` // the ProfileSource
	api.WindowStatus
	When string `json:"when"` // "open until …", "opens …"
}

// Rollout is the progress of a version by wave.
type Rollout struct {
	Source  string    `json:"source"`            // the ProfileSource
	Profile string    `json:"profile"`           // by name
	Version string    `json:"version"`           // the new version
	Commit  string    `json:"commit,omitempty"`  // that introduced it
	Subject string    `json:"subject,omitempty"` // of the author's commit
	State   string    `json:"state"`             // Paused, Running or Done
	Wave    int32     `json:"wave"`              // the last wave that gets it
	Since   time.Time `json:"since"`             // when that wave began
	Adopted int       `json:"adopted"`           // pools that have it
	Pools   int       `json:"pools"`             // pools that follow the profile
	Joined  int       `json:"joined"`            // machines created with it that have a Node
	Waiting int       `json:"waiting"`           // machines created with it that have none yet
	Reason  string    `json:"reason"`            // what it waits for
	Message string    `json:"message,omitempty"` // details, and what to do

	Failures []RolloutFailure `json:"failures,omitempty"` // failed machines and pools, at most 20
}

// RolloutFailure counts against a version.
type RolloutFailure struct {
	Pool    string `json:"pool"`              // namespace/name
	Machine string `json:"machine,omitempty"` // empty if the pool rejected the version
	Reason  string `json:"reason"`            // NotJoined, Deleted, BootFailing or Refused
	Cause   string `json:"cause,omitempty"`   // where a script of the machine failed
}

// Sources lists the ProfileSources.
type Sources struct {
	About
	Items []Source `json:"items"` // of this page, by name
	Paging
}

// NewChanges builds the list of commits.
func NewChanges(f *fleet.Model, filter Filter, page int) Changes {
	words := strings.Fields(strings.ToLower(filter.Query))
	rows := commitRows(f, func(r CommitRow) bool {
		return len(words) == 0 || isCommitPrefix(words, r.ID) || containsAllWords(words, append(slices.Clone(r.Versions), r.Author, r.Subject)...)
	})
	shown, paging := selectPage(rows, page)
	countPoolsAndNodes(f, shown)
	return Changes{About{"Changes", f.At}, filter, shown, paging}
}

// NodeStates are the states by which nodes can be selected.
var NodeStates = []string{
	behindState, disputedState, differingState, string(api.EvidenceReported), string(api.EvidenceInferred), string(api.EvidenceUnknown), string(fleet.Deleted),
}

const (
	// disputedState selects nodes whose report contradicts the records.
	disputedState = "Disputed"
	// differingState selects nodes that do not match their configuration.
	differingState = "Differing"
)

// NewNodes builds the list of nodes.
func NewNodes(f *fleet.Model, filter Filter, page int) Nodes {
	words := strings.Fields(strings.ToLower(filter.Query))
	var matching []*fleet.Node
	for _, n := range f.Nodes {
		if hasState(n, filter.State) && (len(words) == 0 || matchesNode(n, words)) {
			matching = append(matching, n)
		}
	}
	shown, paging := selectPage(matching, page)
	return Nodes{About{"Nodes", f.At}, filter, rowsOf(shown), paging}
}

// hasState reports whether a node has a state of the filter. Deleted nodes have only that
// state, and no filter shows all others as well.
func hasState(n *fleet.Node, state string) bool {
	switch {
	case state == "":
		return true
	case n.Removed != nil || strings.EqualFold(state, string(fleet.Deleted)):
		return n.Removed != nil && strings.EqualFold(state, string(fleet.Deleted))
	case strings.EqualFold(state, behindState):
		return n.Behind == api.BehindYes
	case strings.EqualFold(state, disputedState):
		return n.Disputed
	case strings.EqualFold(state, differingState):
		return n.Differs()
	}
	return strings.EqualFold(state, string(n.Evidence))
}

// matchesNode reports whether a node, its pool, version, commit or author match all words.
func matchesNode(n *fleet.Node, words []string) bool {
	return containsAllWords(words, n.Node, n.Pool, n.Profile, n.Version, n.Record) || isCommitPrefix(words, n.Commit) ||
		n.Configuration != nil && isCommitPrefix(words, n.Configuration.Change) || containsAllWords(words, authorOf(n.Configuration))
}

// NewProfiles builds the list of profiles.
func NewProfiles(f *fleet.Model, page int) Profiles {
	summaries := profileSummaries(f)
	rows := make([]ProfileSummary, 0, len(summaries))
	for _, name := range slices.Sorted(maps.Keys(summaries)) {
		rows = append(rows, *summaries[name])
	}
	shown, paging := selectPage(rows, page)
	return Profiles{About{"Profiles", f.At}, shown, paging}
}

// NewProfile builds the page of a profile; false if nothing of it is known.
func NewProfile(f *fleet.Model, name string, page int) (Profile, bool) {
	summary := profileSummaries(f)[name]
	if summary == nil {
		return Profile{}, false
	}
	var rows []ProfileRow
	for _, row := range profileRows(f, func(or *fleet.Origin) bool { return or.Profile == name }) {
		row.Current = row.Version == summary.Version && row.Commit == summary.Commit
		rows = append(rows, row)
	}
	shown, paging := selectPage(rows, page)
	return Profile{About{"Profile", f.At}, *summary, shown, paging}, true
}

// profileSummaries returns the profiles that a source offers, that a pool requests or of
// which there are versions or nodes, by name. Profiles of other namespaces are others, even with
// the same name.
func profileSummaries(f *fleet.Model) map[string]*ProfileSummary {
	out := map[string]*ProfileSummary{}
	of := func(name string) *ProfileSummary {
		name = redact.PrintableLine(name)
		if out[name] == nil {
			out[name] = &ProfileSummary{Name: name}
		}
		return out[name]
	}
	userSources, builtin := selection.SplitBuiltin(f.Sources)
	for i := range f.Sources {
		for _, e := range f.Sources[i].Status.Profiles {
			s := of(e.Name)
			if s.Source != "" {
				continue
			}
			c, ok := selection.FindCandidate(userSources, e.Name)
			if !ok {
				c, _ = selection.FindCandidate(builtin, e.Name)
			}
			s.Source = c.Source.Name
			s.Version = c.Entry.Version
			s.Commit = c.Entry.Commit
			s.Removed = c.Entry.Removed
			s.Subject = f.SubjectOf(e.Name, s.Version, s.Commit)
		}
	}
	for key := range f.Origins {
		of(key.Profile).Versions++
	}
	for _, p := range f.Pools {
		if !p.Gone && !p.OutsideSources && p.Profile != "" {
			of(p.Profile).Pools++
		}
	}
	for _, n := range f.Nodes {
		p := f.Pools[n.Pool]
		if n.Removed == nil && n.Profile != "" && (p == nil || !p.OutsideSources) {
			of(n.Profile).Nodes++
		}
	}
	return out
}

// States of a rollout.
const (
	rolloutRunning = "Running"
	rolloutDone    = "Done"
)

// NewRollouts builds the list of rollouts.
func NewRollouts(f *fleet.Model, page int) Rollouts {
	var rows []Rollout
	var open []Window
	for i := range f.Sources {
		for _, w := range f.Sources[i].Status.MaintenanceWindows {
			open = append(open, Window{f.Sources[i].Name, w, describeWindow(w)})
		}
		for _, r := range f.Sources[i].Status.Rollouts {
			row := Rollout{
				Source: f.Sources[i].Name, Profile: r.Profile, Version: r.Version, Commit: r.Commit, Subject: f.SubjectOf(r.Profile, r.Version, r.Commit),
				State: rolloutRunning, Wave: r.Wave, Since: r.Since.Time, Adopted: int(r.Pools.Adopted), Pools: int(r.Pools.Total),
				Joined: int(r.Machines.Joined), Waiting: int(r.Machines.Waiting), Reason: r.Reason, Message: redact.PrintableText(r.Message, redact.MaxMessage),
			}
			for _, x := range r.Failures {
				row.Failures = append(row.Failures, RolloutFailure{x.Pool, x.Machine, x.Reason, redact.PrintableLine(x.Cause)})
			}
			switch {
			case r.Done:
				row.State = rolloutDone
			case r.Held:
				row.State = string(fleet.Paused)
			}
			rows = append(rows, row)
		}
	}
	order := []string{string(fleet.Paused), rolloutRunning, rolloutDone}
	slices.SortStableFunc(rows, func(a, b Rollout) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State)), b.Since.Compare(a.Since), cmp.Compare(a.Profile, b.Profile))
	})
	shown, paging := selectPage(rows, page)
	return Rollouts{About{"Rollouts", f.At}, open, shown, paging}
}

// describeWindow says when windows open or close.
func describeWindow(w api.WindowStatus) string {
	local := func(t *metav1.Time) string {
		zone, err := time.LoadLocation(w.TimeZone)
		if err != nil {
			zone = time.UTC
		}
		return windows.Describe(t.In(zone))
	}
	switch {
	case w.Open && w.Closes != nil:
		return "open until " + local(w.Closes)
	case w.Open:
		return "open"
	case w.Opens != nil:
		return "opens " + local(w.Opens)
	}
	return "closed: no window is valid"
}

// NewSources builds the list of sources.
func NewSources(f *fleet.Model, page int) Sources {
	shown, paging := selectPage(sourcesOf(f), page)
	return Sources{About{"Sources", f.At}, shown, paging}
}

// rejectionNotice returns the notice of a source of which files were rejected.
func rejectionNotice(ps *api.ProfileSource) Notice {
	n := Notice{State: string(fleet.Rejected), What: "ProfileSource " + ps.Namespace + "/" + ps.Name, Link: CommitLink(fleet.RejectedCommit(ps))}
	if ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition); ready != nil {
		n.Reason, n.Message = ready.Reason, redact.PrintableText(ready.Message, redact.MaxMessage)
	}
	return n
}
