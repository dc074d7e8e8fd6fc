package ui

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

// kept is a node as in a cluster.
type kept struct {
	Tracer

	trail *trace.Result
}

func (k *kept) ReadProfileAndDigest(context.Context, string) (*osm.OperatingSystemProfile, string, error) {
	return &osm.OperatingSystemProfile{}, "", nil
}

func (k *kept) ReadGenerationInput(context.Context, types.NamespacedName, string) (render.Input, error) {
	return render.Input{}, nil
}

func (k *kept) Node(context.Context, string) (*trace.Result, error) { return k.trail, nil }

// agreeing finds that everything agrees.
type agreeing struct{}

func (agreeing) Node(ctx context.Context, name string) (*verify.Report, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("fetching: %w", ctx.Err())
	}
	return &verify.Report{Subject: "node/" + name, Verdict: verify.VerdictAgrees}, nil
}

// A verification belongs to one node: another node with the same name is not verified by
// it, and neither is the same node with another configuration.
func TestVerifiedIsOneNode(t *testing.T) {
	s := served(fleetfixture.World())
	trail := func(uid, digest string) *trace.Result {
		return &trace.Result{InputDigest: digest, Node: &trace.Node{Name: "eu-1", UID: types.UID(uid)}}
	}
	k := &kept{trail: trail("one", "v1:sha256:1")}
	s.Trails, s.Verifier = k, agreeing{}
	shows := func(target string) bool {
		t.Helper()
		w := ask(s, "GET", target)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
		return strings.Contains(w.Body.String(), ">Verified<") || strings.Contains(w.Body.String(), "Verified</span>")
	}
	if shows("/nodes/eu-1") || !shows("/nodes/eu-1?verify=1") || !shows("/nodes/eu-1") {
		t.Error("it is verified when somebody asks, and shown for a while")
	}
	for _, other := range []*trace.Result{trail("two", "v1:sha256:1"), trail("one", "v1:sha256:2")} {
		if k.trail = other; shows("/nodes/eu-1") {
			t.Errorf("%+v counts as verified", other.Node)
		}
	}
}

// leaving cancels the request during its verification.
type leaving context.CancelFunc

func (l leaving) Node(ctx context.Context, _ string) (*verify.Report, error) {
	l()
	return nil, fmt.Errorf("fetching: %w", ctx.Err())
}

// A canceled verification is not cached for others.
func TestVerifyingGivenUp(t *testing.T) {
	s := served(fleetfixture.World())
	ctx, cancel := context.WithCancel(t.Context())
	s.Trails, s.Verifier = &kept{trail: &trace.Result{Node: &trace.Node{Name: "eu-1", UID: "one"}}}, leaving(cancel)
	s.getVerification(ctx, "eu-1", &trace.Result{}, true)
	if v := s.getVerification(t.Context(), "eu-1", &trace.Result{}, false); v != nil {
		t.Errorf("it is shown as %+v", v)
	}
}
