package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// kept are generations and profiles as in a cluster.
type kept struct {
	Tracer

	inputs map[string]render.Input
	trail  *trace.Result
	asked  int
}

func (k *kept) Generation(_ context.Context, _ types.NamespacedName, digest string) (render.Input, error) {
	return k.inputs[digest], nil
}

func (k *kept) Profile(context.Context, string) (*osm.OperatingSystemProfile, string, error) {
	k.asked++
	return &osm.OperatingSystemProfile{}, "", nil
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
	s := served(world())
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
	s := served(world())
	ctx, cancel := context.WithCancel(t.Context())
	s.Trails, s.Verifier = &kept{trail: &trace.Result{Node: &trace.Node{Name: "eu-1", UID: "one"}}}, leaving(cancel)
	s.verification(ctx, "eu-1", &trace.Result{}, true)
	if v := s.verification(t.Context(), "eu-1", &trace.Result{}, false); v != nil {
		t.Errorf("it is shown as %+v", v)
	}
}

func decodeFile(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// inputWith is the sample of pkg/render with one more file, and with placeholders for
// credentials.
func inputWith(t *testing.T, path, data string) render.Input {
	t.Helper()
	const sample = "../../render/testdata/sample/"
	var osp osm.OperatingSystemProfile
	decodeFile(t, sample+"profile.yaml", &osp)
	osp.Spec.ProvisioningConfig.Files = append(osp.Spec.ProvisioningConfig.Files, file(path, data))
	var md cluster.MachineDeployment
	decodeFile(t, sample+"machinedeployment.yaml", &md)
	var with struct {
		Settings render.Settings `json:"settings"`
		Cluster  render.Cluster  `json:"cluster"`
	}
	decodeFile(t, sample+"cluster.yaml", &with)
	in := render.Input{
		Profile:  render.Profile{Spec: osp.Spec, Object: "osp-sample-v1.2.3", Digest: profile.Digest(osp.Spec), Provenance: render.Provenance{Profile: osp.Name, Version: osp.Spec.Version}},
		Settings: with.Settings, Cluster: with.Cluster,
	}
	var err error
	if in.Pool, err = render.DecodePool(&md); err != nil {
		t.Fatal(err)
	}
	in, _ = in.Split()
	return in
}

// The lines of a private key in a profile look like others, so a difference in its middle
// shows neither its first nor its last line. It is also hidden in the files of nodes
// (security.md 15).
func TestRenderedSecrets(t *testing.T) {
	key := func(changed string) string {
		var b strings.Builder
		b.WriteString("one: 1\n-----BEGIN PRIVATE KEY-----\n")
		for i := range 20 {
			fmt.Fprintf(&b, "c4n4ry%02d%s\n", i, strings.Repeat("A", 50))
		}
		b.WriteString(changed + "\n")
		for i := range 20 {
			fmt.Fprintf(&b, "c4n4ry%02d%s\n", 30+i, strings.Repeat("B", 50))
		}
		return b.String() + "-----END PRIVATE KEY-----\nurl: https://robot:" + changed + "@mirror.example.com/\n" + "last: " + changed[:1] + "\n"
	}
	k := &kept{inputs: map[string]render.Input{"a": inputWith(t, "/etc/tls.key", key("1c4n4ry")), "b": inputWith(t, "/etc/tls.key", key("2c4n4ry"))}}
	r := Rendered{Pool: "shop/web", was: &configuration{digest: "a"}, after: &configuration{digest: "b"}}
	if err := (&Server{Trails: k}).compareRendered(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if shown := string(b); strings.Contains(shown, "c4n4ry") || !strings.Contains(shown, "last: 2") || !strings.Contains(shown, "/etc/tls.key") {
		t.Errorf("%+v shows %s", r, shown)
	}
}

// The number of versions that are read for a commit is bounded.
func TestCompareBounded(t *testing.T) {
	k := &kept{}
	v := Commit{Profiles: make([]Change, 10*maxCompared)}
	for i := range v.Profiles {
		v.Profiles[i].object, v.Profiles[i].before = "kube-system/a", "kube-system/b"
	}
	if err := (&Server{Trails: k}).compare(t.Context(), &v); err != nil {
		t.Fatal(err)
	}
	if k.asked != 2*maxCompared || v.Profiles[maxCompared-1].Note != "" || v.Profiles[maxCompared].Note == "" {
		t.Errorf("%d objects are read, the last notes are %q and %q", k.asked, v.Profiles[maxCompared-1].Note, v.Profiles[maxCompared].Note)
	}
}

// stored are profiles by "namespace/name".
type stored struct {
	Tracer

	specs map[string]osm.OperatingSystemProfileSpec
}

func (s stored) Profile(_ context.Context, object string) (*osm.OperatingSystemProfile, string, error) {
	return &osm.OperatingSystemProfile{Spec: s.specs[object]}, "", nil
}

// A version is compared with its predecessor, and the first one with nothing.
func TestCompareWithTheVersionBefore(t *testing.T) {
	s := &Server{Trails: stored{specs: map[string]osm.OperatingSystemProfileSpec{
		"ns/old": spec("v1.0.0", file("/etc/same", "same\n"), file("/etc/a", "one\n")),
		"ns/new": spec("v1.0.0", file("/etc/same", "same\n"), file("/etc/a", "two\n")),
	}}}
	for before, want := range map[string]string{
		"ns/old": "Changed provisioning /etc/a (644)",
		"":       "Added provisioning /etc/a (644), Added provisioning /etc/same (644), Added settings",
	} {
		ch := Change{object: "ns/new", before: before}
		if err := s.compareProfiles(t.Context(), &ch); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range ch.Files {
			got = append(got, f.Change+" "+f.Name)
		}
		slices.Sort(got)
		if text := strings.Join(got, ", "); text != want || ch.Note != "" {
			t.Errorf("compared with %q: %q (note %q), want %q", before, text, ch.Note, want)
		}
	}
}
