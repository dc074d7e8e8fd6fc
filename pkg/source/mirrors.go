package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/location"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

// Mirrors fetches remotes into bare mirrors below one directory, which only one process
// uses. Its exported fields are set once, before the first Fetch.
type Mirrors struct {
	// Dir has one folder for each mirror. It can be deleted while the process is stopped.
	// Lock prevents use by another process.
	Dir string
	// AllowedCIDRs are addresses to connect to even if they are loopback, link-local or
	// otherwise rejected.
	AllowedCIDRs []netip.Prefix
	// AllowInsecure allows plain http, which sends credentials in clear.
	AllowInsecure bool
	// MaxPackBytes bounds one fetch; 0 is 512 MiB.
	MaxPackBytes int64

	mu      sync.Mutex
	open    map[string]*sharedMirror
	limiter memoryLimiter // limits how many mirrors are written and read at a time

	tokens transport.Tokens // of GitHub Apps
}

// Fetch updates the mirror of a remote and returns its snapshot. An unchanged remote costs
// one request, or none if the cached references of another fetch are new enough: see
// Remote.MaxAge. It is safe for concurrent use: fetches of one mirror wait for each other, and
// those that waited share the references that the first one got. Errors are of the kinds
// ErrUnreachable, ErrAuthentication, ErrHostKey, ErrNotFound, ErrInvalid and ErrUnsupported,
// or from the context or this machine's disk.
func (m *Mirrors) Fetch(ctx context.Context, r Remote) (*Snapshot, error) {
	snapshot, err := m.fetchRepairingDamage(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("fetching %s of %s: %w", r.selector(), location.ShownURL(r.URL), err)
	}
	return snapshot, nil
}

func (m *Mirrors) fetchRepairingDamage(ctx context.Context, r Remote) (*Snapshot, error) {
	t, err := r.validTarget(m.AllowInsecure)
	if err != nil {
		return nil, err
	}
	t.began = time.Now()
	mirror := m.getMirror(t.mirrorID())
	// One fetch per mirror at a time: those that wait can share its result.
	if err := mirror.idle.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer mirror.idle.Release(1)
	mirror.extendRetention(t)
	snapshot, err := m.syncOrShare(ctx, mirror, t)
	if !fault.IsDamage(err) {
		return snapshot, err
	}
	// A crash or a faulty disk has damaged the mirror, or the repository on the server lacks
	// objects. Delete the mirror and fetch again: an error that remains is the server's.
	mirror.clearCaches()
	if failed := mirror.store.DeleteFiles(); failed != nil {
		return nil, fmt.Errorf("%w (%s)", failed, err.Error())
	}
	snapshot, err = m.syncMirror(ctx, mirror, t)
	if fault.IsDamage(err) {
		return nil, fault.New(fault.ErrInvalid, "the repository on the server is incomplete or broken (%v); check it with git fsck", err)
	}
	return snapshot, err
}

// DeleteUnused deletes mirrors that are no longer fetched: those of deleted sources and of replaced
// credentials. It deletes a mirror after the latest Remote.Retention of its fetches. If no fetch
// set Retention, it deletes a mirror that was not used for the given time. A mirror that is being
// fetched remains.
func (m *Mirrors) DeleteUnused(unused time.Duration) error {
	entries, err := os.ReadDir(m.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweeping mirrors: %w", err)
	}
	var failed []error
	for _, e := range entries {
		if isMirrorID(e.Name()) {
			failed = append(failed, m.getMirror(e.Name()).deleteIfExpired(unused))
		}
	}
	return errors.Join(failed...)
}

func (m *Mirrors) getMirror(id string) *sharedMirror {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = map[string]*sharedMirror{}
	}
	if m.open[id] == nil {
		m.open[id] = newSharedMirror(filepath.Join(m.Dir, id))
	}
	return m.open[id]
}

// endpoint returns the settings of connections to the server of a target.
func (m *Mirrors) endpoint(t target) transport.Endpoint {
	return transport.Endpoint{
		Location:      t.Location,
		Auth:          t.Auth,
		Certificate:   t.Certificate,
		CA:            t.CA,
		Proxy:         t.Proxy,
		Timeout:       t.Timeout,
		ByCommit:      t.want.Commit != "",
		AllowedCIDRs:  m.AllowedCIDRs,
		AllowInsecure: m.AllowInsecure,
		MaxPackBytes:  cmp.Or(max(m.MaxPackBytes, 0), defaultMaxPackBytes),
		Dir:           filepath.Join(m.Dir, t.mirrorID()),
		Tokens:        &m.tokens,
	}
}

// syncOrShare uses the cached references or error of another fetch if they are new enough,
// and sends requests otherwise.
func (m *Mirrors) syncOrShare(ctx context.Context, mirror *sharedMirror, t target) (*Snapshot, error) {
	// The failure of another source counts too, so that a broken server gets few requests.
	if mirror.failed.appliesTo(t, plumbing.ZeroHash) {
		return nil, mirror.failed.err
	}
	if mirror.last.serves(t) {
		if err := mirror.store.Load(); err != nil {
			return nil, err
		}
		snapshot, err := m.loadSnapshot(ctx, mirror, t, nil, mirror.last)
		if !errors.Is(err, errStaleRefs) {
			return snapshot, err
		}
	}
	return m.syncMirror(ctx, mirror, t)
}

// syncMirror lists the references on the server, fetches missing objects, and reads the snapshot.
func (m *Mirrors) syncMirror(ctx context.Context, mirror *sharedMirror, t target) (*Snapshot, error) {
	if err := mirror.store.Load(); err != nil {
		return nil, err
	}
	s, err := m.endpoint(t).NewSession(ctx)
	if err != nil {
		mirror.cacheUnreachableError(t, plumbing.ZeroHash, err)
		return nil, err
	}
	defer s.Close()
	// The time before the request counts, because a push during it can be missing from the
	// response.
	now := cachedRefs{requestedAt: time.Now()}
	if now.refs, err = s.References(ctx); err != nil {
		mirror.cacheUnreachableError(t, plumbing.ZeroHash, err)
		// A token can be revoked before it expires.
		if errors.Is(err, fault.ErrAuthentication) {
			m.tokens.Forget(t.Auth)
		}
		return nil, err
	}
	if err := revision.CheckAdvertised(now.refs); err != nil {
		return nil, err
	}
	mirror.cacheRefs(now)
	return m.loadSnapshot(ctx, mirror, t, s, now)
}

// loadSnapshot fetches the objects of the selected reference that are missing, and reads the
// snapshot. Without a session it uses the mirror only, and returns errStaleRefs if that is not
// enough.
func (m *Mirrors) loadSnapshot(ctx context.Context, mirror *sharedMirror, t target, s *transport.Session, a cachedRefs) (*Snapshot, error) {
	// Only the following needs memory, so requests to servers do not wait for the limiter.
	done, err := m.limiter.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	at, err := t.want.Choose(a.refs)
	if err != nil && s == nil {
		return nil, errStaleRefs // the reference can have been created since
	}
	if err != nil {
		return nil, err
	}
	missingCommit, err := mirror.store.FirstMissingCommit(ctx, at.Head)
	if err != nil {
		return nil, err
	}
	if !missingCommit.IsZero() || !at.Tag.IsZero() && !mirror.store.CurrentObjects().Has(at.Tag) {
		if mirror.failed.appliesTo(t, at.Head) {
			return nil, mirror.failed.err
		}
		if s == nil {
			return nil, errStaleRefs
		}
		fetch := func(ctx context.Context, wants, haves []plumbing.Hash, read func(io.Reader) error) error {
			return s.FetchPack(ctx, a.refs, wants, haves, read)
		}
		if err := mirror.store.Update(ctx, at.Head, at.Wants, revision.Heads(a.refs), fetch); err != nil {
			mirror.cacheUnreachableError(t, at.Head, err)
			return nil, err
		}
	}
	if at, err = t.want.ResolveSteps(ctx, mirror.store.CurrentObjects(), at); err != nil {
		return nil, err
	}
	snapshot, err := mirror.snapshot(ctx, t, at)
	if err != nil {
		return nil, err
	}
	snapshot.RequestedAt = a.requestedAt
	return snapshot, nil
}
