package source

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/pjbgf/sha1cd"
)

// packEntry is one object of a pack: some 80 bytes for each of at most maxPackObjects.
type packEntry struct {
	id     plumbing.Hash // zero until a delta is resolved
	crc    uint32
	offset int64 // where its header begins
	data   int64 // where its compressed data begins
	size   int64 // inflated; of a delta, that of the delta
	kind   byte  // of a delta that is resolved, that of what it makes
	depth  int16 // how many deltas lead to it

	// Deltas form trees. Indexes are counted from 1, so that 0 is none.
	base, child, sibling int32
	distance             int64 // of a delta that names its base so
}

// packEntries are the objects of a pack in its order, and the ids of the bases that
// deltas name instead of an offset.
type packEntries struct {
	list    []packEntry
	waiting map[plumbing.Hash][]int32
	byID    bool // there were such
}

// indexPack checks a pack's checksum, resolves its deltas, hashes every object and
// writes the index as git would. It returns the pack's name without an extension.
//
// go-git's parser does the same in three times the time, because it inflates every
// object again, and in five times the memory.
func indexPack(ctx context.Context, f *os.File, entries *packEntries, index io.Writer) (name string, err error) {
	sum, err := entries.index(ctx, f, maxDeltaBytes)
	if err != nil {
		return "", err
	}
	if err := entries.write(index, sum); err != nil {
		return "", writing(phaseIndex, err)
	}
	return fmt.Sprintf("pack-%x", sum), nil
}

// index makes the entries those of an index, and returns the pack's checksum.
func (p *packEntries) index(ctx context.Context, f *os.File, room int64) ([]byte, error) {
	sum, err := p.checksum(f)
	if err != nil {
		return nil, err
	}
	if err := p.link(); err != nil {
		return nil, err
	}
	if err := p.resolve(ctx, f, room); err != nil {
		return nil, err
	}
	p.sort()
	if id, twice := p.repeated(); twice && p.byID {
		return nil, errPack("object %s is in it twice, and deltas name their bases by ids", id)
	}
	return sum, nil
}

// checksum compares a pack with the checksum at its end, and notes that of each object.
func (p *packEntries) checksum(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end := info.Size() - sha1cd.Size
	whole, r := newSHA1(), bufio.NewReaderSize(io.NewSectionReader(f, 0, info.Size()), 256<<10)
	at := end
	if len(p.list) > 0 {
		at = p.list[0].offset
	}
	if _, err := io.CopyN(whole, r, at); err != nil {
		return nil, err
	}
	for i := range p.list {
		next := end
		if i+1 < len(p.list) {
			next = p.list[i+1].offset
		}
		crc := crc32.NewIEEE()
		if _, err := io.CopyN(io.MultiWriter(whole, crc), r, next-at); err != nil {
			return nil, err
		}
		p.list[i].crc, at = crc.Sum32(), next
	}
	var want [sha1cd.Size]byte
	if _, err := io.ReadFull(r, want[:]); err != nil {
		return nil, err
	}
	sum, collision := whole.CollisionResistantSum(nil)
	if collision {
		return nil, errPack("it is part of a SHA-1 collision attack")
	}
	if !bytes.Equal(sum, want[:]) {
		return nil, errPack("its checksum is wrong")
	}
	return want[:], nil
}

// link finds the base of each delta that names it by its place or by an object that
// is no delta; the others wait for theirs to be resolved.
func (p *packEntries) link() error {
	// From the end, so that the deltas on one base come in the order of the pack.
	for i := len(p.list) - 1; i >= 0; i-- {
		e := &p.list[i]
		if e.kind != packOfsDelta {
			continue
		}
		at := e.offset - e.distance
		b := sort.Search(i, func(j int) bool { return p.list[j].offset >= at })
		if b == i || p.list[b].offset != at {
			return errPack("a delta's base is no object")
		}
		p.attach(int32(b+1), int32(i+1))
	}
	for i, e := range p.list {
		if e.kind <= packTag {
			p.adopt(int32(i + 1))
		}
	}
	return nil
}

func (p *packEntries) at(n int32) *packEntry { return &p.list[n-1] }

func (p *packEntries) attach(base, delta int32) {
	p.at(delta).base, p.at(delta).sibling, p.at(base).child = base, p.at(base).child, delta
}

// adopt attaches the deltas that waited for an object whose id is known now.
func (p *packEntries) adopt(n int32) {
	if len(p.waiting) == 0 {
		return
	}
	id := p.at(n).id
	for _, delta := range p.waiting[id] {
		p.attach(n, delta)
	}
	delete(p.waiting, id)
}

// resolver makes objects of deltas, each tree of them from its root.
type resolver struct {
	*packEntries
	ctx      context.Context
	f        *os.File
	inflater packScan
	stack    []frame
	live     int64 // bytes in the stack
	room     int64 // for them
	again    int64 // bytes that were made anew because they had to be dropped
}

// frame is an object on the way from a root, and the next delta to apply to it.
type frame struct {
	entry int32
	data  []byte // nil when it was dropped
	next  int32
}

// resolve makes every delta's object, and with it its id.
func (p *packEntries) resolve(ctx context.Context, f *os.File, room int64) error {
	r := resolver{packEntries: p, ctx: ctx, f: f, room: room}
	r.inflater.r = &countingReader{Reader: bufio.NewReaderSize(nil, 8<<10)}
	for i := range r.list {
		if e := &r.list[i]; e.child == 0 || e.base != 0 || e.kind > packTag {
			continue
		}
		if err := r.tree(int32(i + 1)); err != nil {
			return err
		}
	}
	for _, e := range r.list {
		if e.kind > packTag {
			return errPack("a delta's base is missing")
		}
	}
	return nil
}

// tree resolves all deltas on a root, depth first.
func (r *resolver) tree(root int32) error {
	data, err := r.inflate(root)
	if err != nil {
		return err
	}
	r.push(frame{entry: root, data: data, next: r.at(root).child})
	for len(r.stack) > 0 {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		top := &r.stack[len(r.stack)-1]
		if top.data == nil {
			if top.data, err = r.remake(top.entry); err != nil {
				return err
			}
			r.live += int64(len(top.data))
		}
		delta := top.next
		made, err := r.apply(top.data, delta)
		if err != nil {
			return err
		}
		e := r.at(delta)
		if e.depth = r.at(top.entry).depth + 1; e.depth > maxDeltaDepth {
			return errPack("more than %d deltas build on each other", maxDeltaDepth)
		}
		e.kind = r.at(root).kind
		if e.id, err = objectID(plumbing.ObjectType(e.kind), made); err != nil {
			return err
		}
		r.adopt(delta)
		if top.next = e.sibling; top.next == 0 { // the last delta on it: a chain holds two objects at a time
			r.live -= int64(len(top.data))
			r.stack = r.stack[:len(r.stack)-1]
		}
		if e.child != 0 {
			r.push(frame{entry: delta, data: made, next: e.child})
		}
	}
	return nil
}

func (r *resolver) push(f frame) {
	r.stack = append(r.stack, f)
	r.live += int64(len(f.data))
	for i := range r.stack[:len(r.stack)-1] {
		if r.live <= r.room {
			return
		}
		r.live -= int64(len(r.stack[i].data))
		r.stack[i].data = nil
	}
}

// remakeCost is what a delta of next to no bytes costs, in bytes that are copied.
const remakeCost = 16 << 10

// remake makes an object that was dropped from its root again.
func (r *resolver) remake(n int32) ([]byte, error) {
	chain := []int32{n}
	for r.at(n).base != 0 {
		n = r.at(n).base
		chain = append(chain, n)
	}
	data, err := r.inflate(n)
	for _, delta := range slices.Backward(chain[:len(chain)-1]) {
		if err != nil {
			return nil, err
		}
		if r.again += int64(len(data)) + remakeCost; r.again > maxInflatedBytes {
			return nil, errPack("its deltas are entangled")
		}
		data, err = r.apply(data, delta)
	}
	if data == nil && err == nil {
		data = []byte{}
	}
	return data, err
}

// apply makes an object of its base and a delta.
func (r *resolver) apply(base []byte, n int32) ([]byte, error) {
	delta, err := r.inflate(n)
	if err != nil {
		return nil, err
	}
	return applyDelta(base, delta)
}

// inflate reads what an entry holds.
func (r *resolver) inflate(n int32) ([]byte, error) {
	e := r.at(n)
	r.inflater.r.Reset(io.NewSectionReader(r.f, e.data, 1<<62-e.data))
	data := bytes.NewBuffer(make([]byte, 0, e.size+bytes.MinRead))
	if err := r.inflater.inflate(e.size, data); err != nil {
		return nil, early(err)
	}
	return data.Bytes(), nil
}

// applyDelta follows the instructions of a delta: copy from the base, or insert.
func applyDelta(base, delta []byte) ([]byte, error) {
	from, n := binary.Uvarint(delta)
	if n <= 0 || from != uint64(len(base)) {
		return nil, errPack("a delta is not for its base")
	}
	delta = delta[n:]
	to, n := binary.Uvarint(delta)
	if n <= 0 || to > maxObjectBytes {
		return nil, errPack("a delta has no size")
	}
	delta = delta[n:]
	made := make([]byte, 0, to)
	for len(delta) > 0 {
		op := delta[0]
		delta = delta[1:]
		var part []byte
		switch {
		case op&0x80 != 0:
			var offset, size uint32
			for i := range 7 { // four bytes of offset, three of size, those that are not zero
				if op&(1<<i) == 0 {
					continue
				}
				if len(delta) == 0 {
					return nil, errPack("a delta is cut short")
				}
				if i < 4 {
					offset |= uint32(delta[0]) << (8 * i)
				} else {
					size |= uint32(delta[0]) << (8 * (i - 4))
				}
				delta = delta[1:]
			}
			if size == 0 {
				size = 0x10000
			}
			if uint64(offset)+uint64(size) > uint64(len(base)) {
				return nil, errPack("a delta copies from beyond its base")
			}
			part = base[offset : offset+size]
		case op == 0:
			return nil, errPack("a delta has an instruction that Git does not know")
		default:
			if int(op) > len(delta) {
				return nil, errPack("a delta is cut short")
			}
			part, delta = delta[:op], delta[op:]
		}
		if len(made)+len(part) > int(to) {
			return nil, errPack("a delta makes more than it says")
		}
		made = append(made, part...)
	}
	if len(made) != int(to) {
		return nil, errPack("a delta makes less than it says")
	}
	return made, nil
}

// sort puts the objects into the order of an index.
func (p *packEntries) sort() {
	slices.SortFunc(p.list, func(a, b packEntry) int {
		if c := bytes.Compare(a.id[:], b.id[:]); c != 0 {
			return c
		}
		return int(a.offset - b.offset)
	})
}

// repeated finds an object that is there twice, once they are sorted. Where a delta
// names such a one as its base it is open which of them is meant, and if that is a
// delta on what the first one makes, whoever reads it goes round in a circle.
func (p *packEntries) repeated() (plumbing.Hash, bool) {
	for i := 1; i < len(p.list); i++ {
		if p.list[i].id == p.list[i-1].id {
			return p.list[i].id, true
		}
	}
	return plumbing.ZeroHash, false
}

// write writes an index of version 2, https://git-scm.com/docs/gitformat-pack, of
// what is sorted.
func (p *packEntries) write(to io.Writer, sum []byte) error {
	w := &indexWriter{to: bufio.NewWriterSize(to, 64<<10), sum: newSHA1()}
	w.bytes([]byte("\xfftOc\x00\x00\x00\x02"))
	n := 0
	for first := range 256 {
		for n < len(p.list) && int(p.list[n].id[0]) == first {
			n++
		}
		w.uint32(uint32(n))
	}
	for i := range p.list {
		w.bytes(p.list[i].id[:])
	}
	for i := range p.list {
		w.uint32(p.list[i].crc)
	}
	var large []int64
	for i := range p.list {
		offset := p.list[i].offset
		if offset >= 1<<31 {
			large = append(large, offset)
			offset = 1<<31 | int64(len(large)-1)
		}
		w.uint32(uint32(offset))
	}
	for _, offset := range large {
		w.bytes(binary.BigEndian.AppendUint64(nil, uint64(offset)))
	}
	w.bytes(sum)
	w.bytes(w.sum.Sum(nil))
	return w.to.Flush()
}

// indexWriter hashes what it writes. Errors show in Flush.
type indexWriter struct {
	to  *bufio.Writer
	sum hash.Hash
	n   [4]byte
}

func (w *indexWriter) bytes(data []byte) {
	w.sum.Write(data)
	_, _ = w.to.Write(data)
}

func (w *indexWriter) uint32(n uint32) {
	binary.BigEndian.PutUint32(w.n[:], n)
	w.bytes(w.n[:])
}
