package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const checkReferences = "references"

// examineForeignReferences lists the objects in other namespaces to which pools refer, which
// --cloud-provider-references has to allow. Doctor does not know the flags of the
// controller: a pool that is served either does not need the flag, or has it.
func (w *examination) examineForeignReferences(ctx context.Context) {
	s := w.readInventory(ctx, checkReferences)
	if s == nil {
		return
	}
	var served, rejected foreignReferences
	for i := range s.pools {
		md := &s.pools[i]
		objects := render.ForeignReferences(md, render.Settings{})
		if len(objects) == 0 {
			continue
		}
		osc := s.configs[lineage.NamesOf(client.ObjectKeyFromObject(md)).Config]
		switch ready, uses := readyAndUsesCloudProviderSpec(osc); {
		case !ready:
			rejected.addReferences(client.ObjectKeyFromObject(md), objects)
		case uses:
			served.addReferences(client.ObjectKeyFromObject(md), objects)
		}
	}
	const remedy = "%s; or copy them into the namespaces of these pools, name those there, and leave the flag out: a user who can write a MachineDeployment in any namespace can read the listed objects. " +
		"With --external-cloud-provider none of these are read"
	if len(served.pools) > 0 {
		w.report(Note, checkReferences, w.Worker, plural(len(served.pools), "served pool refers", "served pools refer")+" to objects in other namespaces: "+joinSome(served.pools),
			fmt.Sprintf("keep "+remedy, served.allowFlag()))
	}
	if len(rejected.pools) > 0 {
		w.report(Problem, checkReferences, w.Worker, plural(len(rejected.pools), "pool refers", "pools refer")+" to objects in other namespaces, and do not have what they request: "+joinSome(rejected.pools),
			fmt.Sprintf("give the controller "+remedy, rejected.allowFlag()))
	}
}

// foreignReferences groups pools by the objects in other namespaces to which they refer.
type foreignReferences struct {
	pools   []string
	objects []types.NamespacedName
}

func (o *foreignReferences) addReferences(pool types.NamespacedName, objects []types.NamespacedName) {
	o.pools = append(o.pools, pool.String())
	o.objects = append(o.objects, objects...)
}

// allowFlag returns the flag that allows all of the objects.
func (o *foreignReferences) allowFlag() string {
	slices.SortFunc(o.objects, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return render.AllowReferencesFlag(slices.Compact(o.objects))
}

// readyAndUsesCloudProviderSpec reports whether a pool has its requested configuration (ready), and whether that
// was created from its cloudProviderSpec (uses).
func readyAndUsesCloudProviderSpec(osc *osm.OperatingSystemConfig) (ready, uses bool) {
	if osc == nil || osc.Annotations[api.AnnotationRefused] != "" {
		return false, false
	}
	rec, err := lineage.ParseRecordAnnotation(osc)
	return err == nil, rec.Pool.CloudConfig != ""
}
