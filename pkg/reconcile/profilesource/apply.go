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
	restored   []string          // objects that others had changed
	rejected   []error           // versions that were not applied
	failed     map[string]bool   // their profiles
	signatures map[string]string // of the versions that are objects, by profile
}

// apply makes the current versions objects, unless they are.
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
			out.rejected = append(out.rejected, fmt.Errorf("%s: profile %q %s is from an earlier commit whose signature is not accepted: %s: give the profile a new version", v.CurrentPath, v.Name, v.Version, why))
			continue
		}
		did, err := objects.ensure(ctx, l, v)
		var conflict *conflictError
		switch {
		case errors.As(err, &conflict):
			// A conflict of one profile must not stop the others.
			out.failed[v.Name] = true
			out.rejected = append(out.rejected, err)
			continue
		case err != nil:
			return applied{}, err
		case did.created:
			out.created = append(out.created, v)
		}
		if did.restored != "" {
			out.restored = append(out.restored, did.restored)
		}
		// An object is never changed, not even one created before signatures were required.
		if did.signed == "" {
			if did.signed, err = l.signedBefore(ctx, v, objects.objectName(l.source, v)); err != nil {
				return applied{}, err
			}
		}
		out.signatures[v.Name] = did.signed
	}
	return out, nil
}

// profileWriter creates and deletes OperatingSystemProfiles. It never changes one. If it is
// custom, it creates and updates CustomOperatingSystemProfiles instead, and deletes none.
type profileWriter struct {
	client        client.Client
	live          client.Reader
	argoNamespace string // has the Applications whose tracking ids name no namespace
	custom        bool
}

// kind is the kind of the objects.
func (w *profileWriter) kind() string {
	if w.custom {
		return "CustomOperatingSystemProfile"
	}
	return "OperatingSystemProfile"
}

// target returns a profile as an object of that kind, with which clients read into o.
func (w *profileWriter) target(o *osm.OperatingSystemProfile) client.Object {
	if w.custom {
		return (*osm.CustomOperatingSystemProfile)(o)
	}
	return o
}

// objectName returns the name of the object of a version.
func (w *profileWriter) objectName(ps *api.ProfileSource, v profile.Version) string {
	if w.custom {
		return v.Name
	}
	return objectName(ps, v)
}

func (w *profileWriter) get(ctx context.Context, from client.Reader, key types.NamespacedName) (*osm.OperatingSystemProfile, error) {
	o := &osm.OperatingSystemProfile{}
	if err := from.Get(ctx, key, w.target(o)); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", w.kind(), key, err)
	}
	o.Kind = w.kind() // clients do not always set it
	return o, nil
}

// written is the result of writing one version.
type written struct {
	created  bool   // the version became an object, or the new content of its object
	restored string // says what others had changed; "" if nothing
	signed   string // the signature that the object names
}

// conflictError is about a version that cannot become an object. Only another commit, or
// a user who deletes an object, can change that.
type conflictError struct {
	err error
	two bool // another applies the object
}

func (e *conflictError) Error() string { return e.err.Error() }
func (e *conflictError) Unwrap() error { return e.err }

// ensure creates the object of a version, unless it exists.
func (w *profileWriter) ensure(ctx context.Context, l syncState, v profile.Version) (written, error) {
	if w.custom {
		if err := checkName(v); err != nil {
			return written{}, err
		}
	}
	key := types.NamespacedName{Namespace: l.source.Namespace, Name: w.objectName(l.source, v)}
	existing, err := w.get(ctx, w.client, key)
	var did written
	switch {
	case apierrors.IsNotFound(err):
		did.signed, err = w.create(ctx, key, l, v)
		did.created = err == nil
	case err == nil:
		did, err = w.adoptExisting(ctx, l, v, existing)
	}
	if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		return did, err
	}
	if existing, err = w.get(ctx, w.live, key); err != nil { // the cache is behind
		return written{}, err
	}
	return w.adoptExisting(ctx, l, v, existing)
}

// adoptExisting checks that an existing object can be that of a version. It changes the object only if it
// is custom.
func (w *profileWriter) adoptExisting(ctx context.Context, l syncState, v profile.Version, existing *osm.OperatingSystemProfile) (written, error) {
	at, key := cmp.Or(v.CurrentPath, v.Path), client.ObjectKeyFromObject(existing)
	if w.custom {
		if err := w.checkManaged(existing, l, v); err != nil {
			return written{}, err
		}
	} else if got := profile.Digest(existing.Spec); got != v.Digest {
		return written{}, &conflictError{err: fmt.Errorf("%s: OperatingSystemProfile %s exists with other content (digest %s%s, not %s%s): give the profile a new version, or delete the object if nothing uses it",
			at, key, got, ofCommit(existing.Annotations[api.AnnotationCommit]), v.Digest, ofCommit(string(v.Commit)))}
	}
	if by := ownership.Marks(existing, w.argoNamespace); len(by) > 0 {
		return written{}, &conflictError{two: w.custom, err: fmt.Errorf("%s: %s %s is applied by %s as well as by ProfileSource %q, and would be deleted with it: remove it from what that applies",
			at, w.kind(), key, by[0], l.source.Name)}
	}
	if w.custom {
		return w.follow(ctx, l, v, existing)
	}
	return written{signed: existing.Annotations[api.AnnotationSignature]}, nil
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
	o, err := w.compose(ctx, key, l, v)
	if err != nil {
		return "", err
	}
	err = w.client.Create(ctx, w.target(o), client.FieldOwner(api.FieldManager))
	switch {
	// The same content would be rejected again, so this is a problem of the file and not a reason
	// to retry.
	case apierrors.IsInvalid(err):
		return "", &conflictError{err: fmt.Errorf("%s: the API server refuses profile %q %s: %w", cmp.Or(v.CurrentPath, v.Path), v.Name, v.Version, err)}
	case err != nil && !apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("creating %s %s: %w", w.kind(), key, err)
	}
	if err == nil {
		err = w.checkStored(o, v)
	}
	return o.Annotations[api.AnnotationSignature], err
}

// checkStored returns an error if the API server dropped a part of what it was sent.
func (w *profileWriter) checkStored(o *osm.OperatingSystemProfile, v profile.Version) error {
	if profile.Digest(o.Spec) == v.Digest {
		return nil
	}
	return &conflictError{err: fmt.Errorf("%s: the API server does not store all of %s %s in version %s: its CustomResourceDefinition lacks a field of the profile: update it, or remove the field",
		cmp.Or(v.CurrentPath, v.Path), w.kind(), client.ObjectKeyFromObject(o), v.Version)}
}

// compose returns the object of a version, with its provenance.
func (w *profileWriter) compose(ctx context.Context, key types.NamespacedName, l syncState, v profile.Version) (*osm.OperatingSystemProfile, error) {
	doc, err := l.indexer.Document(ctx, l.snapshot, v)
	if err != nil {
		return nil, err
	}
	author, err := profile.ChangeOf(ctx, l.snapshot, v)
	if err != nil {
		return nil, err
	}
	signed, err := l.approval.signatureOf(ctx, l.snapshot, v)
	if err != nil {
		return nil, err
	}
	return object(key, origin{source: l.source, snapshot: l.snapshot, version: v, author: author, signature: signed}, doc), nil
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
