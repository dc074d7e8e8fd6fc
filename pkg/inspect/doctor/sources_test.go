package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// TestLastLook: the finding about each source says how old the last reconciliation is, and how
// old it can become in a healthy installation; a missing record is not replaced by a guess.
func TestLastLook(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ok, failing := metav1.ConditionTrue, metav1.ConditionFalse
	for name, c := range map[string]struct {
		interval, ago time.Duration // since the last look; 0: none was noted
		ready         metav1.ConditionStatus
		level         Level
		found         string // how it ends
	}{
		"fresh":                           {time.Minute, 5 * time.Second, ok, OK, "0 profiles; reconciled within the last 5s: a reconciliation without changes is recorded only every 10m0s"},
		"of 13 minutes at one minute":     {time.Minute, 13 * time.Minute, ok, OK, "; reconciled within the last 13m0s: a reconciliation without changes is recorded only every 10m0s"},
		"of an hour at half an hour":      {30 * time.Minute, time.Hour, ok, OK, "; reconciled within the last 1h0m0s: a reconciliation without changes is recorded only every 2h30m0s"},
		"ahead of the API server":         {time.Minute, -time.Minute, ok, OK, "; reconciled within the last 0s: a reconciliation without changes is recorded only every 10m0s"},
		"just in time":                    {time.Minute, 20*time.Minute - time.Second, ok, OK, "; reconciled within the last 19m59s: a reconciliation without changes is recorded only every 10m0s"},
		"stale":                           {time.Minute, 20 * time.Minute, ok, Problem, "no controller reconciles ProfileSource osps: the last reconciliation was recorded 20m0s ago, and a controller records one every 10m0s"},
		"stale at a long interval":        {time.Hour, 11 * time.Hour, ok, Problem, "the last reconciliation was recorded 11h0m0s ago, and a controller records one every 5h0m0s"},
		"never noted":                     {time.Minute, 0, ok, OK, "is ready at main@sha1:1, 0 profiles"},
		"failing, and looked at":          {time.Minute, 13 * time.Minute, failing, Problem, ": Unreachable: it is away"},
		"failing, and nobody looks again": {time.Minute, 25 * time.Minute, failing, Problem, ": Unreachable: it is away; the last reconciliation was recorded 25m0s ago"},
	} {
		ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "osps"}}
		ps.Spec.Interval.Duration = c.interval
		ps.Status.Revision = "main@sha1:1"
		ps.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: c.ready, Reason: api.ReasonUnreachable, Message: "it is away"}}
		if c.ago != 0 {
			ps.Status.LastLook = &metav1.Time{Time: now.Add(-c.ago)}
		}
		in := &Cluster{seen: apiServerResponse{date: now}}
		w := &examination{Doctor: &Doctor{Management: in, Worker: in}}
		w.examineSource(ps)
		if f := w.Findings[0]; len(w.Findings) != 1 || f.Level != c.level || !strings.HasSuffix(f.Found, c.found) {
			t.Errorf("%s: %+v", name, w.Findings)
		}
	}
}
