package api_test

import (
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// A NodeProvenance is immutable, and can record the removal of its node once.
func TestProvenanceIsImmutable(t *testing.T) {
	cl := cluster.Shared(t).Client(t)
	var np api.NodeProvenance
	object, err := yaml.Marshal(readObject(t, filepath.Join("testdata", "provenance.yaml")).Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(object, &np); err != nil {
		t.Fatal(err)
	}
	np.Name = "immutable.0b6f3c1a"
	if err := cl.Create(t.Context(), &np); err != nil {
		t.Fatal(err)
	}

	for name, change := range map[string]func(*api.NodeProvenanceSpec){
		"another commit":   func(s *api.NodeProvenanceSpec) { s.Configuration.Commit = strings.Repeat("0", 40) },
		"another evidence": func(s *api.NodeProvenanceSpec) { s.Evidence = api.EvidenceInferred },
		"one more configuration that was possible": func(s *api.NodeProvenanceSpec) {
			s.Possible = append(s.Possible, s.Possible[0])
		},
		"no word of the node": func(s *api.NodeProvenanceSpec) { s.Reported = nil },
	} {
		changed := np.DeepCopy()
		change(&changed.Spec)
		if err := cl.Update(t.Context(), changed); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s: got %v", name, err)
		}
	}

	now := metav1.Now().Rfc3339Copy()
	np.Status = api.NodeProvenanceStatus{Behind: api.BehindNo, Removed: &now}
	if err := cl.Status().Update(t.Context(), &np); err != nil {
		t.Fatal(err)
	}
	for name, removed := range map[string]*metav1.Time{"back again": nil, "at another time": {Time: now.Add(1e9)}} {
		changed := np.DeepCopy()
		changed.Status.Removed = removed
		if err := cl.Status().Update(t.Context(), changed); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "removed is set once") {
			t.Errorf("%s: got %v", name, err)
		}
	}

	for name, spoil := range map[string]func(*api.NodeProvenanceSpec){
		"a configuration that nobody knows": func(s *api.NodeProvenanceSpec) { s.Evidence = api.EvidenceUnknown },
		"no configuration that is reported": func(s *api.NodeProvenanceSpec) { s.Configuration = nil },
		"evidence of another kind":          func(s *api.NodeProvenanceSpec) { s.Evidence = "Guessed" },
	} {
		other := &api.NodeProvenance{Spec: *np.Spec.DeepCopy()}
		other.Name = "spoilt.0b6f3c1a"
		spoil(&other.Spec)
		if err := cl.Create(t.Context(), other); !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, selector := range []string{"spec.node.name=workers-7c9f-x2x4k", "spec.evidence=Reported", "status.behind=No"} {
		var list api.NodeProvenanceList
		if err := cl.List(t.Context(), &list, &client.ListOptions{Raw: &metav1.ListOptions{FieldSelector: selector}}); err != nil || len(list.Items) == 0 {
			t.Errorf("--field-selector %s: %d objects, %v", selector, len(list.Items), err)
		}
	}
}
