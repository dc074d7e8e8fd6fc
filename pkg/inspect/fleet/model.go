package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// Model is the state of the cluster at one moment. It is immutable.
type Model struct {
	// At is the time of the state.
	At time.Time

	Sources     []api.ProfileSource
	Pools       map[string]*Pool // by "namespace/name"
	SortedPools []*Pool          // those that need attention first
	Nodes       []*Node          // by name, then newest first
	Origins     map[OriginKey]*Origin
	// Configurations are by input digest, which also identifies the pool.
	Configurations map[string]*Configuration
	Commits        map[string]*Commit
	ReadErrors     []string
	objects        Objects // the source objects, for viewers who see a part
}

// FilterVisible returns the part of the model that a viewer of some namespaces sees.
func (f *Model) FilterVisible(sees func(namespace string) bool) *Model {
	return NewModel(f.At, f.objects.filterVisible(sees))
}

// Origin is the source of a version of a profile, according to its object.
type Origin struct {
	Profile, Version, Object, Namespace, Source  string
	Repository, Path, Commit, Change, SelectedBy string
	Author, CommittedAt, Signature, Digest       string
	Subject                                      string // of Change
}

// OriginKey is common to a generation and the object of its profile.
type OriginKey struct{ Profile, Version, Commit string }

// Configuration is a current or previous configuration of a pool.
type Configuration struct {
	Pool                             string
	Digest                           string
	Profile, Version                 string
	Commit, Change, Repository, Path string
	Generations                      lineage.Timeline // of the pool, with this configuration
	Origin                           *Origin
}

// Since returns when the pool last got the configuration.
func (c *Configuration) Since() time.Time {
	if len(c.Generations) == 0 {
		return time.Time{}
	}
	return c.Generations[len(c.Generations)-1].From
}

// Pool is a MachineDeployment with a profile, or the remains of a deleted one.
type Pool struct {
	Namespace, Name string
	Gone            bool
	Profile, Pin    string
	OutsideSources  bool // the profile is of a namespace without a ProfileSource
	Current         *Configuration
	active          *lineage.Generation // of current
	archived        []lineage.Generation
	Timeline        lineage.Timeline
	Nodes           []*Node // existing nodes
	Removed         int     // number of deleted nodes
	Failing         []MachineBoot
	State           State
	Why             string
}

func (p *Pool) Key() string { return p.Namespace + "/" + p.Name }

// Node is a known node.
type Node struct {
	ProvenanceSummary

	Configuration *Configuration // nil if unknown or if the record was deleted
}

// Commit has everything that refers to a commit.
type Commit struct {
	ID             string
	Origins        []*Origin        // introduced or written by it
	Selected       []*Origin        // made current by it
	Configurations []*Configuration // with these origins
	RejectedBy     []*api.ProfileSource
}

// NewModel combines objects to a model.
func NewModel(at time.Time, o Objects) *Model {
	f := &Model{
		At: at, objects: o, Sources: slices.Clone(o.Sources), ReadErrors: o.ReadErrors, Pools: map[string]*Pool{},
		Origins: map[OriginKey]*Origin{}, Configurations: map[string]*Configuration{}, Commits: map[string]*Commit{},
	}
	slices.SortFunc(f.Sources, func(a, b api.ProfileSource) int { return cmp.Compare(a.Name, b.Name) })
	for i := range f.Sources {
		if id := RejectedCommit(&f.Sources[i]); id != "" {
			c := f.findOrAddCommit(id)
			c.RejectedBy = append(c.RejectedBy, &f.Sources[i])
		}
	}
	for i := range o.Profiles {
		f.addOrigin(&o.Profiles[i])
	}
	for i := range o.Pools {
		f.addPool(&o.Pools[i])
	}
	for i := range o.Records {
		f.addRecord(&o.Records[i])
	}
	for i := range o.Configs {
		f.addConfig(&o.Configs[i])
	}
	// Only now every pool has its records and its configuration.
	for _, key := range slices.Sorted(maps.Keys(f.Pools)) {
		f.buildTimelineAndLinkCommits(f.Pools[key])
	}
	for _, s := range o.Nodes {
		f.addNode(s)
	}
	for _, m := range o.Failing {
		if p := f.Pools[m.Pool]; p != nil {
			p.Failing = append(p.Failing, m)
		}
	}
	for i := range o.Pools {
		f.setPoolState(&o.Pools[i])
	}
	for i := range o.Configs {
		f.markRejected(&o.Configs[i])
	}
	f.sort()
	return f
}

func (f *Model) addOrigin(obj *metav1.ObjectMeta) {
	a := obj.Annotations
	if a[api.AnnotationProfile] == "" && obj.Labels[api.LabelProfile] == "" {
		return // created by a user, without a commit
	}
	or := &Origin{
		Profile: cmp.Or(a[api.AnnotationProfile], obj.Labels[api.LabelProfile]), Version: a[api.AnnotationVersion],
		Object: obj.Name, Namespace: obj.Namespace, Source: obj.Labels[api.LabelSource],
		Repository: a[api.AnnotationRepository], Path: redact.PrintableLine(a[api.AnnotationPath]), Commit: a[api.AnnotationCommit],
		Change: a[api.AnnotationChange], SelectedBy: a[api.AnnotationSelectedBy], Author: redact.PrintableLine(a[api.AnnotationAuthor]),
		CommittedAt: a[api.AnnotationCommittedAt], Signature: redact.PrintableLine(a[api.AnnotationSignature]), Digest: a[api.AnnotationDigest],
		Subject: redact.PrintableLine(a[api.AnnotationSubject]),
	}
	f.Origins[OriginKey{or.Profile, or.Version, or.Commit}] = or
	for _, id := range sortedDistinct(or.Commit, or.Change) {
		c := f.findOrAddCommit(id)
		c.Origins = append(c.Origins, or)
	}
	for _, id := range sortedDistinct(or.SelectedBy) {
		if id != or.Commit && id != or.Change {
			c := f.findOrAddCommit(id)
			c.Selected = append(c.Selected, or)
		}
	}
}

// findOrAddCommit finds the commit with a full ID, or adds it.
func (f *Model) findOrAddCommit(id string) *Commit {
	c := f.Commits[id]
	if c == nil {
		c = &Commit{ID: id}
		f.Commits[id] = c
	}
	return c
}

func (f *Model) addPool(md *metav1.ObjectMeta) {
	p := f.findOrAddPool(md.Namespace + "/" + md.Name)
	p.Gone = false
	p.Profile = md.Annotations[api.AnnotationOSP]
	p.Pin = redact.PrintableLine(md.Annotations[api.AnnotationVersionPin])
	of := md.Annotations[api.AnnotationOSPNamespace]
	p.OutsideSources = of != "" && len(f.Sources) > 0 && !slices.ContainsFunc(f.Sources, func(ps api.ProfileSource) bool { return ps.Namespace == of })
}

// findOrAddPool finds a pool, or creates one that is known only from its remains.
func (f *Model) findOrAddPool(key string) *Pool {
	p := f.Pools[key]
	if p == nil {
		namespace, name, _ := strings.Cut(key, "/")
		p = &Pool{Namespace: namespace, Name: name, Gone: true}
		f.Pools[key] = p
	}
	return p
}

// findOrAddConfiguration finds or adds the configuration that annotations describe; nil if they
// describe none.
func (f *Model) findOrAddConfiguration(a map[string]string) *Configuration {
	digest, key := a[api.AnnotationInputDigest], a[api.AnnotationPool]
	if digest == "" || !strings.Contains(key, "/") {
		return nil
	}
	if c := f.Configurations[digest]; c != nil {
		return c
	}
	c := &Configuration{
		Pool: key, Digest: digest, Profile: a[api.AnnotationProfile], Version: a[api.AnnotationVersion],
		Commit: a[api.AnnotationCommit], Change: a[api.AnnotationChange], Repository: a[api.AnnotationRepository], Path: redact.PrintableLine(a[api.AnnotationPath]),
	}
	c.Origin = f.Origins[OriginKey{c.Profile, c.Version, c.Commit}]
	f.Configurations[digest] = c
	for _, id := range sortedDistinct(c.Commit, c.Change) {
		of := f.findOrAddCommit(id)
		of.Configurations = append(of.Configurations, c)
	}
	return c
}

func (f *Model) addRecord(obj *metav1.ObjectMeta) {
	if c := f.findOrAddConfiguration(obj.Annotations); c != nil {
		p := f.findOrAddPool(c.Pool)
		p.archived = append(p.archived, lineage.GenerationsFromArchivedRecord(obj)...)
	}
}

func (f *Model) addConfig(osc *osm.OperatingSystemConfig) {
	if c := f.findOrAddConfiguration(osc.Annotations); c != nil {
		g := lineage.AnnotatedGeneration(osc)
		p := f.findOrAddPool(c.Pool)
		p.Current, p.active = c, &g
	}
}

// buildTimelineAndLinkCommits builds the timeline of a pool, and adds its configurations to the commits that
// made their versions current.
func (f *Model) buildTimelineAndLinkCommits(p *Pool) {
	p.Timeline = lineage.Assemble(p.active, p.archived)
	for _, g := range p.Timeline {
		c := f.Configurations[g.InputDigest]
		c.Generations = append(c.Generations, g)
		if g.SelectedBy == "" || g.SelectedBy == c.Commit || g.SelectedBy == c.Change {
			continue
		}
		by := f.findOrAddCommit(g.SelectedBy)
		if !slices.Contains(by.Configurations, c) {
			by.Configurations = append(by.Configurations, c)
		}
		if c.Origin != nil && !slices.Contains(by.Selected, c.Origin) {
			by.Selected = append(by.Selected, c.Origin)
		}
	}
}

func (f *Model) addNode(s ProvenanceSummary) {
	n := &Node{ProvenanceSummary: s, Configuration: f.Configurations[s.Digest]}
	if n.Configuration != nil {
		n.Commit = n.Configuration.Commit
	}
	f.Nodes = append(f.Nodes, n)
	p := f.findOrAddPool(s.Pool)
	if s.Removed != nil {
		p.Removed++
		return
	}
	p.Nodes = append(p.Nodes, n)
}

// State is the state of a pool.
type State string

// States of a pool, most severe first.
const (
	// Rejected: its requested configuration was rejected.
	Rejected State = "Rejected"
	// Paused: a version is not released to it because of failures.
	Paused State = "Paused"
	// Waiting: it has no configuration yet, or its wave has not begun.
	Waiting State = "Waiting"
	// Suspended: a user froze its configuration.
	Suspended State = "Suspended"
	// Pinned: it requests a fixed version.
	Pinned State = "Pinned"
	// Following: it has the current version of its profile.
	Following State = "Following"
	// Deleted: it was deleted, but its nodes are known.
	Deleted State = "Deleted"
)

// States is ordered by urgency.
var States = []State{Rejected, Paused, Waiting, Suspended, Pinned, Following, Deleted}

// setPoolState sets the state of a pool and the reason.
func (f *Model) setPoolState(md *metav1.ObjectMeta) {
	p := f.Pools[md.Namespace+"/"+md.Name]
	p.State, p.Why = Following, ""
	switch {
	case p.Current == nil:
		p.State = Waiting
		p.Why = "It has no configuration yet. The events of its MachineDeployment give the reason."
	case md.Annotations[api.AnnotationSuspend] == "true":
		p.State, p.Why = Suspended, "Annotation "+api.AnnotationSuspend+" freezes its configuration."
	case p.Pin != "":
		p.State, p.Why = Pinned, "Annotation "+api.AnnotationVersionPin+" asks for "+p.Pin+"."
	case !p.OutsideSources:
		f.setRolloutState(p, md)
	}
}

// setRolloutState checks whether the wave of a pool has begun.
func (f *Model) setRolloutState(p *Pool, md *metav1.ObjectMeta) {
	from := selection.UserSourceProviding(f.Sources, p.Profile)
	for i := range f.Sources {
		ps := &f.Sources[i]
		if ps.Name != from || !ps.HasWaves() {
			continue
		}
		r := ps.RolloutOf(p.Profile)
		wave, _ := selection.WaveOf(md.Labels) // an invalid wave is the default, as in the rollout
		if r == nil || r.Done || wave <= r.Wave {
			return
		}
		p.State = Waiting
		if r.Held {
			p.State = Paused
		}
		p.Why = redact.PrintableText("Version "+r.Version+" is at wave "+strconv.Itoa(int(r.Wave))+", this pool is in wave "+strconv.Itoa(int(wave))+". "+r.Message, redact.MaxMessage)
	}
}

// markRejected marks the pool whose last-good configuration is retained because a newer one was
// rejected.
func (f *Model) markRejected(osc *osm.OperatingSystemConfig) {
	p := f.Pools[osc.Annotations[api.AnnotationPool]]
	rejected := osc.Annotations[api.AnnotationRefused]
	if p == nil || p.Gone || rejected == "" {
		return
	}
	p.State, p.Why = Rejected, redact.PrintableText(rejected, redact.MaxMessage)
}

// sort puts everything into display order.
func (f *Model) sort() {
	for _, p := range f.Pools {
		if p.Gone {
			p.State = Deleted
			if len(p.Nodes)+p.Removed == 0 {
				continue // only records are left, which are retained for a while
			}
		}
		f.SortedPools = append(f.SortedPools, p)
	}
	slices.SortFunc(f.SortedPools, func(a, b *Pool) int {
		return cmp.Or(cmp.Compare(slices.Index(States, a.State), slices.Index(States, b.State)), cmp.Compare(a.Key(), b.Key()))
	})
	newest := func(a, b *Node) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), b.Joined.Compare(a.Joined.Time), cmp.Compare(a.Record, b.Record))
	}
	slices.SortFunc(f.Nodes, newest)
	for _, p := range f.Pools {
		slices.SortFunc(p.Nodes, newest)
	}
}

// sortedDistinct returns the nonempty texts without duplicates.
func sortedDistinct(texts ...string) []string {
	out := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}
