package packindex

import (
	"encoding/binary"
	"errors"
	"io"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
)

// errPack reports a pack that no Git server sends.
func errPack(format string, args ...any) error {
	return fault.New(fault.ErrInvalid, "the server's pack is malformed: "+format, args...)
}

// Scan reads a whole pack while it arrives, checks its checksum, hashes all objects
// that are not deltas, and rejects a pack that would be too expensive to index. It
// returns io.ErrUnexpectedEOF for a pack that ends early.
func Scan(r io.Reader) (found *Entries, err error) {
	defer fault.RecoverAsDamage(&err)
	stream := &packStream{Reader: r}
	scan := packScan{scanner: packfile.NewScanner(stream), Entries: &Entries{waiting: map[plumbing.Hash][]int32{}}}
	err = scan.scanObjects()
	var ours *fault.Error
	switch {
	case err == nil:
		return scan.Entries, nil
	case errors.As(err, &ours):
		return nil, err
	// The parser hides errors of the stream, which say more.
	case errors.Is(stream.err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case stream.err != nil:
		return nil, stream.err
	}
	return nil, errPack("%v", err)
}

// packStream records why it ended, which go-git's scanner sometimes returns only as text.
// An early end counts only if a read goes beyond it.
type packStream struct {
	io.Reader
	err error
}

func (s *packStream) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n > 0 && err == io.EOF {
		return n, nil
	}
	s.err = err
	return n, err
}

type packScan struct {
	*Entries
	scanner *packfile.Scanner
	total   int64 // of all objects, inflated and with deltas applied
}

// scanObjects reads the objects of the pack and its checksum.
func (s *packScan) scanObjects() error {
	_, count, err := s.scanner.Header()
	if err != nil {
		return err
	}
	if count > MaxObjects {
		return fault.New(fault.ErrInvalid, "the server's pack has %d objects, at most %d are read", count, MaxObjects)
	}
	for range count {
		header, err := s.scanner.NextObjectHeader()
		if err != nil {
			return err
		}
		if err := s.scanObject(header); err != nil {
			return err
		}
	}
	s.byID = len(s.waiting) > 0
	if s.checksum, err = s.scanner.Checksum(); err != nil {
		return err
	}
	return s.scanner.Close()
}

// scanObject adds the object at the position of the scanner.
func (s *packScan) scanObject(header *packfile.ObjectHeader) (err error) {
	e := entry{offset: header.Offset, size: header.Length, kind: header.Type}
	if e.size > MaxObjectBytes {
		return tooBigForPack(e.size)
	}
	made := e.size
	switch e.kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		h := objectid.NewHash(e.kind, e.size)
		if e.crc, err = s.inflate(e.size, h); err != nil {
			return err
		}
		if e.id, err = h.ID(); err != nil {
			return err
		}
		s.list = append(s.list, e)
	case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
		var begin deltaHeader
		if e.crc, err = s.inflate(e.size, &begin); err != nil {
			return err
		}
		if made, err = begin.resultSize(); err != nil {
			return err
		}
		if made > MaxObjectBytes {
			return tooBigForPack(made)
		}
		s.list = append(s.list, e)
		n := int32(len(s.list))
		if e.kind == plumbing.REFDeltaObject {
			s.waiting[header.Reference] = append(s.waiting[header.Reference], n)
			break
		}
		at := sort.Search(len(s.list), func(i int) bool { return s.list[i].offset >= header.OffsetReference })
		if s.list[at].offset != header.OffsetReference {
			return errPack("the base of a delta is not an object")
		}
		s.attach(int32(at+1), n)
	default:
		return errPack("object kind %d", e.kind)
	}
	// A delta counts with the size of its result, because that is the cost of reading it.
	if s.total += made; s.total > maxInflatedBytes {
		return fault.New(fault.ErrInvalid, "the server's pack inflates to more than %d bytes", int64(maxInflatedBytes))
	}
	return nil
}

// inflate reads an object's data, which must have the size in its header.
func (s *packScan) inflate(size int64, to io.Writer) (crc uint32, err error) {
	n, crc, err := s.scanner.NextObject(to)
	if err == nil && n != size || errors.Is(err, packfile.ErrInflatedSizeMismatch) {
		return 0, errPack("the length of an object differs from its header")
	}
	return crc, err
}

// deltaHeader stores the beginning of a delta, which contains the sizes of its base and its result.
type deltaHeader struct {
	data [20]byte
	n    int
}

func (b *deltaHeader) Write(p []byte) (int, error) {
	b.n += copy(b.data[b.n:], p)
	return len(p), nil
}

// resultSize returns the size of a delta's result, the second of the two.
func (b *deltaHeader) resultSize() (int64, error) {
	_, n := binary.Uvarint(b.data[:b.n])
	if n <= 0 {
		return 0, errPack("a delta has no sizes")
	}
	size, n := binary.Uvarint(b.data[n:b.n])
	if n <= 0 || size > 1<<62 {
		return 0, errPack("a delta has no sizes")
	}
	return int64(size), nil
}

func tooBigForPack(size int64) error {
	return fault.New(fault.ErrInvalid, "the repository has an object of %d bytes, at most %d are read; remove large files from it", size, MaxObjectBytes)
}
