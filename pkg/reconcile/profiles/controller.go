package profiles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/predicates"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// A Fetcher brings a snapshot of a remote repository. *source.Mirrors is one.
type Fetcher interface {
	Fetch(ctx context.Context, r source.Remote) (*source.Snapshot, error)
}

// Reconciler keeps ProfileSources. Its fields are set once, before Setup.
type Reconciler struct {
	// Client reads through the manager's cache and writes.
	Client client.Client
	// Live reads Secrets with credentials, which are not kept in memory.
	Live client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
	// Git fetches remote repositories.
	Git Fetcher
	// DirectoryRoot is the folder below which spec.directory may point; empty allows none.
	DirectoryRoot string
	// Builtin are the profiles of this binary; nil offers none.
	Builtin *source.Embedded
	// Check is asked about every profile before it is applied.
	Check profile.Check

	mu       sync.Mutex
	indexers map[types.NamespacedName]remembered
}

// Setup registers the controller with a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	deleted := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("profilesource").
		For(&api.ProfileSource{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicates.ReconcileRequestedPredicate{}))).
		Watches(&osm.OperatingSystemProfile{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(deleted)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
}

// sourceOf maps an OperatingSystemProfile to the ProfileSource that made it.
func sourceOf(_ context.Context, obj client.Object) []crreconcile.Request {
	name := obj.GetLabels()[api.LabelSource]
	if name == "" {
		return nil
	}
	return []crreconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// Reconcile brings the objects of one ProfileSource in line with what it holds now.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var ps api.ProfileSource
	if err := r.Client.Get(ctx, req.NamespacedName, &ps); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading ProfileSource %s: %w", req, err)
	}
	if !ps.DeletionTimestamp.IsZero() || ps.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	out, err := r.sync(ctx, &ps)
	return r.report(ctx, &ps, out, err)
}

// outcome is what one look at a source came to.
type outcome struct {
	revision string             // what was looked at
	asked    time.Time          // when the server was asked; zero where there is none
	entries  []api.ProfileEntry // the new inventory
	created  []profile.Version  // versions that became objects
	refused  []error            // what of the revision was not applied
}

// sync looks at the source and creates what is missing. An error means that
// nothing can be said about the source; refused files are no error.
func (r *Reconciler) sync(ctx context.Context, ps *api.ProfileSource) (outcome, error) {
	known, err := r.remember(ps)
	if err != nil {
		return outcome{}, err
	}
	snap, err := r.fetch(ctx, ps, known.lines)
	if err != nil {
		return outcome{}, err
	}
	ix := known.indexer
	cat, err := ix.Catalogue(ctx, snap)
	if err != nil {
		return outcome{}, fmt.Errorf("indexing %s: %w", snap.Revision, err)
	}
	others, err := r.otherSources(ctx, ps)
	if err != nil {
		return outcome{}, err
	}
	want := decide(ps, snap, cat, others)
	out := outcome{revision: snap.Revision, asked: snap.AskedAt, refused: want.refused}
	failed := map[string]bool{}
	for _, v := range want.apply {
		made, err := r.ensure(ctx, ps, snap, ix, v)
		var conflict *conflictError
		switch {
		case errors.As(err, &conflict):
			failed[v.Name] = true
			out.refused = append(out.refused, err)
		case err != nil:
			return outcome{}, err
		case made:
			out.created = append(out.created, v)
		}
	}
	out.entries = inventory(ps, want, failed)
	return out, nil
}

func (r *Reconciler) fetch(ctx context.Context, ps *api.ProfileSource, lines *source.Lines) (*source.Snapshot, error) {
	if err := unsupported(ps.Spec); err != nil {
		return nil, err
	}
	if isBuiltin(ps) {
		return r.builtin(ctx, ps)
	}
	if d := ps.Spec.Directory; d != nil {
		if r.DirectoryRoot == "" {
			return nil, &specError{reason: api.ReasonAccessDenied, err: errors.New("spec.directory: no directory is allowed: start the controller with --directory-root")}
		}
		return source.Directory{Root: r.DirectoryRoot, Path: d.Path, Sub: ps.Spec.Path, Lines: lines}.Read(ctx)
	}
	remote, err := r.remote(ctx, ps)
	if err != nil {
		return nil, err
	}
	return r.Git.Fetch(ctx, shared(ps, remote))
}

// builtin reads the profiles of this binary. Two sources of them would only offer
// the same under two names, so there is one.
func (r *Reconciler) builtin(ctx context.Context, ps *api.ProfileSource) (*source.Snapshot, error) {
	switch {
	case ps.Name != api.DefaultsName:
		return nil, &specError{reason: api.ReasonSourceInvalid, err: fmt.Errorf("spec.builtin: the built-in profiles are offered by ProfileSource %q, which the controller keeps itself: delete this one", api.DefaultsName)}
	case ps.Spec.Path != "":
		return nil, &specError{reason: api.ReasonSourceInvalid, err: errors.New("spec.path: the built-in profiles are in no folder: remove it")}
	case r.Builtin == nil:
		return nil, &specError{reason: api.ReasonAccessDenied, err: errors.New("spec.builtin: the built-in profiles are not offered: start the controller without --disable-default-osps, or delete this ProfileSource")}
	}
	return r.Builtin.Read(ctx)
}

// remote collects what fetching needs, with the credentials as they are now.
func (r *Reconciler) remote(ctx context.Context, ps *api.ProfileSource) (source.Remote, error) {
	git := ps.Spec.Git
	remote := source.Remote{URL: git.URL, Branch: "main", Path: ps.Spec.Path, Timeout: git.Timeout.Duration, Key: ps.Namespace}
	if remote.Timeout == 0 {
		remote.Timeout = time.Minute
	}
	if ref := git.Ref; ref != nil && ref.Branch != "" {
		remote.Branch = ref.Branch
	} else if ref != nil && ref.Commit != "" {
		commit, err := source.ParseCommit(ref.Commit)
		if err != nil {
			return remote, &specError{reason: meta.InvalidPathReason, err: fmt.Errorf("spec.git.ref.commit: %w", err)}
		}
		remote.Branch, remote.Commit = "", commit
	}
	if git.SecretRef == nil {
		return remote, nil
	}
	name := types.NamespacedName{Namespace: ps.Namespace, Name: git.SecretRef.Name}
	var secret corev1.Secret
	if err := r.Live.Get(ctx, name, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return remote, &waitError{fmt.Errorf("spec.git.secretRef: Secret %s does not exist: create it with the keys username and password", name)}
		}
		return remote, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	auth, err := basicAuth(&secret)
	if err != nil {
		return remote, err
	}
	remote.Auth = auth
	remote.Key, err = mirrorKey(&secret)
	return remote, err
}

func basicAuth(secret *corev1.Secret) (*source.BasicAuth, error) {
	for key := range secret.Data {
		switch key {
		case "username", "password":
		default:
			return nil, &specError{reason: api.ReasonUnsupported, err: fmt.Errorf("spec.git.secretRef: Secret %s/%s has the key %q; this release knows username and password", secret.Namespace, secret.Name, key)}
		}
	}
	auth := &source.BasicAuth{Username: string(secret.Data["username"]), Password: string(secret.Data["password"])}
	if auth.Username == "" || auth.Password == "" {
		return nil, &waitError{fmt.Errorf("spec.git.secretRef: Secret %s/%s needs the keys username and password, neither empty", secret.Namespace, secret.Name)}
	}
	return auth, nil
}

// mirrorKey keeps the mirrors of sources with other credentials apart.
func mirrorKey(secret *corev1.Secret) (string, error) {
	data, err := json.Marshal(secret.Data)
	if err != nil {
		return "", fmt.Errorf("encoding Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	sum := sha256.Sum256(data)
	return secret.Namespace + "/" + string(secret.UID) + "/" + hex.EncodeToString(sum[:]), nil
}

// remembered is the indexer of a source, and what it has read: of another
// repository or another folder nothing that it knows holds.
type remembered struct {
	of      string
	indexer *profile.Indexer
	lines   *source.Lines // of a directory; mirrors keep their own
}

func (r *Reconciler) remember(ps *api.ProfileSource) (remembered, error) {
	what, err := json.Marshal([]any{ps.UID, ps.Spec.Git, ps.Spec.Directory, ps.Spec.Path})
	if err != nil {
		return remembered{}, fmt.Errorf("encoding the spec: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indexers == nil {
		r.indexers = map[types.NamespacedName]remembered{}
	}
	key := client.ObjectKeyFromObject(ps)
	if known, ok := r.indexers[key]; ok && known.of == string(what) {
		return known, nil
	}
	known := remembered{of: string(what), indexer: &profile.Indexer{Check: r.Check}, lines: &source.Lines{}}
	r.indexers[key] = known
	return known, nil
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.indexers, key)
}

// otherSources lists the other ProfileSources of the namespace.
func (r *Reconciler) otherSources(ctx context.Context, ps *api.ProfileSource) ([]api.ProfileSource, error) {
	var list api.ProfileSourceList
	if err := r.Client.List(ctx, &list, client.InNamespace(ps.Namespace)); err != nil {
		return nil, fmt.Errorf("listing ProfileSources: %w", err)
	}
	var out []api.ProfileSource
	for _, other := range list.Items {
		if other.UID != ps.UID {
			out = append(out, other)
		}
	}
	return out, nil
}

// ensure creates the object of a version, unless it exists. It reports whether
// it created it.
func (r *Reconciler) ensure(ctx context.Context, ps *api.ProfileSource, snap *source.Snapshot, ix *profile.Indexer, v profile.Version) (bool, error) {
	key := types.NamespacedName{Namespace: ps.Namespace, Name: objectName(ps, v)}
	var have osm.OperatingSystemProfile
	err := r.Client.Get(ctx, key, &have)
	if apierrors.IsNotFound(err) {
		var doc profile.Document
		if doc, err = ix.Document(ctx, snap, v); err != nil {
			return false, err
		}
		var author source.Author
		if author, err = profile.ChangeOf(ctx, snap, v); err != nil {
			return false, err
		}
		err = r.Client.Create(ctx, object(key, origin{source: ps, snapshot: snap, version: v, author: author}, doc), client.FieldOwner(api.FieldManager))
		if err == nil {
			return true, nil
		}
		if apierrors.IsInvalid(err) {
			return false, &conflictError{fmt.Errorf("%s: the API server refuses profile %q %s: %w", v.CurrentPath, v.Name, v.Version, err)}
		}
		if !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("creating OperatingSystemProfile %s: %w", key, err)
		}
		err = r.Live.Get(ctx, key, &have) // the cache is behind
	}
	if err != nil {
		return false, fmt.Errorf("reading OperatingSystemProfile %s: %w", key, err)
	}
	if got := profile.Digest(have.Spec); got != v.Digest {
		return false, &conflictError{fmt.Errorf("%s: OperatingSystemProfile %s exists with other content (digest %s, not %s): give the profile a new version, or delete the object if nothing uses it",
			v.CurrentPath, key, got, v.Digest)}
	}
	return false, nil
}

// conflictError says that a version cannot become an object.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }
func (e *conflictError) Unwrap() error { return e.err }

// specError says that the spec asks for what cannot be: it waits for another spec.
type specError struct {
	reason string
	err    error
}

func (e *specError) Error() string { return e.err.Error() }
func (e *specError) Unwrap() error { return e.err }

// waitError says that something beside the source is missing yet.
type waitError struct{ err error }

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }
