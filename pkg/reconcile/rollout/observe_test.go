package rollout

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// The time of a rejection in an OperatingSystemConfig is read as pools write it: never a
// future one.
func TestRefusedSince(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	created := now.Add(-time.Hour)
	for since, want := range map[string]time.Time{
		"2026-01-01T11:30:00Z": now.Add(-30 * time.Minute),
		"2999-01-01T00:00:00Z": now,
		"edited":               created,
	} {
		for refused, want := range map[string]time.Time{"because": want, "": {}} {
			osc := &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created), Annotations: map[string]string{
				api.AnnotationRefused: refused, api.AnnotationRefusedVersion: "v2", api.AnnotationRefusedSince: since,
			}}
			if got := activeConfigOf(osc, now).rejectedSince; !got.Equal(want) {
				t.Errorf("refused %q since %q is read as %s, want %s", refused, since, got, want)
			}
		}
	}
}
