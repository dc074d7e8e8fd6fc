package source

import (
	"bufio"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/pjbgf/sha1cd"
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

// scanPack reads a pack as it arrives, hashes what is no delta, and refuses what
// would cost too much to index. A pack that ends early is io.ErrUnexpectedEOF.
func scanPack(r *bufio.Reader) (*packEntries, error) {
	s := packScan{r: &countingReader{Reader: r}}
	var head [12]byte
	if _, err := io.ReadFull(s.r, head[:]); err != nil {
		return nil, early(err)
	}
	if string(head[:4]) != "PACK" || binary.BigEndian.Uint32(head[4:]) != 2 {
		return nil, errPack("it does not begin as a pack of version 2")
	}
	count := binary.BigEndian.Uint32(head[8:])
	if count > maxPackObjects {
		return nil, fail(ErrInvalid, "the server's pack has %d objects, at most %d are read", count, maxPackObjects)
	}
	found := &packEntries{waiting: map[plumbing.Hash][]int32{}}
	for range count {
		e, on, err := s.object()
		if err != nil {
			return nil, early(err)
		}
		found.list = append(found.list, e)
		if e.kind == packRefDelta {
			found.waiting[on] = append(found.waiting[on], int32(len(found.list)))
		}
	}
	found.byID = len(found.waiting) > 0
	if _, err := io.ReadFull(r, make([]byte, sha1cd.Size)); err != nil {
		return nil, early(err)
	}
	if _, err := r.ReadByte(); err == nil {
		return nil, errPack("something follows its end")
	} else if err != io.EOF {
		return nil, err
	}
	return found, nil
}

func early(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type packScan struct {
	r        *countingReader
	inflater io.ReadCloser
	total    int64
}

// countingReader knows where in the pack it is.
type countingReader struct {
	*bufio.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *countingReader) ReadByte() (byte, error) {
	b, err := c.Reader.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

// object reads one object. Of a delta, base is how far back its base is, or on is
// the base's id.
func (s *packScan) object() (e packEntry, on plumbing.Hash, err error) {
	e.offset = s.r.n
	if e.kind, e.size, err = s.header(); err != nil {
		return e, on, err
	}
	if e.size > maxObjectBytes {
		return e, on, s.tooBig(e.size)
	}
	switch {
	case e.kind >= 1 && e.kind <= packTag:
	case e.kind == packOfsDelta:
		if e.distance, err = s.distance(); err != nil {
			return e, on, err
		}
	case e.kind == packRefDelta:
		if _, err := io.ReadFull(s.r, on[:]); err != nil {
			return e, on, err
		}
	default:
		return e, on, errPack("object kind %d", e.kind)
	}
	e.data = s.r.n
	made := e.size
	if e.kind <= packTag {
		h := newIDHash(plumbing.ObjectType(e.kind), e.size)
		if err := s.inflate(e.size, h); err != nil {
			return e, on, err
		}
		if e.id, err = h.id(); err != nil {
			return e, on, err
		}
	} else {
		var begin beginning
		if err := s.inflate(e.size, &begin); err != nil {
			return e, on, err
		}
		if made, err = deltaResult(begin.kept()); err != nil {
			return e, on, err
		}
		if made > maxObjectBytes {
			return e, on, s.tooBig(made)
		}
	}
	if s.total += made; s.total > maxInflatedBytes {
		return e, on, fail(ErrInvalid, "the server's pack inflates to more than %d bytes", int64(maxInflatedBytes))
	}
	return e, on, nil
}

// distance reads how far back a base is: 7 bits a byte, the highest first, and one
// more for each that follows.
func (s *packScan) distance() (int64, error) {
	var n int64
	for i := 0; ; i++ {
		b, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		n |= int64(b & 0x7f)
		if b&0x80 == 0 {
			return n, nil
		}
		if i == 7 {
			return 0, errPack("a number is too long")
		}
		n = (n + 1) << 7
	}
}

// beginning keeps the two sizes at the beginning of a delta.
type beginning struct {
	data [20]byte
	n    int
}

func (b *beginning) Write(p []byte) (int, error) {
	b.n += copy(b.data[b.n:], p)
	return len(p), nil
}

func (b *beginning) kept() []byte { return b.data[:b.n] }

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

// inflate reads an object's compressed data, which must have the size its header promised.
func (s *packScan) inflate(size int64, to io.Writer) error {
	if s.inflater == nil {
		z, err := zlib.NewReader(s.r)
		if err != nil {
			return zlibError(err)
		}
		s.inflater = z
	} else if err := s.inflater.(zlib.Resetter).Reset(s.r, nil); err != nil {
		return zlibError(err)
	}
	n, err := io.Copy(to, io.LimitReader(s.inflater, size+1))
	if err != nil {
		return zlibError(err)
	}
	if n != size {
		return errPack("an object is not as long as it says")
	}
	return nil
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
	_, n := binary.Uvarint(begin)
	if n <= 0 {
		return 0, errPack("a delta has no sizes")
	}
	size, n := binary.Uvarint(begin[n:])
	if n <= 0 || size > 1<<62 {
		return 0, errPack("a delta has no sizes")
	}
	return int64(size), nil
}
