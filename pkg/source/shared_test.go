package source

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A hundred sources of one repository send one request in an interval, fetch once, and get
// the same snapshots as they would alone.
func TestSourcesShareOneFetch(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("team-0/a.yaml", "a: 1\n", "team-1/b.yaml", "b: 1\n")
	url := s.push(r, "repo.git")
	all := func(maxAge time.Duration) []*Snapshot {
		got := make([]*Snapshot, 100)
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() {
				var err error
				if got[i], err = m.Fetch(t.Context(), Remote{URL: url, Path: fmt.Sprintf("team-%d", i%2), MaxAge: maxAge}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			t.FailNow()
		}
		return got
	}

	requests, _ := s.cost(func() { all(time.Hour) })
	if requests != 2 { // references and one pack
		t.Errorf("the first interval took %d requests", requests)
	}
	pushed := r.commit("team-1/b.yaml", "b: 2\n")
	s.push(r, "repo.git")
	requests, _ = s.cost(func() {
		if got := all(time.Hour); got[0].Head == pushed {
			t.Error("nobody asked, and still a push was seen")
		}
	})
	if requests != 0 {
		t.Errorf("within the interval there were %d requests", requests)
	}
	// One of them is reconciled on request, and all others use its references.
	var requested *Snapshot
	before := time.Now()
	requests, _ = s.cost(func() { requested = mustFetch(t, m, Remote{URL: url, Path: "team-1"}) })
	if requests != 2 || requested.Head != pushed || requested.RequestedAt.Before(before) {
		t.Errorf("a look that was asked for took %d requests, found %s and says it is of %s", requests, requested.Head, requested.RequestedAt)
	}
	requests, _ = s.cost(func() {
		for i, got := range all(time.Hour) {
			if got.Head != pushed || !got.RequestedAt.Equal(requested.RequestedAt) {
				t.Errorf("source %d sees %s of %s", i, got.Head, got.RequestedAt)
			}
		}
	})
	if requests != 0 {
		t.Errorf("what one source was requested cost the others %d requests", requests)
	}
	// References that a source has already used are not used for it again.
	requests, _ = s.cost(func() {
		mustFetch(t, m, Remote{URL: url, Path: "team-1", MaxAge: time.Hour, LastFetched: requested.RequestedAt})
	})
	if requests != 1 {
		t.Errorf("a source that had the answer already made %d requests", requests)
	}
	// After the interval, one source sends a request.
	time.Sleep(50 * time.Millisecond)                                                               // ages of references are of real time
	if requests, _ = s.cost(func() { all(50 * time.Millisecond) }); requests < 1 || requests > 10 { // up to ten, on a slow machine
		t.Errorf("the next interval took %d requests", requests)
	}
}

// A fetch that waits for another one uses its references even without MaxAge, because they
// are not older than the call. One push that triggers a hundred reconciliations thus causes
// few requests.
func TestFetchesThatWaitShare(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	url := s.push(r, "repo.git")
	var mirror *sharedMirror
	mustFetch(t, m, Remote{URL: url})
	for _, mirror = range m.open {
	}
	pushed := r.commit("a.yaml", "a: 2\n")
	s.push(r, "repo.git")
	if err := mirror.idle.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	var begun, done sync.WaitGroup
	for range 100 {
		begun.Add(1)
		done.Go(func() {
			begun.Done()
			if got, err := m.Fetch(t.Context(), Remote{URL: url}); err != nil || got.Head != pushed {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	begun.Wait()
	time.Sleep(100 * time.Millisecond) // until all of them wait; one that does not sends a request of its own
	requests, _ := s.cost(func() {
		mirror.idle.Release(1)
		done.Wait()
	})
	if requests < 2 || requests > 20 {
		t.Errorf("100 fetches that waited took %d requests", requests)
	}
}

// Cached references never hide a reference that was created since.
func TestSharedAnswerIsNotEnough(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	url := s.push(r, "repo.git")
	mustFetch(t, m, Remote{URL: url})
	r.git("checkout", "--quiet", "-b", "later")
	later := r.commit("a.yaml", "a: 2\n")
	s.push(r, "repo.git")
	for name, remote := range map[string]Remote{
		"a branch that came later": {URL: url, Branch: "later", MaxAge: time.Hour},
		"a commit that came later": {URL: url, Commit: later, MaxAge: time.Hour},
	} {
		if got := mustFetch(t, m, remote); got.Head != later {
			t.Errorf("%s: got %s", name, got.Head)
		}
	}
	_, err := m.Fetch(t.Context(), Remote{URL: url, Branch: "none", MaxAge: time.Hour})
	wantError(t, err, ErrNotFound, `"later"`)
}

// Only one source waits for a server that is down.
func TestSourcesShareAFailure(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	var down atomic.Bool
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		asked.Add(1)
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		proxyTo(t, s.proxy.URL).ServeHTTP(w, req)
	}))
	defer server.Close()
	remote := Remote{URL: server.URL + "/repo.git", MaxFailureAge: time.Hour}
	mustFetch(t, m, remote)
	down.Store(true)
	asked.Store(0)
	for range 10 {
		_, err := m.Fetch(t.Context(), remote)
		wantError(t, err, ErrUnreachable, "503", server.URL)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("ten sources asked %d times", n)
	}
	// A source that is reconciled on request sends a request, and the others then use its
	// references.
	down.Store(false)
	mustFetch(t, m, Remote{URL: remote.URL})
	asked.Store(0)
	remote.MaxAge = time.Hour
	mustFetch(t, m, remote)
	if n := asked.Load(); n != 0 {
		t.Errorf("the next source asked %d times", n)
	}
}

// An error about a commit of one branch is not used for another branch, and a timeout not for
// a source with a longer timeout.
func TestSourcesShareOnlyTheirOwnFailure(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	var packs atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && packs.Add(1) > 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxyTo(t, s.proxy.URL).ServeHTTP(w, req)
	}))
	defer server.Close()
	main := Remote{URL: server.URL + "/repo.git", MaxAge: time.Hour, MaxFailureAge: time.Hour, Timeout: time.Minute}
	mustFetch(t, m, main)
	r.git("checkout", "--quiet", "-b", "big")
	r.commit("a.yaml", "a: 2\n")
	s.push(r, "repo.git")
	big := main
	big.Branch = "big"
	for range 10 {
		_, err := m.Fetch(t.Context(), big)
		wantError(t, err, ErrUnreachable, "502")
	}
	if n := packs.Load(); n != 2 {
		t.Errorf("ten sources of the branch asked for %d packs", n-1)
	}
	mustFetch(t, m, main)
	mustFetch(t, m, Remote{URL: main.URL, MaxFailureAge: time.Hour})

	patient := big
	patient.Timeout = 2 * time.Minute
	_, err := m.Fetch(t.Context(), patient)
	wantError(t, err, ErrUnreachable, "502")
	if n := packs.Load(); n != 3 {
		t.Errorf("a source with more time asked for %d packs", n-2)
	}
}

// Only one source of an app waits for GitHub, too.
func TestSourcesShareATokenThatIsNotGiven(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	app, err := ParseGitHubApp(GitHubAppSecret{ID: "1", InstallationID: "2", PrivateKey: newRSA(t), BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	m := newMirrors(t)
	for range 10 {
		_, err := m.Fetch(t.Context(), Remote{URL: "https://127.0.0.1:1/repo.git", Auth: app, MaxFailureAge: time.Hour})
		wantError(t, err, ErrUnreachable, "phase token", "503")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("ten sources asked %d times", n)
	}
}

// Operations that take much memory wait for others, at most until their context ends.
func TestTurns(t *testing.T) {
	var work memoryLimiter
	var last func()
	for range maxConcurrent {
		done, err := work.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last = done
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := work.acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("one more than %d got its turn: %v", maxConcurrent, err)
	}
	last()
	if _, err := work.acquire(t.Context()); err != nil {
		t.Error(err)
	}
}
