package commitstatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// earlier is a commit before the current one.
const earlier = "89abcdef0123456789abcdef0123456789abcdef"

// What is said of the current commit and of boots.
const (
	good  = "success: 2 profiles applied, 1 pool rotated (osm-gitops/eu-1)"
	red   = "failure: machines do not boot: osps/a.yaml:42, exit status 22 (osm-gitops-boots/eu-1)"
	green = "success: machines boot again (osm-gitops-boots/eu-1)"
)

// bootReports is a BootReport, with a reporter that reads it.
type bootReports struct {
	*reporter
	cache  cache.Cache
	report *api.BootReport
}

func newBootReports(t *testing.T) *bootReports {
	t.Helper()
	r := newReporter(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	reports, err := cache.New(cluster.Shared(t).Config, cache.Options{Scheme: r.client.Scheme()})
	r.do(err)
	go func() { ended <- reports.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	r.do(r.WatchBootReports(ctx, reports))
	r.pool("one", "a", "v2", commit)
	report := &api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "node-web-0123456789abcdef"}}
	r.do(r.client.Create(t.Context(), report))
	t.Cleanup(func() { r.do(r.client.Delete(context.WithoutCancel(t.Context()), report)) })
	return &bootReports{r, reports, report}
}

// write replaces what is concluded.
func (b *bootReports) write(machines ...api.MachineBootStatus) {
	b.t.Helper()
	b.do(b.client.Get(b.t.Context(), client.ObjectKeyFromObject(b.report), b.report))
	b.report.Status.Machines = machines
	b.do(b.client.Status().Update(b.t.Context(), b.report))
}

// again returns another controller, after a restart, with the source as it is in the cluster.
func (b *bootReports) again(ps *api.ProfileSource) (*reporter, *api.ProfileSource) {
	b.t.Helper()
	b.EnqueueReconciliation(Reconciliation{Source: ps}) // ends the one before
	again, now := newReporter(b.t), &api.ProfileSource{}
	again.Namespace = b.namespace
	b.do(b.client.Get(b.t.Context(), client.ObjectKeyFromObject(ps), now))
	return again, now
}

// failedCommits waits for those in the status of a source.
func (b *bootReports) failedCommits(ps *api.ProfileSource, want ...string) {
	b.t.Helper()
	testenv.Await(b.t, 30*time.Second, fmt.Sprintf("the source has the failed commits %v", want), func() error {
		now := &api.ProfileSource{}
		b.do(b.client.Get(b.t.Context(), client.ObjectKeyFromObject(ps), now))
		if !slices.Equal(now.Status.FailedCommits, want) {
			return fmt.Errorf("it has %v", now.Status.FailedCommits)
		}
		return nil
	})
}

func boot(machine, profile, version, from string, outcome api.BootOutcome, attempt int32) api.MachineBootStatus {
	return api.MachineBootStatus{
		Machine: machine, MachineUID: types.UID(machine), Stage: api.BootStageSetup, Outcome: outcome, BootID: "01234567-89ab-cdef-0123-456789abcdef",
		Attempt: attempt, Config: "0123456789ab", Profile: profile, Version: version, Since: metav1.NewTime(time.Now().Truncate(time.Second)),
		Cause: &api.BootCause{File: "osps/a.yaml", Line: 42, NodeFile: "/opt/bin/setup", NodeLine: 7, Command: "curl --secret", ExitStatus: 22, Commit: from},
	}
}

// A commit whose machines do not boot fails, with file and line but no command, until one boots:
// the latest commit, and one before it.
func TestFailingBoots(t *testing.T) {
	h, b := newHost(t), newBootReports(t)
	ps := b.source("osps", "github", "https://github.com/octo/hello", h.url)
	want := []string{good}
	b.looked(ps, []string{"a"})
	h.wait(want...)
	elsewhere := boot("o", "a", "v1", earlier, api.BootFailing, 3)
	elsewhere.ProfileNamespace = "elsewhere"
	b.write(boot("m", "a", "v2", commit, api.BootFailing, 1), boot("n", "elsewhere", "v1", earlier, api.BootFailing, 3), elsewhere)
	h.wait(want...) // one failure is none, and other profiles have other repositories
	b.write(boot("m", "a", "v2", commit, api.BootFailing, 3))
	want = append(want, red)
	h.wait(want...)
	// An earlier stage, or another machine, says nothing about it.
	bootstrap := boot("m", "a", "v2", commit, api.BootSucceeded, 4)
	bootstrap.Stage = api.BootStageBootstrap
	b.write(bootstrap, boot("m", "a", "v2", commit, api.BootFailing, 4), boot("o", "a", "v2", commit, api.BootSucceeded, 2))
	b.looked(ps, nil)
	h.wait(want...)
	b.write(boot("m", "a", "v2", commit, api.BootSucceeded, 4))
	want = append(want, green)
	h.wait(want...)
	// Also the commit that made earlier content current again.
	reverted := boot("m", "b", "v1", earlier, api.BootFailing, 3)
	reverted.SelectedBy = commit
	b.write(reverted)
	want = append(want, red, red)
	h.wait(want...)
	b.failedCommits(ps, commit, earlier)
	b.write()
	want = append(want, green, green)
	h.wait(want...)
	b.failedCommits(ps)
	for i, of := range []string{commit, commit, commit, commit, earlier, commit, earlier} {
		if !strings.HasSuffix(h.paths[i], "/statuses/"+of) {
			t.Errorf("status %d, %q, is sent to %s", i, want[i], h.paths[i])
		}
	}
}

// A failure that ends while no controller runs is reported as ended by the next one, once it can read
// reports.
func TestBootsAfterRestart(t *testing.T) {
	h, b := newHost(t), newBootReports(t)
	ps := b.source("osps", "github", "https://github.com/octo/hello", h.url)
	b.looked(ps, []string{"a"})
	h.wait(good)
	b.write(boot("m", "a", "v1", earlier, api.BootFailing, 3))
	h.wait(good, red)
	b.failedCommits(ps, earlier)
	again, ps := b.again(ps)
	b.do(again.WatchBootReports(t.Context(), b.cache))
	again.looked(ps, []string{"a"})
	h.wait(good, red, good) // it still fails
	again.EnqueueReconciliation(Reconciliation{Source: ps})
	b.write()
	again, ps = b.again(ps)
	again.looked(ps, []string{"a"})
	h.wait(good, red, good, good) // it cannot know yet
	b.do(again.WatchBootReports(t.Context(), b.cache))
	h.wait(good, red, good, good, green)
	b.failedCommits(ps)
}

// A commit that fails for its own files still fails after its machines boot.
func TestBootsOfRejectedCommit(t *testing.T) {
	h, b := newHost(t), newBootReports(t)
	ps := b.source("osps", "github", "https://github.com/octo/hello", h.url)
	b.looked(ps, []string{"a"}, errors.New("bad"))
	b.write(boot("m", "a", "v2", commit, api.BootFailing, 3))
	rejected := "failure: 1 problem: bad (osm-gitops/eu-1)"
	h.wait(rejected, red)
	ps.Status.Profiles = []api.ProfileEntry{{Name: "a", Version: "v3", Commit: earlier}}
	b.EnqueueReconciliation(Reconciliation{Source: ps, Revision: "main@sha1:" + earlier})
	next := "success: 1 profile applied, 0 pools rotated (osm-gitops/eu-1)"
	h.wait(rejected, red, next)
	b.write()
	h.wait(rejected, red, next, green)
	if got := h.paths[3]; !strings.HasSuffix(got, "/statuses/"+commit) {
		t.Errorf("the boots are reported to %s", got)
	}
}

// A commit whose status the host rejects, since it does not know it, does not concern those of others,
// and is not sent again.
func TestRejectedBootStatus(t *testing.T) {
	h, b := newHost(t), newBootReports(t)
	ps := b.source("osps", "github", "https://github.com/octo/hello", h.url)
	b.looked(ps, []string{"a"})
	h.wait(good)
	h.answer("No commit found for SHA", 422)
	unknown := boot("m", "a", "v1", strings.Repeat("0", 40), api.BootFailing, 3)
	b.write(unknown, boot("n", "b", "v1", earlier, api.BootFailing, 3))
	h.wait(good, red)
	if e := b.event(); !strings.Contains(e, "CommitStatusRefused") || !strings.Contains(e, "commit status of 0000") {
		t.Errorf("told is %q", e)
	}
	b.failedCommits(ps, earlier)
	tries := h.count()
	b.looked(ps, nil)
	b.write(unknown, boot("n", "b", "v1", earlier, api.BootFailing, 4))
	h.wait(good, red)
	b.write()
	h.wait(good, red, green)
	if n := h.count(); n != tries+1 || len(b.recorder.Events) > 0 {
		t.Errorf("%d more requests", n-tries)
	}
}

// Of more commits than can fail at the same time, none is reported as booting again while it fails, and
// another one fails in place of one whose machines boot again.
func TestManyFailingCommits(t *testing.T) {
	h, b := newHost(t), newBootReports(t)
	ps := b.source("osps", "github", "https://github.com/octo/hello", h.url)
	want := []string{good}
	b.looked(ps, []string{"a"})
	h.wait(want...)
	var machines []api.MachineBootStatus
	var commits []string
	for i := range maxFailedCommits + 1 {
		commits = append(commits, fmt.Sprintf("%040x", i+1))
		machines = append(machines, boot(fmt.Sprintf("m%d", i), "b", "v1", commits[i], api.BootFailing, 3))
	}
	b.write(machines[1:]...)
	want = append(want, slices.Repeat([]string{red}, maxFailedCommits)...)
	h.wait(want...)
	b.failedCommits(ps, commits[1:]...)
	b.write(machines...)
	h.wait(want...)
	b.failedCommits(ps, commits[1:]...)
	b.write(machines[:maxFailedCommits]...)
	h.wait(append(want, green, red)...)
	b.failedCommits(ps, commits[:maxFailedCommits]...)
	if sent := h.paths[len(want):]; !strings.HasSuffix(sent[0], "/statuses/"+commits[maxFailedCommits]) || !strings.HasSuffix(sent[1], "/statuses/"+commits[0]) {
		t.Errorf("the statuses are sent to %q", sent)
	}
}

// Commits that vanished from the host, so that it rejects their success, leave room for others that fail.
func TestVanishedFailingCommits(t *testing.T) {
	h, b := newHost(t), newBootReports(t)
	ps := b.source("osps", "github", "https://github.com/octo/hello", h.url)
	b.looked(ps, []string{"a"})
	want := []string{good}
	h.wait(want...)
	var machines []api.MachineBootStatus
	for i := range maxFailedCommits {
		machines = append(machines, boot(fmt.Sprintf("m%d", i), "b", "v1", fmt.Sprintf("%040x", i+1), api.BootFailing, 3))
	}
	b.write(machines...)
	want = append(want, slices.Repeat([]string{red}, maxFailedCommits)...)
	h.wait(want...)
	h.answer("No commit found for SHA", slices.Repeat([]int{422}, maxFailedCommits)...)
	b.write()
	h.wait(want...)
	b.write(boot("n", "b", "v1", earlier, api.BootFailing, 3))
	h.wait(append(want, red)...)
	b.failedCommits(ps, earlier)
}
