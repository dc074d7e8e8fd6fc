package profilesource

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// security.md 27: a force-push is reported, and the content and origin of existing objects
// do not change.
func TestForcePushThatIsFollowed(t *testing.T) {
	for name, restart := range map[string]bool{"": false, "by another process, which has no mirror": true} {
		t.Run(name, func(t *testing.T) {
			f := newFollowing(t, nil)
			first := f.commit("", "v1.0.0", "one")
			gone := f.commit("", "v1.1.0", "two")
			f.applied("main@sha1:" + gone)
			object := f.object("osp-a-v1.1.0")
			f.told()
			f.git("reset", "--quiet", "--hard", first)
			next := f.commit("", "v1.2.0", "three")
			if restart {
				f.restart()
			}
			f.applied("main@sha1:" + next)
			f.condition(meta.ReadyCondition, metav1.ConditionTrue, meta.SucceededReason, "history was rewritten", "main@sha1:"+next+" does not continue main@sha1:"+gone)
			f.toldOf("Warning HistoryRewritten", gone, next)
			if got := f.object("osp-a-v1.1.0"); got.ResourceVersion != object.ResourceVersion || got.Annotations[api.AnnotationCommit] != gone {
				t.Errorf("the object of a commit that is gone has %v", got.Annotations)
			}
			version := f.ps.ResourceVersion
			if f.look(); f.ps.ResourceVersion != version || f.told() != "" {
				t.Error("a second look wrote a status, or told it again")
			}

			// Other content with a version that exists in the cluster.
			f.git("reset", "--quiet", "--hard", first)
			forged := f.commit("", "v1.1.0", "evil")
			f.look()
			f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid, "osp-a-v1.1.0 exists with other content", "of commit "+gone, "of commit "+forged, "history was rewritten")
			if got := f.object("osp-a-v1.1.0"); got.ResourceVersion != object.ResourceVersion {
				t.Error("an immutable object changed")
			}
			if e := f.ps.Status.Profiles[0]; e.Object != "osp-a-v1.2.0" || f.ps.Status.Revision != "main@sha1:"+next {
				t.Errorf("current is %+v at %s", e, f.ps.Status.Revision)
			}
			last := f.commit("", "v1.3.0", "four")
			f.applied("main@sha1:" + last)
			if c := f.ps.Status.Conditions[0]; strings.Contains(c.Message, "rewritten") {
				t.Errorf("after a commit that continues the old one it says %q", c.Message)
			}
			if r := f.ps.Status.LastRewrite; r == nil || r.From != "main@sha1:"+next || r.To != "main@sha1:"+forged {
				t.Errorf("the last rewrite was %+v", r)
			}
		})
	}
}

func TestForcePushThatIsHeld(t *testing.T) {
	f := newFollowing(t, func(git *api.GitSource) { git.OnRewrite = "Hold" })
	first := f.commit("", "v1.0.0", "one")
	second := f.commit("", "v1.1.0", "two")
	f.applied("main@sha1:" + second)
	f.told()
	reset := func(to string) {
		t.Helper()
		f.git("reset", "--quiet", "--hard", to)
		f.push()
	}
	reset(first) // an earlier commit does not continue a later one
	f.refused(api.ReasonHistoryRewritten, "main@sha1:"+first+" does not continue main@sha1:"+second, "applied profiles remain")
	f.toldOf("Warning HistoryRewritten", first, second)
	third := f.commit("", "v1.2.0", "three")
	f.refused(api.ReasonHistoryRewritten, "gitops.k8c.io/accept-rewrite="+third)
	f.restart()
	f.refused(api.ReasonHistoryRewritten, third, second)
	if held := f.ps.Status.HeldRevision; held != "main@sha1:"+third {
		t.Errorf("held is %q", held)
	}
	f.annotate(api.AnnotationAcceptRewrite, second)
	f.refused(api.ReasonHistoryRewritten, third)
	f.annotate(api.AnnotationAcceptRewrite, third)
	f.applied("main@sha1:" + third)
	f.toldOf("Warning HistoryRewritten", third, second)
	if e := f.ps.Status.Profiles[0]; e.Object != "osp-a-v1.2.0" || f.ps.Status.HeldRevision != "" {
		t.Errorf("current is %+v, held %q", e, f.ps.Status.HeldRevision)
	}
	// The annotation accepts one commit only.
	reset(first)
	fourth := f.commit("", "v1.3.0", "four")
	f.refused(api.ReasonHistoryRewritten, fourth)
	// The old history is restored.
	reset(third)
	f.applied("main@sha1:" + third)
	reset(fourth)
	f.refused(api.ReasonHistoryRewritten, fourth)
	f.spec(func(git *api.GitSource) { git.OnRewrite = "Accept" })
	f.applied("main@sha1:" + fourth)

	// Another branch in the spec is not a rewrite.
	f.spec(func(git *api.GitSource) { git.OnRewrite = "Hold"; git.Ref = &api.GitReference{Branch: "other"} })
	f.git("branch", "other", first)
	f.push()
	f.applied("other@sha1:" + first)
	// Neither is another repository.
	f.git("checkout", "--quiet", "--orphan", "new")
	f.commit("", "v2.0.0", "other")
	f.git("push", "--quiet", "--force", f.bare, "new:other")
	other := strings.Replace(f.ps.Spec.Git.URL, "osps.git", "moved.git", 1)
	f.do(os.Rename(f.bare, strings.Replace(f.bare, "osps.git", "moved.git", 1)))
	f.spec(func(git *api.GitSource) { git.URL = other })
	f.applied("other@sha1:" + f.git("rev-parse", "new"))
	if f.ps.Status.Repository != other {
		t.Errorf("the revision is of %q", f.ps.Status.Repository)
	}
}

// For Git, a merge whose second parent is the applied commit is a fast-forward. The branch
// nevertheless goes back to an older state: it is reported, held back, and rejected by path
// policies (security.md 31).
func TestMergeThatGoesRoundMain(t *testing.T) {
	round := func(f *following, key, onto string) string {
		t.Helper()
		was := f.git("rev-parse", "main")
		f.git("checkout", "--quiet", "--detach", onto)
		sign := []string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + key, "-c", "commit.gpgsign=" + strconv.FormatBool(key != "")}
		f.git(append(sign, "merge", "--quiet", "--no-ff", "--strategy=ours", "--message=Merge branch 'main'", was)...)
		f.git("checkout", "--quiet", "-B", "main")
		f.git("merge-base", "--is-ancestor", was, "main")
		f.push()
		return f.git("rev-parse", "HEAD")
	}
	t.Run("unsigned", func(t *testing.T) {
		f := newFollowing(t, func(git *api.GitSource) { git.OnRewrite = "Hold" })
		old := f.commit("", "v1.0.0", "one")
		reviewed := f.commit("", "v1.1.0", "two")
		f.applied("main@sha1:" + reviewed)
		f.told()
		merge := round(f, "", old)
		f.refused(api.ReasonHistoryRewritten, "main@sha1:"+merge+" does not continue main@sha1:"+reviewed, "a merge")
		f.toldOf("Warning HistoryRewritten", merge, reviewed)
		f.spec(func(git *api.GitSource) { git.OnRewrite = "Accept" })
		f.applied("main@sha1:" + merge)
		f.toldOf("Warning HistoryRewritten", merge, reviewed)
		if r := f.ps.Status.LastRewrite; r == nil || r.From != "main@sha1:"+reviewed || r.To != "main@sha1:"+merge {
			t.Errorf("the last rewrite was %+v", r)
		}
	})
	t.Run("onto a draft of who may change it", func(t *testing.T) {
		f := newFollowing(t, func(git *api.GitSource) {
			verified("HEAD")(git)
			git.Verify.Range = true
			git.Verify.Paths = []api.PathPrincipals{{Glob: "*.yaml", Principals: []string{"ops@example.com"}}}
			git.OnRewrite = "Hold"
		})
		dev, devLine := f.key("dev@example.com")
		ops, opsLine := f.key("ops@example.com")
		f.secret(devLine + opsLine)
		f.commit(ops, "v1.0.0", "one")
		f.git("checkout", "--quiet", "-b", "draft")
		f.commit(ops, "v1.1.0", "a draft")
		f.git("checkout", "--quiet", "main")
		reviewed := f.commit(ops, "v1.2.0", "reviewed")
		f.applied("main@sha1:" + reviewed)
		f.told()
		merge := round(f, dev, "draft")
		f.refused(api.ReasonVerificationFailed, "main@sha1:"+merge+" does not continue main@sha1:"+reviewed)
		f.condition(api.SourceVerifiedCondition, metav1.ConditionFalse, api.ReasonSignerNotAllowed, merge, `changes "osp-a.yaml" (set back from commit `+reviewed+")", "dev@example.com")
		f.toldOf("Warning HistoryRewritten", "Warning VerificationFailed", merge, reviewed)
		f.annotate(api.AnnotationAcceptRewrite, merge) // this accepts the history, but not the signer
		f.refused(api.ReasonVerificationFailed, merge)
		if e := f.ps.Status.Profiles[0]; e.Version != "v1.2.0" {
			t.Errorf("current is %+v", e)
		}

		// Ops merges a branch of dev; main is the first parent.
		f.git("checkout", "--quiet", "-B", "main", reviewed)
		f.git("checkout", "--quiet", "-b", "feature", reviewed+"~1")
		f.do(os.WriteFile(filepath.Join(f.dir, "README.md"), []byte("x"), 0o600))
		f.git("add", "--all")
		f.git("commit", "--quiet", "--message=feature")
		f.git("checkout", "--quiet", "main")
		f.git("-c", "gpg.format=ssh", "-c", "user.signingkey="+dev, "-c", "commit.gpgsign=true", "merge", "--quiet", "--no-ff", "--message=Merge pull request", "feature")
		f.push()
		f.told()
		f.applied("main@sha1:" + f.git("rev-parse", "main"))
		if said := f.told(); strings.Contains(said, "HistoryRewritten") {
			t.Errorf("a merge into main is told as a rewrite: %s", said)
		}
	})
}

// A tag must not move, not even to a commit that continues the old one.
func TestTagThatIsMoved(t *testing.T) {
	f := newFollowing(t, func(git *api.GitSource) { git.Ref = &api.GitReference{Tag: "v1.0.0"}; git.OnRewrite = "Hold" })
	first := f.commit("", "v1.0.0", "one")
	f.git("tag", "v1.0.0")
	f.push()
	f.applied("v1.0.0@sha1:" + first)
	object := f.object("osp-a-v1.0.0")
	f.git("tag", "--force", "--annotate", "--message=the same", "v1.0.0", first)
	f.push()
	f.applied("v1.0.0@sha1:" + first) // now an annotated tag, of the same commit
	f.told()

	second := f.commit("", "v1.0.0", "two")
	f.git("tag", "--force", "v1.0.0")
	f.push()
	f.refused(api.ReasonHistoryRewritten, "v1.0.0@sha1:"+second+" does not continue v1.0.0@sha1:"+first)
	f.toldOf("Warning HistoryRewritten", first, second)
	f.spec(func(git *api.GitSource) { git.OnRewrite = "Accept" })
	f.look()
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid, first[:12], second[:12], "history was rewritten")
	f.toldOf("Warning HistoryRewritten")
	if got := f.object("osp-a-v1.0.0"); got.ResourceVersion != object.ResourceVersion || f.ps.Status.Revision != "v1.0.0@sha1:"+first {
		t.Errorf("a moved tag changed an object or the revision: %s", f.ps.Status.Revision)
	}

	// The next release has another tag.
	f.spec(func(git *api.GitSource) { git.OnRewrite = "Hold"; git.Ref = &api.GitReference{SemVer: "1.x"} })
	f.git("tag", "--force", "v1.0.0", first)
	third := f.commit("", "v1.1.0", "three")
	f.git("tag", "v1.1.0")
	f.push()
	f.look()
	if !strings.HasPrefix(f.ps.Status.LastAttemptedRevision, "v1.1.0@sha1:"+third) {
		t.Errorf("at %+v", f.ps.Status)
	}
}
