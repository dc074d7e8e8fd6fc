package mirror

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
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/packindex"
)

// packOrder is the expected content of a pack: the objects that lead to wants from haves.
type packOrder struct {
	wants, haves []plumbing.Hash
	renew        bool // the pack replaces all others
}

// needsRepack reports whether the mirror has so many packs that it should be fetched again.
// That needs space for all of them a second time: on a disk without that space, there can
// be a few times as many packs.
func (m *Mirror) needsRepack() bool {
	packs := m.CurrentObjects().PackNames()
	return len(packs) >= MaxPacks && (len(packs) >= maxUnmergedPacks || m.hasSpace(packs))
}

// hasSpace reports whether the disk has space for a copy of the packs. It returns true if
// that is unknown.
func (m *Mirror) hasSpace(packs []string) bool {
	free, known := freeBytes(m.dir)
	if !known {
		return true
	}
	need := int64(0)
	for _, name := range packs {
		for _, ext := range []string{".pack", ".idx"} {
			if info, err := os.Stat(filepath.Join(m.dir, "objects", "pack", name+ext)); err == nil {
				need += info.Size()
			}
		}
	}
	return need < free
}

// freeBytes returns the space that is available to this user on the disk of a folder.
func freeBytes(dir string) (free int64, known bool) {
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil {
		return 0, false
	}
	return int64(disk.Bavail) * int64(disk.Bsize), true //nolint:unconvert // on macOS Bsize is uint32
}

// incomingPack is the file of a pack that is being fetched. It fails before the disk is
// full, because other repositories need space at the same time.
type incomingPack struct {
	*os.File
	written int64
}

func (p *incomingPack) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	p.written += int64(n)
	if err != nil || p.written <= smallPackBytes {
		return n, err
	}
	if free, known := freeBytes(filepath.Dir(p.Name())); known && free < reservedBytes {
		const mib = 1 << 20
		return n, fault.New(syscall.ENOSPC, "phase %s: the repository does not fit into the folder of the mirrors: it needs more than %d MiB, and %d MiB are available, with %d MiB reserved for other repositories; name a folder with more space: --cache-dir",
			fault.PhasePack, p.written/mib, (p.written+free)/mib, reservedBytes/mib)
	}
	return n, nil
}

// fetchPack fetches one pack into a temporary folder. When it is checked, indexed and on
// disk, it is renamed into the mirror: first the index, last the pack, which activates
// it. If the process is killed, the mirror is unchanged.
func (m *Mirror) fetchPack(ctx context.Context, fetch Fetch, of packOrder) error {
	dir, err := os.MkdirTemp(m.dir, "incoming-")
	if err != nil {
		return fault.WrapWriteError(fault.PhasePack, err)
	}
	defer os.RemoveAll(dir)
	pack, err := os.Create(filepath.Join(dir, "pack"))
	if err != nil {
		return fault.WrapWriteError(fault.PhasePack, err)
	}
	defer pack.Close()
	var entries *packindex.Entries
	err = fetch(ctx, of.wants, of.haves, func(r io.Reader) error {
		entries, err = packindex.Scan(bufio.NewReaderSize(io.TeeReader(r, &incomingPack{File: pack}), 64<<10))
		return err
	})
	if err != nil {
		return err
	}
	index, err := os.Create(filepath.Join(dir, "idx"))
	if err != nil {
		return fault.WrapWriteError(fault.PhaseIndex, err)
	}
	defer index.Close()
	name, err := entries.WriteIndex(ctx, pack, index)
	if err != nil {
		return err
	}
	// The names must not reach the disk before the content.
	for _, f := range []*os.File{index, pack} {
		if err := f.Sync(); err != nil {
			return fault.WrapWriteError(fault.PhaseIndex, err)
		}
	}
	return m.installPack(dir, name, of.renew)
}

// installPack moves a pack into the mirror and opens it.
func (m *Mirror) installPack(dir, name string, renew bool) error {
	known := fileExists(filepath.Join(m.dir, "objects", "pack", name+".pack"))
	if err := m.movePackDurably(dir, name); err != nil {
		return err
	}
	switch {
	case renew:
		return m.deleteTipsAndOtherPacks(name)
	// A pack of the same name has the same objects, and is open already.
	case known:
		return nil
	}
	return m.CurrentObjects().AddPack(name)
}

// movePackDurably renames an index and a pack, which activates the pack.
func (m *Mirror) movePackDurably(dir, name string) error {
	base := filepath.Join(m.dir, "objects", "pack", name)
	if err := os.Rename(filepath.Join(dir, "idx"), base+".idx"); err != nil {
		return fault.WrapWriteError(fault.PhaseIndex, err)
	}
	if err := os.Rename(filepath.Join(dir, "pack"), base+".pack"); err != nil {
		return fault.WrapWriteError(fault.PhaseIndex, err)
	}
	if err := syncDir(filepath.Dir(base)); err != nil {
		return fault.WrapWriteError(fault.PhaseIndex, err)
	}
	return nil
}

// deleteTipsAndOtherPacks deletes all packs except one. Objects that only the others had (deleted
// branches, rewritten histories) are fetched again when they are needed.
func (m *Mirror) deleteTipsAndOtherPacks(name string) error {
	// Without tips, an interruption leaves a mirror that fetches again, not one that seems
	// complete.
	if err := m.writeTips(nil); err != nil {
		return err
	}
	if err := m.removePacksBut(name); err != nil {
		return err
	}
	m.loaded = false
	return m.Load()
}

func (m *Mirror) removePacksBut(except string) error {
	for _, name := range m.CurrentObjects().PackNames() {
		if name == except {
			continue
		}
		for _, ext := range []string{".pack", ".idx"} { // in this order: an index without a pack is ignored
			if err := os.Remove(filepath.Join(m.dir, "objects", "pack", name+ext)); err != nil {
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

// syncDir makes the renames in a folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
