package fetcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fluxcd/pkg/apis/meta"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Flux finds and reads artifacts of Flux. Flux need not be installed: its kinds are watched
// once a ProfileSource that names one is reconciled and the kind exists. Set its fields
// once, before Setup; the controller sets Watch.
type Flux struct {
	// Cache watches Flux's objects in the controller's namespace. It is separate from the
	// manager's, which would not start without their definitions.
	Cache cache.Cache
	// Artifacts reads archives.
	Artifacts *source.Artifacts
	// AllowExternal allows ExternalArtifacts, which are created by other controllers.
	AllowExternal bool

	// Watch makes the controller watch a kind in Cache: changed selects events, and sources says which
	// ProfileSources they concern. Nil without a controller.
	Watch func(kind client.Object, sources func(context.Context, client.Object) []crreconcile.Request, changed predicate.Predicate) error

	mu      sync.Mutex
	watched map[string]bool
}

// fluxKind is a kind of Flux that has artifacts.
type fluxKind struct {
	empty   func() client.Object
	address func(client.Object) string // address of what Flux fetches
}

var fluxKinds = map[string]fluxKind{
	sourcev1.GitRepositoryKind: {
		empty:   func() client.Object { return &sourcev1.GitRepository{} },
		address: func(o client.Object) string { return o.(*sourcev1.GitRepository).Spec.URL },
	},
	sourcev1.OCIRepositoryKind: {
		empty:   func() client.Object { return &sourcev1.OCIRepository{} },
		address: func(o client.Object) string { return o.(*sourcev1.OCIRepository).Spec.URL },
	},
	sourcev1.BucketKind: {
		empty: func() client.Object { return &sourcev1.Bucket{} },
		address: func(o client.Object) string {
			b := o.(*sourcev1.Bucket)
			return b.Spec.Endpoint + "/" + b.Spec.BucketName
		},
	},
	sourcev1.ExternalArtifactKind: {
		empty: func() client.Object { return &sourcev1.ExternalArtifact{} },
		address: func(o client.Object) string {
			return strings.ToLower(sourcev1.ExternalArtifactKind) + "/" + o.GetNamespace() + "/" + o.GetName()
		},
	},
}

// RevisionAnnotation is the annotation with the commit of an OCI artifact:
// https://github.com/opencontainers/image-spec/blob/v1.1.0/annotations.md
const RevisionAnnotation = "org.opencontainers.image.revision"

// fluxIndex finds the ProfileSources of an object of Flux.
const fluxIndex = "spec.sourceRef"

func fluxIndexKey(kind, name string) string { return kind + "/" + name }

func indexFlux(obj client.Object) []string {
	if ps, ok := obj.(*api.ProfileSource); ok && ps.Spec.SourceRef != nil {
		return []string{fluxIndexKey(ps.Spec.SourceRef.Kind, ps.Spec.SourceRef.Name)}
	}
	return nil
}

// readAndWatchArtifact reads what Flux has fetched. An unchanged artifact is not downloaded again.
func (f *Fetcher) readAndWatchArtifact(ctx context.Context, ps *api.ProfileSource, last *Cache) (*source.Snapshot, error) {
	ref := ps.Spec.SourceRef
	kind, known := fluxKinds[ref.Kind]
	switch {
	case f.Flux == nil:
		return nil, &SpecError{Reason: api.ReasonUnsupported, Err: errors.New("spec.sourceRef: this controller reads no artifacts")}
	case !known:
		return nil, &SpecError{Reason: api.ReasonSourceInvalid, Err: fmt.Errorf("spec.sourceRef.kind: %q is none of %s", ref.Kind, strings.Join(slices.Sorted(maps.Keys(fluxKinds)), ", "))}
	case ref.Namespace != "" && ref.Namespace != ps.Namespace:
		return nil, &SpecError{Reason: api.ReasonAccessDenied, Err: fmt.Errorf("spec.sourceRef.namespace: sources of other namespaces are not read: create the %s in namespace %s", ref.Kind, ps.Namespace)}
	case ref.Kind == sourcev1.ExternalArtifactKind && !f.Flux.AllowExternal:
		return nil, &SpecError{Reason: api.ReasonAccessDenied, Err: errors.New("spec.sourceRef: ExternalArtifacts are not allowed: start the controller with --allow-external-artifacts")}
	}
	obj, name := kind.empty(), types.NamespacedName{Namespace: ps.Namespace, Name: ref.Name}
	err := f.Live.Get(ctx, name, obj)
	if unknownKind(err) {
		if err := f.unwatchFlux(ctx, ref.Kind, kind); err != nil {
			return nil, err
		}
		return nil, &WaitError{fmt.Errorf("spec.sourceRef: the cluster does not have the kind %s of %s: install or upgrade Flux", ref.Kind, sourcev1.GroupVersion)}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, name, err)
	}
	// Changes before the start of the watch are in its first list.
	if failed := f.watchFlux(ref.Kind, kind); failed != nil {
		return nil, failed
	}
	// The watch above reports the object when it is created.
	if err != nil {
		return nil, &WaitError{fmt.Errorf("spec.sourceRef: %s %s does not exist: create it", ref.Kind, name)}
	}
	found := artifactOf(obj)
	if found == nil {
		return nil, &ArtifactError{fmt.Errorf("spec.sourceRef: %s %s has no artifact yet: see its Ready condition", ref.Kind, name)}
	}
	want := source.Artifact{
		URL: found.URL, Digest: found.Digest, Revision: found.Revision, Commit: found.Metadata[RevisionAnnotation],
		Repository: kind.address(obj), Path: ps.Spec.Path, Ignore: ignorePatterns(ps),
	}
	// The address is irrelevant if the content is known.
	same := want
	same.URL = last.artifact.URL
	if last.snapshot != nil && same == last.artifact {
		return last.snapshot, nil
	}
	snapshot, err := f.Flux.Artifacts.Read(ctx, want)
	if err != nil {
		return nil, err
	}
	last.artifact, last.snapshot = want, snapshot
	return snapshot, nil
}

func ignorePatterns(ps *api.ProfileSource) string {
	if ps.Spec.Ignore == nil {
		return ""
	}
	return *ps.Spec.Ignore
}

// artifactOf returns the artifact of an object of Flux, nil while there is none.
func artifactOf(obj client.Object) *meta.Artifact {
	from, ok := obj.(sourcev1.Source)
	if !ok {
		return nil
	}
	return from.GetArtifact()
}

// unknownKind reports whether an error says that the kind of an object is not installed or
// was removed: the API server then answers as for any unknown path.
func unknownKind(err error) bool {
	return apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// unwatchFlux ends the watch of a kind that was removed, which would otherwise retry
// forever. The next reconciliation starts it again if the kind is back.
func (f *Fetcher) unwatchFlux(ctx context.Context, name string, kind fluxKind) error {
	f.Flux.mu.Lock()
	defer f.Flux.mu.Unlock()
	return f.Flux.unwatch(ctx, name, kind)
}

// UnwatchUnusedFluxKinds ends the watches of kinds that no source names any more, since no
// reconciliation would notice their removal. A source that names the kind later is in the
// list, or starts the watch again.
func (f *Fetcher) UnwatchUnusedFluxKinds(ctx context.Context) error {
	flux := f.Flux
	if flux == nil {
		return nil
	}
	flux.mu.Lock()
	defer flux.mu.Unlock()
	if len(flux.watched) == 0 {
		return nil
	}
	var list api.ProfileSourceList
	if err := f.Client.List(ctx, &list, client.InNamespace(f.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing ProfileSources: %w", err)
	}
	named := map[string]bool{}
	for i := range list.Items {
		if ref := list.Items[i].Spec.SourceRef; ref != nil {
			named[ref.Kind] = true
		}
	}
	for name := range flux.watched {
		if named[name] {
			continue
		}
		if err := flux.unwatch(ctx, name, fluxKinds[name]); err != nil {
			return err
		}
	}
	return nil
}

// unwatch must be called with the lock held.
func (f *Flux) unwatch(ctx context.Context, name string, kind fluxKind) error {
	if !f.watched[name] {
		return nil
	}
	if f.Watch != nil {
		if err := f.Cache.RemoveInformer(ctx, kind.empty()); err != nil {
			return fmt.Errorf("ending the watch of the kind %s of %s: %w", name, sourcev1.GroupVersion, err)
		}
	}
	delete(f.watched, name)
	return nil
}

// watchFlux starts to watch an installed kind.
func (f *Fetcher) watchFlux(name string, kind fluxKind) error {
	flux := f.Flux
	flux.mu.Lock()
	defer flux.mu.Unlock()
	if flux.watched[name] {
		return nil
	}
	if flux.Watch != nil { // otherwise a caller reconciles directly
		if err := flux.Watch(kind.empty(), f.sourcesOf(name), otherArtifact); err != nil {
			return fmt.Errorf("watching the kind %s of %s: %w", name, sourcev1.GroupVersion, err)
		}
	}
	if flux.watched == nil {
		flux.watched = map[string]bool{}
	}
	flux.watched[name] = true
	return nil
}

// otherArtifact selects events that can change the content. The digest counts as well as
// the revision: with other ignore rules Flux creates another artifact of the same commit.
var otherArtifact = predicate.Funcs{
	CreateFunc:  func(e event.CreateEvent) bool { return artifactOf(e.Object) != nil },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := artifactOf(e.ObjectOld), artifactOf(e.ObjectNew)
		if before == nil || after == nil {
			return before != after
		}
		return before.Revision != after.Revision || before.Digest != after.Digest
	},
}

// sourcesOf maps an object of Flux to the ProfileSources that name it.
func (f *Fetcher) sourcesOf(kind string) func(context.Context, client.Object) []crreconcile.Request {
	return func(ctx context.Context, obj client.Object) []crreconcile.Request {
		var list api.ProfileSourceList
		err := f.Client.List(ctx, &list, client.InNamespace(obj.GetNamespace()), client.MatchingFields{fluxIndex: fluxIndexKey(kind, obj.GetName())})
		if err != nil {
			log.FromContext(ctx).Error(err, "listing ProfileSources of an object of Flux", "kind", kind, "object", client.ObjectKeyFromObject(obj))
			return nil
		}
		var out []crreconcile.Request
		for i := range list.Items {
			out = append(out, crreconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
		return out
	}
}

// IsWatching reports whether the objects of a kind are watched.
func (f *Flux) IsWatching(kind string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watched[kind]
}
