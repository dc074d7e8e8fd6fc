package profilesource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
)

// Each result of a reconciliation is recorded once: the signer of what became current, what
// was rejected and why, and what left the source (security.md 26, 28).
func TestAuditLog(t *testing.T) {
	f := newFollowing(t, verified("HEAD"))
	path := filepath.Join(t.TempDir(), "audit.log")
	f.r.AuditLog = &auditlog.Writer{
		Path: path, Clock: clock.RealClock{}, Log: logr.Discard(),
		Began: auditlog.Event{Kind: auditlog.ControllerStarted, Object: auditlog.Object{Kind: "Controller", Name: "osm-gitops"}},
	}
	ada, adaLine := f.key("ada@example.com")
	f.secret(adaLine)
	first := f.commit(ada, "v1.0.0", "one")
	f.applied("main@sha1:" + first)
	entry := f.ps.Status.Profiles[0]
	f.look()
	unsigned := f.commit("", "v1.1.0", "two")
	f.refused(api.ReasonVerificationFailed)
	if held := f.ps.Status.HeldRevision; held != "main@sha1:"+unsigned {
		t.Errorf("held is %q", held)
	}
	f.look()
	f.git("reset", "--quiet", "--hard", "HEAD~1")
	f.git("rm", "--quiet", "osp-a.yaml")
	f.do(os.WriteFile(filepath.Join(f.dir, "bad.yaml"), []byte("spec: [\n"), 0o600))
	f.git("add", "--all")
	f.git("-c", "gpg.format=ssh", "-c", "user.signingkey="+ada, "-c", "commit.gpgsign=true", "commit", "--quiet", "--message=without")
	f.push()
	f.look()
	f.look()

	var got []auditlog.Entry
	if _, err := auditlog.Verify([]string{path}, "", func(e auditlog.Entry) { got = append(got, e) }); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range got {
		kinds = append(kinds, strings.TrimSpace(string(e.Kind)+" "+e.Reason))
	}
	want := []string{"ControllerStarted", "ProfileAccepted", "ProfileRefused VerificationFailed", "ProfileRefused ProfileRefused", "ProfileRemoved"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Fatalf("(-want +got):\n%s\n%+v", diff, got)
	}
	accepted := *got[1].Profile
	if accepted.Name != entry.Name || accepted.Version != "v1.0.0" || accepted.Commit != first || accepted.Digest != entry.Digest || accepted.Revision != "main@sha1:"+first ||
		!strings.HasPrefix(accepted.Signature, "commit "+first+" by ada@example.com, ssh SHA256:") || got[1].Object.UID != string(f.ps.UID) {
		t.Errorf("accepted is %+v of %+v", accepted, got[1].Object)
	}
	if !strings.Contains(got[2].Message, unsigned) || got[2].Profile.Revision != "main@sha1:"+unsigned || !strings.Contains(got[3].Message, "bad.yaml:") {
		t.Errorf("refused is %+v and %+v", got[2], got[3])
	}
}

// A source that returns to an earlier revision, and a profile that leaves and returns
// unchanged, are recorded each time, so that the last entry states what is current.
func TestAuditLogOfWhatComesAgain(t *testing.T) {
	f := newFollowing(t, nil)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.r.AuditLog = &auditlog.Writer{
		Path: path, Clock: clock.RealClock{}, Log: logr.Discard(),
		Began: auditlog.Event{Kind: auditlog.ControllerStarted, Object: auditlog.Object{Kind: "Controller", Name: "osm-gitops"}},
	}
	first := f.commit("", "v1.0.0", "one")
	f.look()
	second := f.commit("", "v1.1.0", "two")
	f.look()
	for _, at := range []string{first, second, first} {
		f.git("reset", "--quiet", "--hard", at)
		f.push()
		f.look()
		f.look()
	}
	f.git("rm", "--quiet", "osp-a.yaml")
	f.git("commit", "--quiet", "--message=without")
	f.push()
	f.look()
	f.commit("", "v1.0.0", "one")
	f.look()
	f.look()

	var got []string
	ids := map[string]bool{}
	if _, err := auditlog.Verify([]string{path}, "", func(e auditlog.Entry) {
		ids[e.ID] = true
		if e.Profile != nil {
			got = append(got, string(e.Kind)+" "+e.Profile.Version)
		}
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ProfileAccepted v1.0.0", "ProfileAccepted v1.1.0", "ProfileAccepted v1.0.0", "ProfileAccepted v1.1.0", "ProfileAccepted v1.0.0",
		"ProfileRemoved v1.0.0", "ProfileAccepted v1.0.0",
	}
	if diff := cmp.Diff(want, got); diff != "" || len(ids) != len(want)+1 {
		t.Errorf("%d ids (-want +got):\n%s", len(ids), diff)
	}
}
