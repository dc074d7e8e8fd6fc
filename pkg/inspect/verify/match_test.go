package verify

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// Only a node that reports that it matches agrees.
func TestMatch(t *testing.T) {
	condition := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: api.MatchesCondition, Status: status, Message: "message"}}
	}
	removed := metav1.Now()
	for name, c := range map[string]struct {
		status  api.NodeProvenanceStatus
		verdict string
		found   string
	}{
		"a node that matches":               {api.NodeProvenanceStatus{Match: &api.NodeMatch{State: api.MatchStateMatches}, Conditions: condition("True")}, VerdictAgrees, ""},
		"a node that has not reported":      {api.NodeProvenanceStatus{}, "unproven", ""},
		"a node that is not supported":      {api.NodeProvenanceStatus{Match: &api.NodeMatch{State: api.MatchStateNotSupported}, Conditions: condition("Unknown")}, "unproven", ""},
		"a deleted node":                    {api.NodeProvenanceStatus{Match: &api.NodeMatch{State: api.MatchStateMatches}, Conditions: condition("True"), Removed: &removed}, "unproven", ""},
		"a node that stopped to report":     {api.NodeProvenanceStatus{Match: &api.NodeMatch{State: api.MatchStateNotReported}, Conditions: condition("False")}, "node's files differ", "NotReported"},
		"a file with another version":       {api.NodeProvenanceStatus{Match: &api.NodeMatch{State: api.MatchStateDiffers, Differences: []api.MatchDifference{{Path: "/etc/x", Reason: "Content", Found: "0123456789ab", Version: "v1.1.0"}}}, Conditions: condition("False")}, "node's files differ", "Content 0123456789ab, as in v1.1.0"},
		"several files, and uncounted ones": {api.NodeProvenanceStatus{Match: &api.NodeMatch{State: api.MatchStateDiffers, Differences: []api.MatchDifference{{Path: "/etc/x", Reason: "Mode"}, {Path: "/etc/y", Reason: "Mode"}}, Others: 3}, Conditions: condition("False")}, "node's files differ", "Mode, and 4 more differences"},
	} {
		t.Run(name, func(t *testing.T) {
			np := &api.NodeProvenance{Status: c.status}
			np.Spec.Node.Name = "one"
			report := &Report{}
			report.addOrMerge(checkMatch(np))
			report.cleanSortAndSetVerdict()
			if report.Verdict != c.verdict {
				t.Errorf("the verdict is %q, want %q", report.Verdict, c.verdict)
			}
			if d := report.FirstDifference(); (d != nil) != (c.found != "") || d != nil && d.Difference.Found != c.found {
				t.Errorf("the difference is %+v", d)
			}
		})
	}
}
