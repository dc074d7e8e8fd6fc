package delivery

import (
	"fmt"
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
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// signature waits for SourceVerified.
func (s *system) signature(want metav1.ConditionStatus, reason string, says ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("SourceVerified to be %s for %s, saying %q", want, reason, says), func() error {
		c := apimeta.FindStatusCondition(s.ProfileSource().Status.Conditions, api.SourceVerifiedCondition)
		if c == nil || c.Status != want || c.Reason != reason || !e2e.ContainsAll(c.Message, says) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

// provenance is what the object of a version says about its origin.
func (s *system) provenance(object string) map[string]string {
	s.T.Helper()
	var osp osm.OperatingSystemProfile
	if err := s.Get(e2e.Namespace, object, &osp); err != nil {
		s.T.Fatal(err)
	}
	return osp.Annotations
}

// absent wants no object of a version, now and after another few looks: there is one each second.
func (s *system) absent(object string) {
	s.T.Helper()
	for end := time.Now().Add(2500 * time.Millisecond); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if err := s.Get(e2e.Namespace, object, &osm.OperatingSystemProfile{}); !apierrors.IsNotFound(err) {
			s.T.Fatalf("%s is in the cluster (err %v)", object, err)
		}
	}
}

// Unsigned content does not reach a pool; the provenance names the signer; and a removed key
// is no longer trusted within an interval, without a commit (security.md 26).
func TestSignedSource(t *testing.T) {
	s := newSystem(t)
	ada, adaLine := e2e.Signer(t, "ada@example.com")
	ben, benLine := e2e.Signer(t, "ben@example.com")
	s.Trust(adaLine, benLine)
	s.Git.SignedBy(ada)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source(e2e.GitSpec("verify", map[string]any{"mode": "HEAD", "secretRef": map[string]any{"name": "signers"}}))
	s.Start()
	s.Ready(first)
	s.Pool("pool-a", "osp-a")
	s.Served("pool-a", "v1.0.0")

	s.Run("who signed is in the provenance", func(t *testing.T) {
		s.signature(metav1.ConditionTrue, meta.SucceededReason, "commit "+first+" by ada@example.com, ssh SHA256:")
		by := "commit " + first + " by ada@example.com, ssh SHA256:"
		if got := s.provenance("osp-a-v1.0.0")[api.AnnotationSignature]; !strings.HasPrefix(got, by) {
			t.Errorf("annotation %s is %q", api.AnnotationSignature, got)
		}
		if entry := s.ProfileSource().Status.Profiles[0]; !strings.HasPrefix(entry.Signature, by) {
			t.Errorf("the inventory names %q", entry.Signature)
		}
	})
	s.Run("an unsigned commit is held back", func(t *testing.T) {
		s.Git.SignedBy("")
		unsigned := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
		s.WaitRejected(api.ReasonVerificationFailed, unsigned, "it is not signed")
		s.signature(metav1.ConditionFalse, api.ReasonUnsigned, unsigned)
		s.absent("osp-a-v1.1.0")
		if _, provisioning := s.Served("pool-a", "v1.0.0"); strings.Contains(string(provisioning.Data[api.UserDataKey]), "echo two") {
			t.Error("its content reached the pool")
		}
		if notes := about(s.Events("osps", api.EventVerificationFailed), unsigned); len(notes) != 1 {
			t.Errorf("it is told as %q", notes)
		}
	})
	var second string
	s.Run("a signed one goes on", func(t *testing.T) {
		s.Git.SignedBy(ben)
		second = s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.2.0", "echo three")})
		s.Ready(second)
		s.Served("pool-a", "v1.2.0")
		if got := s.provenance("osp-a-v1.2.0")[api.AnnotationSignature]; !strings.HasPrefix(got, "commit "+second+" by ben@example.com") {
			t.Errorf("annotation %s is %q", api.AnnotationSignature, got)
		}
	})
	s.Run("a key is removed", func(t *testing.T) {
		asked := s.Git.Run("rev-parse", "origin/main")
		s.Trust(adaLine)
		s.signature(metav1.ConditionFalse, api.ReasonUnknownSigner, second)
		if now := s.Git.Run("rev-parse", "origin/main"); now != asked || now != second {
			t.Errorf("there was another commit: %s", now)
		}
		if s.Inventory()["osp-a"] != "v1.2.0" {
			t.Errorf("what was current went: %v", s.Inventory())
		}
		s.Trust(adaLine, benLine)
		s.signature(metav1.ConditionTrue, meta.SucceededReason, second)
		s.Ready(second)
	})
}

// Rewritten history is not applied until a user accepts exactly this commit; applied profiles
// remain meanwhile, and no existing object is changed by it (security.md 27).
func TestHeldRewrite(t *testing.T) {
	s := newSystem(t)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	s.Source(e2e.GitSpec("onRewrite", "Hold"))
	s.Start()
	s.Ready(second)
	s.Pool("pool-a", "osp-a")
	s.Served("pool-a", "v1.1.0")
	before := s.provenance("osp-a-v1.1.0")

	rewrite := func(version, script string) string {
		s.T.Helper()
		s.Git.Run("reset", "--quiet", "--hard", first)
		s.Git.Run("push", "--quiet", "--force", "origin", "main")
		return s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", version, script)})
	}
	third := rewrite("v1.2.0", "echo three")
	s.WaitRejected(api.ReasonHistoryRewritten, third, second, "onRewrite is Hold", api.AnnotationAcceptRewrite+"="+third)
	s.absent("osp-a-v1.2.0")
	s.Served("pool-a", "v1.1.0")
	if notes := about(s.Events("osps", api.EventHistoryRewritten), third); len(notes) != 1 {
		t.Errorf("it is told as %q", notes)
	}
	accept := func(commit string) {
		s.T.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationAcceptRewrite, commit)
		ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Name: "osps", Namespace: e2e.Namespace}}
		if err := s.Client.Patch(s.T.Context(), ps, client.RawPatch(types.MergePatchType, patch)); err != nil {
			s.T.Fatal(err)
		}
	}
	accept(second) // not the commit that was pushed
	s.absent("osp-a-v1.2.0")
	accept(third)
	s.Ready(third)
	s.Served("pool-a", "v1.2.0")
	if last := s.ProfileSource().Status.LastRewrite; last == nil || !strings.HasSuffix(last.From, second) || !strings.HasSuffix(last.To, third) {
		t.Errorf("the last rewrite is %+v", last)
	}

	// An acceptance is valid for one commit only.
	fourth := rewrite("v1.1.0", "echo other content")
	s.WaitRejected(api.ReasonHistoryRewritten, fourth)
	accept(fourth)
	s.WaitRejected(api.ReasonProfilesInvalid, "osp-a-v1.1.0")
	if now := s.provenance("osp-a-v1.1.0"); now[api.AnnotationCommit] != second || now[api.AnnotationDigest] != before[api.AnnotationDigest] {
		t.Errorf("the object of a version that was there says now %v", now)
	}
	s.Served("pool-a", "v1.2.0")
}
