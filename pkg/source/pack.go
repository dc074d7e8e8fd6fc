package source

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// The kinds of objects in a pack; 1 to 4 are commit, tree, blob and tag.
const (
	packTag      = 4
	packOfsDelta = 6
	packRefDelta = 7
)

// errPack: a pack is not what a Git server sends.
func errPack(format string, args ...any) error {
	return fail(ErrInvalid, "the server's pack is malformed: "+format, args...)
}

// scanPack reads a pack as it arrives and refuses what would cost too much to
// index: go-git holds whole objects in memory and has no limits of its own. A
// pack that ends early is io.ErrUnexpectedEOF.
func scanPack(r *bufio.Reader) error {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return early(err)
	}
	if string(head[:4]) != "PACK" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return errPack("it does not begin as a pack of version 2")
	}
	count := binary.BigEndian.Uint32(head[8:])
	if count > maxPackObjects {
		return fail(ErrInvalid, "the server's pack has %d objects, at most %d are read", count, maxPackObjects)
	}
	s := packScan{r: r}
	for range count {
		if err := s.object(); err != nil {
			return early(err)
		}
	}
	if _, err := io.ReadFull(r, make([]byte, sha1.Size)); err != nil {
		return early(err)
	}
	if _, err := r.ReadByte(); err == nil {
		return errPack("something follows its end")
	} else if err != io.EOF {
		return err
	}
	return nil
}

func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type packScan struct {
	r        *bufio.Reader
	inflater io.ReadCloser
	total    int64
}

func (s *packScan) object() error {
	kind, size, err := s.header()
	if err != nil {
		return err
	}
	if size > maxObjectBytes {
		return s.tooBig(size)
	}
	switch {
	case kind >= 1 && kind <= packTag:
	case kind == packOfsDelta:
		if _, err := s.varint(0); err != nil { // how far back the base is; indexing checks it
			return err
		}
	case kind == packRefDelta:
		if _, err := s.r.Discard(sha1.Size); err != nil {
			return err
		}
	default:
		return errPack("object kind %d", kind)
	}
	begin, err := s.inflate(size)
	if err != nil {
		return err
	}
	if kind > packTag {
		if size, err = deltaResult(begin); err != nil {
			return err
		}
		if size > maxObjectBytes {
			return s.tooBig(size)
		}
	}
	if s.total += size; s.total > maxInflatedBytes {
		return fail(ErrInvalid, "the server's pack inflates to more than %d bytes", int64(maxInflatedBytes))
	}
	return nil
}

func (s *packScan) tooBig(size int64) error {
	return fail(ErrInvalid, "the repository has an object of %d bytes, at most %d are read; keep large files out of it", size, maxObjectBytes)
}

// header reads an object's kind and size: 3 bits and 4 bits, then 7 bits a byte.
func (s *packScan) header() (kind byte, size int64, err error) {
	b, err := s.r.ReadByte()
	if err != nil {
		return 0, 0, err
	}
	size = int64(b & 0x0f)
	if b&0x80 != 0 {
		more, err := s.varint(4)
		if err != nil {
			return 0, 0, err
		}
		size |= more
	}
	return b >> 4 & 7, size, nil
}

// varint reads 7 bits a byte, the lowest first, shifted to the left.
func (s *packScan) varint(shift uint) (n int64, err error) {
	for ; shift < 56; shift += 7 {
		b, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		n |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			return n, nil
		}
	}
	return 0, errPack("a number is too long")
}

// inflate reads an object's compressed data, which must have the size its header
// promised, and returns its beginning.
func (s *packScan) inflate(size int64) ([]byte, error) {
	if s.inflater == nil {
		z, err := zlib.NewReader(s.r)
		if err != nil {
			return nil, zlibError(err)
		}
		s.inflater = z
	} else if err := s.inflater.(zlib.Resetter).Reset(s.r, nil); err != nil {
		return nil, zlibError(err)
	}
	const begin = 20 // bytes: the two sizes at the beginning of a delta
	var kept bytes.Buffer
	n, err := io.CopyN(&kept, s.inflater, min(size, begin))
	if err == nil || errors.Is(err, io.EOF) { // the end of this object, not that of the pack
		var rest int64
		rest, err = io.Copy(io.Discard, io.LimitReader(s.inflater, size-n+1))
		n += rest
	}
	if err != nil {
		return nil, zlibError(err)
	}
	if n != size {
		return nil, errPack("an object is not as long as it says")
	}
	return kept.Bytes(), nil
}

func zlibError(err error) error {
	var corrupt flate.CorruptInputError
	if errors.As(err, &corrupt) || errors.Is(err, zlib.ErrHeader) || errors.Is(err, zlib.ErrChecksum) || errors.Is(err, zlib.ErrDictionary) {
		return errPack("%v", err)
	}
	return err
}

// deltaResult returns the size of what a delta makes, the second number in it.
func deltaResult(begin []byte) (int64, error) {
	s := packScan{r: bufio.NewReaderSize(bytes.NewReader(begin), 32)}
	if _, err := s.varint(0); err != nil {
		return 0, errPack("a delta has no sizes")
	}
	size, err := s.varint(0)
	if err != nil {
		return 0, errPack("a delta has no sizes")
	}
	return size, nil
}

// indexPack checks a pack's checksum, resolves its deltas, hashes every object and
// writes the index. It returns the pack's name without an extension.
func indexPack(ctx context.Context, f *os.File, index io.Writer) (name string, err error) {
	sum, err := packChecksum(f)
	if err != nil {
		return "", err
	}
	w := new(idxfile.Writer)
	if err := parsePack(ctx, f, w); err != nil {
		return "", err
	}
	entries, err := w.Index()
	if err != nil {
		return "", errPack("%v", err)
	}
	if _, err := idxfile.NewEncoder(index).Encode(entries); err != nil {
		return "", fmt.Errorf("writing the index of a pack: %w", err)
	}
	return fmt.Sprintf("pack-%x", sum), nil
}

func parsePack(ctx context.Context, f *os.File, w *idxfile.Writer) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errPack("the parser panicked: %v", p)
		}
	}()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	parser, err := packfile.NewParser(packfile.NewScanner(interruptible{ctx, f}), w)
	if err != nil {
		return errPack("%v", err)
	}
	if _, err := parser.Parse(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errPack("%v", err)
	}
	return nil
}

// packChecksum compares a pack with the checksum at its end.
func packChecksum(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	h := sha1.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, info.Size()-sha1.Size)); err != nil {
		return nil, err
	}
	var want [sha1.Size]byte
	if _, err := f.ReadAt(want[:], info.Size()-sha1.Size); err != nil {
		return nil, err
	}
	if !bytes.Equal(h.Sum(nil), want[:]) {
		return nil, errPack("its checksum is wrong")
	}
	return want[:], nil
}

// interruptible makes go-git's parser, which knows no context, stop.
type interruptible struct {
	ctx context.Context
	f   *os.File
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.f.Read(p)
}

func (i interruptible) Seek(offset int64, whence int) (int64, error) { return i.f.Seek(offset, whence) }
