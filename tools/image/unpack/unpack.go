// Package unpack reads what is in an image, for tests.
package unpack

import (
	"archive/tar"
	"errors"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// File is one of an image, or a folder.
type File struct {
	*tar.Header
	Content []byte
}

// Image returns the files of an image by path, without a slash before, as a node sees them.
// Layers that take files away are not known to it.
func Image(image v1.Image) (map[string]File, error) {
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	out := map[string]File{}
	for _, layer := range layers {
		if err := add(out, layer); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func add(out map[string]File, layer v1.Layer) error {
	r, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer r.Close()
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		out[strings.Trim(h.Name, "/.")] = File{Header: h, Content: b}
	}
}
