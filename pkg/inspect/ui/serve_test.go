package ui

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/view"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
	"github.com/osm-gitops/osm-gitops/test/slow"
)

// served is a server with a cluster of the given objects.
func served(o fleet.Objects) *Server {
	clock := clocktesting.NewFakeClock(fleetfixture.Noon)
	read := func(context.Context) (fleet.Objects, error) { return o, nil }
	return &Server{Snapshots: &fleet.Snapshots{Read: read, Clock: clock, Fresh: time.Second, Stale: time.Second}, Clock: clock, Version: "v0.0.0"}
}

func ask(s *Server, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "localhost:8087"
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func TestServe(t *testing.T) {
	s := served(fleetfixture.World())
	for name, c := range map[string]struct {
		method, target string
		header         []string
		status         int
		says           string
	}{
		"the fleet":               {"GET", "/", nil, 200, "web-eu"},
		"filtered":                {"GET", "/?q=us&state=Rejected", nil, 200, "web-us"},
		"changes":                 {"GET", "/changes?q=ada", nil, 200, "osp-web v1.0.0"},
		"nodes":                   {"GET", "/nodes?state=behind", nil, 200, "eu-2"},
		"profiles":                {"GET", "/profiles", nil, 200, "/profiles/osp-web"},
		"a profile":               {"GET", "/profiles/osp-web", nil, 200, "v1.1.0"},
		"no profile":              {"GET", "/profiles/nothing", nil, 404, "Profile nothing not found"},
		"rollouts":                {"GET", "/rollouts", nil, 200, "spec.rollout.gate"},
		"sources":                 {"GET", "/sources", nil, 200, "https://git.example.com/platform/osps.git"},
		"a pool":                  {"GET", "/pools/shop/web-eu", nil, 200, "eu-1"},
		"no pool":                 {"GET", "/pools/shop/nothing", nil, 404, "Pool shop/nothing not found"},
		"half a pool":             {"GET", "/pools/shop", nil, 404, "Page "},
		"no commit":               {"GET", "/commits/ffffffffff", nil, 404, "No version of a profile"},
		"a node of no name":       {"GET", "/nodes/%2e%2e", nil, 404, "Page "},
		"a node of another one":   {"GET", "/nodes/a%25b?verify=1", nil, 404, "Page "},
		"a record of no name":     {"GET", "/nodes/a?record=..%2Fpools", nil, 404, "NodeProvenance ../pools not found"},
		"no page":                 {"GET", "/../etc/passwd", nil, 404, "Page "},
		"only the head":           {"HEAD", "/", nil, 200, ""},
		"what would write":        {"POST", "/", nil, 405, "Pages are read-only"},
		"by an address":           {"GET", "/", []string{"Host", "127.0.0.1:9"}, 200, "web-eu"},
		"by an address of IPv6":   {"GET", "/", []string{"Host", "[::1]:9"}, 200, "web-eu"},
		"by a stranger's name":    {"GET", "/", []string{"Host", "attacker.example.com"}, 421, "name of this machine"},
		"by a name that looks so": {"GET", "/", []string{"Host", "localhost.attacker.example.com:8087"}, 421, "name of this machine"},
		"a page of no number":     {"GET", "/?page=abc", nil, 200, "web-eu"},
		"the style sheet":         {"GET", styleLink, nil, 200, "color-scheme"},
		"another style sheet":     {"GET", "/assets/000000000000/style.css", nil, 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(s, c.method, c.target, c.header...)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || c.method == "HEAD" && w.Body.Len() != 0 {
				t.Errorf("got %d\n%.1500s", w.Code, w.Body)
			}
			csp := w.Header().Get("Content-Security-Policy")
			if !strings.HasPrefix(csp, "default-src 'none'; style-src 'self';") || strings.Contains(csp, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("its headers are %v", w.Header())
			}
		})
	}
}

// With the Accept header, programs get the same content as JSON.
func TestJSON(t *testing.T) {
	s := served(fleetfixture.World())
	for accept, want := range map[string]bool{
		"application/json": true, "application/json, text/plain;q=0.5": true, "Application/JSON; charset=utf-8": true,
		"": false, "*/*": false, "text/html,application/xhtml+xml,*/*;q=0.8": false, "text/html, application/json": false,
	} {
		w := ask(s, "GET", "/", "Accept", accept)
		if got := w.Header().Get("Content-Type") == "application/json"; got != want {
			t.Errorf("%q gets %s", accept, w.Header().Get("Content-Type"))
		}
	}
	var fleet view.Fleet
	if err := json.Unmarshal(ask(s, "GET", "/", "Accept", "application/json").Body.Bytes(), &fleet); err != nil || fleet.Kind != "Fleet" || fleet.Nodes.Total != 6 || len(fleet.Items) != 4 || !fleet.AsOf.Equal(fleetfixture.Noon) {
		t.Errorf("got %+v (err %v)", fleet, err)
	}
	var failure Failure
	if err := json.Unmarshal(ask(s, "GET", "/nothing", "Accept", "application/json").Body.Bytes(), &failure); err != nil || failure.Kind != "Error" || failure.Status != 404 {
		t.Errorf("got %+v (err %v)", failure, err)
	}
}

// Untrusted text is escaped in HTML and in JSON (security.md 28).
func TestHostilePages(t *testing.T) {
	const markup = `<script>alert(1)</script>`
	long := strings.Repeat("y", 40_000)
	o := fleetfixture.World()
	for i := range o.Profiles {
		o.Profiles[i].Annotations["gitops.k8c.io/author"] = "\x1b]0;owned\x07" + markup + "\u202e" + long
		o.Profiles[i].Annotations["gitops.k8c.io/subject"] = markup + "\x1b[31m" + long
		o.Profiles[i].Annotations["gitops.k8c.io/path"] = `"><img src=x onerror=alert(1)>` + long
	}
	o.Sources[0].Status.Conditions[0].Status = "False"
	o.Sources[0].Status.Conditions[0].Message = markup + "\x1b[31m" + long
	o.Configs[1].Annotations[api.AnnotationRefused] = markup + "\u009b31m" + long
	o.Sources[0].Status.LastAttemptedRevision = "main@sha1:" + markup
	o.Sources[0].Status.Rollouts = []api.RolloutStatus{{Profile: "osp-web", Message: markup + "\u202e" + long}}
	s := served(o)
	for _, target := range []string{"/", "/changes", "/nodes?q=%3Cscript%3E", "/profiles/osp-web", "/rollouts", "/sources", "/pools/shop/web-eu", "/pools/shop/web-us", "/search?q=osp", "/search?q=%3Cscript%3Ealert(1)%3C/script%3E%1b", "/?q=%3Cscript%3Ealert(1)%3C/script%3E", "/%3Cscript%3Ealert(1)%3C/script%3E%1b"} {
		for _, accept := range []string{"text/html", "application/json"} {
			body := ask(s, "GET", target, "Accept", accept).Body.String()
			if strings.Contains(body, "<script") || strings.Contains(body, "<img") || strings.ContainsAny(body, "\x1b\x07\u202e\u009b") {
				t.Errorf("%s as %s holds what does something:\n%.2000s", target, accept, body)
			}
			if !strings.Contains(body, "script") || len(body) > 100_000 {
				t.Errorf("%s as %s has %d bytes:\n%.2000s", target, accept, len(body), body)
			}
		}
	}
}

// An unreachable cluster is reported; an earlier model is shown for a while.
func TestSnapshots(t *testing.T) {
	clock := clocktesting.NewFakeClock(fleetfixture.Noon)
	var reads atomic.Int64
	var fail atomic.Bool
	done := make(chan struct{}, 100)
	s := &fleet.Snapshots{Clock: clock, Fresh: time.Second, Wait: time.Second, Stale: time.Minute, Read: func(context.Context) (fleet.Objects, error) {
		defer func() { done <- struct{}{} }()
		reads.Add(1)
		if fail.Load() {
			return fleet.Objects{}, errors.New("the API server is away")
		}
		return fleetfixture.World(), nil
	}}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := s.Get(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	<-done
	if n := reads.Load(); n != 1 {
		t.Errorf("20 who look at once cause %d reads", n)
	}
	fail.Store(true)
	clock.Step(2 * time.Second)
	if f, err := s.Get(t.Context()); err != nil || !f.At.Equal(fleetfixture.Noon) {
		t.Errorf("while it is read again there is %v, %v", f, err)
	}
	<-done
	clock.Step(time.Minute)
	if f, err := s.Get(t.Context()); err == nil {
		t.Errorf("what is too old is shown: %v", f.At)
	}
	srv := &Server{Snapshots: s, Clock: clock}
	if w := ask(srv, "GET", "/"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "the API server is away") {
		t.Errorf("got %d\n%s", w.Code, w.Body)
	}
	fail.Store(false)
	if f, err := s.Get(t.Context()); err != nil || !f.At.Equal(fleetfixture.Noon.Add(62*time.Second)) {
		t.Errorf("afterwards there is %v, %v", f, err)
	}
}

// A request waits for a new model, and gets the previous one if that takes too long. The
// page then shows their age.
func TestSnapshotsWaitForNewFacts(t *testing.T) {
	clock := clocktesting.NewFakeClock(fleetfixture.Noon)
	slow := make(chan struct{})
	close(slow)
	s := &fleet.Snapshots{Clock: clock, Fresh: 15 * time.Second, Wait: 2 * time.Second, Stale: 5 * time.Minute, Read: func(context.Context) (fleet.Objects, error) {
		<-slow
		return fleetfixture.World(), nil
	}}
	at := func() time.Duration {
		f, err := s.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return f.At.Sub(fleetfixture.Noon)
	}
	if got := at(); got != 0 {
		t.Fatalf("the first facts are of %v", got)
	}
	clock.Step(time.Minute)
	if got := at(); got != time.Minute {
		t.Errorf("after a minute a request gets the facts of %v", got)
	}
	srv := &Server{Snapshots: s, Clock: clock}
	if w := ask(srv, "GET", "/"); strings.Contains(w.Body.String(), "This page is") {
		t.Errorf("a page that is new says that it is old:\n%s", w.Body)
	}

	slow = make(chan struct{})
	clock.Step(2 * time.Minute)
	answer := make(chan *httptest.ResponseRecorder)
	go func() { answer <- ask(srv, "GET", "/") }()
	for !clock.HasWaiters() { // until the request waits
		runtime.Gosched()
	}
	clock.Step(2 * time.Second)
	if w := <-answer; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "This page is 2m old.") {
		t.Errorf("while facts are read, got %d\n%s", w.Code, w.Body)
	}
	close(slow)
}

// Only requests from our own pages trigger fetching a repository.
func TestMeant(t *testing.T) {
	for site, want := range map[string]bool{"": true, "none": true, "same-origin": true, "same-site": false, "cross-site": false} {
		r := httptest.NewRequest(http.MethodGet, "/nodes/x?verify=1", nil)
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		if got := isSameOrigin(r); got != want {
			t.Errorf("%q: %v", site, got)
		}
	}
}

// Clients that connect and do not read the response do not block others (security.md 41).
func TestSlowPeers(t *testing.T) {
	at := make(chan net.Addr, 1)
	l := &Listener{Server: served(fleetfixture.World()), Address: "127.0.0.1:0", Listening: func(a net.Addr) { at <- a }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	address := (<-at).String()
	slow.OpenSlowConnections(t, 600, address, nil, "/")
	res, err := slow.Client(nil).Get("http://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("answered %d", res.StatusCode)
	}
}

// The page as HTML and as JSON has one row for each period, with seconds.
func TestHistoryIsServed(t *testing.T) {
	s := served(fleetfixture.Rotated([3]types.UID{"c", "a", "b"}))
	var v view.Pool
	if err := json.Unmarshal(ask(s, "GET", "/pools/shop/web", "Accept", "application/json").Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Configurations) != 5 || !v.Configurations[0].Current || v.Configurations[2].Current || v.Configurations[0].InputDigest != v.Configurations[2].InputDigest {
		t.Errorf("JSON has %+v", v.Configurations)
	}
	html := ask(s, "GET", "/pools/shop/web").Body.String()
	for text, want := range map[string]int{"osp-web v1.2.0": 2, "osp-web v1.0.0": 2, "osp-web v1.1.0": 1} {
		if got := strings.Count(html, `<th role="rowheader" scope="row">`+text); got != want {
			t.Errorf("%s has %d rows, want %d", text, got, want)
		}
	}
	if !strings.Contains(html, "2026-03-02 12:00:00 UTC") {
		t.Errorf("the table has no seconds:\n%s", html)
	}
}
