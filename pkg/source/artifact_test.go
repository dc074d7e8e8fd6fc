package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/blake3"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/artifact"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// tarGz returns an archive with these entries.
func tarGz(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range entries {
		content := h.PAXRecords["OSM.content"]
		delete(h.PAXRecords, "OSM.content")
		h.PAXRecords = nil
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarFile(name, content string) tar.Header {
	return tar.Header{Name: name, Mode: 0o644, PAXRecords: map[string]string{"OSM.content": content}}
}

// files is a file server like source-controller's.
type files struct {
	url      string
	requests atomic.Int64
	content  map[string][]byte
}

func newFiles(t testing.TB) *files {
	t.Helper()
	f := &files{content: map[string][]byte{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		data, ok := f.content[r.URL.Path]
		if !ok {
			http.Error(w, canary, http.StatusNotFound)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

// artifact serves an archive and returns its address.
func (f *files) artifact(data []byte) Artifact {
	f.content["/a.tar.gz"] = data
	return Artifact{
		URL: f.url + "/a.tar.gz", Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data)),
		Revision: "main@sha1:" + strings.Repeat("a", 40), Repository: "https://git.example.com/osps.git",
	}
}

// newArtifacts returns Artifacts that can download from one server.
func newArtifacts(t testing.TB, f *files) *Artifacts {
	t.Helper()
	return &Artifacts{Dir: t.TempDir(), Hosts: []string{strings.TrimPrefix(f.url, "http://")}, AllowedCIDRs: loopback}
}

func TestArtifact(t *testing.T) {
	f := newFiles(t)
	a := newArtifacts(t, f)
	from := f.artifact(tarGz(t,
		tarFile("profiles/z.yaml", "z: 1\n"),
		tar.Header{Name: "profiles/", Typeflag: tar.TypeDir, Mode: 0o755},
		tarFile("./profiles/team/b.yml", "b: 1\n"),
		tarFile("profiles/README.md", "# no profile\n"),
		tarFile("profiles/.hidden/c.yaml", "c: 1\n"),
		tarFile("profiles/draft/d.yaml", "d: 1\n"),
		tarFile("elsewhere/e.yaml", "e: 1\n"),
		tarFile("profiles/.osmignore", "draft\n"), // after what it ignores
	))
	from.Path, from.Ignore = "profiles", "z.*"
	got, err := a.Read(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	want := &Snapshot{
		Revision: from.Revision, Repository: from.Repository, Head: Commit(from.Revision),
		Files: []File{{Path: "profiles/team/b.yml", Data: []byte("b: 1\n"), Blob: got.Files[0].Blob}},
	}
	if diff := cmp.Diff(want, got, snapshots); diff != "" {
		t.Error(diff)
	}
	if data, err := got.Read(t.Context(), got.Files[0].Blob); err != nil || string(data) != "b: 1\n" {
		t.Errorf("got %q, %v", data, err)
	}
	from.Ignore, from.Commit, from.Repository = "", strings.Repeat("b", 40), "oci://user:"+canary+"@ghcr.io/org/osps?"+canary
	if got, err = a.Read(t.Context(), from); err != nil || len(got.Files) != 2 || string(got.Head) != from.Commit || got.Repository != "oci://ghcr.io/org/osps" {
		t.Errorf("got %+v, %v", got, err)
	}
	from.Path = "absent"
	_, err = a.Read(t.Context(), from)
	wantError(t, err, ErrNotFound, `path "absent" does not exist`)
	from.Path = "profiles/z.yaml"
	_, err = a.Read(t.Context(), from)
	wantError(t, err, ErrInvalid, "is not a folder")
	empty(t, a.Dir)
}

// empty checks that a folder has no files: downloads leave none behind (security.md 10).
func empty(t testing.TB, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%s holds %v, %v", dir, left, err)
	}
}

// Every digest algorithm that source-controller can be configured to use is verified.
func TestArtifactDigests(t *testing.T) {
	f := newFiles(t)
	a := newArtifacts(t, f)
	from := f.artifact(tarGz(t, tarFile("a.yaml", "a: 1\n")))
	data := f.content["/a.tar.gz"]
	for algorithm, sum := range map[string][]byte{
		"sha256": sum(sha256.New(), data), "sha384": sum(sha512.New384(), data), "sha512": sum(sha512.New(), data), "blake3": sum(blake3.New(), data),
	} {
		from.Digest = fmt.Sprintf("%s:%x", algorithm, sum)
		if got, err := a.Read(t.Context(), from); err != nil || len(got.Files) != 1 {
			t.Errorf("%s: %v", algorithm, err)
		}
		sum[0] ^= 1
		from.Digest = fmt.Sprintf("%s:%x", algorithm, sum)
		_, err := a.Read(t.Context(), from)
		wantError(t, err, ErrUnreachable, "sent content with the digest", "it was not read")
		from.Digest = fmt.Sprintf("%s:%x", algorithm, sum[1:])
		_, err = a.Read(t.Context(), from)
		wantError(t, err, ErrInvalid, "malformed")
	}
	empty(t, a.Dir)
}

func sum(h hash.Hash, data []byte) []byte {
	h.Write(data)
	return h.Sum(nil)
}

// Entries are read without unpacking, so none can write a file (security.md 10).
func TestHostileArchive(t *testing.T) {
	good := tarFile("ok.yaml", "ok: 1\n")
	whole := func(name string) string { return "entry " + name }
	for name, c := range map[string]struct {
		entry   tar.Header
		whole   string // why the archive is rejected
		entries string // why the entry is
	}{
		"a path upwards":           {tarFile("../evil.yaml", "x"), whole("../evil.yaml"), ""},
		"a path upwards, later":    {tarFile("a/../../evil.yaml", "x"), "\"..\"", ""},
		"an absolute path":         {tarFile("/etc/evil.yaml", "x"), "absolute", ""},
		"a backslash":              {tarFile(`..\evil.yaml`, "x"), "backslash", ""},
		"a symlink out":            {tar.Header{Name: "evil.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, "", "symlink"},
		"a symlinked folder":       {tar.Header{Name: "evil", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, "", "symlink"},
		"a hard link":              {tar.Header{Name: "evil.yaml", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, "", "hard link"},
		"a device":                 {tar.Header{Name: "evil.yaml", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 5}, "", "device"},
		"a pipe":                   {tar.Header{Name: "evil.yaml", Typeflag: tar.TypeFifo}, "", "device"},
		"a folder nobody may open": {tar.Header{Name: "evil/", Typeflag: tar.TypeDir, Mode: 0}, "", ""},
		"a .git":                   {tarFile(".git/evil.yaml", "x"), "", "odd name"},
		"a name with a colon":      {tarFile("evil.yaml:stream.yaml", "x"), "", "odd name"},
		"a name twice":             {tarFile("./ok.yaml", "x"), "", "two entries of this path"},
		"a file too big":           {tarFile("evil.yaml", strings.Repeat("x", filter.MaxFileBytes+1)), "", "too big"},
		"a path too deep":          {tarFile(strings.Repeat("a/", filter.MaxDepth+1)+"evil.yaml", "x"), "path", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t)
			a := newArtifacts(t, f)
			got, err := a.Read(t.Context(), f.artifact(tarGz(t, good, c.entry)))
			empty(t, a.Dir)
			if c.whole != "" {
				wantError(t, err, ErrInvalid, c.whole)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			twice := c.entries == "two entries of this path"
			if names := paths(got.Files); twice && len(names) > 0 || !twice && !slices.Equal(names, []string{"ok.yaml"}) {
				t.Errorf("got %v", names)
			}
			if c.entries == "" && len(got.Rejected) > 0 || c.entries != "" && (len(got.Rejected) != 1 || !strings.Contains(got.Rejected[0].Reason, c.entries)) {
				t.Errorf("refused: %+v, want %q", got.Rejected, c.entries)
			}
		})
	}
	t.Run("a bomb", func(t *testing.T) {
		f := newFiles(t)
		a := newArtifacts(t, f)
		a.limits = artifact.DefaultLimits()
		a.limits.Inflated = 8 << 20
		// Concatenated gzip files are one gzip file. Each of these has the same number of zeros.
		const piece = 1 << 20
		var head bytes.Buffer
		if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "bomb.txt", Typeflag: tar.TypeReg, Size: a.limits.Inflated + 1}); err != nil {
			t.Fatal(err)
		}
		bomb := append(zipped(t, head.Bytes()), bytes.Repeat(zipped(t, make([]byte, piece)), int(a.limits.Inflated/piece)+1)...)
		_, err := a.Read(t.Context(), f.artifact(bomb))
		wantError(t, err, ErrInvalid, "more than 8388608 bytes when decompressed")
		empty(t, a.Dir)
	})
	t.Run("more entries than anyone has", func(t *testing.T) {
		f := newFiles(t)
		a := newArtifacts(t, f)
		a.limits = artifact.DefaultLimits()
		a.limits.Entries = 100
		var entry bytes.Buffer
		if err := tar.NewWriter(&entry).WriteHeader(&tar.Header{Name: "d/", Typeflag: tar.TypeDir}); err != nil {
			t.Fatal(err)
		}
		_, err := a.Read(t.Context(), f.artifact(zipped(t, bytes.Repeat(entry.Bytes(), a.limits.Entries+1))))
		wantError(t, err, ErrInvalid, "more than 100 entries")
	})
	for name, data := range map[string][]byte{
		"no archive":          []byte("hello " + canary),
		"a gzip of something": zipped(t, []byte(strings.Repeat("hello ", 500))),
		"one cut short":       tarGz(t, good)[:60],
	} {
		t.Run(name, func(t *testing.T) {
			f := newFiles(t)
			a := newArtifacts(t, f)
			_, err := a.Read(t.Context(), f.artifact(data))
			wantError(t, err, ErrInvalid, "archive")
			empty(t, a.Dir)
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A user who can write the status of a Flux object cannot make the controller send requests
// to other hosts (security.md 9), and no error contains a server's response (security.md 14).
func TestArtifactIsNoWayIn(t *testing.T) {
	f := newFiles(t)
	good := f.artifact(tarGz(t, tarFile("a.yaml", "a: 1\n")))
	read := func(t *testing.T, a *Artifacts, change func(*Artifact)) error {
		t.Helper()
		from := good
		change(&from)
		before := f.requests.Load()
		_, err := a.Read(t.Context(), from)
		if err == nil {
			t.Fatal("it was read")
		}
		if f.requests.Load() != before {
			t.Error("the server was asked")
		}
		empty(t, a.Dir)
		return err
	}
	for name, address := range map[string]string{
		"a metadata service": "http://169.254.169.254/latest/meta-data/",
		"another host":       "http://git.example.com/a.tar.gz",
		"this machine":       "http://localhost:1/a.tar.gz",
		"a file":             "file:///etc/passwd",
		"user-info":          "http://user:" + canary + "@127.0.0.1/a.tar.gz",
		"no host":            "http:///a.tar.gz",
		"no URL":             "http://[" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			err := read(t, newArtifacts(t, f), func(from *Artifact) { from.URL = address })
			wantError(t, err, ErrInvalid, "")
		})
	}
	t.Run("an allowed name with a forbidden address", func(t *testing.T) {
		a := newArtifacts(t, f)
		a.AllowedCIDRs = nil
		wantError(t, read(t, a, func(*Artifact) {}), ErrInvalid, "loopback")
		a.Hosts = []string{"169.254.169.254"}
		wantError(t, read(t, a, func(from *Artifact) { from.URL = "http://169.254.169.254/a" }), ErrInvalid, "metadata service")
	})
	t.Run("another port than the allowed", func(t *testing.T) {
		a := newArtifacts(t, f)
		a.Hosts = []string{"127.0.0.1:1"}
		wantError(t, read(t, a, func(*Artifact) {}), ErrInvalid, "--artifact-hosts")
	})
	t.Run("a host without a port stands for the scheme's", func(t *testing.T) {
		a := newArtifacts(t, f)
		a.Hosts = []string{"127.0.0.1"}
		wantError(t, read(t, a, func(*Artifact) {}), ErrInvalid, "--artifact-hosts")
	})
	t.Run("no host is allowed", func(t *testing.T) {
		wantError(t, read(t, &Artifacts{Dir: t.TempDir(), AllowedCIDRs: loopback}, func(*Artifact) {}), ErrInvalid, "--artifact-hosts")
	})
	for name, digest := range map[string]string{
		"no digest": "", "half a digest": "sha256:abcd", "a weak digest": "md5:" + strings.Repeat("0", 32), "a digest in capitals": "sha256:" + strings.Repeat("A", 64),
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, read(t, newArtifacts(t, f), func(from *Artifact) { from.Digest = digest }), ErrInvalid, "digest")
		})
	}
	t.Run("a revision for a terminal", func(t *testing.T) {
		wantError(t, read(t, newArtifacts(t, f), func(from *Artifact) { from.Revision = "main\x1b[31m" }), ErrInvalid, "printable")
	})
	t.Run("paths that lead out", func(t *testing.T) { // security.md 13
		for _, path := range []string{"../x", "/etc", "a/../../x", `a\b`} {
			wantError(t, read(t, newArtifacts(t, f), func(from *Artifact) { from.Path = path }), ErrInvalid, "path")
		}
	})
}

func TestArtifactFaults(t *testing.T) {
	f := newFiles(t)
	a := newArtifacts(t, f)
	good := f.artifact(tarGz(t, tarFile("a.yaml", "a: 1\n")))
	t.Run("another content", func(t *testing.T) {
		from := good
		f.content["/other"] = tarGz(t, tarFile("a.yaml", "a: evil\n"))
		from.URL = f.url + "/other"
		_, err := a.Read(t.Context(), from)
		wantError(t, err, ErrUnreachable, "digest")
	})
	t.Run("gone", func(t *testing.T) {
		from := good
		from.URL = f.url + "/gone?token=" + canary
		_, err := a.Read(t.Context(), from)
		wantError(t, err, ErrUnreachable, "does not have it")
	})
	t.Run("a redirect, even to an allowed host", func(t *testing.T) {
		front := httptest.NewServer(http.RedirectHandler(good.URL+"?"+canary, http.StatusFound))
		defer front.Close()
		from := good
		a.Hosts = append(a.Hosts, strings.TrimPrefix(front.URL, "http://"))
		from.URL = front.URL + "/a.tar.gz"
		_, err := a.Read(t.Context(), from)
		wantError(t, err, ErrInvalid, "redirects")
	})
	t.Run("nobody there", func(t *testing.T) {
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		from := good
		a.Hosts = append(a.Hosts, strings.TrimPrefix(gone.URL, "http://"))
		from.URL = gone.URL + "/a?" + canary
		_, err := a.Read(t.Context(), from)
		wantError(t, err, ErrUnreachable, "refused")
	})
	t.Run("no end", func(t *testing.T) {
		a := newArtifacts(t, f)
		a.limits = artifact.DefaultLimits()
		a.limits.Bytes = 1 << 20
		var served atomic.Int64
		endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			n, _ := io.Copy(w, zeros{})
			served.Store(n)
		}))
		from := good
		a.Hosts = append(a.Hosts, strings.TrimPrefix(endless.URL, "http://"))
		from.URL = endless.URL
		_, err := a.Read(t.Context(), from)
		endless.Close()
		wantError(t, err, ErrInvalid, "more than 1048576 bytes")
		if n := served.Load(); n > 64<<20 { // includes what the kernel buffers
			t.Errorf("%d bytes were taken", n)
		}
	})
	empty(t, a.Dir)
}
