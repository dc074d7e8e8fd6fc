package objects

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// updateCustom makes an existing CustomOperatingSystemProfile that this controller made contain a
// version. It writes a higher version than the one that it wrote last, or the same one again if
// the object was edited. KKP copies every other version to all user clusters, also a lower one.
func (w *Writer) updateCustom(ctx context.Context, l Approved, v catalog.Version, have *osm.OperatingSystemProfile) (written, error) {
	at, key := cmp.Or(v.CurrentPath, v.Path), client.ObjectKeyFromObject(have)
	conflict := func(format string, args ...any) (written, error) {
		return written{}, &ConflictError{err: fmt.Errorf("%s: CustomOperatingSystemProfile %s "+format, append([]any{at, key}, args...)...)}
	}
	// A user who hands an object over sets its labels: it has no annotations then.
	content, lastVersion := profile.Digest(have.Spec), VersionOf(have)
	lastDigest := cmp.Or(have.Annotations[api.AnnotationDigest], content)
	isTraceable := isProvenanceOf(have.Annotations, l.Snapshot, v)
	switch {
	case content == v.Digest && isTraceable && have.Labels[api.LabelSource] == l.Source.Name:
		return written{Signed: have.Annotations[api.AnnotationSignature]}, nil
	case content != v.Digest && v.Version == lastVersion && v.Digest != lastDigest:
		return conflict("has other content in version %s (digest %s%s, not %s%s): give the profile a new version",
			v.Version, lastDigest, commitSuffixForMessage(have.Annotations[api.AnnotationCommit]), v.Digest, commitSuffixForMessage(string(v.Commit)))
	case v.Version != lastVersion && version.SortDescending([]string{v.Version, lastVersion})[0] != v.Version:
		return conflict("has version %s, which is higher than %s, and is never lowered: give the profile a version above %s", lastVersion, v.Version, lastVersion)
	}
	next, err := w.buildObject(ctx, key, l, v)
	if err != nil {
		return written{}, err
	}
	spec := next.Spec
	labels := mergeMetadata(have.Labels, next.Labels)
	annotations := mergeMetadata(have.Annotations, next.Annotations)
	next = have.DeepCopy()
	next.Spec = spec
	next.Labels = labels
	next.Annotations = annotations
	// A patch contains what differs, so that fields of a later release of the kind remain.
	patch := client.MergeFromWithOptions(w.ConvertToKind(have), client.MergeFromWithOptimisticLock{})
	switch err := w.Client.Patch(ctx, w.ConvertToKind(next), patch, client.FieldOwner(api.FieldManager)); {
	case apierrors.IsInvalid(err):
		return conflict("is refused by the API server with version %s: %w", v.Version, err)
	case err != nil:
		return written{}, fmt.Errorf("updating CustomOperatingSystemProfile %s: %w", key, err)
	}
	if err := w.checkStoredCompletely(next, v); err != nil {
		return written{}, err
	}
	did := written{Created: v.Version != lastVersion, Signed: next.Annotations[api.AnnotationSignature]}
	if content != lastDigest || !did.Created && !isTraceable && have.Annotations[api.AnnotationDigest] != "" {
		did.Restored = fmt.Sprintf("CustomOperatingSystemProfile %s was changed by hand, and has version %s of Git again: change %s instead", key, v.Version, at)
	}
	return did, nil
}

// checkNotBuiltinName returns an error for a profile that cannot be a CustomOperatingSystemProfile: in a user
// cluster operating-system-manager replaces the content of an object with the name of one that it
// has built in whenever the version is not its own, and KKP copies the
// CustomOperatingSystemProfile again. Pools would alternate between the two.
func checkNotBuiltinName(v catalog.Version) error {
	if !osm.IsBuiltinProfile(v.Name) {
		return nil
	}
	return &ConflictError{err: fmt.Errorf("%s: operating-system-manager restores its own profile %q in every user cluster: give this profile another name", cmp.Or(v.CurrentPath, v.Path), v.Name)}
}

// checkManaged returns an error if the object of a profile is not ours to change: a user, another
// program or another ProfileSource created it. An object of a ProfileSource that dropped the profile
// can be changed. Its label decides, because inventories are written after objects.
func (w *Writer) checkManaged(have *osm.OperatingSystemProfile, l Approved, v catalog.Version) error {
	if have.Labels[api.LabelManagedBy] == api.FieldManager && have.Labels[api.LabelProfile] == v.Name {
		for _, other := range l.Others {
			if other.Name == have.Labels[api.LabelSource] && other.DeletionTimestamp.IsZero() && !hasDroppedProfile(other, have, v.Name) {
				return &ConflictError{err: fmt.Errorf("%s: CustomOperatingSystemProfile %s is that of ProfileSource %q: remove it from one of the two sources",
					cmp.Or(v.CurrentPath, v.Path), client.ObjectKeyFromObject(have), other.Name)}
			}
		}
		return nil
	}
	by := "was not made by osm-gitops"
	if marks := ownership.CertainAppliers(have, w.ArgoNamespace); len(marks) > 0 {
		by = "is applied by " + marks[0].String()
	}
	return &ConflictError{TwoAppliers: true, err: fmt.Errorf("%s: CustomOperatingSystemProfile %s %s, and is not changed: delete it there, rename the profile, or hand it over with the labels %s=%s and %s=%s",
		cmp.Or(v.CurrentPath, v.Path), client.ObjectKeyFromObject(have), by, api.LabelManagedBy, api.FieldManager, api.LabelProfile, v.Name)}
}

// hasDroppedProfile reports whether a source, which the label of a profile's object names, no longer has
// the profile: its inventory says that it was removed, or does not list it although the source is
// newer than the object, and so not the one that wrote it.
func hasDroppedProfile(ps api.ProfileSource, osp *osm.OperatingSystemProfile, name string) bool {
	for _, e := range ps.Status.Profiles {
		if e.Name == name {
			return e.Removed
		}
	}
	return osp.CreationTimestamp.Before(&ps.CreationTimestamp)
}

// isProvenanceOf reports whether annotations name a version. Without a history the commit is
// that of the revision in which the version was seen first.
func isProvenanceOf(annotations map[string]string, snap *source.Snapshot, v catalog.Version) bool {
	return annotations[api.AnnotationVersion] == v.Version && annotations[api.AnnotationDigest] == v.Digest &&
		(len(snap.Line) == 0 || annotations[api.AnnotationCommit] == string(v.Commit))
}

// mergeMetadata merges labels or annotations: those of others remain, and ours replace all earlier
// ones of our own.
func mergeMetadata(have, ours map[string]string) map[string]string {
	out := maps.Clone(have)
	maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, api.GroupVersion.Group+"/") })
	if out == nil {
		return ours
	}
	maps.Copy(out, ours)
	return out
}
