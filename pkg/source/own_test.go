package source

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// security.md 13: links at the path of a mirror, or inside it, are not followed. Neither they
// nor their targets are written to, and the result of a fetch is the same.
func TestPlantedLinks(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n", "noise.bin", noise(5000))
	remote := Remote{URL: s.push(r, "repo.git")}
	found := newMirrors(t)
	want := mustFetch(t, found, remote)
	id := filepath.Base(mirrorDir(t, found))
	for _, name := range []string{
		"", "HEAD", "config", "packed-refs", "packed-refs.new", "packed-refs.lock", "objects", "objects/pack", "refs",
		"incoming-", "incoming-0", "incoming-known_hosts-",
	} {
		for what, victim := range map[string]string{"a folder": "", "a file": "file", "nothing": "absent"} {
			t.Run("at "+id[:4]+"/"+name+" to "+what, func(t *testing.T) {
				m, outside := newMirrors(t), t.TempDir()
				if err := os.WriteFile(filepath.Join(outside, "file"), []byte("keep\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				link := filepath.Join(m.Dir, id, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(filepath.Join(outside, victim), link)); err != nil {
					t.Fatal(err)
				}
				// Fetch, fetch a new commit, and fetch with a new process.
				got := mustFetch(t, m, remote)
				got2 := mustFetch(t, &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback}, remote)
				if diff := cmp.Diff(want, got, snapshots) + cmp.Diff(want, got2, snapshots); diff != "" {
					t.Error(diff)
				}
				untouched(t, outside)
			})
		}
	}
}

// untouched checks that a folder has only its one file.
func untouched(t *testing.T, dir string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "file"))
	entries, err2 := os.ReadDir(dir)
	if err := errors.Join(err, err2); err != nil || string(data) != "keep\n" || len(entries) != 1 {
		t.Errorf("what the link leads to has %v, and %q (err %v)", entries, data, err)
	}
}

// security.md 13: a mirror that belongs to another user, or that other users can write to, is
// deleted and not written to.
func TestForeignMirror(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	for name, change := range map[string]func(dir string) error{
		"everyone may write to it": func(dir string) error { return os.Chmod(dir, 0o777) },
		"another user's":           func(dir string) error { return os.Chown(dir, 4711, 4711) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another user's" && os.Geteuid() != 0 {
				t.Skip("only root can give a folder to another user")
			}
			m := newMirrors(t)
			want := mustFetch(t, m, remote)
			dir := mirrorDir(t, m)
			planted := filepath.Join(dir, "planted")
			if err := errors.Join(os.WriteFile(planted, nil, 0o600), change(dir)); err != nil {
				t.Fatal(err)
			}
			next := &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback}
			if diff := cmp.Diff(want, mustFetch(t, next, remote), snapshots); diff != "" {
				t.Error(diff)
			}
			if pathExists(planted) {
				t.Error("what was in it is still there")
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("it has mode %v (err %v)", info.Mode(), err)
			}
			if requests, _ := s.cost(func() { mustFetch(t, next, remote) }); requests != 1 {
				t.Errorf("once it is made again an unchanged remote takes %d requests", requests)
			}
		})
	}
}

// security.md 13: the same for the folder of all mirrors.
func TestForeignFolder(t *testing.T) {
	t.Run("another user's", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can give a folder to another user")
		}
		m := newMirrors(t)
		if err := os.Chown(m.Dir, 4711, 4711); err != nil {
			t.Fatal(err)
		}
		_, err := m.Lock()
		wantError(t, err, ErrInvalid, m.Dir, "belongs to user 4711", "name a folder of user 0")
	})
	t.Run("a lock that is a link", func(t *testing.T) {
		m, outside := newMirrors(t), t.TempDir()
		victim := filepath.Join(outside, "file")
		if err := errors.Join(os.WriteFile(victim, []byte("keep\n"), 0o600), os.Symlink(victim, filepath.Join(m.Dir, lockName))); err != nil {
			t.Fatal(err)
		}
		_, err := m.Lock()
		wantError(t, err, ErrInvalid, "is a symlink", "delete it")
		untouched(t, outside)
	})
}

// security.md 13: the temporary folder of each fetch has a different name, and only the user
// of the process can read it. An archive of Flux has no name at all.
func TestTemporaryNames(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	m := newMirrors(t)
	names := map[string]bool{}
	proxy := proxyTo(t, s.proxy.URL)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.HasSuffix(req.URL.Path, "/git-upload-pack") {
			for _, dir := range globbed(t, m.Dir, "*/incoming-*") {
				names[filepath.Base(dir)] = true
				if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("%s has mode %v (err %v)", dir, info.Mode(), err)
				}
			}
		}
		proxy.ServeHTTP(w, req)
	}))
	defer server.Close()
	const fetches = 5
	for range fetches {
		mustFetch(t, m, Remote{URL: server.URL + "/repo.git"})
		if err := m.DeleteUnused(0); err != nil {
			t.Fatal(err)
		}
	}
	if len(names) != fetches {
		t.Errorf("%d fetches wrote into %v", fetches, names)
	}

	archive := tarGz(t, tarFile("a.yaml", "a: 1\n"))
	served := 0
	var a *Artifacts
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		empty(t, a.Dir)
		_, _ = w.Write(archive)
	}))
	defer server.Close()
	a = newArtifacts(t, &files{url: server.URL})
	from := newFiles(t).artifact(archive)
	from.URL = server.URL + "/a.tar.gz"
	if _, err := a.Read(t.Context(), from); err != nil || served != 1 {
		t.Errorf("%d downloads: %v", served, err)
	}
}
