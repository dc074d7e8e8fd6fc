package nodefixture

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
)

// Archive is a tarball of programs with a foreign user id. With more than one program their paths
// begin with a common folder.
func Archive(program func(name string) []byte, names ...string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	add := func(h *tar.Header, content []byte) {
		h.Mode, h.Uid, h.Gid, h.Size = 0o755, 1001, 118, int64(len(content))
		if err := w.WriteHeader(h); err != nil {
			panic(err) // memory does not fail
		}
		if _, err := w.Write(content); err != nil {
			panic(err)
		}
	}
	if len(names) > 1 {
		add(&tar.Header{Name: "./", Typeflag: tar.TypeDir}, nil)
	}
	for _, name := range names {
		add(&tar.Header{Name: "./" + name, Typeflag: tar.TypeReg}, program(name))
	}
	for _, end := range []func() error{w.Close, z.Close} {
		if err := end(); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}
