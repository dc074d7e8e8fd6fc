package objectstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/objfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/packindex"
)

// Objects is a repository's object database, read only. All returned content was hashed
// and matches its id, so damage on disk never becomes content.
type Objects struct {
	dir *os.Root // the folder "objects"

	mu      sync.Mutex // go-git's packs seek in one file
	packs   []*pack
	cache   *cache.ObjectLRU
	commits map[plumbing.Hash]CommitInfo

	cached      map[plumbing.Hash][]byte // contents of profile files, most of which the next snapshot also has
	cachedBytes int
}

type pack struct {
	name  string // "pack-<40 hex>"
	index *idxfile.MemoryIndex
	data  *packfile.Packfile
	file  *os.File
}

// OpenObjects opens the database in a folder "objects". Its packs remain open until
// close, or until the garbage collector frees them.
func OpenObjects(dir *os.Root) (*Objects, error) {
	o := NewObjects(dir)
	names, err := fs.Glob(dir.FS(), "pack/pack-*.pack")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "pack/"), ".pack")
		if _, err := dir.Stat("pack/" + name + ".idx"); errors.Is(err, fs.ErrNotExist) {
			continue // git writes the index last: a pack without one is incomplete
		}
		if err := o.AddPack(name); err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

// NewObjects returns a database without packs; without a folder it is empty.
func NewObjects(dir *os.Root) *Objects {
	return &Objects{dir: dir, cache: cache.NewObjectLRU(objectCacheBytes), commits: map[plumbing.Hash]CommitInfo{}}
}

// AddPack opens another pack by its name without extension.
func (o *Objects) AddPack(name string) error {
	p, err := openPack(o.dir, name, o.cache)
	if err != nil {
		return fmt.Errorf("%w: opening %s: %w", fault.ErrDamaged, name, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.packs = append(o.packs, p)
	return nil
}

// PackNames returns the names of the open packs, without extension.
func (o *Objects) PackNames() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := make([]string, 0, len(o.packs))
	for _, p := range o.packs {
		names = append(names, p.name)
	}
	return names
}

func (o *Objects) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.packs {
		p.file.Close()
	}
	o.packs = nil
}

func openPack(dir *os.Root, name string, lru *cache.ObjectLRU) (_ *pack, err error) {
	defer fault.RecoverAsDamage(&err)
	idx, err := dir.Open("pack/" + name + ".idx")
	if err != nil {
		return nil, err
	}
	defer idx.Close()
	index := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(idx).Decode(index); err != nil {
		return nil, err
	}
	f, err := dir.Open("pack/" + name + ".pack")
	if err != nil {
		return nil, err
	}
	if err := packindex.CheckTrailer(f, index.PackfileChecksum); err != nil {
		f.Close()
		return nil, err
	}
	// Without a file system, go-git reads objects into memory instead of opening the pack
	// for each.
	data := packfile.NewPackfileWithCache(index, nil, lockable{f}, lru, 0)
	return &pack{name: name, index: index, data: data, file: f}, nil
}

// lockable adapts a file to go-billy. A file that is only read needs no lock.
type lockable struct{ *os.File }

func (lockable) Lock() error   { return nil }
func (lockable) Unlock() error { return nil }

// Has reports whether an object exists, without reading it.
func (o *Objects) Has(id plumbing.Hash) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.packOf(id); p != nil {
		return true
	}
	if o.dir == nil {
		return false
	}
	_, err := o.dir.Stat(loosePath(id))
	return err == nil
}

func (o *Objects) packOf(id plumbing.Hash) *pack {
	for _, p := range o.packs {
		if _, err := p.index.FindOffset(id); err == nil {
			return p
		}
	}
	return nil
}

// Blob returns the content of a file of at most maxFileBytes.
func (o *Objects) Blob(ctx context.Context, id plumbing.Hash) ([]byte, error) {
	return o.Read(ctx, plumbing.BlobObject, id, filter.MaxFileBytes)
}

// cachedBlob returns the cached content of a profile file.
func (o *Objects) cachedBlob(id plumbing.Hash) ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	data, ok := o.cached[id]
	return data, ok
}

// cacheBlob caches the content of a profile file, which is immutable. If there is no space,
// the whole cache is cleared: the next snapshot fills it again with what is in use.
func (o *Objects) cacheBlob(id plumbing.Hash, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cached == nil || o.cachedBytes+len(data) > maxCachedBytes {
		o.cached, o.cachedBytes = map[plumbing.Hash][]byte{}, 0
	}
	o.cached[id] = data
	o.cachedBytes += len(data)
}

// blobSize returns the size of a blob without reading it.
func (o *Objects) blobSize(id plumbing.Hash) (size int64, err error) {
	defer fault.RecoverAsDamage(&err)
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.packOf(id); p != nil {
		return o.packedSize(p, id)
	}
	r, closer, err := o.openLoose(id)
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	_, size, err = r.Header()
	if err != nil {
		return 0, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	return size, nil
}

func (o *Objects) packedSize(p *pack, id plumbing.Hash) (int64, error) {
	at, err := p.index.FindOffset(id)
	if err != nil {
		return 0, MissingError(id)
	}
	size, err := p.data.GetSizeByOffset(at)
	if err != nil {
		return 0, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	return size, nil
}

// Read returns an object's content. It returns ErrInvalid if kind or size differ from the
// requested ones: the id was checked, so the repository itself is wrong.
func (o *Objects) Read(ctx context.Context, kind plumbing.ObjectType, id plumbing.Hash, limit int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if kind == plumbing.BlobObject { // the only kind that is ever large in a valid repository
		size, err := o.blobSize(id)
		if err != nil {
			return nil, err
		}
		if size > limit {
			return nil, tooBig(id, size, limit)
		}
	}
	got, data, err := o.load(id, limit)
	if err != nil {
		return nil, err
	}
	if err := checkObject(got, data, id); err != nil {
		return nil, err
	}
	if got != kind {
		return nil, fault.New(fault.ErrInvalid, "object %s is a %s, but must be a %s", id, got, kind)
	}
	return data, nil
}

// checkObject compares an object's content with its id.
func checkObject(kind plumbing.ObjectType, data []byte, id plumbing.Hash) error {
	got, err := objectid.Sum(kind, data)
	if err != nil {
		return fmt.Errorf("reading %s: %w", id, err)
	}
	if got != id {
		return fmt.Errorf("%w: the content of %s does not match its hash", fault.ErrDamaged, id)
	}
	return nil
}

func (o *Objects) load(id plumbing.Hash, limit int64) (kind plumbing.ObjectType, data []byte, err error) {
	defer fault.RecoverAsDamage(&err)
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.packOf(id)
	if p == nil {
		return o.loadLoose(id, limit)
	}
	obj, err := p.data.Get(id)
	if err != nil {
		return 0, nil, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	if obj.Size() > limit {
		return 0, nil, tooBig(id, obj.Size(), limit)
	}
	r, err := obj.Reader()
	if err != nil {
		return 0, nil, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	defer r.Close()
	data = make([]byte, obj.Size())
	if _, err := io.ReadFull(r, data); err != nil {
		return 0, nil, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	return obj.Type(), data, nil
}

// loadLoose reads a loose object, as in work trees.
func (o *Objects) loadLoose(id plumbing.Hash, limit int64) (plumbing.ObjectType, []byte, error) {
	r, closer, err := o.openLoose(id)
	if err != nil {
		return 0, nil, err
	}
	defer closer.Close()
	kind, size, err := r.Header()
	if err != nil {
		return 0, nil, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	if size > limit {
		return 0, nil, tooBig(id, size, limit)
	}
	// The header can be wrong, so the limit applies to the content, too.
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return 0, nil, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	return kind, data, nil
}

func (o *Objects) openLoose(id plumbing.Hash) (*objfile.Reader, io.Closer, error) {
	if o.dir == nil {
		return nil, nil, MissingError(id)
	}
	f, err := o.dir.Open(loosePath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, MissingError(id)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	r, err := objfile.NewReader(f)
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("%w: reading %s: %w", fault.ErrDamaged, id, err)
	}
	return r, f, nil
}

func loosePath(id plumbing.Hash) string {
	hex := id.String()
	return hex[:2] + "/" + hex[2:]
}

func tooBig(id plumbing.Hash, size, limit int64) error {
	return fault.New(fault.ErrInvalid, "object %s has %d bytes, at most %d are read", id, size, limit)
}

func MissingError(id plumbing.Hash) error { return fmt.Errorf("%w: %s", fault.ErrMissing, id) }
