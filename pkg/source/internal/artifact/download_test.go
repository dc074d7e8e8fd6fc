package artifact

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/phase"
)

// A host without a port means the default port of the scheme.
func TestPortsOfHosts(t *testing.T) {
	for allowed, urls := range map[string]map[string]bool{
		"flux.test":     {"http://flux.test/x": true, "http://flux.test:80/x": true, "https://flux.test:443/x": true, "http://flux.test:443/x": false, "https://flux.test:80/x": false, "http://flux.test:10250/x": false},
		"flux.test:80":  {"http://flux.test/x": true, "https://flux.test/x": false, "http://flux.test:81/x": false},
		"[fd00::1]":     {"http://[fd00::1]/x": true, "http://[fd00::1]:81/x": false},
		"[fd00::1]:443": {"https://[fd00::1]/x": true, "http://[fd00::1]/x": false},
	} {
		for at, want := range urls {
			if _, err := (Server{Hosts: []string{allowed}}).parseAllowedURL(at); (err == nil) != want {
				t.Errorf("%s with %s: %v", at, allowed, err)
			}
		}
	}
}

// Host names are compared without case and trailing dot.
func TestNamesOfHosts(t *testing.T) {
	s := Server{Hosts: []string{"source-controller.flux-system.svc.cluster.local"}}
	for _, ok := range []string{"http://source-controller.flux-system.svc.cluster.local./x", "http://SOURCE-controller.flux-system.svc.cluster.local:80/x"} {
		if _, err := s.parseAllowedURL(ok); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.parseAllowedURL("http://source-controller.flux-system.svc.cluster.local.evil.example/x"); err == nil {
		t.Error("a longer name is allowed")
	}
}

func TestDigestOfNothing(t *testing.T) {
	// The digest of empty input, from https://github.com/BLAKE3-team/BLAKE3/blob/master/test_vectors/test_vectors.json
	want, err := parseDigest("blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262")
	if err != nil || hex.EncodeToString(want.hash.Sum(nil)) != want.value {
		t.Errorf("%v: %x", err, want.hash.Sum(nil))
	}
}

// A server that sends single bytes slowly is waited for until the timeout: security.md 7.
func TestDripping(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond) // as a slow server does
		}
	}))
	defer slow.Close()
	u, err := url.Parse(slow.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, &phase.SlowError{Phase: "download", Timeout: 200 * time.Millisecond})
	defer cancel()
	s := Server{Dir: t.TempDir(), AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Limits: DefaultLimits()}
	file, err := s.createTempFile()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want, err := parseDigest("sha256:" + strings.Repeat("0", 64))
	if err != nil {
		t.Fatal(err)
	}
	err = s.download(ctx, u, file, want)
	if !errors.Is(err, fault.ErrUnreachable) || !strings.Contains(err.Error(), "no end of phase download after 200ms") {
		t.Errorf("got %v", err)
	}
}
