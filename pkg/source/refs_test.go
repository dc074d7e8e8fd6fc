package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pushAll makes the references on the server those of the repository.
func (s *server) pushAll(r *repo, name string) string {
	s.t.Helper()
	bare := s.path(name)
	if !pathExists(bare) {
		git(s.t, s.git.Root(), "init", "--quiet", "--bare", "--initial-branch=main", bare)
	}
	refs := filepath.Join(bare, "refs") // of which those that the repository lacks must go
	if err := errors.Join(os.RemoveAll(refs), os.Mkdir(refs, 0o755)); err != nil {
		s.t.Fatal(err)
	}
	r.Push(bare, "refs")
	return s.url(name)
}

// releases returns a repository with two release branches.
func releases(t testing.TB) *repo {
	r := newRepo(t)
	r.commit("profiles/a.yaml", "1\n")
	r.git("tag", "v1.0.0")
	r.commit("profiles/a.yaml", "2\n")
	r.git("tag", "--annotate", "--message=1.1", "v1.1.0")
	r.git("tag", "--annotate", "--message=nested", "stable", "v1.1.0")
	r.git("checkout", "--quiet", "-b", "release-1.1")
	r.commit("profiles/a.yaml", "3\n")
	r.git("tag", "--annotate", "--message=1.1.1", "1.1.1")
	r.git("checkout", "--quiet", "main")
	r.commit("profiles/a.yaml", "4\n")
	r.git("tag", "v2.0.0-rc.1")
	r.git("tag", "v2")
	r.git("tag", "nightly-9.9.9")
	r.git("update-ref", "refs/pull/420/head", "release-1.1")
	r.git("update-ref", "refs/tags/tree", r.git("rev-parse", "HEAD^{tree}"))
	return r
}

func TestFollowsEveryKindOfReference(t *testing.T) {
	r, s := releases(t), newServer(t)
	s.pushAll(r, "osps.git")
	url := s.url("osps.git")
	shared := newMirrors(t)
	for name, c := range map[string]struct {
		of        Remote
		to        string // the revision for git
		revision  string // before the @
		reference string
	}{
		"the default":             {Remote{}, "main", "main@", "refs/heads/main"},
		"a branch":                {Remote{Branch: "release-1.1"}, "release-1.1", "release-1.1@", "refs/heads/release-1.1"},
		"a lightweight tag":       {Remote{Tag: "v1.0.0"}, "v1.0.0", "v1.0.0@", "refs/tags/v1.0.0"},
		"an annotated tag":        {Remote{Tag: "v1.1.0"}, "v1.1.0", "v1.1.0@", "refs/tags/v1.1.0"},
		"a tag of a tag":          {Remote{Tag: "stable"}, "v1.1.0", "stable@", "refs/tags/stable"},
		"the highest of a range":  {Remote{SemVer: "1.x"}, "1.1.1", "1.1.1@", "refs/tags/1.1.1"},
		"the highest of another":  {Remote{SemVer: "~1.0"}, "v1.0.0", "v1.0.0@", "refs/tags/v1.0.0"},
		"not a pre-release":       {Remote{SemVer: ">=1.0.0"}, "1.1.1", "1.1.1@", "refs/tags/1.1.1"},
		"a pre-release, asked":    {Remote{SemVer: ">=1.0.0-0"}, "v2.0.0-rc.1", "v2.0.0-rc.1@", "refs/tags/v2.0.0-rc.1"},
		"one version":             {Remote{SemVer: "1.1.0"}, "v1.1.0", "v1.1.0@", "refs/tags/v1.1.0"},
		"one of two":              {Remote{SemVer: "1.0.0 || 1.1.0"}, "v1.1.0", "v1.1.0@", "refs/tags/v1.1.0"},
		"a reference":             {Remote{Name: "refs/pull/420/head"}, "release-1.1", "refs/pull/420/head@", "refs/pull/420/head"},
		"a branch as a reference": {Remote{Name: "refs/heads/main"}, "main", "refs/heads/main@", "refs/heads/main"},
		"a tag as a reference":    {Remote{Name: "refs/tags/v1.1.0"}, "v1.1.0", "refs/tags/v1.1.0@", "refs/tags/v1.1.0"},
		"a commit":                {Remote{Commit: Commit(r.git("rev-parse", "v1.1.0^{commit}"))}, "v1.1.0", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			want := r.git("rev-parse", c.to+"^{commit}")
			c.of.URL, c.of.Path = url, "profiles"
			for where, m := range map[string]*Mirrors{"a mirror of its own": newMirrors(t), "one for all": shared} {
				got := mustFetch(t, m, c.of)
				if string(got.Head) != want || got.Revision != c.revision+"sha1:"+want || got.Reference != c.reference {
					t.Fatalf("%s: %s by %q, want %s", where, got.Revision, got.Reference, want)
				}
				commit := mustFetch(t, m, Remote{URL: url, Path: "profiles", Commit: Commit(want)})
				if diff := cmp.Diff(commit.Line, got.Line); diff != "" || len(got.Line) == 0 {
					t.Errorf("%s: its line is not that of the commit: %s", where, diff)
				}
				requests, _ := s.cost(func() { mustFetch(t, m, c.of) })
				if requests != 1 {
					t.Errorf("%s: %d requests when nothing changed", where, requests)
				}
			}
		})
	}
	t.Run("a new release", func(t *testing.T) {
		m := newMirrors(t)
		of := Remote{URL: url, SemVer: "1.x"}
		mustFetch(t, m, of)
		r.git("tag", "--annotate", "--message=1.2", "v1.2.0", "main")
		s.pushAll(r, "osps.git")
		if got := mustFetch(t, m, of); !strings.HasPrefix(got.Revision, "v1.2.0@") || got.tag.IsZero() {
			t.Errorf("it is at %s", got.Revision)
		}
		// A tag that is created after its commit was fetched is fetched later.
		r.git("tag", "--annotate", "--message=1.3", "v1.3.0", "main")
		s.pushAll(r, "osps.git")
		var got *Snapshot
		requests, bytes := s.cost(func() { got = mustFetch(t, m, of) })
		if !strings.HasPrefix(got.Revision, "v1.3.0@") || !got.objects.CurrentObjects().Has(got.tag) {
			t.Errorf("it is at %s", got.Revision)
		}
		if requests != 2 {
			t.Errorf("a tag cost %d requests and %d bytes: the mirror was fetched anew", requests, bytes)
		}
		r.git("tag", "--delete", "v1.3.0", "v1.2.0")
		s.pushAll(r, "osps.git")
		if got := mustFetch(t, m, of); !strings.HasPrefix(got.Revision, "1.1.1@") {
			t.Errorf("after the tags went it is at %s", got.Revision)
		}
	})
}

func TestReferencesThatAreNotThere(t *testing.T) {
	r, s := releases(t), newServer(t)
	for i := range 20 {
		r.git("branch", fmt.Sprintf("team-%02d", i))
	}
	few := newRepo(t)
	few.commit("a.yaml", "1\n")
	few.git("tag", "nightly")
	urls := map[string]string{"many": s.pushAll(r, "many.git"), "few": s.pushAll(few, "few.git")}
	m := newMirrors(t)
	for name, c := range map[string]struct {
		of   Remote
		kind error
		says string
	}{
		"a branch":             {Remote{URL: "many", Branch: "mian"}, ErrNotFound, `fetching branch mian of `},
		"its neighbours":       {Remote{URL: "many", Branch: "mian"}, ErrNotFound, `has no such branch; the nearest of 22 others are "main", "team-`},
		"a tag":                {Remote{URL: "many", Tag: "v1.0.1"}, ErrNotFound, `no such tag; it has "1.1.1", "nightly-9.9.9", "stable", "tree", "v1.0.0", "v1.1.0", "v2", "v2.0.0-rc.1"`},
		"one of few":           {Remote{URL: "few", Branch: "master"}, ErrNotFound, `no such branch; it has "main"`},
		"a reference":          {Remote{URL: "many", Name: "refs/pull/42/head"}, ErrNotFound, `others are "refs/pull/420/head"`},
		"a range":              {Remote{URL: "many", SemVer: ">=2.0.0"}, ErrNotFound, `no tag is in the range; the highest of 4 tags that are versions are "v2.0.0-rc.1", "1.1.1", "v1.1.0", "v1.0.0"; a pre-release counts only`},
		"a range of nothing":   {Remote{URL: "few", SemVer: "*"}, ErrNotFound, `no tag that is a version such as v1.2.3; it has "nightly"`},
		"a tag that is a tree": {Remote{URL: "many", Tag: "tree"}, ErrInvalid, "is a tree, but must be a commit"},
		"no range":             {Remote{URL: "many", SemVer: "latest"}, ErrInvalid, `invalid range of tags "latest"`},
		"two":                  {Remote{URL: "many", Tag: "v1.0.0", Branch: "main"}, ErrInvalid, "set only one"},
		"a branch as a path":   {Remote{URL: "many", Branch: "../../config"}, ErrInvalid, "not a name that Git allows"}, // security.md 4
		"a tag as a path":      {Remote{URL: "many", Tag: "../../config"}, ErrInvalid, "not a name that Git allows"},    // security.md 4
		"a name as a path":     {Remote{URL: "many", Name: "refs/../config"}, ErrInvalid, "not a name that Git allows"}, // security.md 4
		"no full name":         {Remote{URL: "many", Name: "main"}, ErrInvalid, "not a name that Git allows"},
		"escapes":              {Remote{URL: "many", Tag: "a\x1b[31m"}, ErrInvalid, `tag "a\x1b[31m"`}, // security.md 28
	} {
		t.Run(name, func(t *testing.T) {
			c.of.URL = urls[c.of.URL]
			_, err := m.Fetch(t.Context(), c.of)
			wantError(t, err, c.kind, c.says)
			if err != nil && strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("%q holds an escape", err)
			}
		})
	}
}

// A server that names another commit than the tag object does is rejected.
func TestTagOfAnotherCommit(t *testing.T) {
	r, s := releases(t), newServer(t)
	s.pushAll(r, "osps.git")
	was, is := r.git("rev-parse", "v1.1.0^{commit}"), r.git("rev-parse", "v1.0.0")
	to, err := url.Parse(s.proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := reverseProxy(to)
	proxy.ModifyResponse = func(res *http.Response) error {
		if !strings.HasSuffix(res.Request.URL.Path, "/info/refs") {
			return nil
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		old, lie := was+" refs/tags/v1.1.0^{}", is+" refs/tags/v1.1.0^{}"
		if !bytes.Contains(body, []byte(old)) {
			t.Errorf("the server names no peeled tag: %q", body)
		}
		res.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(old), []byte(lie))))
		return nil
	}
	liar := httptest.NewServer(proxy)
	t.Cleanup(liar.Close)
	_, err = newMirrors(t).Fetch(t.Context(), Remote{URL: liar.URL + "/osps.git", Tag: "v1.1.0"})
	wantError(t, err, ErrInvalid, "its tag object names "+was)
}

// The error for a repository with SHA-256 ids on a real server.
func TestRepositoryWithSHA256(t *testing.T) {
	r, s := repoAt(t, t.TempDir()), newServer(t)
	r.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
	r.write("a.yaml", "1\n")
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message=one")
	git(t, s.git.Root(), "clone", "--quiet", "--bare", r.Dir, s.path("osps.git"))
	for _, of := range []Remote{{}, {SemVer: "*"}, {Tag: "v1.0.0"}} {
		of.URL = s.url("osps.git")
		_, err := newMirrors(t).Fetch(t.Context(), of)
		wantError(t, err, ErrUnsupported, "uses SHA-256 object ids; only SHA-1 is supported")
	}
}
