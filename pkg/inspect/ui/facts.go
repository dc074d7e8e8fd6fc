package ui

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// Model is the state of the cluster at one moment. It is immutable.
type Model struct {
	// At is the time of the state.
	At time.Time

	sources []api.ProfileSource
	pools   map[string]*pool // by "namespace/name"
	order   []*pool          // those that need attention first
	nodes   []*node          // by name, then newest first
	origins map[originKey]*origin
	// configurations are by input digest, which also identifies the pool.
	configurations map[string]*configuration
	commits        map[string]*commit
	readErrors     []string
	objects        Objects // the source objects, for viewers who see a part
}

// only returns the part of the model that a viewer of some namespaces sees.
func (f *Model) only(sees func(namespace string) bool) *Model {
	return NewModel(f.At, f.objects.only(sees))
}

// origin is the source of a version of a profile, according to its object.
type origin struct {
	Profile, Version, Object, Namespace, Source  string
	Repository, Path, Commit, Change, SelectedBy string
	Author, CommittedAt, Signature, Digest       string
	Subject                                      string // of Change
}

// originKey is common to a generation and the object of its profile.
type originKey struct{ profile, version, commit string }

// configuration is a current or previous configuration of a pool.
type configuration struct {
	pool                             string
	digest                           string
	profile, version                 string
	commit, change, repository, path string
	generations                      lineage.Timeline // of the pool, with this configuration
	origin                           *origin
}

// since returns when the pool last got the configuration.
func (c *configuration) since() time.Time {
	if len(c.generations) == 0 {
		return time.Time{}
	}
	return c.generations[len(c.generations)-1].From
}

// pool is a MachineDeployment with a profile, or the remains of a deleted one.
type pool struct {
	namespace, name string
	gone            bool
	profile, pin    string
	current         *configuration
	active          *lineage.Generation // of current
	archived        []lineage.Generation
	timeline        lineage.Timeline
	nodes           []*node // existing nodes
	removed         int     // number of deleted nodes
	state           State
	why             string
}

func (p *pool) key() string { return p.namespace + "/" + p.name }

// node is a known node.
type node struct {
	ProvenanceSummary

	pool *pool
	gen  *configuration // nil if unknown or if the record was deleted
}

// commit has everything that refers to a commit.
type commit struct {
	id             string
	origins        []*origin        // introduced or written by it
	selected       []*origin        // made current by it
	configurations []*configuration // with these origins
	rejectedBy     []*api.ProfileSource
}

// NewModel combines objects to a model.
func NewModel(at time.Time, o Objects) *Model {
	f := &Model{
		At: at, sources: slices.Clone(o.Sources), readErrors: o.ReadErrors, pools: map[string]*pool{},
		origins: map[originKey]*origin{}, configurations: map[string]*configuration{}, commits: map[string]*commit{},
	}
	slices.SortFunc(f.sources, func(a, b api.ProfileSource) int { return cmp.Compare(a.Name, b.Name) })
	for i := range f.sources {
		if id := rejectedCommit(&f.sources[i]); id != "" {
			c := f.commit(id)
			c.rejectedBy = append(c.rejectedBy, &f.sources[i])
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
	for _, key := range slices.Sorted(maps.Keys(f.pools)) {
		f.assemble(f.pools[key])
	}
	for _, s := range o.Nodes {
		f.addNode(s)
	}
	for i := range o.Pools {
		f.setState(&o.Pools[i])
	}
	for i := range o.Configs {
		f.addRejected(&o.Configs[i])
	}
	f.sort()
	return f
}

func (f *Model) addOrigin(obj *metav1.ObjectMeta) {
	a := obj.Annotations
	if a[api.AnnotationProfile] == "" && obj.Labels[api.LabelProfile] == "" {
		return // created by a user, without a commit
	}
	or := &origin{
		Profile: cmp.Or(a[api.AnnotationProfile], obj.Labels[api.LabelProfile]), Version: a[api.AnnotationVersion],
		Object: obj.Name, Namespace: obj.Namespace, Source: obj.Labels[api.LabelSource],
		Repository: a[api.AnnotationRepository], Path: clean(a[api.AnnotationPath]), Commit: a[api.AnnotationCommit],
		Change: a[api.AnnotationChange], SelectedBy: a[api.AnnotationSelectedBy], Author: clean(a[api.AnnotationAuthor]),
		CommittedAt: a[api.AnnotationCommittedAt], Signature: clean(a[api.AnnotationSignature]), Digest: a[api.AnnotationDigest],
		Subject: clean(a[api.AnnotationSubject]),
	}
	f.origins[originKey{or.Profile, or.Version, or.Commit}] = or
	for _, id := range distinct(or.Commit, or.Change) {
		c := f.commit(id)
		c.origins = append(c.origins, or)
	}
	for _, id := range distinct(or.SelectedBy) {
		if id != or.Commit && id != or.Change {
			c := f.commit(id)
			c.selected = append(c.selected, or)
		}
	}
}

// commit finds the commit with an id or prefix.
func (f *Model) commit(id string) *commit {
	c := f.commits[id]
	if c == nil {
		c = &commit{id: id}
		f.commits[id] = c
	}
	return c
}

func (f *Model) addPool(md *metav1.ObjectMeta) {
	p := f.pool(md.Namespace + "/" + md.Name)
	p.gone = false
	p.profile, p.pin = md.Annotations[api.AnnotationOSP], clean(md.Annotations[api.AnnotationVersionPin])
}

// pool finds a pool, or creates one that is known only from its remains.
func (f *Model) pool(key string) *pool {
	p := f.pools[key]
	if p == nil {
		namespace, name, _ := strings.Cut(key, "/")
		p = &pool{namespace: namespace, name: name, gone: true}
		f.pools[key] = p
	}
	return p
}

// configuration finds or adds the configuration that annotations describe; nil if they
// describe none.
func (f *Model) configuration(a map[string]string) *configuration {
	digest, key := a[api.AnnotationInputDigest], a[api.AnnotationPool]
	if digest == "" || !strings.Contains(key, "/") {
		return nil
	}
	if c := f.configurations[digest]; c != nil {
		return c
	}
	c := &configuration{
		pool: key, digest: digest, profile: a[api.AnnotationProfile], version: a[api.AnnotationVersion],
		commit: a[api.AnnotationCommit], change: a[api.AnnotationChange], repository: a[api.AnnotationRepository], path: clean(a[api.AnnotationPath]),
	}
	c.origin = f.origins[originKey{c.profile, c.version, c.commit}]
	f.configurations[digest] = c
	for _, id := range distinct(c.commit, c.change) {
		of := f.commit(id)
		of.configurations = append(of.configurations, c)
	}
	return c
}

func (f *Model) addRecord(obj *metav1.ObjectMeta) {
	if c := f.configuration(obj.Annotations); c != nil {
		p := f.pool(c.pool)
		p.archived = append(p.archived, lineage.ArchivedGenerations(obj)...)
	}
}

func (f *Model) addConfig(osc *osm.OperatingSystemConfig) {
	if c := f.configuration(osc.Annotations); c != nil {
		g := lineage.AnnotatedGeneration(osc)
		p := f.pool(c.pool)
		p.current, p.active = c, &g
	}
}

// assemble builds the timeline of a pool, and adds its configurations to the commits that
// made their versions current.
func (f *Model) assemble(p *pool) {
	p.timeline = lineage.Assemble(p.active, p.archived)
	for _, g := range p.timeline {
		c := f.configurations[g.InputDigest]
		c.generations = append(c.generations, g)
		if g.SelectedBy == "" || g.SelectedBy == c.commit || g.SelectedBy == c.change {
			continue
		}
		by := f.commit(g.SelectedBy)
		if !slices.Contains(by.configurations, c) {
			by.configurations = append(by.configurations, c)
		}
		if c.origin != nil && !slices.Contains(by.selected, c.origin) {
			by.selected = append(by.selected, c.origin)
		}
	}
}

func (f *Model) addNode(s ProvenanceSummary) {
	n := &node{ProvenanceSummary: s, pool: f.pool(s.Pool), gen: f.configurations[s.Digest]}
	if n.gen != nil {
		n.Commit = n.gen.commit
	}
	f.nodes = append(f.nodes, n)
	if s.Removed != nil {
		n.pool.removed++
		return
	}
	n.pool.nodes = append(n.pool.nodes, n)
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

// states is ordered by urgency.
var states = []State{Rejected, Paused, Waiting, Suspended, Pinned, Following, Deleted}

// setState sets the state of a pool and the reason.
func (f *Model) setState(md *metav1.ObjectMeta) {
	p := f.pools[md.Namespace+"/"+md.Name]
	p.state, p.why = Following, ""
	switch {
	case p.current == nil:
		p.state, p.why = Waiting, "It has no configuration yet. The events of its MachineDeployment give the reason."
	case md.Annotations[api.AnnotationSuspend] == "true":
		p.state, p.why = Suspended, "Annotation "+api.AnnotationSuspend+" freezes its configuration."
	case p.pin != "":
		p.state, p.why = Pinned, "Annotation "+api.AnnotationVersionPin+" asks for "+p.pin+"."
	default:
		f.setRolloutState(p, md)
	}
}

// setRolloutState checks whether the wave of a pool has begun.
func (f *Model) setRolloutState(p *pool, md *metav1.ObjectMeta) {
	from := selection.SourcesOffering(f.sources, p.profile)
	for i := range f.sources {
		ps := &f.sources[i]
		if ps.Name != from || !ps.Gated() {
			continue
		}
		r := ps.RolloutOf(p.profile)
		wave, _ := selection.WaveOf(md.Labels) // an invalid wave is the default, as in the rollout
		if r == nil || r.Done || wave <= r.Wave {
			return
		}
		p.state = Waiting
		if r.Held {
			p.state = Paused
		}
		p.why = text("Version " + r.Version + " is at wave " + digit(r.Wave) + ", this pool is in wave " + digit(wave) + ". " + r.Message)
	}
}

// addRejected marks the pool whose last-good configuration is retained because a newer one was
// rejected.
func (f *Model) addRejected(osc *osm.OperatingSystemConfig) {
	p := f.pools[osc.Annotations[api.AnnotationPool]]
	refused := osc.Annotations[api.AnnotationRefused]
	if p == nil || p.gone || refused == "" {
		return
	}
	p.state, p.why = Rejected, text(refused)
}

// sort puts everything into display order.
func (f *Model) sort() {
	for _, p := range f.pools {
		if p.gone {
			p.state = Deleted
			if len(p.nodes)+p.removed == 0 {
				continue // only records are left, which are retained for a while
			}
		}
		f.order = append(f.order, p)
	}
	slices.SortFunc(f.order, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(slices.Index(states, a.state), slices.Index(states, b.state)), cmp.Compare(a.key(), b.key()))
	})
	newest := func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), b.Joined.Compare(a.Joined.Time), cmp.Compare(a.Record, b.Record))
	}
	slices.SortFunc(f.nodes, newest)
	for _, p := range f.pools {
		slices.SortFunc(p.nodes, newest)
	}
}

// distinct returns the nonempty texts without duplicates.
func distinct(texts ...string) []string {
	out := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}
