package profilesource

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// applied is the result of applying the current versions.
type applied struct {
	created    []profile.Version
	refused    []error           // versions that were not applied
	failed     map[string]bool   // their profiles
	signatures map[string]string // of the versions that are objects, by profile
}

// apply creates the objects of the current versions, unless they exist.
func (r *Reconciler) apply(ctx context.Context, l syncState, want wanted) (applied, error) {
	out := applied{failed: map[string]bool{}, signatures: map[string]string{}}
	objects := r.writer()
	for _, v := range want.apply {
		why, err := l.approval.vouch(ctx, l.snapshot, v)
		if err != nil {
			return applied{}, err
		}
		if why != "" {
			out.failed[v.Name] = true
			out.refused = append(out.refused, fmt.Errorf("%s: profile %q %s is what an earlier commit holds, and nobody vouches for that: %s: give the profile a new version", v.CurrentPath, v.Name, v.Version, why))
			continue
		}
		created, signed, err := objects.ensure(ctx, l, v)
		var conflict *conflictError
		switch {
		case errors.As(err, &conflict):
			out.failed[v.Name] = true
			out.refused = append(out.refused, err)
			continue
		case err != nil:
			return applied{}, err
		case created:
			out.created = append(out.created, v)
		}
		// An object is never changed, not even one created before signatures were required.
		if signed == "" {
			if signed, err = l.signedBefore(ctx, v); err != nil {
				return applied{}, err
			}
		}
		out.signatures[v.Name] = signed
	}
	return out, nil
}

// profileWriter creates and deletes OperatingSystemProfiles. It never changes one.
type profileWriter struct {
	client        client.Client
	live          client.Reader
	argoNamespace string // has the Applications whose tracking ids name no namespace
}

// conflictError is about a version that cannot become an object. Only another commit, or
// a user who deletes an object, can change that.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }
func (e *conflictError) Unwrap() error { return e.err }

// ensure creates the object of a version, unless it exists. It reports whether it
// created it, and the signature that the object names.
func (w *profileWriter) ensure(ctx context.Context, l syncState, v profile.Version) (created bool, signed string, err error) {
	key := types.NamespacedName{Namespace: l.source.Namespace, Name: objectName(l.source, v)}
	var existing osm.OperatingSystemProfile
	err = w.client.Get(ctx, key, &existing)
	if apierrors.IsNotFound(err) {
		signed, err = w.create(ctx, key, l, v)
		if !apierrors.IsAlreadyExists(err) {
			return err == nil, signed, err
		}
		err = w.live.Get(ctx, key, &existing) // the cache is behind
	}
	if err != nil {
		return false, "", fmt.Errorf("reading OperatingSystemProfile %s: %w", key, err)
	}
	if got := profile.Digest(existing.Spec); got != v.Digest {
		return false, "", &conflictError{fmt.Errorf("%s: OperatingSystemProfile %s exists with other content (digest %s%s, not %s%s): give the profile a new version, or delete the object if nothing uses it",
			cmp.Or(v.CurrentPath, v.Path), key, got, ofCommit(existing.Annotations[api.AnnotationCommit]), v.Digest, ofCommit(string(v.Commit)))}
	}
	if by := ownership.Marks(&existing, w.argoNamespace); len(by) > 0 {
		return false, "", &conflictError{fmt.Errorf("%s: OperatingSystemProfile %s is applied by %s as well as by ProfileSource %q, and would go with it: take it out of what that applies",
			cmp.Or(v.CurrentPath, v.Path), key, by[0], l.source.Name)}
	}
	return false, existing.Annotations[api.AnnotationSignature], nil
}

// ofCommit names a commit, if one is known.
func ofCommit(commit string) string {
	if commit == "" {
		return ""
	}
	return " of commit " + redact.Clean(commit)
}

// create creates the object of a version. An error that it exists is returned unchanged.
func (w *profileWriter) create(ctx context.Context, key types.NamespacedName, l syncState, v profile.Version) (signed string, err error) {
	doc, err := l.indexer.Document(ctx, l.snapshot, v)
	if err != nil {
		return "", err
	}
	author, err := profile.ChangeOf(ctx, l.snapshot, v)
	if err != nil {
		return "", err
	}
	signed, err = l.approval.signatureOf(ctx, l.snapshot, v)
	if err != nil {
		return "", err
	}
	err = w.client.Create(ctx, object(key, origin{source: l.source, snapshot: l.snapshot, version: v, author: author, signature: signed}, doc), client.FieldOwner(api.FieldManager))
	switch {
	case apierrors.IsInvalid(err):
		return "", &conflictError{fmt.Errorf("%s: the API server refuses profile %q %s: %w", cmp.Or(v.CurrentPath, v.Path), v.Name, v.Version, err)}
	case err != nil && !apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("creating OperatingSystemProfile %s: %w", key, err)
	}
	return signed, err
}

// recreate creates an object that was deleted, from what is left of it.
func (w *profileWriter) recreate(ctx context.Context, deleted *osm.OperatingSystemProfile) error {
	again := &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: deleted.Namespace, Name: deleted.Name, Labels: deleted.Labels, Annotations: deleted.Annotations},
		Spec:       deleted.Spec,
	}
	if err := w.client.Create(ctx, again, client.FieldOwner(api.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating OperatingSystemProfile %s again: %w", client.ObjectKeyFromObject(deleted), err)
	}
	return nil
}

// delete deletes exactly the object that was read, and reports whether it did.
func (w *profileWriter) delete(ctx context.Context, o *osm.OperatingSystemProfile) (bool, error) {
	err := w.client.Delete(ctx, &osm.OperatingSystemProfile{ObjectMeta: *o.ObjectMeta.DeepCopy()},
		client.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the next reconciliation decides again
		return false, nil
	case err != nil:
		return false, fmt.Errorf("deleting OperatingSystemProfile %s: %w", client.ObjectKeyFromObject(o), err)
	}
	return true, nil
}
