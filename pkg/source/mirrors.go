package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// Mirrors fetches remotes into bare mirrors under one directory, which belongs to
// one process. Its exported fields are set once, before the first Fetch.
type Mirrors struct {
	// Dir holds one folder per mirror. It may be deleted while the process is down.
	Dir string
	// AllowedCIDRs are addresses to connect to although they are loopback,
	// link-local or otherwise refused.
	AllowedCIDRs []netip.Prefix
	// AllowInsecure allows plain http, which sends credentials in clear.
	AllowInsecure bool
	// MaxPackBytes bounds one fetch; 0 is 512 MiB.
	MaxPackBytes int64

	mu   sync.Mutex
	open map[string]*mirror

	tokens tokens // of GitHub Apps
}

// Fetch brings the mirror of a remote up to date and reads its snapshot. An
// unchanged remote costs one request. It is safe for concurrent use; fetches of one
// mirror wait for each other. Errors are of the kinds ErrUnreachable,
// ErrAuthentication, ErrHostKey, ErrNotFound, ErrInvalid and ErrUnsupported; any other is the
// context's, or this machine's disk.
func (m *Mirrors) Fetch(ctx context.Context, r Remote) (*Snapshot, error) {
	snapshot, err := m.fetch(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("fetching %s of %s: %w", r.what(), shown(r.URL), err)
	}
	return snapshot, nil
}

func (m *Mirrors) fetch(ctx context.Context, r Remote) (*Snapshot, error) {
	t, err := r.check(m.AllowInsecure)
	if err != nil {
		return nil, err
	}
	mirror := m.mirror(t.id())
	if err := mirror.acquire(ctx); err != nil {
		return nil, err
	}
	defer mirror.release()
	snapshot, err := m.sync(ctx, mirror, t)
	if !isDamage(err) {
		return snapshot, err
	}
	// Killed in the middle, a disk that lies, or a repository that lacks objects: only
	// the last survives a fresh start.
	if err := mirror.reset(); err != nil {
		return nil, err
	}
	snapshot, err = m.sync(ctx, mirror, t)
	if isDamage(err) {
		return nil, fail(ErrInvalid, "the repository on the server is incomplete or broken (%v); check it with git fsck", err)
	}
	return snapshot, err
}

// Sweep deletes the mirrors that were not fetched for some time: those of deleted
// sources, and of credentials that were replaced.
func (m *Mirrors) Sweep(ctx context.Context, unused time.Duration) error {
	entries, err := os.ReadDir(m.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sweeping mirrors: %w", err)
	}
	var failed []error
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !isMirrorID(e.Name()) || time.Since(info.ModTime()) < unused {
			continue
		}
		mirror := m.mirror(e.Name())
		if err := mirror.acquire(ctx); err != nil {
			return fmt.Errorf("sweeping mirrors: %w", err)
		}
		if info, err := os.Stat(mirror.dir); err == nil && time.Since(info.ModTime()) >= unused {
			failed = append(failed, mirror.discard())
		}
		mirror.release()
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

func (m *Mirrors) maxPackBytes() int64 {
	if m.MaxPackBytes > 0 {
		return m.MaxPackBytes
	}
	return defaultMaxPackBytes
}

// sync asks the server, fetches what is missing, and reads.
func (m *Mirrors) sync(ctx context.Context, mirror *mirror, t target) (*Snapshot, error) {
	if err := mirror.load(); err != nil {
		return nil, err
	}
	s, err := m.connect(ctx, t)
	if err != nil {
		return nil, err
	}
	defer s.close()
	refs, err := s.references(ctx)
	if err != nil {
		if errors.Is(err, ErrAuthentication) {
			m.tokens.forget(t.Auth)
		}
		return nil, err
	}
	at, err := choose(t, refs)
	if err != nil {
		return nil, err
	}
	hole, err := mirror.hole(ctx, at.head)
	if err != nil {
		return nil, err
	}
	if !hole.IsZero() || !at.tag.IsZero() && !mirror.reader().has(at.tag) {
		if err := mirror.update(ctx, s, refs, at.head, at.wants); err != nil {
			return nil, err
		}
	}
	if t.Revision != "" {
		if at.head, err = t.spec.follow(ctx, mirror.reader(), at.head); err != nil {
			return nil, err
		}
	}
	return mirror.snapshot(ctx, t, at)
}

// chooseRevision finds the commit that a revision starts from. A tag is asked for
// as the tag, because a server gives out what it named.
func chooseRevision(spec revisionSpec, refs *packp.AdvRefs) (choice, error) {
	known := refs.References
	if refs.Head != nil {
		known = maps.Clone(known)
		known["HEAD"] = *refs.Head
	}
	for _, name := range spec.names() {
		id := known[name]
		if id.IsZero() {
			continue
		}
		head := id
		if commit, ok := refs.Peeled[name]; ok {
			head = commit
		}
		return choice{head: head, wants: []plumbing.Hash{id}}, nil
	}
	if spec.abbreviated() != "" {
		return choice{}, fail(ErrNotFound, "the repository has no branch or tag %q; if it is a commit, write all 40 digits: a server is asked for no other", spec.base)
	}
	return choice{}, spec.unknown(known)
}
