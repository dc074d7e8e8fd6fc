package profilesource

import (
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// A hundred ProfileSources of one repository send one request per interval to its server. A
// source with the annotation that requests a reconciliation, or with another spec, sends
// its own.
func TestSourcesOfOneRepositoryAskOnce(t *testing.T) {
	const sources, interval = 100, 10 * time.Minute
	c := cluster.Shared(t)
	cl, namespace := c.Client(t), c.Namespace(t)
	url, requests := gitServer(t)
	r := &Reconciler{Client: cl, Live: cl, Recorder: events.NewFakeRecorder(10 * sources), Fetcher: &fetcher.Fetcher{Client: cl, Live: cl, Git: &source.Mirrors{
		Dir: t.TempDir(), AllowInsecure: true, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}}
	key := func(i int) client.ObjectKey {
		return client.ObjectKey{Namespace: namespace, Name: fmt.Sprintf("source-%d", i)}
	}
	for i := range sources {
		ps := &api.ProfileSource{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: key(i).Name},
			Spec: api.ProfileSourceSpec{
				Git: &api.GitSource{URL: url, Timeout: metav1.Duration{Duration: time.Minute}}, Path: fmt.Sprintf("team-%d", i%2),
				Interval: metav1.Duration{Duration: interval}, RetryInterval: metav1.Duration{Duration: time.Minute},
			},
		}
		if err := cl.Create(t.Context(), ps); err != nil {
			t.Fatal(err)
		}
	}
	look := func(i int) (*api.ProfileSource, time.Duration) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key(i)})
		if err != nil {
			t.Fatal(err)
		}
		var ps api.ProfileSource
		if err := cl.Get(t.Context(), key(i), &ps); err != nil {
			t.Fatal(err)
		}
		return &ps, result.RequeueAfter
	}
	asked := func(what string, want int64, f func()) {
		t.Helper()
		before := requests.Load()
		f()
		if got := requests.Load() - before; got != want {
			t.Errorf("%s: the server was asked %d times, not %d", what, got, want)
		}
	}

	asked("each at its first look", sources+1, func() { // and one pack
		for i := range sources {
			ps, _ := look(i)
			if !apimeta.IsStatusConditionTrue(ps.Status.Conditions, meta.ReadyCondition) {
				t.Fatalf("%s: %+v", ps.Name, ps.Status.Conditions)
			}
		}
	})
	asked("all within the next interval", 1, func() {
		for i := range sources {
			if _, next := look(i); next > interval+interval/10 {
				t.Errorf("source %d looks again in %s only", i, next)
			}
		}
	})
	asked("one that was told to look", 1, func() {
		var ps api.ProfileSource
		if err := cl.Get(t.Context(), key(7), &ps); err != nil {
			t.Fatal(err)
		}
		ps.Annotations = map[string]string{meta.ReconcileRequestAnnotation: "now"}
		if err := cl.Update(t.Context(), &ps); err != nil {
			t.Fatal(err)
		}
		look(7)
		look(9)
	})
	asked("one with another spec", 1, func() {
		var ps api.ProfileSource
		if err := cl.Get(t.Context(), key(8), &ps); err != nil {
			t.Fatal(err)
		}
		ps.Spec.Path = "team-1"
		if err := cl.Update(t.Context(), &ps); err != nil {
			t.Fatal(err)
		}
		look(8)
		look(9)
	})
}

// The time until the next reconciliation counts from the last request to the server.
func TestUntilNext(t *testing.T) {
	for name, c := range map[string]struct {
		asked    time.Time
		min, max time.Duration
	}{
		"nobody was asked":           {time.Time{}, time.Hour, time.Hour},
		"asked a quarter hour ago":   {time.Now().Add(-15 * time.Minute), 44 * time.Minute, 45 * time.Minute},
		"asked longer ago than that": {time.Now().Add(-2 * time.Hour), time.Second, time.Second},
	} {
		if got := untilNext(time.Hour, c.asked); got < c.min || got > c.max {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// gitServer serves a repository with two empty teams, and counts requests.
func gitServer(t *testing.T) (url string, requests *atomic.Int64) {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	git := func(args ...string) string { return gittest.Git(t, dir, args...) }
	git("init", "--quiet", "--initial-branch=main", work)
	for _, team := range []string{"team-0", "team-1"} {
		if err := os.MkdirAll(filepath.Join(work, team), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, team, "README.md"), []byte("nothing yet\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("-C", work, "add", ".")
	git("-C", work, "commit", "--quiet", "--message=begin")
	git("clone", "--quiet", "--bare", work, "repo.git")
	backend := &cgi.Handler{
		Path: filepath.Join(git("--exec-path"), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	}
	requests = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests.Add(1)
		backend.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/repo.git", requests
}
