package source

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

func embedded(files fstest.MapFS) Embedded {
	return Embedded{FS: files, Repository: "https://git.example.com/ours", Path: "profiles"}
}

func TestEmbedded(t *testing.T) {
	files := fstest.MapFS{
		"README.md":      {Data: []byte("# profiles\n")},
		"osp-b.yaml":     {Data: []byte("b\n")},
		"osp-a.yaml":     {Data: []byte("a\n")},
		"sub/osp-c.yml":  {Data: []byte("c\n")},
		".git/osp.yaml":  {Data: []byte("x\n")},
		".hidden/d.yaml": {Data: []byte("x\n")},
		"link.yaml":      {Data: []byte("osp-a.yaml"), Mode: fs.ModeSymlink},
		"big.yaml":       {Data: make([]byte, filter.MaxFileBytes+1)},
	}
	s, err := embedded(files).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range s.Files {
		got = append(got, f.Path+" "+f.Blob)
		data, err := s.Read(t.Context(), f.Blob)
		if err != nil || string(data) != string(f.Data) || f.Dirty {
			t.Errorf("%s: read %q (err %v), dirty %v", f.Path, data, err, f.Dirty)
		}
	}
	want := []string{ // blobs from git hash-object
		"profiles/osp-a.yaml 78981922613b2afb6025042ff6bd878ac1994e85",
		"profiles/osp-b.yaml 61780798228d17af2d34fce4cfbdf35556832472",
		"profiles/sub/osp-c.yml f2ad6c76f0115a6ba5b00456a849810e7ec0af20",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var refused []string
	for _, r := range s.Rejected {
		refused = append(refused, r.Path+": "+strings.SplitN(r.Reason, ":", 2)[0])
	}
	if diff := cmp.Diff([]string{"profiles/.git: odd name", "profiles/big.yaml: too big", "profiles/link.yaml: symlink"}, refused); diff != "" {
		t.Error(diff)
	}
	if hex, ok := strings.CutPrefix(s.Revision, "builtin@sha256:"); !ok || len(hex) != 64 {
		t.Errorf("revision %q", s.Revision)
	}
	if s.Head != "" || len(s.Line) > 0 || s.Repository != "https://git.example.com/ours" {
		t.Errorf("head %q, %d steps, repository %q", s.Head, len(s.Line), s.Repository)
	}
	if _, err := s.LastChange(t.Context(), "", "profiles/osp-a.yaml"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it has a change: %v", err)
	}
}

func TestEmbeddedRevisionIsThatOfNamesAndContents(t *testing.T) {
	revision := func(files fstest.MapFS) string {
		s, err := embedded(files).Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Revision
	}
	one := fstest.MapFS{"a.yaml": {Data: []byte("a")}, "README.md": {Data: []byte("one")}}
	if a, b := revision(one), revision(fstest.MapFS{"a.yaml": {Data: []byte("a")}, "README.md": {Data: []byte("two")}}); a != b {
		t.Errorf("a file that is no profile changed %s to %s", a, b)
	}
	for what, other := range map[string]fstest.MapFS{
		"content": {"a.yaml": {Data: []byte("b")}},
		"name":    {"b.yaml": {Data: []byte("a")}},
		"a file":  {"a.yaml": {Data: []byte("a")}, "b.yaml": {Data: []byte("a")}},
	} {
		if revision(one) == revision(other) {
			t.Errorf("another %s has the same revision", what)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := embedded(one).Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("read after the end: %v", err)
	}
}
