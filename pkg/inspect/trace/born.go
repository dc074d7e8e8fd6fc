package trace

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// Page selects a part of a list of nodes. The list is read again for each page, so a page shows
// the state at its own time.
type Page struct {
	// Limit is the most nodes to return; 0 for none of them, with their number alone.
	Limit int
	// After is ProvisionedNodes.Next of the page before.
	After string
}

// MinCommit is the smallest number of digits by which a commit can be named.
const MinCommit = 7

var abbreviated = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// Commit finds what was made from a commit, given in full, by its first digits, or as an artifact's
// revision: versions of profiles, pools, and a page of the nodes that were provisioned from it. A
// commit matches if it is the first one with the content, the author's commit, or the one that
// made the version current.
func (c Clusters) Commit(ctx context.Context, commit string, page Page) (*Result, error) {
	subject := Object{Kind: "Commit", Name: commit}
	w := &resultBuilder{in: c, Result: Result{Subject: subject}}
	is := commitMatcher(commit)
	osps, err := w.addProfilesOfCommit(ctx, is)
	if err != nil {
		return nil, err
	}
	var unreadable []string
	w.Pools, unreadable, err = c.listPoolUses(ctx, func(g lineage.Generation, change string) bool {
		return is(g.Commit) || is(change) || is(g.SelectedBy)
	})
	if err != nil {
		return nil, err
	}
	w.addUnreadable(unreadable)
	w.Nodes, err = c.nodePage(ctx, page, nil, func(np *api.NodeProvenance) bool {
		s := np.Spec.Configuration
		return s != nil && (is(s.Commit) || is(s.Change) || is(s.SelectedBy))
	})
	if err != nil {
		return nil, err
	}
	if osps == 0 && len(w.Pools) == 0 && w.Nodes.Total == 0 {
		if w.Nodes.ReadError != "" {
			unreadable = append(unreadable, "NodeProvenances: "+w.Nodes.ReadError)
		}
		if step := w.Step("OperatingSystemProfile"); step != nil {
			unreadable = append(unreadable, "OperatingSystemProfiles: "+step.Note)
		}
		if len(unreadable) > 0 {
			return nil, &NotFoundError{Object: subject, Hint: "no profile, pool or node that could be read comes from it; " + strings.Join(unreadable, "; ")}
		}
		return nil, &NotFoundError{Object: subject, Hint: "no profile, pool or node in the cluster comes from it"}
	}
	return &w.Result, nil
}

// commitMatcher returns a function that reports whether a recorded commit is the one that was
// requested.
func commitMatcher(commit string) func(string) bool {
	short := abbreviated.MatchString(commit)
	return func(recorded string) bool {
		switch {
		case recorded == "" || commit == "":
			return false
		case recorded == commit:
			return true
		}
		id := recorded[strings.LastIndexAny(recorded, ":@")+1:] // of an artifact's revision
		return short && strings.HasPrefix(id, commit)
	}
}

// addProfilesOfCommit adds the profiles' objects that come from a commit, and completes the commit
// from the first.
func (w *resultBuilder) addProfilesOfCommit(ctx context.Context, is func(string) bool) (int, error) {
	n := 0
	state, note, err := List(ctx, w.in.Management, &osm.OperatingSystemProfileList{}, func(page *osm.OperatingSystemProfileList) error {
		for i := range page.Items {
			osp := &page.Items[i]
			a := osp.Annotations
			roles := commitRoles(is, a[api.AnnotationCommit], a[api.AnnotationChange], a[api.AnnotationSelectedBy])
			if len(roles) == 0 {
				continue
			}
			n++
			step := w.addStep(Object{Kind: "OperatingSystemProfile", Namespace: osp.Namespace, Name: osp.Name, UID: osp.UID}, Found, "")
			step.addDetail("version", osp.Spec.Version)
			step.addDetail("this commit", strings.Join(roles, " and "))
			step.addDetail("author", a[api.AnnotationAuthor])
			if w.Commit == nil {
				w.Commit = &Commit{
					Repository: a[api.AnnotationRepository], Path: a[api.AnnotationPath], Commit: a[api.AnnotationCommit], Change: a[api.AnnotationChange], SelectedBy: a[api.AnnotationSelectedBy],
					Author: a[api.AnnotationAuthor], CommittedAt: a[api.AnnotationCommittedAt], Subject: a[api.AnnotationSubject], Signature: a[api.AnnotationSignature],
				}
				w.addLinksAndCleanCommit(nil)
			}
		}
		return nil
	})
	if err == nil && state != Found {
		w.addStep(Object{Kind: "OperatingSystemProfile"}, state, note)
	}
	return n, err
}

// commitRoles says what a commit is to a version.
func commitRoles(is func(string) bool, commit, change, selectedBy string) []string {
	var out []string
	for _, r := range []struct{ is, commit string }{{"is its first", commit}, {"is its author's", change}, {"made it current", selectedBy}} {
		if is(r.commit) {
			out = append(out, r.is)
		}
	}
	return out
}

// addUnreadable adds a step for each kind that records the configurations of pools and cannot be read.
func (w *resultBuilder) addUnreadable(unreadable []string) {
	for _, text := range unreadable {
		kind, note, _ := strings.Cut(text, "s: ")
		w.addStep(Object{Kind: kind, Namespace: w.in.Namespace}, Unreadable, note+", so pools can be missing below")
	}
}

// listPoolUses returns the intervals in which pools had matching configurations, by pool and time, and
// notes about kinds that record them and cannot be read.
func (c Clusters) listPoolUses(ctx context.Context, match func(g lineage.Generation, change string) bool) (out []PoolUse, unreadable []string, err error) {
	configs, records := map[string]*metav1.PartialObjectMetadata{}, map[string][]metav1.PartialObjectMetadata{}
	changes := map[string]string{} // by input digest
	addNode := func(obj *metav1.PartialObjectMetadata) {
		changes[obj.Annotations[api.AnnotationInputDigest]] = obj.Annotations[api.AnnotationChange]
	}
	for kind, collect := range map[schema.GroupVersionKind]func(string, metav1.PartialObjectMetadata){
		configKind: func(pool string, obj metav1.PartialObjectMetadata) { configs[pool] = &obj },
		recordKind: func(pool string, obj metav1.PartialObjectMetadata) { records[pool] = append(records[pool], obj) },
	} {
		state, why, err := List(ctx, c.Management, kubeclient.MetadataList(kind), func(page *metav1.PartialObjectMetadataList) error {
			for _, obj := range page.Items {
				addNode(&obj)
				collect(lineage.PoolOf(&obj), obj)
			}
			return nil
		}, client.InNamespace(c.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager})
		if err != nil {
			return nil, nil, err
		}
		if state != Found {
			unreadable = append(unreadable, kind.Kind+"s: "+why)
		}
	}
	slices.Sort(unreadable)
	pools := map[string]bool{}
	for pool := range configs {
		pools[pool] = true
	}
	for pool := range records {
		pools[pool] = true
	}
	delete(pools, "")
	for pool := range pools {
		var osc client.Object
		if have, ok := configs[pool]; ok {
			osc = have
		}
		for _, g := range lineage.NewTimeline(osc, records[pool]) {
			if match(g, changes[g.InputDigest]) {
				out = append(out, useOf(pool, g))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b PoolUse) int { return strings.Compare(a.Pool, b.Pool) }) // those of one pool are in order
	return out, unreadable, nil
}

func useOf(pool string, g lineage.Generation) PoolUse {
	use := PoolUse{
		Pool: clean(pool), Profile: clean(g.Profile), Version: clean(g.Version), Commit: clean(g.Commit), InputDigest: clean(g.InputDigest), From: metav1.NewTime(g.From),
	}
	if !g.Until.IsZero() {
		until := metav1.NewTime(g.Until)
		use.Until = &until
	}
	return use
}

// nodePage reads the NodeProvenances that match: all are counted, and a page is returned.
func (c Clusters) nodePage(ctx context.Context, page Page, by client.MatchingLabels, match func(*api.NodeProvenance) bool) (*ProvisionedNodes, error) {
	out := &ProvisionedNodes{}
	counts := map[VersionCount]int{}
	var opts []client.ListOption
	if by != nil {
		opts = append(opts, by)
	}
	_, note, err := c.forEachProvenance(ctx, func(np *api.NodeProvenance) error {
		if !match(np) {
			return nil
		}
		out.Total++
		n := provisionedNode(np)
		if n.Removed == nil {
			out.Present++
			counts[VersionCount{Profile: n.Profile, Version: n.Version, Commit: n.Commit}]++
			if n.Behind == api.BehindYes {
				out.Behind++
			}
		}
		switch {
		// The API server lists by name, so a name is the position of a page.
		case np.Name <= page.After:
		case len(out.Nodes) < page.Limit:
			out.Nodes = append(out.Nodes, n)
		case out.Next == "" && page.Limit > 0:
			out.Next = out.Nodes[len(out.Nodes)-1].Provenance
		}
		return nil
	}, opts...)
	out.ReadError = note
	for of, n := range counts {
		of.Nodes = n
		out.Versions = append(out.Versions, of)
	}
	slices.SortFunc(out.Versions, func(a, b VersionCount) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), strings.Compare(a.Profile, b.Profile), strings.Compare(a.Version, b.Version), strings.Compare(a.Commit, b.Commit))
	})
	return out, err
}

func provisionedNode(np *api.NodeProvenance) ProvisionedNode {
	s := &np.Spec
	n := ProvisionedNode{
		Name: clean(s.Node.Name), Provenance: np.Name, Pool: s.Pool.Namespace + "/" + s.Pool.Name,
		Evidence: s.Evidence, Behind: np.Status.Behind, Joined: s.Node.Joined, Removed: np.Status.Removed,
	}
	if of := s.Configuration; of != nil {
		n.Profile = clean(of.Profile)
		n.Version = clean(of.Version)
		n.Commit = clean(of.Commit)
	}
	return n
}
