package packindex

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// entry is one object of a pack: about 80 bytes for each of at most MaxObjects.
type entry struct {
	id     plumbing.Hash // zero until a delta is resolved
	crc    uint32
	offset int64               // of its header
	size   int64               // inflated; for a delta the size of the delta itself
	chain  int64               // of all deltas in its chain
	kind   plumbing.ObjectType // for a resolved delta the kind of its result
	depth  int16               // number of deltas in its chain

	// Deltas form trees. Indexes start at 1, so that 0 means none.
	base, child, sibling int32
}

// Entries are the objects of a pack in its order, and the ids of the bases that
// deltas name instead of an offset.
type Entries struct {
	list     []entry
	waiting  map[plumbing.Hash][]int32
	byID     bool          // such deltas exist
	checksum plumbing.Hash // the pack's checksum
}

// WriteIndex resolves the deltas of the scanned pack, which is also in a file, hashes
// every object and writes the index as git would. It returns the pack's name without
// extension.
func (p *Entries) WriteIndex(ctx context.Context, pack *os.File, to io.Writer) (name string, err error) {
	return p.index(ctx, pack, defaultPackLimits(), to)
}

// index is WriteIndex with other limits.
//
// go-git reads the pack, applies each delta and writes the index. Only the order of the
// deltas, which go-git's parser would choose, is here, because a hostile pack makes the
// parser use any amount of memory: it rebuilds a chain for every object whose base its
// cache has dropped, and meanwhile holds a buffer for each link of the chain. For a pack
// of 142 KiB with 16 interleaved chains of 40 deltas, each with a result of 8 MiB, it
// needed 930 MiB and more than twenty times as long as this code, which needs 74 MiB.
func (p *Entries) index(ctx context.Context, f *os.File, limits packLimits, index io.Writer) (name string, err error) {
	defer fault.RecoverAsDamage(&err)
	if err := CheckTrailer(f, p.checksum); errors.Is(err, ErrTrailer) {
		return "", errPack("it has data after its end")
	} else if err != nil {
		return "", fault.WrapWriteError(fault.PhaseIndex, err)
	}
	if err := p.resolve(ctx, f, limits); err != nil {
		return "", err
	}
	if err := p.encodeIndex(index); err != nil {
		return "", err
	}
	return "pack-" + p.checksum.String(), nil
}

// encodeIndex writes the index of the resolved objects.
func (p *Entries) encodeIndex(to io.Writer) error {
	var w idxfile.Writer
	if err := w.OnHeader(uint32(len(p.list))); err != nil {
		return err
	}
	for _, e := range p.list {
		w.Add(e.id, uint64(e.offset), e.crc)
	}
	if err := w.OnFooter(p.checksum); err != nil {
		return err
	}
	index, err := w.Index()
	if err != nil {
		return err
	}
	// If a delta names an object as its base that is in the pack twice, it is ambiguous
	// which one is meant. If one of them is a delta on the result of the other, readers
	// would loop.
	if n, err := index.Count(); err != nil || p.byID && n != int64(len(p.list)) {
		return errPack("it has an object twice, and its deltas name their bases by id")
	}
	out := bufio.NewWriterSize(to, 64<<10)
	if _, err := idxfile.NewEncoder(out).Encode(index); err != nil {
		return fault.WrapWriteError(fault.PhaseIndex, err)
	}
	if err := out.Flush(); err != nil {
		return fault.WrapWriteError(fault.PhaseIndex, err)
	}
	return nil
}

func (p *Entries) at(n int32) *entry { return &p.list[n-1] }

func (p *Entries) attach(base, delta int32) {
	p.at(delta).base = base
	p.at(delta).sibling = p.at(base).child
	p.at(base).child = delta
}

// attachWaiting attaches the deltas that waited for an object whose id is now known.
func (p *Entries) attachWaiting(n int32) {
	if len(p.waiting) == 0 {
		return
	}
	id := p.at(n).id
	for _, delta := range p.waiting[id] {
		p.attach(n, delta)
	}
	delete(p.waiting, id)
}

// packLimits limits the cost of resolving the deltas of a pack, in bytes.
type packLimits struct {
	deltaMemory int64 // of objects that are held in memory because more deltas are based on them
	chain       int64 // of the deltas in one chain
	again       int64 // of objects that are computed again because they had been dropped
}

func defaultPackLimits() packLimits {
	return packLimits{deltaMemory: maxDeltaBytes, chain: maxChainBytes, again: maxInflatedBytes}
}

// resolver applies deltas, each tree of them from its root.
type resolver struct {
	*Entries
	ctx     context.Context
	scanner *packfile.Scanner
	stack   []frame
	live    int64 // bytes in the stack
	limits  packLimits
	again   int64 // bytes that were computed again because they had been dropped
}

// frame is an object on the path from a root, and the next delta to apply to it.
type frame struct {
	entry int32
	data  []byte // nil if it was dropped
	next  int32
}

// resolve computes every delta's object and its id.
func (p *Entries) resolve(ctx context.Context, f *os.File, limits packLimits) error {
	for i, e := range p.list {
		if !e.kind.IsDelta() {
			p.attachWaiting(int32(i + 1))
		}
	}
	r := resolver{Entries: p, ctx: ctx, scanner: packfile.NewScanner(f), limits: limits}
	for i := range r.list {
		// Deltas are resolved with their root.
		if e := &r.list[i]; e.child == 0 || e.base != 0 || e.kind.IsDelta() {
			continue
		}
		if err := r.resolveTree(int32(i + 1)); err != nil {
			return err
		}
	}
	for _, e := range r.list {
		if e.kind.IsDelta() {
			return errPack("a delta's base is missing")
		}
	}
	return nil
}

// resolveTree resolves all deltas of a root, depth first.
func (r *resolver) resolveTree(root int32) error {
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
			if top.data, err = r.recomputeObject(top.entry); err != nil {
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
			return errPack("it has a chain of more than %d deltas", maxDeltaDepth)
		}
		// A reader of the object holds all of them in memory.
		if e.chain = r.at(top.entry).chain + e.size; e.chain > r.limits.chain {
			return errPack("it has a chain of deltas of more than %d bytes", r.limits.chain)
		}
		e.kind = r.at(root).kind
		if e.id, err = objectid.Sum(e.kind, made); err != nil {
			return err
		}
		r.attachWaiting(delta)
		if top.next = e.sibling; top.next == 0 { // the last delta on it: a chain needs two objects at a time
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
	// What is nearest to the root is dropped first, because it is needed last.
	for i := range r.stack[:len(r.stack)-1] {
		if r.live <= r.limits.deltaMemory {
			return
		}
		r.live -= int64(len(r.stack[i].data))
		r.stack[i].data = nil
	}
}

// remakeCost is the cost of a tiny delta, in copied bytes.
const remakeCost = 16 << 10

// recomputeObject computes again an object that was dropped from memory, from its root.
func (r *resolver) recomputeObject(n int32) ([]byte, error) {
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
		if r.again += int64(len(data)) + remakeCost; r.again > r.limits.again {
			return nil, errPack("its deltas are interleaved too much")
		}
		data, err = r.apply(data, delta)
	}
	return data, err
}

// apply applies a delta to its base.
func (r *resolver) apply(base []byte, n int32) ([]byte, error) {
	delta, err := r.inflate(n)
	if err != nil {
		return nil, err
	}
	made, err := packfile.PatchDelta(base, delta)
	if err != nil {
		return nil, errPack("%v", err)
	}
	return made, nil
}

// inflate reads the data of an entry.
func (r *resolver) inflate(n int32) ([]byte, error) {
	e := r.at(n)
	data := bytes.NewBuffer(make([]byte, 0, e.size+bytes.MinRead))
	if _, err := r.scanner.SeekObjectHeader(e.offset); err != nil {
		return nil, err
	}
	if _, _, err := r.scanner.NextObject(data); err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}
