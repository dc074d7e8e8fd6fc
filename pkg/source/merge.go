package source

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/pjbgf/sha1cd"
)

// packHeaderBytes is what stands before the first object: "PACK", the version, the count.
const packHeaderBytes = 12

// tidy makes one pack of many, once there are maxPacks, without asking the server.
// Where a history was rewritten or a branch deleted, part of the packs is of no use
// any more: these are left for the next fetch, which begins anew and so drops it. So
// are packs that are tangled.
func (m *mirror) tidy(ctx context.Context, refs *packp.AdvRefs, head plumbing.Hash) error {
	if !m.crowded() {
		return nil
	}
	if useless, err := m.outside(ctx, m.tips, append(advertised(refs, m.tips), head)); err != nil || len(useless) > 0 {
		return err
	}
	if err := m.merge(ctx); !errors.Is(err, errTangled) {
		return err
	}
	return nil
}

// crowded tells that there are so many packs that they should become one. Both ways to
// that need room for all of them a second time: on a disk that does not have it they
// may become a few times as many.
func (m *mirror) crowded() bool {
	packs := m.reader().packs
	return len(packs) >= maxPacks && (len(packs) >= maxCrowdedPacks || m.room(packs))
}

// room tells whether the disk has room for a copy of the packs. Where that cannot be
// told, trying will.
func (m *mirror) room(packs []*pack) bool {
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

// errTangled: packs that cannot become one, because it would be open which object a
// delta builds on.
var errTangled = errors.New("packs are tangled")

// outside returns the tips that are in the history of none of these commits.
func (m *mirror) outside(ctx context.Context, tips, from []plumbing.Hash) (map[plumbing.Hash]bool, error) {
	left := map[plumbing.Hash]bool{}
	for _, tip := range tips {
		left[tip] = true
	}
	objects, seen := m.reader(), map[plumbing.Hash]bool{}
	for len(from) > 0 && len(left) > 0 {
		id := from[len(from)-1]
		from = from[:len(from)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		if err := checkCommits(seen); err != nil {
			return nil, err
		}
		delete(left, id)
		c, err := objects.commit(ctx, id)
		if err != nil {
			return nil, err
		}
		from = append(from, c.parents...)
	}
	return left, nil
}

// remember makes a head the newest tip. Of too many, one goes that is in the history
// of the head: the others tell that something in the packs is of no use any more.
func (m *mirror) remember(ctx context.Context, head plumbing.Hash) error {
	tips := append(slices.DeleteFunc(slices.Clone(m.tips), func(id plumbing.Hash) bool { return id == head }), head)
	if len(tips) > maxTips {
		outside, err := m.outside(ctx, tips, []plumbing.Hash{head})
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(tips[:len(tips)-1], func(id plumbing.Hash) bool { return !outside[id] }); i >= 0 {
			tips = slices.Delete(tips, i, i+1)
		}
	}
	return m.writeTips(tips)
}

// merge writes all packs into one, beside them, and swaps it in: killed anywhere, the
// mirror is whole. Objects are copied as they are, because a delta names its base by
// how far back it is, or by its id; what is copied is checked on the way.
func (m *mirror) merge(ctx context.Context) error {
	dir, err := os.MkdirTemp(m.dir, "incoming-")
	if err != nil {
		return writing(phaseMerge, err)
	}
	defer os.RemoveAll(dir)
	old := m.reader()
	name, err := mergePacks(ctx, dir, old.packs)
	if err != nil {
		return err
	}
	if err := m.place(dir, name); err != nil {
		return err
	}
	if err := m.removePacksBut(name); err != nil {
		return err
	}
	merged, err := m.openAgain()
	if err != nil {
		return err
	}
	merged.takeOver(old)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = merged
	return nil
}

// mergePacks writes "pack" and "idx" into a folder, and returns the pack's name.
func mergePacks(ctx context.Context, dir string, packs []*pack) (name string, err error) {
	to, err := os.Create(filepath.Join(dir, "pack"))
	if err != nil {
		return "", writing(phaseMerge, err)
	}
	defer to.Close()
	var all packEntries
	end := int64(packHeaderBytes)
	if _, err := to.Seek(end, io.SeekStart); err != nil {
		return "", writing(phaseMerge, err)
	}
	for _, p := range packs {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := p.list(&all, end-packHeaderBytes); err != nil {
			return "", err
		}
		n, err := p.copyTo(to)
		if err != nil {
			return "", err
		}
		end += n
	}
	all.sort()
	if err := all.untangled(to); err != nil {
		return "", err
	}
	header := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(all.list)))
	if _, err := to.WriteAt(header, 0); err != nil {
		return "", writing(phaseMerge, err)
	}
	sum := newSHA1()
	if _, err := io.Copy(sum, io.NewSectionReader(to, 0, end)); err != nil {
		return "", writing(phaseMerge, err)
	}
	id := sum.Sum(nil)
	index, err := os.Create(filepath.Join(dir, "idx"))
	if err != nil {
		return "", writing(phaseMerge, err)
	}
	defer index.Close()
	_, err = to.WriteAt(id, end)
	if err := errors.Join(err, all.write(index, id), index.Sync(), to.Sync()); err != nil {
		return "", writing(phaseMerge, err)
	}
	return fmt.Sprintf("pack-%x", id), nil
}

// untangled refuses packs that have an object twice and deltas that name their bases
// by ids. The kind of an object stands in its first byte.
func (p *packEntries) untangled(f io.ReaderAt) error {
	if _, twice := p.repeated(); !twice {
		return nil
	}
	var first [1]byte
	for i := range p.list {
		if _, err := f.ReadAt(first[:], p.list[i].offset); err != nil {
			return writing(phaseMerge, err)
		}
		if first[0]>>4&7 == packRefDelta {
			return errTangled
		}
	}
	return nil
}

// list appends the objects of a pack, as its index has them, moved by some bytes.
func (p *pack) list(to *packEntries, by int64) (err error) {
	defer recovered(&err)
	entries, err := p.index.Entries()
	if err != nil {
		return fmt.Errorf("%w: reading the index of %s: %w", errDamaged, p.name, err)
	}
	defer entries.Close()
	for {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: reading the index of %s: %w", errDamaged, p.name, err)
		}
		to.list = append(to.list, packEntry{id: e.Hash, crc: e.CRC32, offset: int64(e.Offset) + by})
	}
}

// copyTo copies the objects of a pack, of which not a bit may have changed.
func (p *pack) copyTo(to io.Writer) (int64, error) {
	info, err := p.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	sum := newSHA1()
	n := info.Size() - packHeaderBytes - sha1cd.Size
	if n < 0 {
		return 0, fmt.Errorf("%w: %s is cut short", errDamaged, p.name)
	}
	if _, err := io.Copy(sum, io.NewSectionReader(p.file, 0, packHeaderBytes)); err != nil {
		return 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	from := bufio.NewReaderSize(io.NewSectionReader(p.file, packHeaderBytes, n), 256<<10)
	if _, err := io.Copy(io.MultiWriter(to, sum), from); err != nil {
		return 0, writing(phaseMerge, err)
	}
	if [sha1cd.Size]byte(sum.Sum(nil)) != p.index.PackfileChecksum {
		return 0, fmt.Errorf("%w: %s has another checksum", errDamaged, p.name)
	}
	return n, nil
}

// takeOver remembers what is known of the same objects in other packs.
func (o *objects) takeOver(old *objects) {
	old.mu.Lock()
	defer old.mu.Unlock()
	o.commits = maps.Clone(old.commits)
	o.kept, o.keptBytes = maps.Clone(old.kept), old.keptBytes
}
