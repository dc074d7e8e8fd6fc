package gittest

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// Object is one for a pack made by hand.
type Object struct {
	Kind, Content string
}

// ObjectOf returns an object of "commit", "tree", "blob" or "tag".
func ObjectOf(kind, content string) Object { return Object{kind, content} }

// RawID returns the 20 bytes of the object's id.
func (o Object) RawID() []byte {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", o.Kind, len(o.Content), o.Content))
	return sum[:]
}

// ID returns the object's id in hex.
func (o Object) ID() string { return hex.EncodeToString(o.RawID()) }

// Pack makes packs, also such as no git makes.
type Pack struct {
	Count uint32
	Body  bytes.Buffer
	z     *zlib.Writer
	Last  int // how many bytes the last object has
}

// NewPack returns a pack of objects.
func NewPack(objects ...Object) *Pack {
	p := new(Pack)
	for _, o := range objects {
		p.Add(o)
	}
	return p
}

// Add adds an object.
func (p *Pack) Add(o Object) *Pack {
	kind := map[string]byte{"commit": 1, "tree": 2, "blob": 3}[o.Kind]
	return p.Raw(kind, int64(len(o.Content)), strings.NewReader(o.Content))
}

// Raw adds an object of any kind, which may lie about its size.
func (p *Pack) Raw(kind byte, size int64, content io.Reader) *Pack {
	begin := p.Body.Len()
	p.header(kind, size)
	p.deflate(content)
	p.Last = p.Body.Len() - begin
	return p
}

// OfsDelta adds a delta on the object that begins so many bytes before it.
func (p *Pack) OfsDelta(distance int, delta []byte) *Pack {
	begin := p.Body.Len()
	p.header(6, int64(len(delta)))
	d := []byte{byte(distance & 0x7f)}
	for distance > 0x7f {
		distance = distance>>7 - 1
		d = append([]byte{byte(distance&0x7f) | 0x80}, d...)
	}
	p.Body.Write(d)
	p.deflate(bytes.NewReader(delta))
	p.Last = p.Body.Len() - begin
	return p
}

// RefDelta adds a delta on the object of an id.
func (p *Pack) RefDelta(base []byte, delta []byte) *Pack {
	p.header(7, int64(len(delta)))
	p.Body.Write(base)
	p.deflate(bytes.NewReader(delta))
	return p
}

func (p *Pack) header(kind byte, size int64) {
	p.Count++
	b := kind<<4 | byte(size&0x0f)
	for size >>= 4; size > 0; size >>= 7 {
		p.Body.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	p.Body.WriteByte(b)
}

func (p *Pack) deflate(content io.Reader) {
	if p.z == nil {
		p.z = zlib.NewWriter(nil) // for all objects: making one takes longer than compressing a small object
	}
	p.z.Reset(&p.Body)
	if _, err := io.Copy(p.z, content); err != nil {
		panic(err)
	}
	p.z.Close()
}

// Bytes returns the whole pack.
func (p *Pack) Bytes() []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), p.Count)
	out = append(out, p.Body.Bytes()...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

// Delta is one with an instruction or several.
func Delta(from, to uint64, instructions ...byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, from), to), instructions...)
}
