package fetcher

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Fetcher fetches what ProfileSources name. Set its fields once, before Setup. Remote needs
// only Live.
type Fetcher struct {
	// Client lists ProfileSources from the manager's cache.
	Client client.Reader
	// Live reads Secrets with credentials, of which only decrypted private keys are cached,
	// and objects of Flux.
	Live client.Reader
	// Git fetches remote repositories.
	Git *source.Mirrors
	// DirectoryRoot is the folder that must contain spec.directory; empty allows none.
	DirectoryRoot string
	// Flux reads artifacts that Flux fetched; nil rejects sourceRef.
	Flux *Flux
	// Builtin are the profiles of this program; nil offers none.
	Builtin *source.Embedded
	// Namespace of the ProfileSources; empty: any.
	Namespace string

	lastRequests sync.Map // last request of each source, time.Time by the source's key

	mu      sync.Mutex
	keys    map[types.NamespacedName]cachedAuth // decrypted private keys
	watches map[types.NamespacedName]*watched
	changes chan event.GenericEvent // of directories; nil without a controller
}

// Cache contains what was read of one source, so that only changes are read again. The zero
// value is empty. A source with another spec needs a new one.
type Cache struct {
	lines    source.HistoryCache // of a directory; mirrors have their own
	artifact source.Artifact
	snapshot *source.Snapshot // of artifact
}

// Setup prepares watches of directories and of Flux. It returns the events that trigger
// reconciliation of a ProfileSource. A controller runs UnwatchAll until it stops.
func (f *Fetcher) Setup(ctx context.Context, indexer client.FieldIndexer) (<-chan event.GenericEvent, error) {
	if err := indexer.IndexField(ctx, &api.ProfileSource{}, fluxIndex, indexFlux); err != nil {
		return nil, fmt.Errorf("indexing ProfileSources by sourceRef: %w", err)
	}
	f.changes = make(chan event.GenericEvent)
	return f.changes, nil
}

// Fetch returns the current content of a source. slow says why edits of a directory are
// noticed late; it is empty if they are noticed immediately.
func (f *Fetcher) Fetch(ctx context.Context, ps *api.ProfileSource, known *Cache) (snap *source.Snapshot, slow string, err error) {
	switch {
	case ps.Spec.Builtin != nil:
		snap, err = f.readBuiltinProfiles(ctx, ps)
	case ps.Spec.Directory != nil:
		return f.readAndWatchDirectory(ctx, ps, &known.lines)
	case ps.Spec.SourceRef != nil:
		snap, err = f.readAndWatchArtifact(ctx, ps, known)
	default:
		snap, err = f.fetchGit(ctx, ps)
	}
	return snap, "", err
}

// Forget drops the data about a source, and ends its watch.
func (f *Fetcher) Forget(key types.NamespacedName) {
	f.mu.Lock()
	delete(f.keys, key)
	f.mu.Unlock()
	f.lastRequests.Delete(key)
	f.UnwatchDirectory(key)
}

// readBuiltinProfiles reads the built-in profiles. Only one source can offer them: a second would offer
// the same under two names.
func (f *Fetcher) readBuiltinProfiles(ctx context.Context, ps *api.ProfileSource) (*source.Snapshot, error) {
	switch {
	case ps.Name != api.DefaultsName:
		return nil, &SpecError{Reason: api.ReasonSourceInvalid, Err: fmt.Errorf("spec.builtin: the controller's own ProfileSource %q offers the built-in profiles: delete this one", api.DefaultsName)}
	case ps.Spec.Path != "":
		return nil, &SpecError{Reason: api.ReasonSourceInvalid, Err: errors.New("spec.path: the built-in profiles have no folder: remove the field")}
	case ignorePatterns(ps) != "":
		return nil, &SpecError{Reason: api.ReasonSourceInvalid, Err: errors.New("spec.ignore: built-in profiles cannot be ignored: remove the field")}
	case f.Builtin == nil:
		return nil, &SpecError{Reason: api.ReasonAccessDenied, Err: errors.New("spec.builtin: the built-in profiles are not offered: start the controller without --disable-default-osps, or delete this ProfileSource")}
	}
	return f.Builtin.Read(ctx)
}

// SpecError says that the spec requests something impossible: a retry cannot succeed.
type SpecError struct {
	// Reason of the Ready condition.
	Reason string
	Err    error
}

func (e *SpecError) Error() string { return e.Err.Error() }
func (e *SpecError) Unwrap() error { return e.Err }

// WaitError says that something other than the source is missing, such as a Secret.
type WaitError struct{ err error }

func (e *WaitError) Error() string { return e.err.Error() }
func (e *WaitError) Unwrap() error { return e.err }

// ArtifactError says that Flux has no artifact yet.
type ArtifactError struct{ err error }

func (e *ArtifactError) Error() string { return e.err.Error() }
func (e *ArtifactError) Unwrap() error { return e.err }
