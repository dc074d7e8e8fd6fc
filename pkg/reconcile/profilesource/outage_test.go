package profilesource

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// During an outage of the Git server nothing that was applied changes. The status has the
// start and the cause and is written once; the delays grow until the server responds.
func TestOutage(t *testing.T) {
	var away atomic.Bool
	f := newFollowing(t, func(git *api.GitSource) { git.URL = sometimesAway(t, git.URL, &away) })
	f.ps.Spec.Interval, f.ps.Spec.RetryInterval = metav1.Duration{Duration: time.Hour}, metav1.Duration{Duration: 30 * time.Second}
	f.do(f.client.Update(t.Context(), f.ps))
	head := f.commit("", "v1.0.0", "one")
	f.applied("main@sha1:" + head)
	f.told()
	object, inventory := f.object("osp-a-v1.0.0"), f.ps.Status.Profiles

	away.Store(true)
	began := time.Now().Truncate(time.Second)
	wait := f.look().RequeueAfter
	within(t, "the first wait", wait, 30*time.Second)
	f.toldOf("Warning "+api.EventSourceFailed, "closed the connection")
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonUnreachable, "closed the connection")
	since := apimeta.FindStatusCondition(f.ps.Status.Conditions, meta.ReadyCondition).LastTransitionTime
	if since.Time.Before(began) || since.After(time.Now()) {
		t.Errorf("it is away since %s, and that began at %s", since, began)
	}
	version, was := f.ps.ResourceVersion, f.ps.Status.DeepCopy()
	for _, later := range []struct{ away, wait time.Duration }{
		{10 * time.Second, 30 * time.Second}, {31 * time.Second, 31 * time.Second}, {time.Minute, time.Minute},
		{20 * time.Minute, 20 * time.Minute}, {time.Hour, time.Hour}, {700 * time.Hour, time.Hour},
	} {
		f.restart() // the status stores the start of the outage
		f.r.Now = func() time.Time { return since.Add(later.away) }
		within(t, later.away.String(), f.look().RequeueAfter, later.wait)
		if later.away <= time.Hour && f.ps.ResourceVersion != version {
			t.Errorf("after %s the same outage was written again: %+v", later.away, f.ps.Status)
		}
	}
	// Now and then LastLook is updated, and nothing other than that.
	if want := since.Add(700 * time.Hour).Truncate(time.Second); f.ps.Status.LastLook == nil || !f.ps.Status.LastLook.Time.Equal(want) {
		t.Errorf("the last look is noted at %s, and was at %s", f.ps.Status.LastLook, want)
	}
	was.LastLook = f.ps.Status.LastLook
	if said := f.told(); said != "" || !equality.Semantic.DeepEqual(*was, f.ps.Status) {
		t.Errorf("the same outage was told again: %q, %+v", said, f.ps.Status)
	}
	if f.ps.Status.Revision != "main@sha1:"+head || len(f.ps.Status.Profiles) != 1 || !equality.Semantic.DeepEqual(f.ps.Status.Profiles[0], inventory[0]) || f.object("osp-a-v1.0.0").ResourceVersion != object.ResourceVersion {
		t.Errorf("what was applied did not stay: %+v", f.ps.Status)
	}

	away.Store(false)
	within(t, "the wait after the outage", f.look().RequeueAfter, time.Hour)
	if said := f.told(); said != "Normal "+api.EventSourceRecovered+" the source can be read again: main@sha1:"+head {
		t.Errorf("the end is told as %q", said)
	}
	f.condition(meta.ReadyCondition, metav1.ConditionTrue, meta.SucceededReason)
	if c := apimeta.FindStatusCondition(f.ps.Status.Conditions, meta.ReconcilingCondition); c != nil {
		t.Errorf("the outage stays in the status: %+v", c)
	}
	f.look()
	if said := f.told(); said != "" {
		t.Errorf("the end is told twice: %q", said)
	}

	// The next outage starts with short delays again.
	f.r.Now = nil
	away.Store(true)
	within(t, "the first wait of the next outage", f.look().RequeueAfter, 30*time.Second)
}

// within checks a delay, to which jitter adds up to a tenth.
func within(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want || got > want+want/10 {
		t.Errorf("%s: %s, want %s and up to a tenth more", what, got, want)
	}
}

// sometimesAway forwards requests, or closes the connection.
func sometimesAway(t *testing.T, to string, away *atomic.Bool) string {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	path := u.Path
	u.Path = ""
	proxy := httputil.NewSingleHostReverseProxy(u)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimSuffix(server.URL, "/") + path
}

// A suspended source states that once in the message that kubectl get shows, with the
// result of its last reconciliation. Clients do not wait for the suspension to end.
func TestSuspendedSourceSaysSo(t *testing.T) {
	f := newFollowing(t, nil)
	head := f.commit("", "v1.0.0", "one")
	suspend := func(is bool) {
		t.Helper()
		f.ps.Spec.Suspend = is
		f.do(f.client.Update(t.Context(), f.ps))
		f.look()
	}
	suspend(true)
	f.condition(meta.ReadyCondition, metav1.ConditionUnknown, meta.SuspendedReason, "suspended; never reconciled")
	suspend(false)
	f.condition(meta.ReadyCondition, metav1.ConditionTrue, meta.SucceededReason)
	noted := f.ps.Status.LastLook
	suspend(true)
	f.condition(meta.ReadyCondition, metav1.ConditionTrue, meta.SucceededReason, "suspended; last applied main@sha1:"+head)
	if f.kstatus() != status.CurrentStatus || !f.ps.Status.LastLook.Equal(noted) {
		t.Errorf("it is %s, and the last look is noted at %s, not %s", f.kstatus(), f.ps.Status.LastLook, noted)
	}
	version := f.ps.ResourceVersion
	if f.look(); f.ps.ResourceVersion != version {
		t.Error("it was written again")
	}
	suspend(false)
	if c := apimeta.FindStatusCondition(f.ps.Status.Conditions, meta.ReadyCondition); strings.Contains(c.Message, "suspended") {
		t.Errorf("it goes on, and says %q", c.Message)
	}

	f.ps.Spec.Git.Ref = &api.GitReference{Branch: "away"}
	f.do(f.client.Update(t.Context(), f.ps))
	f.look()
	suspend(true)
	suspend(true)
	c := apimeta.FindStatusCondition(f.ps.Status.Conditions, meta.ReadyCondition)
	if c.Status != metav1.ConditionFalse || !strings.HasPrefix(c.Message, "suspended; last result: ") || strings.Count(c.Message, "suspended") != 1 {
		t.Errorf("after a failure it is %s and says %q", c.Status, c.Message)
	}
}

// LastLook is updated with every other change of the status. Without a change it is
// written only when it is due.
func TestLastLookIsWrittenAlong(t *testing.T) {
	f := newFollowing(t, nil)
	now := time.Now().Truncate(time.Second)
	f.r.Now = func() time.Time { return now }
	f.applied("main@sha1:" + f.commit("", "v1.0.0", "one"))
	version := f.ps.ResourceVersion
	now = now.Add(time.Minute)
	if f.look(); f.ps.ResourceVersion != version {
		t.Error("a look that changes nothing was noted after a minute")
	}
	f.applied("main@sha1:" + f.commit("", "v1.1.0", "two"))
	if last := f.ps.Status.LastLook; !last.Time.Equal(now) {
		t.Errorf("what was applied at %s has a last look at %s", now, last)
	}
}
