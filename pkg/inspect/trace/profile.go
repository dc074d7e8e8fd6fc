package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// TraceProfile follows an OperatingSystemProfile to its commit, with the pools that have
// or had it and a page of the nodes that were provisioned from it. The namespace is the
// controller's, unless another is given. A name that no object has or had is that of a
// profile, as files and the annotation of pools have it: see profileVersions.
func (c Clusters) TraceProfile(ctx context.Context, key types.NamespacedName, page Page) (*Result, error) {
	key.Namespace = cmp.Or(key.Namespace, c.Namespace)
	subject := Object{Kind: "OperatingSystemProfile", Namespace: key.Namespace, Name: key.Name}
	object := key.Name
	if key.Namespace != c.Namespace {
		object = key.String()
	}
	w := &resultBuilder{in: c, Result: Result{Subject: subject, Object: clean(object)}}
	var of *api.ProvenanceConfiguration
	var err error
	w.Nodes, err = c.nodePage(ctx, page, nil, func(np *api.NodeProvenance) bool {
		s := np.Spec.Configuration
		if s == nil || s.Object != object {
			return false
		}
		of = s
		return true
	})
	if err != nil {
		return nil, err
	}
	if err := w.addOriginSteps(ctx, object); err != nil {
		return nil, err
	}
	step := w.Step(subject.Kind)
	if step.State == Missing && of == nil {
		return c.profileVersions(ctx, key, page)
	}
	w.Subject.UID = step.UID
	if step.State == Missing { // but nodes remember it
		step.State = Removed
		w.ProfileDigest = of.ProfileDigest
		w.Profile = clean(of.Profile)
		w.Version = clean(of.Version)
		w.Commit = commitFromRecords(tracedConfiguration{commit: of.Commit, selectedBy: of.SelectedBy, written: of}, nil)
		if w.Commit != nil {
			w.addLinksAndCleanCommit(nil)
		}
	}
	var unreadable []string
	w.Pools, unreadable, err = c.listPoolUses(ctx, func(g lineage.Generation, _ string) bool {
		// A pool may name the profile, or this one object.
		return g.Version == w.Version && (g.Profile == w.Profile || g.Profile == key.Name)
	})
	w.addUnreadable(unreadable)
	return &w.Result, err
}

// profileOf returns the name of the profile of which an object is a version, or the object's name
// if it was not made from a file.
func profileOf(osp *osm.OperatingSystemProfile) string {
	return cmp.Or(osp.Labels[api.LabelProfile], osp.Name)
}

// commitFromRecords returns the origin of a configuration according to the records, or nil if it is not from
// a repository.
func commitFromRecords(m tracedConfiguration, rec *render.Record) *Commit {
	var c Commit
	if rec != nil {
		c = Commit{Repository: rec.Repository, Path: rec.Path, Commit: rec.Commit, Change: rec.Change}
	}
	if s := m.written; s != nil {
		if rec == nil {
			c = Commit{Repository: s.Repository, Path: s.Path, Commit: s.Commit, Change: s.Change}
		}
		c.Author = s.Author
		c.CommittedAt = s.CommittedAt
		c.Signature = s.Signature
	}
	c.Commit = cmp.Or(c.Commit, m.commit)
	c.SelectedBy = m.selectedBy
	if c.Commit == "" {
		return nil
	}
	return &c
}

// addOriginSteps adds the profile's object and its source, and completes the commit.
func (w *resultBuilder) addOriginSteps(ctx context.Context, object string) error {
	osp, err := w.addProfileStep(ctx, object)
	if err != nil {
		return err
	}
	if osp != nil {
		w.addAndCompareProfileOrigin(osp)
	}
	if w.Commit == nil {
		return nil
	}
	source, err := w.addSourceStep(ctx, osp)
	if err != nil {
		return err
	}
	w.addLinksAndCleanCommit(source)
	return nil
}

// addProfileStep adds the profile's object; it returns one whose content is what it was.
func (w *resultBuilder) addProfileStep(ctx context.Context, object string) (*osm.OperatingSystemProfile, error) {
	key := lineage.ProfileKey(w.in.Namespace, object)
	obj := Object{Kind: "OperatingSystemProfile", Namespace: key.Namespace, Name: key.Name}
	if object == "" {
		w.addStep(obj, Missing, "no record names it")
		return nil, nil
	}
	osp, digest, err := w.in.ReadProfileAndDigest(ctx, object)
	if none, ok := errors.AsType[*NotFoundError](err); ok {
		state := Missing
		switch {
		case none.Hint != "":
			state = Unreadable
		case w.ProfileDigest != "":
			state = Removed // a record remembers it
		}
		w.addStep(obj, state, none.Hint)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	obj.UID = osp.UID
	a := osp.Annotations
	step := w.addStep(obj, Found, "")
	step.addDetail("version", osp.Spec.Version)
	step.addDetail("digest", digest)
	step.addDetail("overlay on", a[api.AnnotationBase])
	step.addDetail("whose commit is", a[api.AnnotationBaseCommit])
	applied := a[api.AnnotationAppliedBy] // by Flux or Argo CD, which edit it in place
	managed := a[api.AnnotationDigest] != "" && applied == ""
	switch {
	case managed && a[api.AnnotationDigest] != digest:
		step.State, step.Note = Edited, "its content does not match its digest annotation"
		w.disagree("%s was edited: its content has digest %s, its annotation says %s", obj, digest, a[api.AnnotationDigest])
		return nil, nil
	case w.ProfileDigest != "" && digest != w.ProfileDigest && managed:
		step.State, step.Note = Edited, "its content does not match the record"
		w.disagree("the content of %s does not match the record: digest %s, recorded %s", obj, digest, w.ProfileDigest)
		return nil, nil
	case w.ProfileDigest != "" && digest != w.ProfileDigest:
		step.Note = clean("it was changed since, to version " + osp.Spec.Version)
		return nil, nil
	case applied != "" && a[api.AnnotationDigest] == digest:
		step.Note = clean("no ProfileSource created it: " + applied + " applied it, and names the revision itself")
	case !managed:
		step.State = Foreign
		step.Note = "no ProfileSource created it: a user or another tool did, and its commit is unknown"
	}
	return osp, nil
}

// addAndCompareProfileOrigin takes over what a profile's object says of its origin.
func (w *resultBuilder) addAndCompareProfileOrigin(osp *osm.OperatingSystemProfile) {
	a := osp.Annotations
	if w.ProfileDigest == "" { // it is what was asked about
		w.ProfileDigest = profile.Digest(osp.Spec)
		w.Version = clean(cmp.Or(a[api.AnnotationVersion], osp.Spec.Version))
		w.Profile = clean(profileOf(osp))
		if a[api.AnnotationCommit] != "" {
			w.Commit = &Commit{
				Repository: a[api.AnnotationRepository], Path: a[api.AnnotationPath], Commit: a[api.AnnotationCommit], Change: a[api.AnnotationChange], SelectedBy: a[api.AnnotationSelectedBy],
			}
		}
	}
	// One that came again, with the content that it had, names a later revision.
	if w.Commit == nil || a[api.AnnotationAppliedBy] != "" {
		return
	}
	for _, c := range []struct{ key, have string }{
		{api.AnnotationCommit, w.Commit.Commit}, {api.AnnotationChange, w.Commit.Change}, {api.AnnotationRepository, w.Commit.Repository}, {api.AnnotationPath, w.Commit.Path},
	} {
		if a[c.key] != c.have {
			w.disagree("OperatingSystemProfile %s: annotation %s says %q, the record says %q", osp.Name, c.key, a[c.key], c.have)
		}
	}
	c := w.Commit
	c.Subject = a[api.AnnotationSubject]
	c.Author = cmp.Or(c.Author, a[api.AnnotationAuthor])
	c.CommittedAt = cmp.Or(c.CommittedAt, a[api.AnnotationCommittedAt])
	c.Signature = cmp.Or(c.Signature, a[api.AnnotationSignature])
}

// addSourceStep adds the ProfileSource that offers the profile from its repository.
func (w *resultBuilder) addSourceStep(ctx context.Context, osp *osm.OperatingSystemProfile) (*api.ProfileSource, error) {
	namespace := lineage.ProfileKey(w.in.Namespace, w.Object).Namespace
	name := ""
	if osp != nil {
		name = osp.Labels[api.LabelSource]
	}
	var found *api.ProfileSource
	state, note, err := List(ctx, w.in.Management, &api.ProfileSourceList{}, func(page *api.ProfileSourceList) error {
		for i := range page.Items {
			ps := &page.Items[i]
			provides := slices.ContainsFunc(ps.Status.Profiles, func(e api.ProfileEntry) bool { return e.Name == w.Profile })
			// The label on the object decides; otherwise the first source of this repository.
			if ps.Name == name || found == nil && provides && githost.IsSameRepository(repositoryOf(ps), w.Commit.Repository) {
				found = ps.DeepCopy()
			}
		}
		return nil
	}, client.InNamespace(namespace))
	if err != nil {
		return nil, err
	}
	obj := Object{Kind: "ProfileSource", Namespace: namespace, Name: name}
	switch {
	case found == nil && state == Found && name != "":
		w.addStep(obj, Removed, "the profile's object names it")
	case found == nil && state == Found:
		w.addStep(obj, Missing, "no ProfileSource offers this profile from its repository now")
	case found == nil:
		w.addStep(obj, state, note)
	default:
		obj.Name, obj.UID = found.Name, found.UID
		w.addSourceDetails(w.addStep(obj, Found, ""), found)
	}
	return found, nil
}

// addSourceDetails adds the repository of a ProfileSource, its revision and conditions, and the
// version of the profile that it offers now.
func (w *resultBuilder) addSourceDetails(step *Step, ps *api.ProfileSource) {
	step.addDetail("repository", repositoryOf(ps))
	step.addDetail("revision", ps.Status.Revision)
	for _, conditionType := range []string{meta.ReadyCondition, api.SourceVerifiedCondition} {
		if c := apimeta.FindStatusCondition(ps.Status.Conditions, conditionType); c != nil {
			step.addDetail(strings.ToLower(conditionType[:1])+conditionType[1:], string(c.Status)+" "+c.Reason)
		}
	}
	for _, e := range ps.Status.Profiles {
		if e.Name == w.Profile {
			current := e.Version
			if e.Removed {
				current += ", which left the repository"
			}
			step.addDetail("current", current)
		}
	}
	if w.Commit != nil && followsOtherRepository(ps, w.Commit.Repository) {
		step.Note = clean(fmt.Sprintf("it follows %s now", repositoryOf(ps)))
	}
}

// followsOtherRepository reports whether a source follows another repository than that of a commit.
// Addresses that differ in form, such as https and ssh, can be the same repository.
func followsOtherRepository(ps *api.ProfileSource, repository string) bool {
	followed := repositoryOf(ps)
	return followed != "" && followed != repository && !githost.IsSameRepository(followed, repository)
}

// repositoryOf returns the repository of a source, "" if it has none or it is unknown.
func repositoryOf(ps *api.ProfileSource) string {
	if ps.Spec.Git != nil {
		return ps.Spec.Git.URL
	}
	return ps.Status.Repository
}

// addLinksAndCleanCommit adds links to the commit and makes its texts safe to show.
func (w *resultBuilder) addLinksAndCleanCommit(source *api.ProfileSource) {
	c := w.Commit
	hosts := w.in.Hosts
	if host := githost.Host(c.Repository); source != nil && source.Spec.Webhook != nil && hosts[host] == "" && githost.IsSameRepository(repositoryOf(source), c.Repository) {
		if kind := githost.ProviderKind(source.Spec.Webhook.Provider, c.Repository); kind != "" {
			hosts = githost.Hosts{host: kind}
		}
	}
	links := githost.LinksOf(c.Repository, hosts)
	c.Link, c.FileLink = links.CommitURL(c.Commit), links.FileURL(c.Commit, c.Path)
	if c.Change != c.Commit {
		c.ChangeLink = links.CommitURL(c.Change)
	}
	c.LinkGuessed = links.Guessed && c.Link != ""
	for _, text := range []*string{&c.Repository, &c.Path, &c.Commit, &c.Change, &c.SelectedBy, &c.Author, &c.CommittedAt, &c.Subject, &c.Signature} {
		*text = clean(*text)
	}
}
