package doctor

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
)

// The configuration of both pools is named a-b-c-config, and operating-system-manager made it
// for the first.
func TestPoolsOfTheSameObjectNames(t *testing.T) {
	pool := func(namespace, name string) cluster.MachineDeployment {
		return cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace),
			Annotations: map[string]string{api.AnnotationOSP: "osp-" + namespace},
		}}
	}
	first, second := pool("b-c", "a"), pool("c", "a-b")
	osc := &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "a-b-c-config", Annotations: map[string]string{
		api.AnnotationRevisionFor: "1", api.AnnotationOSPVersion: "v1.0.0",
		api.AnnotationMDAnnotationsHash: takeover.AnnotationsHash(first.Annotations),
	}}}
	s := &inventory{pools: []cluster.MachineDeployment{first, second}, configs: map[string]*osm.OperatingSystemConfig{osc.Name: osc}}
	for _, c := range []struct {
		md         *cluster.MachineDeployment
		text       string
		needsEvent bool
	}{
		{&first, "the controller takes it over", false},
		{&second, "has the same object names as another pool, and operating-system-manager did not create OperatingSystemConfig kube-system/a-b-c-config for its present annotations: rename one of the two pools: ", true},
	} {
		got := (&examination{}).diagnosePool(s, c.md)
		if !strings.HasSuffix(got.text, c.text) || got.needsEvent != c.needsEvent {
			t.Errorf("%s/%s %q (event: %t), want %q", c.md.Namespace, c.md.Name, got.text, got.needsEvent, c.text)
		}
	}
	s.pools = s.pools[1:] // another annotation since then is no collision
	if got := (&examination{}).diagnosePool(s, &second); !strings.HasSuffix(got.text, "the controller takes it over") {
		t.Errorf("a pool alone with the name %q", got.text)
	}
}
