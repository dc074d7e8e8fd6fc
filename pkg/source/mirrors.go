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
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

// Mirrors fetches remotes into bare mirrors under one directory, which belongs to
// one process. Its exported fields are set once, before the first Fetch.
type Mirrors struct {
	// Dir holds one folder per mirror. It may be deleted while the process is down.
	// Lock keeps other processes out.
	Dir string
	// AllowedCIDRs are addresses to connect to although they are loopback,
	// link-local or otherwise refused.
	AllowedCIDRs []netip.Prefix
	// AllowInsecure allows plain http, which sends credentials in clear.
	AllowInsecure bool
	// MaxPackBytes bounds one fetch; 0 is 512 MiB.
	MaxPackBytes int64

	mu    sync.Mutex
	open  map[string]*mirror
	turns turns // to write and read a mirror

	tokens transport.Tokens // of GitHub Apps
}

// Fetch brings the mirror of a remote up to date and reads its snapshot. An
// unchanged remote costs one request, or none where an answer serves that another
// fetch got: see Remote.MaxAge. It is safe for concurrent use; fetches of one
// mirror wait for each other, and those that waited share what was found. Errors are
// of the kinds ErrUnreachable,
// ErrAuthentication, ErrHostKey, ErrNotFound, ErrInvalid and ErrUnsupported; any other is the
// context's, or this machine's disk.
func (m *Mirrors) Fetch(ctx context.Context, r Remote) (*Snapshot, error) {
	snapshot, err := m.fetch(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("fetching %s of %s: %w", r.selector(), transport.ShownURL(r.URL), err)
	}
	return snapshot, nil
}

func (m *Mirrors) fetch(ctx context.Context, r Remote) (*Snapshot, error) {
	t, err := r.check(m.AllowInsecure)
	if err != nil {
		return nil, err
	}
	t.began = time.Now()
	mirror := m.mirror(t.id())
	if err := mirror.idle.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer mirror.idle.Release(1)
	mirror.keep(t)
	snapshot, err := m.syncOrShare(ctx, mirror, t)
	if !fault.IsDamage(err) {
		return snapshot, err
	}
	// Killed in the middle, a disk that lies, or a repository that lacks objects: only
	// the last survives a fresh start.
	mirror.forget()
	if failed := mirror.store.Reset(); failed != nil {
		return nil, fmt.Errorf("%w (%s)", failed, err.Error())
	}
	snapshot, err = m.sync(ctx, mirror, t)
	if fault.IsDamage(err) {
		return nil, fault.New(fault.ErrInvalid, "the repository on the server is incomplete or broken (%v); check it with git fsck", err)
	}
	return snapshot, err
}

// Sweep deletes the mirrors that nobody will fetch: those of deleted sources, and of
// credentials that were replaced. Where fetches said how long a mirror is to be kept,
// that counts, and else how long it was not used. One that is being fetched stays.
func (m *Mirrors) Sweep(unused time.Duration) error {
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
			failed = append(failed, m.mirror(e.Name()).sweep(unused))
		}
	}
	return errors.Join(failed...)
}

func (m *Mirrors) mirror(id string) *mirror {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		m.open = map[string]*mirror{}
	}
	if m.open[id] == nil {
		m.open[id] = newMirror(filepath.Join(m.Dir, id))
	}
	return m.open[id]
}

// endpoint is how to reach the server of a target.
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
		Dir:           filepath.Join(m.Dir, t.id()),
		Tokens:        &m.tokens,
	}
}

// syncOrShare takes the answer that another fetch got, if it serves, or asks.
func (m *Mirrors) syncOrShare(ctx context.Context, mirror *mirror, t target) (*Snapshot, error) {
	if mirror.failed.serves(t, plumbing.ZeroHash) {
		return nil, mirror.failed.err
	}
	if mirror.last.serves(t) {
		if err := mirror.store.Load(); err != nil {
			return nil, err
		}
		snapshot, err := m.settle(ctx, mirror, t, nil, mirror.last)
		if !errors.Is(err, errAskAgain) {
			return snapshot, err
		}
	}
	return m.sync(ctx, mirror, t)
}

// sync asks the server, fetches what is missing, and reads.
func (m *Mirrors) sync(ctx context.Context, mirror *mirror, t target) (*Snapshot, error) {
	if err := mirror.store.Load(); err != nil {
		return nil, err
	}
	s, err := m.endpoint(t).Connect(ctx)
	if err != nil {
		mirror.noAnswer(t, plumbing.ZeroHash, err)
		return nil, err
	}
	defer s.Close()
	now := reply{asked: time.Now()}
	if now.refs, err = s.References(ctx); err != nil {
		mirror.noAnswer(t, plumbing.ZeroHash, err)
		if errors.Is(err, fault.ErrAuthentication) {
			m.tokens.Forget(t.Auth)
		}
		return nil, err
	}
	if err := revision.CheckAdvertised(now.refs); err != nil {
		return nil, err
	}
	mirror.answered(now)
	return m.settle(ctx, mirror, t, s, now)
}

// settle fetches what is missing of what an answer names, and reads. Without a
// session nothing can be fetched: errAskAgain, where the answer is not enough.
func (m *Mirrors) settle(ctx context.Context, mirror *mirror, t target, s *transport.Session, a reply) (*Snapshot, error) {
	done, err := m.turns.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	at, err := t.want.Choose(a.refs)
	if err != nil && s == nil {
		return nil, errAskAgain // what was not there may have come
	}
	if err != nil {
		return nil, err
	}
	hole, err := mirror.store.Hole(ctx, at.Head)
	if err != nil {
		return nil, err
	}
	if !hole.IsZero() || !at.Tag.IsZero() && !mirror.store.Reader().Has(at.Tag) {
		if mirror.failed.serves(t, at.Head) {
			return nil, mirror.failed.err
		}
		if s == nil {
			return nil, errAskAgain
		}
		fetch := func(ctx context.Context, wants, haves []plumbing.Hash, read func(io.Reader) error) error {
			return s.Pack(ctx, a.refs, wants, haves, read)
		}
		if err := mirror.store.Update(ctx, at.Head, at.Wants, revision.Heads(a.refs), fetch); err != nil {
			mirror.noAnswer(t, at.Head, err)
			return nil, err
		}
	}
	if at, err = t.want.Follow(ctx, mirror.store.Reader(), at); err != nil {
		return nil, err
	}
	snapshot, err := mirror.snapshot(ctx, t, at)
	if err != nil {
		return nil, err
	}
	snapshot.AskedAt = a.asked
	return snapshot, nil
}
