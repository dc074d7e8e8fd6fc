package importer

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// A pool that cannot be written is reported and gets no file instead of an empty one, and
// later pools get theirs.
func TestUnwritablePoolGetsNoFile(t *testing.T) {
	of := func(name, providerSpec string) pool {
		md := &cluster.MachineDeployment{}
		md.Name, md.Namespace, md.Annotations = name, "shop", map[string]string{api.AnnotationOSP: "osp-x"}
		md.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(providerSpec)}
		return pool{object: manifest.Object{Content: map[string]any{"kind": "MachineDeployment", "metadata": map[string]any{"name": name, "namespace": "shop"}}}, md: md, inputs: &render.Pool{}}
	}
	a := &importPlan{in: Input{Namespace: "kube-system"}, plan: &Plan{Files: map[string][]byte{}}, pools: []pool{of("broken", `{"cloudProvider": 1e999}`), of("web", `{"cloudProvider": "aws"}`)}}
	a.writeAndCheckPools()
	if got := slices.Collect(maps.Keys(a.plan.Files)); !slices.Equal(got, []string{PoolsDir + "/shop-web.yaml"}) {
		t.Errorf("files are %q", got)
	}
	if !slices.ContainsFunc(a.plan.Notes, func(n Note) bool {
		return strings.Contains(n.Object, "shop/broken") && strings.Contains(n.Message, "not written to "+PoolsDir)
	}) {
		t.Errorf("notes are %+v", a.plan.Notes)
	}
}
