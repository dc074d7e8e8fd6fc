package commitstatus

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// A commit whose machines do not boot fails, with file and line but no command, until one boots:
// the latest commit, and one before it.
func TestFailingBoots(t *testing.T) {
	h, r := newHost(t), newReporter(t)
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

	const earlier = "89abcdef0123456789abcdef0123456789abcdef"
	report := &api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "node-web-0123456789abcdef"}}
	ps := r.source("osps", "github", "https://github.com/octo/hello", h.url)
	r.pool("one", "a", "v2", commit)
	r.do(r.client.Create(t.Context(), report))
	t.Cleanup(func() { r.do(r.client.Delete(context.WithoutCancel(t.Context()), report)) })
	boot := func(machine, profile, version, from string, outcome api.BootOutcome, attempt int32) api.MachineBootStatus {
		return api.MachineBootStatus{
			Machine: machine, MachineUID: types.UID(machine), Stage: api.BootStageSetup, Outcome: outcome, BootID: "01234567-89ab-cdef-0123-456789abcdef",
			Attempt: attempt, Config: "0123456789ab", Profile: profile, Version: version, Since: metav1.NewTime(time.Now().Truncate(time.Second)),
			Cause: &api.BootCause{File: "osps/a.yaml", Line: 42, NodeFile: "/opt/bin/setup", NodeLine: 7, Command: "curl --secret", ExitStatus: 22, Commit: from},
		}
	}
	write := func(machines ...api.MachineBootStatus) {
		t.Helper()
		r.do(r.client.Get(t.Context(), client.ObjectKeyFromObject(report), report))
		report.Status.Machines = machines
		r.do(r.client.Status().Update(t.Context(), report))
	}
	good, bad := "success: 2 profiles applied, 1 pool rotated (osm-gitops/eu-1)", "failure: machines do not boot: osps/a.yaml:42, exit status 22 (osm-gitops/eu-1)"
	want := []string{good}
	r.looked(ps, []string{"a"})
	h.wait(want...)
	write(boot("m", "a", "v2", commit, api.BootFailing, 1), boot("n", "elsewhere", "v1", earlier, api.BootFailing, 3))
	h.wait(want...) // one failure is none, and other profiles have other repositories
	write(boot("m", "a", "v2", commit, api.BootFailing, 3))
	want = append(want, bad)
	h.wait(want...)
	// An earlier stage, or another machine, says nothing about it.
	bootstrap := boot("m", "a", "v2", commit, api.BootSucceeded, 4)
	bootstrap.Stage = api.BootStageBootstrap
	write(bootstrap, boot("m", "a", "v2", commit, api.BootFailing, 4), boot("o", "a", "v2", commit, api.BootSucceeded, 2))
	r.looked(ps, nil)
	h.wait(want...)
	// A controller that starts again says the same, also if it can read reports only later.
	again := newReporter(t)
	again.AwaitReports = time.Minute
	again.looked(ps, []string{"a"})
	h.wait(want...)
	r.do(again.WatchBootReports(ctx, reports))
	want = append(want, bad)
	h.wait(want...)
	again.EnqueueReconciliation(Reconciliation{Source: ps}) // ends it
	write(boot("m", "a", "v2", commit, api.BootSucceeded, 4))
	want = append(want, good)
	h.wait(want...)
	write(boot("m", "b", "v1", earlier, api.BootFailing, 3))
	want = append(want, bad)
	h.wait(want...)
	write(boot("m", "b", "v1", earlier, api.BootSucceeded, 3))
	want = append(want, "success: machines boot again (osm-gitops/eu-1)")
	h.wait(want...)
	for i, state := range want {
		path := h.paths[i]
		if of := i > 3; strings.HasSuffix(path, "/statuses/"+earlier) != of || strings.HasSuffix(path, "/statuses/"+commit) == of {
			t.Errorf("status %d, %q, is sent to %s", i, state, path)
		}
	}
}
