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

// Facts is what the cluster held at one moment, put together. It is never changed.
type Facts struct {
	// At is that moment.
	At time.Time

	sources []api.ProfileSource
	pools   map[string]*pool // by "namespace/name"
	order   []*pool          // those that need somebody first
	nodes   []*node          // by name, of one name the newest first
	origins map[originKey]*origin
	// configurations are by input digest; a digest tells the pool too.
	configurations map[string]*configuration
	commits        map[string]*commit
	unread         []string
	objects        Objects // all that it was put together from, for viewers who see a part
}

// only are the facts that a viewer of some namespaces sees.
func (f *Facts) only(sees func(namespace string) bool) *Facts {
	return NewFacts(f.At, f.objects.only(sees))
}

// origin is where a version of a profile comes from, by its object.
type origin struct {
	Profile, Version, Object, Namespace, Source  string
	Repository, Path, Commit, Change, SelectedBy string
	Author, CommittedAt, Signature, Digest       string
}

// originKey is what a generation and its profile's object have in common.
type originKey struct{ profile, version, commit string }

// configuration is one that a pool had, or has.
type configuration struct {
	pool                             string
	digest                           string
	profile, version                 string
	commit, change, repository, path string
	generations                      lineage.Timeline // of the pool, with this configuration
	origin                           *origin
}

// since is when the pool got the configuration last.
func (c *configuration) since() time.Time {
	if len(c.generations) == 0 {
		return time.Time{}
	}
	return c.generations[len(c.generations)-1].From
}

// pool is a MachineDeployment with a profile, or what is left of one.
type pool struct {
	namespace, name string
	gone            bool
	profile, pin    string
	current         *configuration
	standing        *lineage.Generation // of current
	archived        []lineage.Generation
	timeline        lineage.Timeline
	nodes           []*node // that are there
	removed         int     // nodes that are known and gone
	state           State
	why             string
}

func (p *pool) key() string { return p.namespace + "/" + p.name }

// node is one that is known.
type node struct {
	ProvenanceSummary

	pool *pool
	gen  *configuration // nil: not known, or its record is gone
}

// commit is what carries a commit's name.
type commit struct {
	id             string
	origins        []*origin        // that came with it, or were written by it
	selected       []*origin        // that it made current
	configurations []*configuration // of these origins
}

// NewFacts puts objects together.
func NewFacts(at time.Time, o Objects) *Facts {
	f := &Facts{
		At: at, sources: slices.Clone(o.Sources), unread: o.Unread, pools: map[string]*pool{},
		origins: map[originKey]*origin{}, configurations: map[string]*configuration{}, commits: map[string]*commit{},
	}
	slices.SortFunc(f.sources, func(a, b api.ProfileSource) int { return cmp.Compare(a.Name, b.Name) })
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
	for _, key := range slices.Sorted(maps.Keys(f.pools)) {
		f.assemble(f.pools[key])
	}
	for _, s := range o.Nodes {
		f.addNode(s)
	}
	for i := range o.Pools {
		f.judge(&o.Pools[i])
	}
	for i := range o.Configs {
		f.refuse(&o.Configs[i])
	}
	f.sort()
	return f
}

func (f *Facts) addOrigin(obj *metav1.ObjectMeta) {
	a := obj.Annotations
	if a[api.AnnotationProfile] == "" && obj.Labels[api.LabelProfile] == "" {
		return // made by hand: there is no commit to tell of
	}
	or := &origin{
		Profile: cmp.Or(a[api.AnnotationProfile], obj.Labels[api.LabelProfile]), Version: a[api.AnnotationVersion],
		Object: obj.Name, Namespace: obj.Namespace, Source: obj.Labels[api.LabelSource],
		Repository: a[api.AnnotationRepository], Path: clean(a[api.AnnotationPath]), Commit: a[api.AnnotationCommit],
		Change: a[api.AnnotationChange], SelectedBy: a[api.AnnotationSelectedBy], Author: clean(a[api.AnnotationAuthor]),
		CommittedAt: a[api.AnnotationCommittedAt], Signature: clean(a[api.AnnotationSignature]), Digest: a[api.AnnotationDigest],
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

// commit finds what carries a commit's name, or begins it.
func (f *Facts) commit(id string) *commit {
	c := f.commits[id]
	if c == nil {
		c = &commit{id: id}
		f.commits[id] = c
	}
	return c
}

func (f *Facts) addPool(md *metav1.ObjectMeta) {
	p := f.pool(md.Namespace + "/" + md.Name)
	p.gone = false
	p.profile, p.pin = md.Annotations[api.AnnotationOSP], clean(md.Annotations[api.AnnotationVersionPin])
}

// pool finds a pool, or makes one of which only what it left behind is known.
func (f *Facts) pool(key string) *pool {
	p := f.pools[key]
	if p == nil {
		namespace, name, _ := strings.Cut(key, "/")
		p = &pool{namespace: namespace, name: name, gone: true}
		f.pools[key] = p
	}
	return p
}

// configuration begins, or finds, the configuration that annotations tell of; nil where
// they tell of none.
func (f *Facts) configuration(a map[string]string) *configuration {
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

func (f *Facts) addRecord(obj *metav1.ObjectMeta) {
	if c := f.configuration(obj.Annotations); c != nil {
		p := f.pool(c.pool)
		p.archived = append(p.archived, lineage.ArchivedGenerations(obj)...)
	}
}

func (f *Facts) addConfig(osc *osm.OperatingSystemConfig) {
	if c := f.configuration(osc.Annotations); c != nil {
		g := lineage.AnnotatedGeneration(osc)
		p := f.pool(c.pool)
		p.current, p.standing = c, &g
	}
}

// assemble makes the timeline of a pool, and lists its configurations under the commits
// that made their versions current.
func (f *Facts) assemble(p *pool) {
	p.timeline = lineage.Assemble(p.standing, p.archived)
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

func (f *Facts) addNode(s ProvenanceSummary) {
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

// State is how a pool stands, in a word.
type State string

// The states of a pool, the worst first.
const (
	// Refused: it cannot have the configuration that it should have.
	Refused State = "Refused"
	// Held: a version is not let on to it, because of failures.
	Held State = "Held"
	// Waiting: it has no configuration yet, or its wave has not begun.
	Waiting State = "Waiting"
	// Suspended: somebody froze its configuration.
	Suspended State = "Suspended"
	// Pinned: it asks for a version of its own.
	Pinned State = "Pinned"
	// Following: it has what its profile is now.
	Following State = "Following"
	// Gone: it was deleted, and nodes of it are known.
	Gone State = "Gone"
)

// states are in the order in which somebody has to look at them.
var states = []State{Refused, Held, Waiting, Suspended, Pinned, Following, Gone}

// judge says how a pool stands, and why.
func (f *Facts) judge(md *metav1.ObjectMeta) {
	p := f.pools[md.Namespace+"/"+md.Name]
	p.state, p.why = Following, ""
	switch {
	case p.current == nil:
		p.state, p.why = Waiting, "It has no configuration yet. The events of its MachineDeployment say what it waits for."
	case md.Annotations[api.AnnotationSuspend] == "true":
		p.state, p.why = Suspended, "Annotation "+api.AnnotationSuspend+" freezes its configuration."
	case p.pin != "":
		p.state, p.why = Pinned, "Annotation "+api.AnnotationVersionPin+" asks for "+p.pin+"."
	default:
		f.judgeRollout(p, md)
	}
}

// judgeRollout looks whether the wave of a pool has begun.
func (f *Facts) judgeRollout(p *pool, md *metav1.ObjectMeta) {
	from := selection.OfferedBy(f.sources, p.profile)
	for i := range f.sources {
		ps := &f.sources[i]
		if ps.Name != from || !ps.Gated() {
			continue
		}
		r := ps.RolloutOf(p.profile)
		wave, _ := selection.WaveOf(md.Labels) // what cannot be read is the default, as for the rollout
		if r == nil || r.Done || wave <= r.Wave {
			return
		}
		p.state = Waiting
		if r.Held {
			p.state = Held
		}
		p.why = text("Version " + r.Version + " is at wave " + digit(r.Wave) + ", this pool is in wave " + digit(wave) + ". " + r.Message)
	}
}

// refuse marks the pool of a configuration that is kept alive in place of one that it
// cannot have.
func (f *Facts) refuse(osc *osm.OperatingSystemConfig) {
	p := f.pools[osc.Annotations[api.AnnotationPool]]
	refused := osc.Annotations[api.AnnotationRefused]
	if p == nil || p.gone || refused == "" {
		return
	}
	p.state, p.why = Refused, text(refused)
}

// sort puts all in the order in which it is shown.
func (f *Facts) sort() {
	for _, p := range f.pools {
		if p.gone {
			p.state = Gone
			if len(p.nodes)+p.removed == 0 {
				continue // records of it alone; they are kept for a while
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

// distinct are the texts that are not empty, each once.
func distinct(texts ...string) []string {
	out := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}
