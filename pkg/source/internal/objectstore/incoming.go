package objectstore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// packOrder is what a pack should hold: what leads to wants from haves.
type packOrder struct {
	wants, haves []plumbing.Hash
	renew        bool // the pack replaces all others
}

// crowded tells that there are so many packs that the mirror should be fetched again.
// That needs room for all of them a second time: on a disk that does not have it they
// may become a few times as many.
func (m *Mirror) crowded() bool {
	packs := m.Reader().packs
	return len(packs) >= MaxPacks && (len(packs) >= maxCrowdedPacks || m.room(packs))
}

// room tells whether the disk has room for a copy of the packs. Where that cannot be
// told, trying will.
func (m *Mirror) room(packs []*pack) bool {
	var disk syscall.Statfs_t
	if syscall.Statfs(m.dir, &disk) != nil {
		return true
	}
	need := int64(0)
	for _, p := range packs {
		for _, ext := range []string{".pack", ".idx"} {
			if info, err := os.Stat(filepath.Join(m.dir, "objects", "pack", p.name+ext)); err == nil {
				need += info.Size()
			}
		}
	}
	return uint64(need)/uint64(disk.Bsize) < disk.Bavail
}

// fetchPack fetches one pack into a folder of its own and, once it is checked,
// indexed and on disk, renames it into the mirror: first the index, last the pack,
// which is what makes it count. Killed anywhere, the mirror is as it was before.
func (m *Mirror) fetchPack(ctx context.Context, fetch Fetch, of packOrder) error {
	dir, err := os.MkdirTemp(m.dir, "incoming-")
	if err != nil {
		return fault.Writing(fault.PhasePack, err)
	}
	defer os.RemoveAll(dir)
	pack, err := os.Create(filepath.Join(dir, "pack"))
	if err != nil {
		return fault.Writing(fault.PhasePack, err)
	}
	defer pack.Close()
	var entries *packEntries
	err = fetch(ctx, of.wants, of.haves, func(r io.Reader) error {
		entries, err = scanPack(bufio.NewReaderSize(io.TeeReader(r, pack), 64<<10))
		return err
	})
	if err != nil {
		return err
	}
	index, err := os.Create(filepath.Join(dir, "idx"))
	if err != nil {
		return fault.Writing(fault.PhaseIndex, err)
	}
	defer index.Close()
	name, err := entries.index(ctx, pack, defaultPackLimits(), index)
	if err != nil {
		return err
	}
	for _, f := range []*os.File{index, pack} {
		if err := f.Sync(); err != nil {
			return fault.Writing(fault.PhaseIndex, err)
		}
	}
	return m.install(dir, name, of.renew)
}

// install renames a pack into place and reads from it from now on.
func (m *Mirror) install(dir, name string, renew bool) error {
	known := fileExists(filepath.Join(m.dir, "objects", "pack", name+".pack"))
	if err := m.place(dir, name); err != nil {
		return err
	}
	switch {
	case renew:
		return m.dropOthers(name)
	case known:
		return nil
	}
	return m.Reader().add(name)
}

// place renames an index and a pack, which counts from then on.
func (m *Mirror) place(dir, name string) error {
	base := filepath.Join(m.dir, "objects", "pack", name)
	if err := os.Rename(filepath.Join(dir, "idx"), base+".idx"); err != nil {
		return fault.Writing(fault.PhaseIndex, err)
	}
	if err := os.Rename(filepath.Join(dir, "pack"), base+".pack"); err != nil {
		return fault.Writing(fault.PhaseIndex, err)
	}
	if err := syncDir(filepath.Dir(base)); err != nil {
		return fault.Writing(fault.PhaseIndex, err)
	}
	return nil
}

// dropOthers keeps one pack alone. What only the others had (branches that are
// gone, histories that were rewritten) is fetched again where it is wanted.
func (m *Mirror) dropOthers(name string) error {
	if err := m.writeTips(nil); err != nil {
		return err
	}
	if err := m.removePacksBut(name); err != nil {
		return err
	}
	m.loaded = false
	return m.Load()
}

func (m *Mirror) removePacksBut(name string) error {
	for _, p := range m.Reader().packs {
		if p.name == name {
			continue
		}
		for _, ext := range []string{".pack", ".idx"} { // in this order: an index alone is nothing
			if err := os.Remove(filepath.Join(m.dir, "objects", "pack", p.name+ext)); err != nil {
				return fmt.Errorf("%w: %w", fault.ErrDamaged, err)
			}
		}
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// syncDir makes renames in a folder survive a power cut.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
