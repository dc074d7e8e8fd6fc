package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// planSummary names what a plan writes: changed parts of the status, kinds of audit log entries, events.
func planSummary(p plan) string {
	var out []string
	status := func(verb string, s statusPlan) {
		var entries []string
		for i := range s.entries {
			entries = append(entries, string(s.entries[i].Kind))
		}
		out = append(out, fmt.Sprint(verb, " ", s.of.Name, " ", slices.Sorted(maps.Keys(s.change)), " ", entries))
	}
	for _, s := range p.removed {
		status("remove", s)
	}
	if p.create != nil {
		out = append(out, "create "+p.create.Name)
	}
	if p.annotate != "" {
		out = append(out, "annotate "+p.annotate)
	}
	if p.status != nil {
		status("update", *p.status)
	}
	for _, e := range p.events {
		out = append(out, "event "+e.reason)
	}
	return strings.Join(out, "; ")
}

func TestNewPlan(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	node := func(annotations map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Annotations: annotations}}
	}
	named := map[string]string{api.AnnotationProvenance: lineage.ProvenanceName("n", "u")}
	stored := func(name string, status api.NodeProvenanceStatus) *api.NodeProvenance {
		return &api.NodeProvenance{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: api.NodeProvenanceSpec{Node: api.ProvenanceNode{Name: "n", UID: "u"}}, Status: status,
		}
	}
	both := func(np *api.NodeProvenance) *provenance { return &provenance{np, np} }
	evaluated := api.NodeProvenanceStatus{
		Behind: api.BehindNo, Match: &api.NodeMatch{State: api.MatchStateNotReported},
		Conditions: []metav1.Condition{{Type: api.AgreedCondition, Status: metav1.ConditionTrue, Reason: "Agreed", Message: "as before"}},
	}
	for name, c := range map[string]struct {
		seen observed
		want string
	}{
		"nothing could be read": {observed{}, ""},
		"a deleted node, without an audit log": {
			observed{removed: []provenance{{NodeProvenance: stored("gone", evaluated)}}}, "remove gone [removed] []",
		},
		"a deleted node gets its entries before the status": {
			observed{audited: true, removed: []provenance{*both(stored("gone", api.NodeProvenanceStatus{}))}}, "remove gone [removed] [NodeJoined NodeRemoved]",
		},
		"only the entries of a deleted node are missing": {
			observed{audited: true, removed: []provenance{*both(stored("gone", api.NodeProvenanceStatus{Removed: &metav1.Time{Time: now}}))}}, "remove gone [] [NodeJoined NodeRemoved]",
		},
		"a node that joins after another one of its name": {
			observed{node: node(nil), removed: []provenance{{NodeProvenance: stored("gone", evaluated)}}, joining: &joining{node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}}},
			"remove gone [removed] []; create " + lineage.ProvenanceName("n", "u"),
		},
		"a NodeProvenance that was just created": {
			observed{
				node: node(nil), audited: true, complete: true, current: both(stored("np", api.NodeProvenanceStatus{})),
				match: observedMatch{changed: true, state: api.MatchStateNotSupported},
			},
			"annotate np; update np [behind conditions match missing reported] [NodeJoined]",
		},
		"a node that changes its report too often": {observed{node: node(nil), current: both(stored("np", evaluated)), postponed: true}, ""},
		"a status of which a part could not be read": {
			observed{node: node(nil), current: both(stored("np", evaluated)), match: observedMatch{changed: true}}, "annotate np",
		},
		"a node that is silent": {
			observed{node: node(named), complete: true, current: both(stored("np", evaluated)), match: observedMatch{changed: true, state: api.MatchStateNotReported}},
			"update np [conditions match] []; event " + api.EventNodeDiffers,
		},
		"a condition that an earlier release removed is restored without an event": {
			observed{node: node(named), complete: true, current: both(stored("np", evaluated)), match: observedMatch{changed: true, restored: true}},
			"update np [conditions match] []",
		},
		"machines contradict the recorded machine": {
			observed{node: node(named), audited: true, complete: true, current: both(stored("np", evaluated)), contradiction: "another names it"},
			"update np [conditions reported] [NodeJoined NodeDisputed NodeDiffers]; event " + api.EventProvenanceDisputed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.seen.now = now
			if got := planSummary(newPlan(&c.seen)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Conditions come from the API server: the cache lacks their messages. The cached object remains
// unchanged.
func TestPlanRetainsConditions(t *testing.T) {
	cached := &api.NodeProvenance{Status: api.NodeProvenanceStatus{
		Behind: api.BehindNo, Conditions: []metav1.Condition{{Type: api.AgreedCondition, Status: metav1.ConditionTrue}},
	}}
	live := cached.DeepCopy()
	live.Status.Conditions[0].Message = "as before"
	p := newPlan(&observed{
		node: &metav1.PartialObjectMetadata{}, current: &provenance{cached, live}, match: observedMatch{changed: true, state: api.MatchStateNotSupported}, complete: true,
	})
	conditions, _ := p.status.change["conditions"].([]metav1.Condition)
	agreed := apimeta.FindStatusCondition(conditions, api.AgreedCondition)
	if len(conditions) != 2 || agreed == nil || agreed.Message != "as before" {
		t.Errorf("conditions %+v", conditions)
	}
	if len(cached.Status.Conditions) != 1 || cached.Status.Match != nil || len(live.Status.Conditions) != 1 {
		t.Errorf("planning changed what was read: %+v", cached.Status)
	}
}
