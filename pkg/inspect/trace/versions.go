package trace

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
)

// ProfileVersion is a version of a profile that a cluster knows.
type ProfileVersion struct {
	Version string `json:"version"`
	// Object is the OperatingSystemProfile; empty where none is left.
	Object string `json:"object,omitempty"`
	// Commit, Change, Author and CommittedAt are as in Commit.
	Commit      string `json:"commit,omitempty"`
	Change      string `json:"change,omitempty"`
	Author      string `json:"author,omitempty"`
	CommittedAt string `json:"committedAt,omitempty"`
	// Current says that a ProfileSource offers it to pools that pin no other.
	Current bool `json:"current,omitempty"`
	// Pools is the number of pools that have it now, Nodes that of the nodes that are
	// there and were provisioned from it.
	Pools int `json:"pools"`
	Nodes int `json:"nodes"`
}

// versionTable collects the versions of one profile from objects, sources, pools and nodes.
type versionTable struct {
	*resultBuilder
	profile  types.NamespacedName
	versions map[string]*ProfileVersion
	sources  map[string]bool // the ProfileSources that made objects of the profile
	others   map[string]bool // the names of the other profiles
}

// profileVersions lists the versions of a profile, given by its own name: those that have
// an object, and those that pools or nodes remember. The highest comes first.
func (c Clusters) profileVersions(ctx context.Context, key types.NamespacedName, page Page) (*Result, error) {
	subject := Object{Kind: "Profile", Namespace: key.Namespace, Name: key.Name}
	w := versionTable{
		resultBuilder: &resultBuilder{in: c, Result: Result{Subject: subject, Profile: clean(key.Name)}},
		profile:       key, versions: map[string]*ProfileVersion{}, sources: map[string]bool{}, others: map[string]bool{},
	}
	if err := w.addObjects(ctx); err != nil {
		return nil, err
	}
	if err := w.addSourcesAndMarkCurrent(ctx); err != nil {
		return nil, err
	}
	if key.Namespace == c.Namespace { // what pools and nodes remember names no namespace
		if err := w.addUses(ctx, page); err != nil {
			return nil, err
		}
	}
	for _, version := range version.SortDescending(slices.Collect(maps.Keys(w.versions))) {
		w.Versions = append(w.Versions, *w.versions[version])
	}
	if len(w.Versions) == 0 {
		return nil, w.notFoundError()
	}
	return &w.Result, nil
}

// entry returns the entry of a version, which it adds if necessary.
func (w versionTable) entry(version string) *ProfileVersion {
	version = clean(version)
	if w.versions[version] == nil {
		w.versions[version] = &ProfileVersion{Version: version}
	}
	return w.versions[version]
}

// addObjects adds the versions that have an object.
func (w versionTable) addObjects(ctx context.Context) error {
	state, note, err := List(ctx, w.in.Management, &osm.OperatingSystemProfileList{}, func(page *osm.OperatingSystemProfileList) error {
		for i := range page.Items {
			osp := &page.Items[i]
			if profileOf(osp) != w.profile.Name {
				w.others[profileOf(osp)] = true
				continue
			}
			a := osp.Annotations
			v := w.entry(cmp.Or(a[api.AnnotationVersion], osp.Spec.Version))
			v.Object = clean(osp.Name)
			v.Commit = clean(a[api.AnnotationCommit])
			v.Change = clean(a[api.AnnotationChange])
			v.Author, v.CommittedAt = clean(a[api.AnnotationAuthor]), clean(a[api.AnnotationCommittedAt])
			w.sources[osp.Labels[api.LabelSource]] = true
		}
		return nil
	}, client.InNamespace(w.profile.Namespace))
	if err == nil && state != Found {
		w.addStep(Object{Kind: "OperatingSystemProfile", Namespace: w.profile.Namespace}, state, joinNotes(note, "versions can be missing below"))
	}
	return err
}

// addSourcesAndMarkCurrent adds the ProfileSources that offer the profile, or made objects of it, and says
// which version is current.
func (w versionTable) addSourcesAndMarkCurrent(ctx context.Context) error {
	state, note, err := List(ctx, w.in.Management, &api.ProfileSourceList{}, func(page *api.ProfileSourceList) error {
		for i := range page.Items {
			ps := &page.Items[i]
			at := slices.IndexFunc(ps.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == w.profile.Name })
			if at < 0 && !w.sources[ps.Name] {
				continue
			}
			if at >= 0 && !ps.Status.Profiles[at].Removed {
				v := w.entry(ps.Status.Profiles[at].Version)
				v.Current, v.Commit = true, cmp.Or(v.Commit, clean(ps.Status.Profiles[at].Commit))
			}
			w.addSourceDetails(w.addStep(Object{Kind: "ProfileSource", Namespace: ps.Namespace, Name: ps.Name, UID: ps.UID}, Found, ""), ps)
		}
		return nil
	}, client.InNamespace(w.profile.Namespace))
	if err == nil && state != Found {
		w.addStep(Object{Kind: "ProfileSource", Namespace: w.profile.Namespace}, state, joinNotes(note, "which version is current is not known"))
	}
	return err
}

// addUses adds the pools that have or had the profile, and the nodes that were
// provisioned from it.
func (w versionTable) addUses(ctx context.Context, page Page) error {
	var unreadable []string
	var err error
	w.Pools, unreadable, err = w.in.listPoolUses(ctx, func(g lineage.Generation, _ string) bool { return g.Profile == w.profile.Name })
	if err != nil {
		return err
	}
	w.addUnreadable(unreadable)
	for _, use := range w.Pools {
		v := w.entry(use.Version)
		v.Commit = cmp.Or(v.Commit, use.Commit)
		if use.Until == nil {
			v.Pools++
		}
	}
	w.Nodes, err = w.in.nodePage(ctx, page, nil, func(np *api.NodeProvenance) bool {
		s := np.Spec.Configuration
		if s == nil || s.Profile != w.profile.Name {
			return false
		}
		v := w.entry(s.Version)
		v.Commit = cmp.Or(v.Commit, clean(s.Commit))
		if np.Status.Removed == nil {
			v.Nodes++
		}
		return true
	})
	return err
}

// notFoundError returns the error for a name that neither an object nor a profile has.
func (w versionTable) notFoundError() error {
	const most = 20 // names that a line still holds
	hints := w.listReadErrors()
	names := slices.Sorted(maps.Keys(w.others))
	if len(names) > most {
		names = append(names[:most:most], "...")
	}
	if len(names) > 0 {
		hints = append(hints, "the profiles there are "+clean(strings.Join(names, ", ")))
	}
	return &NotFoundError{Object: Object{Kind: "OperatingSystemProfile", Namespace: w.profile.Namespace, Name: w.profile.Name}, Hint: strings.Join(hints, "; ")}
}

func joinNotes(note, more string) string {
	if note == "" {
		return more
	}
	return note + ", so " + more
}

// listReadErrors returns what could not be read, each with the reason.
func (w *resultBuilder) listReadErrors() (out []string) {
	for _, s := range w.Steps {
		if s.State == Unreadable {
			out = append(out, clean(s.Kind+"s: "+s.Note))
		}
	}
	if w.Nodes != nil && w.Nodes.ReadError != "" {
		out = append(out, "NodeProvenances: "+w.Nodes.ReadError)
	}
	return out
}
