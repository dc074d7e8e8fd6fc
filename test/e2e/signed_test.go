package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// signer makes an SSH key. The file is for git to sign with, the line as
// allowed_signers has it.
func signer(t *testing.T, principal string) (file, line string) {
	t.Helper()
	private, public := newIdentity(t, "")
	file = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(private), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".pub", []byte(public), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, principal + " " + public
}

// signedBy signs every commit from now on; "" signs none.
func (g *gitServer) signedBy(key string) {
	g.t.Helper()
	g.run("config", "gpg.format", "ssh")
	g.run("config", "user.signingkey", key)
	g.run("config", "commit.gpgsign", fmt.Sprint(key != ""))
}

// trust makes lines of allowed_signers the public keys of the source.
func (s *system) trust(lines ...string) {
	s.t.Helper()
	s.apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "signers", "namespace": namespace},
		"stringData": map[string]any{"allowed_signers": strings.Join(lines, "\n")},
	})
}

// gitSpec adds to spec.git.
func gitSpec(key string, value any) func(spec map[string]any) {
	return func(spec map[string]any) { spec["git"].(map[string]any)[key] = value }
}

// signature waits for SourceVerified.
func (s *system) signature(want metav1.ConditionStatus, reason string, says ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("SourceVerified to be %s for %s, saying %q", want, reason, says), func() error {
		c := apimeta.FindStatusCondition(s.profileSource().Status.Conditions, api.SourceVerifiedCondition)
		if c == nil || c.Status != want || c.Reason != reason || !containsAll(c.Message, says) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// provenance is what the object of a version says about its origin.
func (s *system) provenance(object string) map[string]string {
	s.t.Helper()
	var osp osm.OperatingSystemProfile
	if err := s.get(namespace, object, &osp); err != nil {
		s.t.Fatal(err)
	}
	return osp.Annotations
}

// absent wants no object of a version, now and after another few looks.
func (s *system) absent(object string) {
	s.t.Helper()
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if err := s.get(namespace, object, &osm.OperatingSystemProfile{}); !apierrors.IsNotFound(err) {
			s.t.Fatalf("%s is in the cluster (err %v)", object, err)
		}
	}
}

// What is not signed does not reach a pool; who signed is in the provenance; and a key
// that is taken away counts no more within an interval, without a commit
// (security.md 26).
func TestSignedSource(t *testing.T) {
	s := newSystem(t)
	ada, adaLine := signer(t, "ada@example.com")
	ben, benLine := signer(t, "ben@example.com")
	s.trust(adaLine, benLine)
	s.git.signedBy(ada)
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.source(gitSpec("verify", map[string]any{"mode": "HEAD", "secretRef": map[string]any{"name": "signers"}}))
	s.start()
	s.ready(first)
	s.pool("pool-a", "osp-a")
	s.served("pool-a", "v1.0.0")

	s.run("who signed is in the provenance", func(t *testing.T) {
		s.signature(metav1.ConditionTrue, meta.SucceededReason, "commit "+first+" by ada@example.com, ssh SHA256:")
		by := "commit " + first + " by ada@example.com, ssh SHA256:"
		if got := s.provenance("osp-a-v1.0.0")[api.AnnotationSignature]; !strings.HasPrefix(got, by) {
			t.Errorf("annotation %s is %q", api.AnnotationSignature, got)
		}
		if entry := s.profileSource().Status.Profiles[0]; !strings.HasPrefix(entry.Signature, by) {
			t.Errorf("the inventory names %q", entry.Signature)
		}
	})
	s.run("an unsigned commit is held back", func(t *testing.T) {
		s.git.signedBy("")
		unsigned := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
		s.refused(api.ReasonVerificationFailed, unsigned, "it is not signed")
		s.signature(metav1.ConditionFalse, api.ReasonUnsigned, unsigned)
		s.absent("osp-a-v1.1.0")
		if _, provisioning := s.served("pool-a", "v1.0.0"); strings.Contains(string(provisioning.Data[api.UserDataKey]), "echo two") {
			t.Error("its content reached the pool")
		}
		if notes := about(s.notes("osps", api.EventVerificationFailed), unsigned); len(notes) != 1 {
			t.Errorf("it is told as %q", notes)
		}
	})
	var second string
	s.run("a signed one goes on", func(t *testing.T) {
		s.git.signedBy(ben)
		second = s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.2.0", "echo three")})
		s.ready(second)
		s.served("pool-a", "v1.2.0")
		if got := s.provenance("osp-a-v1.2.0")[api.AnnotationSignature]; !strings.HasPrefix(got, "commit "+second+" by ben@example.com") {
			t.Errorf("annotation %s is %q", api.AnnotationSignature, got)
		}
	})
	s.run("a key is removed", func(t *testing.T) {
		asked := s.git.run("rev-parse", "origin/main")
		s.trust(adaLine)
		s.signature(metav1.ConditionFalse, api.ReasonUnknownSigner, second)
		if now := s.git.run("rev-parse", "origin/main"); now != asked || now != second {
			t.Errorf("there was another commit: %s", now)
		}
		if s.inventory()["osp-a"] != "v1.2.0" {
			t.Errorf("what was current went: %v", s.inventory())
		}
		s.trust(adaLine, benLine)
		s.signature(metav1.ConditionTrue, meta.SucceededReason, second)
		s.ready(second)
	})
}

// Rewritten history is held until somebody accepts this very commit; what is applied
// stays meanwhile, and no object is ever changed by it (security.md 27).
func TestHeldRewrite(t *testing.T) {
	s := newSystem(t)
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	second := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	s.source(gitSpec("onRewrite", "Hold"))
	s.start()
	s.ready(second)
	s.pool("pool-a", "osp-a")
	s.served("pool-a", "v1.1.0")
	before := s.provenance("osp-a-v1.1.0")

	rewrite := func(version, script string) string {
		s.t.Helper()
		s.git.run("reset", "--quiet", "--hard", first)
		s.git.run("push", "--quiet", "--force", "origin", "main")
		return s.git.push(map[string]string{"a.yaml": osp("osp-a", version, script)})
	}
	third := rewrite("v1.2.0", "echo three")
	s.refused(api.ReasonHistoryRewritten, third, second, "onRewrite is Hold", api.AnnotationAcceptRewrite+"="+third)
	s.absent("osp-a-v1.2.0")
	s.served("pool-a", "v1.1.0")
	if notes := about(s.notes("osps", api.EventHistoryRewritten), third); len(notes) != 1 {
		t.Errorf("it is told as %q", notes)
	}
	accept := func(commit string) {
		s.t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationAcceptRewrite, commit)
		ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Name: "osps", Namespace: namespace}}
		if err := s.client.Patch(s.t.Context(), ps, client.RawPatch(types.MergePatchType, patch)); err != nil {
			s.t.Fatal(err)
		}
	}
	accept(second) // another commit than what is there
	s.absent("osp-a-v1.2.0")
	accept(third)
	s.ready(third)
	s.served("pool-a", "v1.2.0")
	if last := s.profileSource().Status.LastRewrite; last == nil || !strings.HasSuffix(last.From, second) || !strings.HasSuffix(last.To, third) {
		t.Errorf("the last rewrite is %+v", last)
	}

	// What was accepted once is no rule for the next time.
	fourth := rewrite("v1.1.0", "echo other content")
	s.refused(api.ReasonHistoryRewritten, fourth)
	accept(fourth)
	s.refused(api.ReasonProfilesInvalid, "osp-a-v1.1.0")
	if now := s.provenance("osp-a-v1.1.0"); now[api.AnnotationCommit] != second || now[api.AnnotationDigest] != before[api.AnnotationDigest] {
		t.Errorf("the object of a version that was there says now %v", now)
	}
	s.served("pool-a", "v1.2.0")
}
