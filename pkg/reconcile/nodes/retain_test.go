package nodes

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

func TestExpired(t *testing.T) {
	after := func(minutes int) time.Time { return time.Date(2026, 3, 1, 12, minutes, 0, 0, time.UTC) }
	provenance := func(name string, removed int) api.NodeProvenance {
		np := api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if removed >= 0 {
			at := metav1.NewTime(after(removed))
			np.Status.Removed = &at
		}
		return np
	}
	all := []api.NodeProvenance{provenance("there", -1), provenance("c", 30), provenance("a", 10), provenance("b", 20), provenance("there too", -1)}
	for name, c := range map[string]struct {
		keep Retention
		now  int
		want string
	}{
		"all are young and few":        {Retention{Age: time.Hour, Max: 5}, 60, ""},
		"one is old":                   {Retention{Age: time.Hour, Max: 5}, 70, "a"},
		"two are old":                  {Retention{Age: time.Hour, Max: 5}, 80, "a b"},
		"one too many":                 {Retention{Age: time.Hour, Max: 4}, 60, "a"},
		"nodes that are there stay":    {Retention{Age: time.Hour, Max: 1}, 60, "a b c"},
		"nothing is kept of what left": {Retention{Age: 0, Max: 5}, 60, "a b c"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, np := range expired(all, c.keep, after(c.now)) {
				got = append(got, np.Name)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
