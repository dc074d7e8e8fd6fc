package replacements

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// Machines are stale by what they were made with, not by their age.
func TestMadeWith(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	record := func(digest string, intervals string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationInputDigest: digest, api.AnnotationIntervals: intervals}}}
	}
	interval := func(uid, revision string, from, until int) string {
		return `{"uid":"` + uid + `","revision":"` + revision + `","from":"` + at(from).Format(time.RFC3339) + `","until":"` + at(until).Format(time.RFC3339) + `"}`
	}
	now := lineage.Generation{UID: "now", InputDigest: "B", From: at(100)}
	back := lineage.Generation{UID: "now", InputDigest: "A", From: at(100)}
	for name, c := range map[string]struct {
		current lineage.Generation
		records []metav1.PartialObjectMetadata
		m       waves.Machine
		want    string
	}{
		"the first configuration":                           {now, nil, waves.Machine{Created: at(0)}, "B"},
		"it was deleted by hand, and is back":               {now, nil, waves.Machine{Created: at(50)}, "B"},
		"the one before":                                    {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 100)+"]")}, waves.Machine{Created: at(50)}, "A"},
		"before the first, it waited":                       {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 20, 100)+"]")}, waves.Machine{Created: at(10)}, "A"},
		"after a clock that is behind":                      {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 90)+"]")}, waves.Machine{Created: at(95)}, "A"},
		"before a clock that is ahead":                      {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 200)+"]")}, waves.Machine{Created: at(150)}, "B"},
		"to and fro, from the first":                        {back, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 50)+"]"), record("B", "["+interval("b", "1", 50, 100)+"]")}, waves.Machine{Created: at(20)}, "A"},
		"to and fro, between":                               {back, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 50)+"]"), record("B", "["+interval("b", "1", 50, 100)+"]")}, waves.Machine{Created: at(70)}, "B"},
		"archived, and not deleted yet":                     {now, []metav1.PartialObjectMetadata{record("B", "["+interval("now", "1", 100, 101)+"]")}, waves.Machine{Created: at(102)}, "B"},
		"of a template that was changed, before we saw it":  {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 100)+"]")}, waves.Machine{Created: at(99), Revision: 2}, "B"},
		"of the same template":                              {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "2", 0, 100)+"]")}, waves.Machine{Created: at(99), Revision: 2}, "A"},
		"a record that somebody edited":                     {now, []metav1.PartialObjectMetadata{record("A", "nonsense")}, waves.Machine{Created: at(50)}, "B"},
		"a MachineSet of which nobody knows which template": {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 100)+"]")}, waves.Machine{Created: at(99)}, "A"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inputDigestOf(TimelineOf(c.current, c.records), c.m); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestIsRevert(t *testing.T) {
	for digests, want := range map[string]bool{"a": false, "a b": false, "a b b": false, "a a": false, "a b a": true, "a b a a": true, "a b c b": true} {
		var timeline lineage.Timeline
		for _, d := range strings.Fields(digests) {
			timeline = append(timeline, lineage.Generation{InputDigest: d})
		}
		if got := isRevert(timeline); got != want {
			t.Errorf("%s: %t", digests, got)
		}
	}
}
