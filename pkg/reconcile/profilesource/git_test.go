package profilesource

import (
	"io"
	"log"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/gittestserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/retention"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// following is a Reconciler that follows a real repository on a real server, step by step
// against the real API server.
type following struct {
	t        *testing.T
	client   client.Client
	recorder *events.FakeRecorder
	r        *Reconciler
	ps       *api.ProfileSource
	pools    *retention.Pools // nil before withPools
	dir      string           // work tree
	bare     string           // on the server
}

func newFollowing(t *testing.T, change func(git *api.GitSource)) *following {
	t.Helper()
	log.SetOutput(io.Discard)                 // the Git server logs every request
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull) // of the server
	t.Setenv("GIT_CONFIG_SYSTEM", os.DevNull)
	server, err := gittestserver.NewTempGitServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(server.Root()) })
	if err := server.StartHTTP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.StopHTTP)
	c := cluster.Shared(t)
	f := &following{t: t, client: c.Client(t), recorder: events.NewFakeRecorder(100), dir: t.TempDir(), bare: filepath.Join(server.Root(), "osps.git")}
	f.git("init", "--quiet", "--initial-branch=main")
	f.git("init", "--quiet", "--bare", "--initial-branch=main", f.bare)
	f.restart()
	minute := metav1.Duration{Duration: time.Minute}
	f.ps = &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace(t), Name: "team"},
		Spec: api.ProfileSourceSpec{
			Git:      &api.GitSource{URL: server.HTTPAddress() + "/osps.git", Timeout: minute},
			Interval: minute, RetryInterval: minute,
		},
	}
	if change != nil {
		change(f.ps.Spec.Git)
	}
	f.do(f.client.Create(t.Context(), f.ps))
	return f
}

// restart replaces the reconciler with a new one that has no mirror, as after a restart.
func (f *following) restart() {
	f.r = &Reconciler{Client: f.client, Live: f.client, Recorder: f.recorder, Fetcher: &fetcher.Fetcher{Client: f.client, Live: f.client, Git: &source.Mirrors{
		Dir: f.t.TempDir(), AllowInsecure: true, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}}}
	if f.pools != nil {
		f.r.Pools, f.r.Namespace = f.pools, f.ps.Namespace
	}
}

func (f *following) do(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *following) git(args ...string) string {
	f.t.Helper()
	return gittest.Git(f.t, f.dir, args...)
}

// key creates a key for signing commits, and returns its line for allowed_signers.
func (f *following) key(principal string) (file, line string) {
	f.t.Helper()
	file = filepath.Join(f.t.TempDir(), "key")
	if out, err := exec.CommandContext(f.t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file).CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(file + ".pub")
	f.do(err)
	return file, principal + " " + string(public)
}

// commit sets the version and content of profile osp-a, and pushes the whole work tree.
// Without a key the commit is not signed.
func (f *following) commit(key, version, content string) string {
	f.t.Helper()
	f.do(os.WriteFile(filepath.Join(f.dir, "osp-a.yaml"), []byte(profileFile(version, content)), 0o600))
	f.git("add", "--all")
	args := []string{"commit", "--quiet", "--allow-empty", "--message=" + version}
	if key != "" {
		args = append([]string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + key, "-c", "commit.gpgsign=true"}, args...)
	}
	f.git(args...)
	f.push()
	return f.git("rev-parse", "HEAD")
}

func (f *following) push() {
	f.t.Helper()
	f.git("push", "--quiet", "--force", "--prune", f.bare, "refs/*:refs/*")
}

// secret sets the content of the Secret "keys"; "" deletes the Secret.
func (f *following) secret(content string) {
	f.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: "keys"}}
	f.do(client.IgnoreNotFound(f.client.Delete(f.t.Context(), s)))
	if content != "" {
		s = &corev1.Secret{ObjectMeta: s.ObjectMeta, Data: map[string][]byte{"allowed_signers": []byte(content)}}
		s.ResourceVersion = ""
		f.do(f.client.Create(f.t.Context(), s))
	}
}

// look runs the reconciler once and checks that the status conforms to kstatus.
func (f *following) look() ctrl.Result {
	f.t.Helper()
	key := client.ObjectKeyFromObject(f.ps)
	result, err := f.r.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: key})
	f.do(err)
	f.do(f.client.Get(f.t.Context(), key, f.ps))
	return result
}

func (f *following) kstatus() status.Status {
	f.t.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(f.ps)
	f.do(err)
	got, err := status.Compute(&unstructured.Unstructured{Object: raw})
	f.do(err)
	return got.Status
}

// applied reconciles and checks that the whole revision is applied.
func (f *following) applied(revision string) {
	f.t.Helper()
	f.look()
	if f.ps.Status.Revision != revision || f.ps.Status.LastAttemptedRevision != revision || f.kstatus() != status.CurrentStatus {
		f.t.Fatalf("not at %s: %s, %+v", revision, f.kstatus(), f.ps.Status)
	}
}

// refused reconciles and checks that nothing of the new revision is applied: the status has
// its former revisions and inventory, and the next reconciliation is scheduled.
func (f *following) refused(reason string, says ...string) {
	f.t.Helper()
	before := f.ps.DeepCopy()
	result := f.look()
	now := f.ps.Status
	if now.Revision != before.Status.Revision || now.LastAttemptedRevision != before.Status.LastAttemptedRevision || len(now.Profiles) != len(before.Status.Profiles) {
		f.t.Errorf("the status moved: %+v", now)
	}
	for i, e := range before.Status.Profiles {
		if !equality.Semantic.DeepEqual(now.Profiles[i], e) {
			f.t.Errorf("the inventory changed: %+v", now.Profiles[i])
		}
	}
	if f.kstatus() != status.FailedStatus || result.RequeueAfter < 50*time.Second {
		f.t.Errorf("kstatus reads %s, the next look is in %s", f.kstatus(), result.RequeueAfter)
	}
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, reason, says...)
	f.condition(meta.StalledCondition, metav1.ConditionTrue, reason, says...)
}

func (f *following) condition(kind string, want metav1.ConditionStatus, reason string, says ...string) {
	f.t.Helper()
	c := apimeta.FindStatusCondition(f.ps.Status.Conditions, kind)
	if c == nil || c.Status != want || c.Reason != reason || c.ObservedGeneration != f.ps.Generation {
		f.t.Errorf("%s is %+v, want %s %s", kind, c, want, reason)
		return
	}
	for _, part := range says {
		if !strings.Contains(c.Message, part) {
			f.t.Errorf("%s says %q, and not %q", kind, c.Message, part)
		}
	}
}

// told returns the events since the last call.
func (f *following) told() string {
	var said []string
	for len(f.recorder.Events) > 0 {
		said = append(said, <-f.recorder.Events)
	}
	return strings.Join(said, "\n")
}

func (f *following) toldOf(parts ...string) {
	f.t.Helper()
	said := f.told()
	for _, part := range parts {
		if !strings.Contains(said, part) {
			f.t.Errorf("nobody was told %q: %s", part, said)
		}
	}
}

func (f *following) object(name string) *osm.OperatingSystemProfile {
	f.t.Helper()
	var osp osm.OperatingSystemProfile
	f.do(f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.ps.Namespace, Name: name}, &osp))
	return &osp
}

func (f *following) annotate(key, value string) {
	f.t.Helper()
	to := f.ps.DeepCopy()
	metav1.SetMetaDataAnnotation(&to.ObjectMeta, key, value)
	f.do(f.client.Patch(f.t.Context(), to, client.MergeFrom(f.ps)))
	f.do(f.client.Get(f.t.Context(), client.ObjectKeyFromObject(f.ps), f.ps))
}

// spec changes the Git part of the spec.
func (f *following) spec(change func(git *api.GitSource)) {
	f.t.Helper()
	change(f.ps.Spec.Git)
	f.do(f.client.Update(f.t.Context(), f.ps))
}
