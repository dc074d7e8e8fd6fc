package profilesource

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// verified requires signatures by the keys in the Secret "keys".
func verified(mode string) func(git *api.GitSource) {
	return func(git *api.GitSource) {
		git.Verify = &api.GitVerification{Mode: mode, SecretRef: meta.LocalObjectReference{Name: "keys"}}
	}
}

func TestUnsignedCommitsAreNotApplied(t *testing.T) {
	f := newFollowing(t, verified("HEAD"))
	ada, adaLine := f.key("ada@example.com")
	eve, _ := f.key("eve@example.com")
	f.secret(adaLine)
	first := f.commit(ada, "v1.0.0", "one")
	f.applied("main@sha1:" + first)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason, "commit "+first+" by ada@example.com, ssh SHA256:")
	signed := "commit " + first + " by ada@example.com, ssh SHA256:"
	entry := f.ps.Status.Profiles[0]
	if !strings.HasPrefix(entry.Signature, signed) || f.object(entry.Object).Annotations[api.AnnotationSignature] != entry.Signature {
		t.Errorf("provenance names %q and %q", entry.Signature, f.object(entry.Object).Annotations[api.AnnotationSignature])
	}
	version := f.ps.ResourceVersion
	if f.look(); f.ps.ResourceVersion != version {
		t.Error("a second look wrote a status")
	}
	f.told()

	unsigned := f.commit("", "v1.1.0", "two")
	f.refused(api.ReasonVerificationFailed, "commit "+unsigned+` "v1.1.0" of "Ada <ada@example.com>": it is not signed`, "git commit -S")
	f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonUnsigned, unsigned)
	f.toldOf("Warning VerificationFailed", unsigned)
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.ps.Namespace, Name: "osp-a-v1.1.0"}, &osm.OperatingSystemProfile{}); !apierrors.IsNotFound(err) {
		t.Errorf("an unsigned version is in the cluster: %v", err)
	}
	if f.refused(api.ReasonVerificationFailed); f.told() != "" {
		t.Error("the same was told twice")
	}
	f.commit(eve, "v1.1.0", "three")
	f.refused(api.ReasonVerificationFailed)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonUnknownSigner, "not among the public keys")

	fourth := f.commit(ada, "v1.2.0", "four")
	f.applied("main@sha1:" + fourth)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason, fourth)
	if got := f.ps.Status.Profiles[0].Signature; !strings.HasPrefix(got, "commit "+fourth+" by ada@example.com") {
		t.Errorf("the inventory names %q", got)
	}
	f.spec(func(git *api.GitSource) { git.Verify = nil })
	f.look()
	if c := apimeta.FindStatusCondition(f.ps.Status.Conditions, api.SourceVerifiedCondition); c != nil {
		t.Errorf("nothing is demanded, and %+v", c)
	}
}

// security.md 26: a removed key is not trusted from the next reconciliation on, even
// without a new commit.
func TestRemovedKeys(t *testing.T) {
	f := newFollowing(t, verified("HEAD"))
	ada, adaLine := f.key("ada@example.com")
	_, benLine := f.key("ben@example.com")
	f.secret(adaLine + benLine)
	head := "main@sha1:" + f.commit(ada, "v1.0.0", "one")
	f.applied(head)
	f.told()
	f.secret(benLine)
	f.refused(api.ReasonVerificationFailed)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonUnknownSigner, "add the key to the Secret if you trust it")
	f.toldOf("Warning VerificationFailed")
	if f.ps.Status.Profiles[0].Removed {
		t.Error("what was current went")
	}
	f.secret(adaLine)
	f.applied(head)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason)

	// A key can also expire, or get an expiry date later.
	f.secret(strings.Replace(adaLine, " ", ` valid-before="20200101" `, 1))
	f.refused(api.ReasonVerificationFailed)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonKeyExpired)
	f.secret(strings.Replace(adaLine, " ", ` valid-before="20990101" `, 1))
	f.applied(head)
	f.r.Now = func() time.Time { return time.Date(2099, 2, 1, 0, 0, 0, 0, time.UTC) }
	f.refused(api.ReasonVerificationFailed)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonKeyExpired, "not valid now")
	f.r.Now = nil

	private, err := os.ReadFile(ada)
	f.do(err)
	for content, says := range map[string]string{
		"":                              "does not exist: create it",
		string(private):                 "treat it as compromised",
		"ada cert-authority " + adaLine: "nor an SSH key",
		"@cert-authority":               "nor an SSH key",
	} {
		f.secret(content)
		f.look()
		f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonKeysInvalid, "/keys", says)
		f.condition(meta.ReadyCondition, metav1.ConditionFalse, "DependencyNotReady", says)
		f.condition(meta.ReconcilingCondition, metav1.ConditionTrue, meta.ProgressingWithRetryReason)
		if len(f.ps.Status.Profiles) != 1 || f.ps.Status.Profiles[0].Removed || f.ps.Status.Revision != head {
			t.Errorf("what was current went: %+v", f.ps.Status)
		}
		if line := strings.Split(string(private), "\n")[1]; strings.Contains(f.told(), line) { // security.md 14
			t.Error("an event holds the private key")
		}
	}
	f.secret(adaLine)
	f.applied(head)
}

func TestSignedTags(t *testing.T) {
	f := newFollowing(t, func(git *api.GitSource) {
		verified("TagAndHEAD")(git)
		git.Ref = &api.GitReference{SemVer: "1.x"}
	})
	ada, adaLine := f.key("ada@example.com")
	ops, opsLine := f.key("ops@example.com")
	f.secret(adaLine + opsLine)
	first := f.commit(ada, "v1.0.0", "one")
	tag := func(name string) {
		t.Helper()
		f.git("-c", "gpg.format=ssh", "-c", "user.signingkey="+ops, "tag", "--sign", "--message="+name, name)
		f.push()
	}
	tag("v1.0.0")
	f.applied("v1.0.0@sha1:" + first)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason, `tag "v1.0.0" by ops@example.com`, "commit "+first+" by ada@example.com")
	unsigned := f.commit("", "v1.1.0", "two")
	tag("v1.1.0")
	f.refused(api.ReasonVerificationFailed, unsigned)
	f.spec(func(git *api.GitSource) { git.Verify.Mode = "Tag" })
	f.applied("v1.1.0@sha1:" + unsigned)
	if got := f.ps.Status.Profiles[0].Signature; !strings.HasPrefix(got, `tag "v1.1.0" by ops@example.com`) {
		t.Errorf("of an unsigned commit the tag's signature counts, not %q", got)
	}
	f.git("tag", "v1.2.0")
	f.push()
	f.refused(api.ReasonVerificationFailed, "lightweight")
	f.spec(func(git *api.GitSource) { git.Ref = nil })
	f.look()
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonSourceInvalid, "spec.git.verify.mode: Tag needs a tag")
}

func TestSignedRangesAndPaths(t *testing.T) {
	f := newFollowing(t, func(git *api.GitSource) {
		verified("HEAD")(git)
		git.Verify.Range = true
		git.Verify.Paths = []api.PathPrincipals{{Glob: "*.yaml", Principals: []string{"ops@example.com"}}}
	})
	ada, adaLine := f.key("ada@example.com")
	ops, opsLine := f.key("ops@example.com")
	f.secret(adaLine + opsLine)
	f.applied("main@sha1:" + f.commit(ops, "v1.0.0", "one"))
	by := f.commit(ada, "v1.1.0", "two")
	f.refused(api.ReasonVerificationFailed)
	f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonSignerNotAllowed, by, `changes "osp-a.yaml" and is signed by ada@example.com`)
	f.commit(ops, "v1.1.0", "two")
	f.refused(api.ReasonVerificationFailed, by) // the commit is still in the range to verify
	f.restart()                                 // and the start of that range is in the status
	f.refused(api.ReasonVerificationFailed, by)
	f.git("reset", "--quiet", "--hard", "HEAD~2")
	f.applied("main@sha1:" + f.commit(ops, "v1.1.0", "three"))
	unsigned := f.commit("", "v1.1.0", "three")
	f.commit(ops, "v1.2.0", "four")
	f.refused(api.ReasonVerificationFailed, unsigned)
	f.git("reset", "--quiet", "--hard", "HEAD~2")

	// The commit that was applied last no longer exists anywhere: a user must review the head.
	f.git("commit", "--quiet", "--amend", "--message=unsigned now")
	head := f.commit(ops, "v1.3.0", "five")
	f.restart()
	f.refused(api.ReasonVerificationFailed, "is neither in this history nor in the mirror", "annotate this ProfileSource with gitops.k8c.io/accept-rewrite="+head, "history was rewritten")
	f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonRangeUnknown)
	f.annotate(api.AnnotationAcceptRewrite, strings.Repeat("a", 40))
	f.refused(api.ReasonVerificationFailed)
	f.annotate(api.AnnotationAcceptRewrite, head)
	f.applied("main@sha1:" + head)

	f.spec(func(git *api.GitSource) { git.Verify.Paths[0].Glob = "/prod/**" })
	f.look()
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonSourceInvalid, "spec.git.verify.paths[0].glob")
}

// security.md 28: texts in a commit have no effect other than as text.
func TestTextOfCommits(t *testing.T) {
	f := newFollowing(t, verified("HEAD"))
	_, line := f.key("ada@example.com")
	f.secret(line)
	f.commit("", "v1.0.0", "one")
	f.git("commit", "--quiet", "--amend", "--author=\x1b]0;x\aAda\u202e <ada@example.com>", "--message=\x1b[31m<script>alert(1)</script>"+strings.Repeat("y", 39001))
	f.push()
	f.look()
	f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonUnsigned)
	said := []string{f.told()}
	f.spec(func(git *api.GitSource) { git.Verify = nil })
	f.look()
	said = append(said, f.told())
	for _, c := range f.ps.Status.Conditions {
		said = append(said, c.Message)
	}
	for key, value := range f.object("osp-a-v1.0.0").Annotations {
		if key == api.AnnotationSubject { // markup is text where this is shown
			if want := "[31m<script>alert(1)</script>" + strings.Repeat("y", 68) + "…"; value != want {
				t.Errorf("the subject is %q, want %q", value, want)
			}
			value = ""
		}
		said = append(said, key+value)
	}
	for _, text := range said {
		if strings.ContainsAny(text, "\x1b\a\u202e") || strings.Contains(text, "<script") || len(text) > 4096 {
			t.Errorf("%d bytes: %q", len(text), text[:min(len(text), 500)])
		}
	}
}

func TestAcceptingStartsALook(t *testing.T) {
	p := acceptRewriteChanged()
	with := func(key, value string) client.Object {
		return &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
	}
	for _, c := range []struct {
		before, after client.Object
		want          bool
	}{
		{with("a", "b"), with(api.AnnotationAcceptRewrite, "x"), true},
		{with(api.AnnotationAcceptRewrite, "x"), with(api.AnnotationAcceptRewrite, "y"), true},
		{with(api.AnnotationAcceptRewrite, "x"), with(api.AnnotationAcceptRewrite, "x"), false},
		{with("a", "b"), with("a", "c"), false},
	} {
		if got := p.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after}); got != c.want {
			t.Errorf("from %v to %v: %v", c.before.GetAnnotations(), c.after.GetAnnotations(), got)
		}
	}
}
