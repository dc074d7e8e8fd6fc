package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// Mirror is one bare repository on disk:
//
//	HEAD, config        so that git and people can look into it
//	objects/pack/       packs with their indexes; a pack counts from its rename on
//	packed-refs         refs/tips/<id>: heads whose whole history is here
//	incoming-*/         a fetch that is under way, or was killed
//
// No file name in it comes from a server, and all of it can be fetched again. Only this
// user can write to the folder: see createPrivateDir.
type Mirror struct {
	dir string

	mu      sync.Mutex
	current *objectstore.Objects
	damaged bool // a reader found damage; the next fetch starts with an empty mirror

	// For the current fetch only.
	loaded   bool
	tips     []plumbing.Hash // the newest last
	complete map[plumbing.Hash]bool
}

// New returns the mirror in a folder, which need not exist.
func New(dir string) *Mirror {
	return &Mirror{dir: dir, current: objectstore.NewObjects(nil)}
}

// UsedAt returns when the mirror was last used.
func (m *Mirror) UsedAt() (time.Time, error) {
	info, err := os.Stat(m.dir)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// CurrentObjects returns the current objects.
func (m *Mirror) CurrentObjects() *objectstore.Objects {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.current
}

// HandleDamage converts damage to an error for the caller, and records it.
func (m *Mirror) HandleDamage(err error) error {
	if !fault.IsDamage(err) {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.damaged = true
	return fault.New(fault.ErrUnreachable, "%v; the next fetch rebuilds the mirror", err)
}

// Load opens the mirror on disk, or begins an empty one. It returns ErrDamaged for
// visible damage.
func (m *Mirror) Load() error {
	m.mu.Lock()
	damaged := m.damaged
	m.mu.Unlock()
	if damaged {
		return fault.ErrDamaged
	}
	if m.loaded {
		return m.recordUse()
	}
	if err := m.initOrRepairRepository(); err != nil {
		return fault.WrapWriteError(fault.PhasePrepare, err)
	}
	dir, err := os.OpenRoot(filepath.Join(m.dir, "objects"))
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrDamaged, err)
	}
	opened, err := objectstore.OpenObjects(dir)
	if err != nil {
		dir.Close()
		return err
	}
	if m.tips, err = m.readTips(); err != nil {
		return err
	}
	m.complete = map[plumbing.Hash]bool{}
	for _, tip := range m.tips {
		if !opened.Has(tip) {
			return fmt.Errorf("%w: %s", fault.ErrMissing, tip)
		}
		m.complete[tip] = true
	}
	m.loaded = true
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = opened
	return nil
}

// initOrRepairRepository creates missing parts of an empty bare repository and removes the remains of a
// killed fetch.
func (m *Mirror) initOrRepairRepository() error {
	if err := os.MkdirAll(filepath.Dir(m.dir), 0o700); err != nil {
		return err
	}
	for _, dir := range []string{"", "objects", "objects/pack", "refs"} {
		if err := createPrivateDir(filepath.Join(m.dir, dir)); err != nil {
			return err
		}
	}
	for name, content := range map[string]string{
		"HEAD":   "ref: refs/heads/main\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
	} {
		if err := replaceFile(filepath.Join(m.dir, name), []byte(content)); err != nil {
			return err
		}
	}
	left, err := filepath.Glob(filepath.Join(m.dir, "incoming-*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return m.recordUse()
}

// recordUse records that the mirror is in use, for Mirrors.DeleteUnused.
func (m *Mirror) recordUse() error {
	now := time.Now()
	if err := os.Chtimes(m.dir, now, now); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrDamaged, err) // the folder was deleted in the meantime
	}
	return nil
}

// DeleteFiles deletes the mirror. Snapshots read the open files until it is loaded again.
func (m *Mirror) DeleteFiles() error {
	m.mu.Lock()
	m.damaged = false
	m.mu.Unlock()
	m.loaded = false
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("deleting a damaged mirror: %w", err)
	}
	return nil
}

// Discard deletes a mirror that is no longer fetched, and frees its memory.
func (m *Mirror) Discard() error {
	m.mu.Lock()
	m.current = objectstore.NewObjects(nil)
	m.mu.Unlock()
	return m.DeleteFiles()
}

// FirstMissingCommit finds a commit that is missing in the history of another, and returns zero if the
// history is complete. The histories of tips are complete and are not walked.
func (m *Mirror) FirstMissingCommit(ctx context.Context, head plumbing.Hash) (plumbing.Hash, error) {
	objects := m.CurrentObjects()
	seen := map[plumbing.Hash]bool{}
	todo := []plumbing.Hash{head}
	for len(todo) > 0 {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if m.complete[id] || seen[id] {
			continue
		}
		c, err := objects.Commit(ctx, id)
		if fault.IsMissing(err) {
			return id, nil
		}
		if err != nil {
			return plumbing.ZeroHash, err
		}
		seen[id] = true
		if err := objectstore.CheckCommitCount(seen); err != nil {
			return plumbing.ZeroHash, err
		}
		todo = append(todo, c.Parents...)
	}
	if len(m.complete)+len(seen) > objectstore.MaxCommits { // many of them are of histories that were rewritten
		m.complete = map[plumbing.Hash]bool{}
		for _, tip := range m.tips {
			m.complete[tip] = true
		}
	}
	for id := range seen {
		m.complete[id] = true
	}
	return plumbing.ZeroHash, nil
}

// Fetch requests a pack with the objects that lead to wants from haves; read parses it
// while it arrives.
type Fetch func(ctx context.Context, wants, haves []plumbing.Hash, read func(io.Reader) error) error

// Update fetches a head, and checks that its whole history arrived. wants are the objects to request:
// the head and what leads to it, such as an annotated tag. branches are the heads of all branches of
// the server.
func (m *Mirror) Update(ctx context.Context, head plumbing.Hash, wants, branches []plumbing.Hash, fetch Fetch) error {
	renew := m.needsRepack()
	var haves, again []plumbing.Hash
	var err error
	if renew {
		again = m.completeBranches(branches)
		wants = slices.Clone(wants) // the caller's
		for _, tip := range again {
			if !slices.Contains(wants, tip) {
				wants = append(wants, tip)
			}
		}
	} else if haves, err = m.negotiationHaves(ctx); err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(wants), func(id plumbing.Hash) bool { return slices.Contains(haves, id) })
	if len(missing) > 0 {
		if err := m.fetchPack(ctx, fetch, packOrder{wants: missing, haves: haves, renew: renew}); err != nil {
			return err
		}
	}
	missingCommit, err := m.FirstMissingCommit(ctx, head)
	switch {
	case err != nil:
		return err
	// The server sends no single commits, and the commit was in none of the branches.
	case missingCommit == head && !slices.Contains(wants, head):
		return fault.New(fault.ErrNotFound, "no branch of the repository contains the commit")
	case !missingCommit.IsZero():
		return objectstore.MissingError(missingCommit)
	}
	// Heads of other sources remain recorded; otherwise each source would fetch its own
	// pack now.
	for _, id := range again {
		missingCommit, err := m.FirstMissingCommit(ctx, id)
		if err != nil {
			return err
		}
		if !missingCommit.IsZero() {
			return objectstore.MissingError(missingCommit)
		}
	}
	tips := slices.DeleteFunc(append(slices.Clone(m.tips), again...), func(id plumbing.Hash) bool { return id == head })
	return m.writeTips(append(tips, head))
}

// completeBranches returns the heads of the server's branches whose whole history is in the mirror,
// at most MaxWants.
func (m *Mirror) completeBranches(branches []plumbing.Hash) []plumbing.Hash {
	known := slices.DeleteFunc(slices.Clone(branches), func(id plumbing.Hash) bool { return !m.complete[id] })
	return known[:min(len(known), MaxWants)]
}

// negotiationHaves returns the commits to report to the server: the tips, the commits just before
// them, and ever fewer further back, so that one round finds common commits after a
// force-push.
func (m *Mirror) negotiationHaves(ctx context.Context) ([]plumbing.Hash, error) {
	var haves []plumbing.Hash
	for _, tip := range slices.Backward(m.tips) {
		id, next := tip, 0
		for depth := 0; len(haves) < maxHaves; depth++ {
			if slices.Contains(haves, id) {
				break
			}
			if depth >= next {
				haves = append(haves, id)
				next = max(depth+1, depth*9/8)
			}
			c, err := m.CurrentObjects().Commit(ctx, id)
			if err != nil {
				return nil, err
			}
			if len(c.Parents) == 0 {
				break
			}
			id = c.Parents[0]
		}
	}
	return haves, nil
}

const tipPrefix = "refs/tips/"

// readTips returns the heads with complete history, oldest first.
func (m *Mirror) readTips() ([]plumbing.Hash, error) {
	data, err := os.ReadFile(filepath.Join(m.dir, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrDamaged, err)
	}
	if !strings.HasSuffix(string(data), "\n") {
		return nil, fmt.Errorf("%w: packed-refs is truncated", fault.ErrDamaged)
	}
	var tips []plumbing.Hash
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok || !objectid.IsValid(id) || !strings.HasPrefix(name, tipPrefix) {
			return nil, fmt.Errorf("%w: packed-refs has a line %q", fault.ErrDamaged, fault.Shorten(line))
		}
		tips = append(tips, plumbing.NewHash(id))
	}
	return tips, nil
}

// writeTips replaces the list in one rename.
func (m *Mirror) writeTips(tips []plumbing.Hash) error {
	if extra := len(tips) - maxTips; extra > 0 {
		tips = tips[extra:]
	}
	var b strings.Builder
	b.WriteString("# pack-refs with: \n")
	for i, id := range tips {
		// Numbered to preserve the order by age; git would sort them by name.
		fmt.Fprintf(&b, "%s %s%03d\n", id, tipPrefix, i)
	}
	if err := replaceFile(filepath.Join(m.dir, "packed-refs"), []byte(b.String())); err != nil {
		return fault.WrapWriteError(fault.PhaseTips, err)
	}
	m.tips = tips
	return nil
}
