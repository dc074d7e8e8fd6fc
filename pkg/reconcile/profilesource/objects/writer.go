package objects

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/approval"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Writer creates and deletes OperatingSystemProfiles. It never changes one. If it is custom, it
// creates and updates CustomOperatingSystemProfiles instead, and Delete must not be called.
type Writer struct {
	Client        client.Client
	Live          client.Reader
	ArgoNamespace string // has the Applications whose tracking ids name no namespace
	Custom        bool
}

// kind is the kind of the objects.
func (w *Writer) kind() string {
	if w.Custom {
		return "CustomOperatingSystemProfile"
	}
	return "OperatingSystemProfile"
}

// ConvertToKind returns a profile as an object of that kind, with which clients read into o.
func (w *Writer) ConvertToKind(o *osm.OperatingSystemProfile) client.Object {
	if w.Custom {
		return (*osm.CustomOperatingSystemProfile)(o)
	}
	return o
}

// ObjectNameFor returns the name of the object of a version: that of the profile for a
// CustomOperatingSystemProfile, which has no versions.
func (w *Writer) ObjectNameFor(ps *api.ProfileSource, v catalog.Version) string {
	if w.Custom {
		return v.Name
	}
	return VersionedObjectName(ps, v)
}

func (w *Writer) get(ctx context.Context, from client.Reader, key types.NamespacedName) (*osm.OperatingSystemProfile, error) {
	o := &osm.OperatingSystemProfile{}
	if err := from.Get(ctx, key, w.ConvertToKind(o)); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", w.kind(), key, err)
	}
	o.Kind = w.kind() // clients do not always set it
	return o, nil
}

// written is the result of writing one version.
type written struct {
	Created  bool   // the version became an object, or the new content of its object
	Restored string // says what others had changed; "" if nothing
	Signed   string // the signature that the object names
}

// ConflictError is about a version that cannot become an object. Only another commit, or
// a user who deletes an object, can change that.
type ConflictError struct {
	err         error
	TwoAppliers bool // another applies the object
}

func (e *ConflictError) Error() string { return e.err.Error() }
func (e *ConflictError) Unwrap() error { return e.err }

// Ensure creates the object of a version, unless it exists.
func (w *Writer) Ensure(ctx context.Context, l Approved, v catalog.Version) (written, error) {
	if w.Custom {
		if err := checkNotBuiltinName(v); err != nil {
			return written{}, err
		}
	}
	key := types.NamespacedName{Namespace: l.Source.Namespace, Name: w.ObjectNameFor(l.Source, v)}
	existing, err := w.get(ctx, w.Client, key)
	var did written
	switch {
	case apierrors.IsNotFound(err):
		did.Signed, err = w.create(ctx, key, l, v)
		did.Created = err == nil
	case err == nil:
		did, err = w.adoptExisting(ctx, l, v, existing)
	}
	if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		return did, err
	}
	if existing, err = w.get(ctx, w.Live, key); err != nil { // the cache is behind
		return written{}, err
	}
	return w.adoptExisting(ctx, l, v, existing)
}

// adoptExisting checks that an existing object can be that of a version. It changes the object only if it
// is custom.
func (w *Writer) adoptExisting(ctx context.Context, l Approved, v catalog.Version, existing *osm.OperatingSystemProfile) (written, error) {
	at, key := cmp.Or(v.CurrentPath, v.Path), client.ObjectKeyFromObject(existing)
	if w.Custom {
		if err := w.checkManaged(existing, l, v); err != nil {
			return written{}, err
		}
	} else if got := profile.Digest(existing.Spec); got != v.Digest {
		return written{}, &ConflictError{err: fmt.Errorf("%s: OperatingSystemProfile %s exists with other content (digest %s%s, not %s%s): give the profile a new version, or delete the object if nothing uses it",
			at, key, got, commitSuffixForMessage(existing.Annotations[api.AnnotationCommit]), v.Digest, commitSuffixForMessage(string(v.Commit)))}
	}
	if by := ownership.CertainAppliers(existing, w.ArgoNamespace); len(by) > 0 {
		return written{}, &ConflictError{TwoAppliers: w.Custom, err: fmt.Errorf("%s: %s %s is applied by %s as well as by ProfileSource %q, and would be deleted with it: remove it from what that applies",
			at, w.kind(), key, by[0], l.Source.Name)}
	}
	if w.Custom {
		return w.updateCustom(ctx, l, v, existing)
	}
	return written{Signed: existing.Annotations[api.AnnotationSignature]}, nil
}

// commitSuffixForMessage returns " of commit <id>" for a message, "" if no commit is known.
func commitSuffixForMessage(commit string) string {
	if commit == "" {
		return ""
	}
	return " of commit " + redact.PrintableLine(commit)
}

// create creates the object of a version. An error that it exists is returned unchanged.
func (w *Writer) create(ctx context.Context, key types.NamespacedName, l Approved, v catalog.Version) (signed string, err error) {
	o, err := w.buildObject(ctx, key, l, v)
	if err != nil {
		return "", err
	}
	err = w.Client.Create(ctx, w.ConvertToKind(o), client.FieldOwner(api.FieldManager))
	switch {
	// The same content would be rejected again, so this is a problem of the file and not a reason
	// to retry.
	case apierrors.IsInvalid(err):
		return "", &ConflictError{err: fmt.Errorf("%s: the API server refuses profile %q %s: %w", cmp.Or(v.CurrentPath, v.Path), v.Name, v.Version, err)}
	case err != nil && !apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("creating %s %s: %w", w.kind(), key, err)
	}
	if err == nil {
		err = w.checkStoredCompletely(o, v)
	}
	return o.Annotations[api.AnnotationSignature], err
}

// checkStoredCompletely returns an error if the API server dropped a part of the profile that it
// was sent, because its CustomResourceDefinition lacks a field.
func (w *Writer) checkStoredCompletely(o *osm.OperatingSystemProfile, v catalog.Version) error {
	if profile.Digest(o.Spec) == v.Digest {
		return nil
	}
	return &ConflictError{err: fmt.Errorf("%s: the API server does not store all of %s %s in version %s: its CustomResourceDefinition lacks a field of the profile: update it, or remove the field",
		cmp.Or(v.CurrentPath, v.Path), w.kind(), client.ObjectKeyFromObject(o), v.Version)}
}

// buildObject returns the object of a version, with its provenance.
func (w *Writer) buildObject(ctx context.Context, key types.NamespacedName, l Approved, v catalog.Version) (*osm.OperatingSystemProfile, error) {
	doc, err := l.Indexer.Document(ctx, l.Snapshot, v)
	if err != nil {
		return nil, err
	}
	author, err := catalog.ChangeOf(ctx, l.Snapshot, v)
	if err != nil {
		return nil, err
	}
	signed, err := l.Approval.SignatureOf(ctx, l.Snapshot, v)
	if err != nil {
		return nil, err
	}
	return newProfileObject(key, l, v, author, signed, doc), nil
}

// Recreate creates an object that was deleted, from what is left of it.
func (w *Writer) Recreate(ctx context.Context, deleted *osm.OperatingSystemProfile) error {
	again := &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: deleted.Namespace, Name: deleted.Name, Labels: deleted.Labels, Annotations: deleted.Annotations},
		Spec:       deleted.Spec,
	}
	if err := w.Client.Create(ctx, again, client.FieldOwner(api.FieldManager)); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating OperatingSystemProfile %s again: %w", client.ObjectKeyFromObject(deleted), err)
	}
	return nil
}

// Delete deletes exactly the object that was read, and reports whether it did.
func (w *Writer) Delete(ctx context.Context, o *osm.OperatingSystemProfile) (bool, error) {
	err := w.Client.Delete(ctx, &osm.OperatingSystemProfile{ObjectMeta: *o.ObjectMeta.DeepCopy()},
		client.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // the next reconciliation decides again
		return false, nil
	case err != nil:
		return false, fmt.Errorf("deleting OperatingSystemProfile %s: %w", client.ObjectKeyFromObject(o), err)
	}
	return true, nil
}

// VersionedObjectName returns the name of the OperatingSystemProfile of a version, which contains
// the version and a digest.
func VersionedObjectName(ps *api.ProfileSource, v catalog.Version) string {
	if ps.Spec.Builtin != nil {
		return profile.BuiltinObjectName(v.Name, v.Version, v.Digest)
	}
	return profile.ObjectName(v.Name, v.Version, v.Digest)
}

// newProfileObject returns the immutable object of one version. The author is zero if the source has no
// history, and the signature empty if signatures are not required.
func newProfileObject(key types.NamespacedName, l Approved, v catalog.Version, author source.Author, signature string, doc profile.Document) *osm.OperatingSystemProfile {
	snap := l.Snapshot
	annotations := map[string]string{
		api.AnnotationRepository: redact.PrintableLine(snap.Repository),
		api.AnnotationRevision:   redact.PrintableLine(snap.Revision),
		api.AnnotationVersion:    v.Version,
		api.AnnotationPath:       redact.PrintableLine(v.Path),
		api.AnnotationDigest:     v.Digest,
	}
	if v.Commit != "" {
		annotations[api.AnnotationCommit] = string(v.Commit)
	}
	maps.Copy(annotations, baseAnnotations(v.From))
	if signature != "" {
		annotations[api.AnnotationSignature] = signature
	}
	if author.Commit != "" {
		annotations[api.AnnotationCommittedAt] = v.CommittedAt.UTC().Format(time.RFC3339)
		annotations[api.AnnotationChange] = string(author.Commit)
		annotations[api.AnnotationAuthor] = redact.PrintableLine(fmt.Sprintf("%s <%s>", author.Name, author.Email))
		if subject := redact.CleanSubject(author.Subject); subject != "" {
			annotations[api.AnnotationSubject] = subject
		}
	}
	return &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{
			Name: key.Name, Namespace: key.Namespace,
			Labels: map[string]string{
				api.LabelManagedBy: api.FieldManager,
				api.LabelProfile:   v.Name,
				api.LabelSource:    l.Source.Name,
				api.LabelVersion:   profile.LabelVersion(v.Version),
			},
			Annotations: annotations,
		},
		Spec: doc.Spec,
	}
}

// baseAnnotations returns the annotations about the base of an overlay, nil for other profiles.
func baseAnnotations(from *catalog.Version) map[string]string {
	if from == nil {
		return nil
	}
	out := map[string]string{
		api.AnnotationBase: from.Name + " " + from.Version, api.AnnotationBaseDigest: from.Digest, api.AnnotationBasePath: redact.PrintableLine(from.Path),
	}
	if from.Commit != "" {
		out[api.AnnotationBaseCommit] = string(from.Commit)
	}
	return out
}

// VersionOf is the version of an object.
func VersionOf(o *osm.OperatingSystemProfile) string {
	return cmp.Or(o.Annotations[api.AnnotationVersion], o.Spec.Version)
}

// Approved is a snapshot that may be applied, and the source that it is from.
type Approved struct {
	Source   *api.ProfileSource
	Snapshot *source.Snapshot
	Indexer  *catalog.Indexer
	Approval approval.Result
	Others   []api.ProfileSource // of the same namespace
}

// RecordedOrVerifiedSignature returns the signature of a version whose object, with the given name, names
// none: from the inventory, or verified again.
func (l Approved) RecordedOrVerifiedSignature(ctx context.Context, v catalog.Version, object string) (string, error) {
	for _, e := range l.Source.Status.Profiles {
		if l.Approval.Required() && e.Signature != "" && e.Object == object && e.Digest == v.Digest {
			return e.Signature, nil // from the reconciliation that approved it
		}
	}
	return l.Approval.SignatureOf(ctx, l.Snapshot, v)
}
