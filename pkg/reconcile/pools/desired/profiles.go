package desired

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// AllNamespaces in Profiles.Namespaces allows every namespace.
const AllNamespaces = "*"

// Profiles reads the profiles that pools ask for.
type Profiles struct {
	// Cached and Live read the management cluster.
	Cached, Live client.Reader
	// Namespace is the controller's. Namespaces are others from which pools may take
	// profiles.
	Namespace  string
	Namespaces []string
	// Appliers finds the user who applied a profile that no ProfileSource created; nil disables it.
	Appliers *ownership.Resolver
	// Digests remembers the digests of profiles.
	Digests *SpecDigestCache
}

// Resolve finds the profile that a pool requests. It tries, in this order: a profile of that
// name in a ProfileSource, an OperatingSystemProfile object of that name, and a built-in profile.
// A ProfileSource provides the current version, or the one that the pool requests. have is the
// record of the pool's present configuration.
func (p Profiles) Resolve(ctx context.Context, md *cluster.MachineDeployment, have render.Record) (render.Profile, error) {
	want, err := p.parseRequest(md)
	if err != nil {
		return render.Profile{}, err
	}
	var sources api.ProfileSourceList // of the cache: not to be changed
	if err := p.Cached.List(ctx, &sources, client.InNamespace(want.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return render.Profile{}, fmt.Errorf("listing ProfileSources: %w", err)
	}
	userSources, builtin := selection.SplitBuiltin(sources.Items)
	if candidate, ok := selection.FindCandidate(userSources, want.Name); ok {
		return p.sourceProfile(ctx, want, candidate, have)
	}
	if err := p.checkSourcesReconciled(want, have, userSources); err != nil {
		return render.Profile{}, err
	}
	osp, err := p.profileObject(ctx, p.Cached, p.FormatRef(want.Namespace, want.Name))
	if err == nil {
		return p.unmanagedProfile(ctx, want, osp, have)
	}
	if !apierrors.IsNotFound(err) {
		return render.Profile{}, err
	}
	if candidate, ok := selection.FindCandidate(builtin, want.Name); ok {
		return p.sourceProfile(ctx, want, candidate, have)
	}
	if err := p.checkSourcesReconciled(want, have, builtin); err != nil {
		return render.Profile{}, err
	}
	return render.Profile{}, fault.Reject("no ProfileSource in namespace %q offers a profile %q, and there is no OperatingSystemProfile of that name%s: correct annotation %s, or push the profile",
		want.Namespace, want.Name, profileNames(sources.Items), api.AnnotationOSP)
}

// ErrSourceNotReconciled says that it is not known yet which profile a pool gets.
var ErrSourceNotReconciled = errors.New("has not been reconciled yet")

// checkSourcesReconciled returns an error if a source that can offer the requested profile is not
// reconciled yet. Only a pool without a configuration waits for it: after an installation it must
// not get another profile first.
func (p Profiles) checkSourcesReconciled(want selection.Request, have render.Record, sources []api.ProfileSource) error {
	if have.Object != "" || want.Namespace != p.Namespace {
		return nil
	}
	for i := range sources {
		ps := &sources[i]
		if !ps.Spec.Suspend && ps.DeletionTimestamp.IsZero() && apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition) == nil {
			return fmt.Errorf("ProfileSource %q, which may offer profile %q, %w", ps.Name, want.Name, ErrSourceNotReconciled)
		}
	}
	return nil
}

// sourceProfile reads what an inventory points to, or the version that the pool asks
// for. A profile that was removed serves the pool that has it.
func (p Profiles) sourceProfile(ctx context.Context, want selection.Request, candidate selection.Candidate, have render.Record) (render.Profile, error) {
	entry, err := candidate.Entry, error(nil)
	if want.Pin == nil {
		if entry, err = p.entryForWave(want, candidate, have); err != nil {
			return render.Profile{}, err
		}
	}
	object := p.FormatRef(want.Namespace, entry.Object)
	switch {
	case entry.Removed:
		if !has(want, have) || want.Pin == nil && have.Object != object || lineage.ProfileKey(p.Namespace, have.Object).Namespace != want.Namespace {
			return render.Profile{}, fault.Reject("profile %q was removed from ProfileSource %q: choose another in annotation %s, or put its file back", entry.Name, candidate.Source.Name, api.AnnotationOSP)
		}
		object = have.Object
	case want.Pin != nil:
		if object, err = p.pinnedObject(ctx, want, candidate); err != nil {
			return render.Profile{}, err
		}
	}
	osp, err := p.ReadObject(ctx, object)
	if missing, ok := errors.AsType[*MissingError](err); ok {
		missing.Err = fmt.Errorf("OperatingSystemProfile %s/%s, version %s of profile %q, is missing; ProfileSource %q creates it again when it next reads its source", want.Namespace, entry.Object, entry.Version, entry.Name, candidate.Source.Name)
		return render.Profile{}, &fault.Rejection{Reason: api.EventProfileError, Err: missing}
	}
	if err != nil {
		return render.Profile{}, err
	}
	// The inventory has the digest of the current version only.
	if osp.Name == candidate.Entry.Object && isContentReplaced(p.Digests.SpecDigest(osp), candidate.Entry.Digest) {
		return render.Profile{}, fault.Reject("OperatingSystemProfile %s/%s is not what ProfileSource %q found in its source, because a user replaced it: delete it, and the source creates it again", osp.Namespace, osp.Name, candidate.Source.Name)
	}
	out := p.profileOf(osp, entry.Name, entry.SelectedBy)
	// The inventory names the commit that selected the current version, and the pool gets another
	// one.
	if want.Pin != nil || entry.Removed && osp.Name != entry.Object {
		out.SelectedBy = out.Provenance.Commit
	}
	return out, nil
}

// entryForWave is the inventory's entry with the version that the pool's wave gets. Until the rollout
// has decided, a pool retains the version it has. Inventory and decision are in one object, so
// no pool adopts a version before it is allowed to.
func (p Profiles) entryForWave(want selection.Request, candidate selection.Candidate, have render.Record) (api.ProfileEntry, error) {
	entry, decided := selection.EntryForWave(candidate.Source, candidate.Entry, want.Wave)
	if decided {
		return entry, nil
	}
	if !has(want, have) || lineage.ProfileKey(p.Namespace, have.Object).Namespace != want.Namespace {
		return entry, &fault.Rejection{Reason: api.EventWaiting, Err: fmt.Errorf("which version of profile %q wave %d gets is not decided yet: ProfileSource %q rolls out in waves", want.Name, want.Wave, candidate.Source.Name)}
	}
	entry.Version = have.Version
	entry.Object = lineage.ProfileKey(p.Namespace, have.Object).Name
	entry.SelectedBy = have.SelectedBy
	return entry, nil
}

// isContentReplaced reports whether a spec is another than an inventory says. Digests of another
// recipe, as of an earlier release, cannot be compared.
func isContentReplaced(digest, listed string) bool {
	recipe, _, _ := strings.Cut(digest, ":")
	return digest != listed && strings.HasPrefix(listed, recipe+":")
}

// unmanagedProfile returns the profile of an object that no source created, with unchanged content.
func (p Profiles) unmanagedProfile(ctx context.Context, want selection.Request, osp *osm.OperatingSystemProfile, has render.Record) (render.Profile, error) {
	if want.Pin != nil && !want.Pin.Allows(osp.Spec.Version) {
		return render.Profile{}, fault.Reject("annotation %s: OperatingSystemProfile %s/%s, which no ProfileSource made, has version %s and no other, and %q asks for another: remove the annotation, or correct it",
			api.AnnotationVersionPin, osp.Namespace, osp.Name, osp.Spec.Version, want.Pin)
	}
	out := p.profileOf(osp, want.Name, "")
	if p.Appliers == nil || osp.Labels[api.LabelSource] != "" {
		return out, nil
	}
	found, err := p.Appliers.ResolveOrigin(ctx, osp)
	var both *ownership.TwoError
	switch {
	case errors.As(err, &both):
		return render.Profile{}, &fault.Rejection{Reason: api.EventTwoAppliers, Err: both}
	case errors.Is(err, ownership.ErrRaced):
		return render.Profile{}, fmt.Errorf("%w: %w", fault.ErrRaced, err)
	case err != nil:
		return render.Profile{}, err
	case len(found.By) == 0:
		return out, nil
	}
	if found.Revision != "" {
		out.Provenance.Repository = found.Repository
		out.Provenance.Path = found.Path
		out.Provenance.Commit = found.Revision
	}
	// Do not rotate for the same content, even if another user applied it from another commit.
	if has.Object == out.Object && has.ObjectDigest == out.Digest && has.Commit != "" {
		out.Provenance.Repository = has.Repository
		out.Provenance.Path = has.Path
		out.Provenance.Commit = has.Commit
	}
	return out, nil
}

// profileNames lists the profiles there are, for someone who misspelt one.
func profileNames(sources []api.ProfileSource) string {
	const most = 10
	var names []string
	for _, ps := range sources {
		for _, e := range ps.Status.Profiles {
			if !e.Removed {
				names = append(names, e.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	names = slices.Compact(names) // a built-in profile and the one that shadows it
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return " (there are " + strings.Join(names, ", ") + ")"
}

// FormatRef names an OperatingSystemProfile in a record: by its name, prefixed with "<namespace>/"
// if that is not the controller's namespace.
func (p Profiles) FormatRef(namespace, name string) string {
	if namespace == p.Namespace {
		return name
	}
	return namespace + "/" + name
}

// profileObject reads the object of a reference that FormatRef made.
func (p Profiles) profileObject(ctx context.Context, from client.Reader, ref string) (*osm.OperatingSystemProfile, error) {
	key := lineage.ProfileKey(p.Namespace, ref)
	if !p.mayServe(key.Namespace) {
		return nil, foreignNamespaceError(key.Namespace)
	}
	var osp osm.OperatingSystemProfile
	if err := from.Get(ctx, key, &osp); err != nil {
		return nil, fmt.Errorf("reading OperatingSystemProfile %s: %w", key, err)
	}
	return &osp, nil
}

// Exists reports whether the cache has an object that a pool lacked.
func (p Profiles) Exists(ctx context.Context, ref string) bool {
	_, err := p.profileObject(ctx, p.Cached, ref)
	return err == nil
}

// MissingError says that an object which an inventory or a record names is not there.
type MissingError struct {
	Object string // as Profiles.FormatRef names it
	Err    error
}

func (e *MissingError) Error() string { return e.Err.Error() }
func (e *MissingError) Unwrap() error { return e.Err }

// ReadObject reads an object that an inventory or a record names. If the cache does not have it,
// ReadObject reads it from the API server: inventory and object arrive through two watches, and the
// watch of objects can be stale.
func (p Profiles) ReadObject(ctx context.Context, ref string) (*osm.OperatingSystemProfile, error) {
	osp, err := p.profileObject(ctx, p.Cached, ref)
	if apierrors.IsNotFound(err) {
		osp, err = p.profileObject(ctx, p.Live, ref)
	}
	if apierrors.IsNotFound(err) {
		return nil, &MissingError{Object: ref, Err: err}
	}
	return osp, err
}

// profileOf converts an object to the input of rendering. The annotations about its origin count
// only if the digest that they name is the digest of the content.
func (p Profiles) profileOf(osp *osm.OperatingSystemProfile, name, selectedBy string) render.Profile {
	digest := p.Digests.SpecDigest(osp)
	out := render.Profile{
		Spec: osp.Spec, Object: p.FormatRef(osp.Namespace, osp.Name), Digest: digest, SelectedBy: selectedBy,
		Provenance: render.Provenance{Profile: name, Version: osp.Spec.Version},
	}
	if a := osp.Annotations; a[api.AnnotationDigest] == digest {
		out.Provenance.Repository = a[api.AnnotationRepository]
		out.Provenance.Path = a[api.AnnotationPath]
		out.Provenance.Commit = a[api.AnnotationCommit]
		out.Provenance.Change = a[api.AnnotationChange]
	}
	return out
}
