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

// references lists the objects in other namespaces to which pools refer, which
// --cloud-provider-references has to allow. Doctor does not know the flags of the
// controller: a pool that is served either does not need the flag, or has it.
func (w *run) references(ctx context.Context) {
	s := w.readInventory(ctx, checkReferences)
	if s == nil {
		return
	}
	var served, refused outside
	for i := range s.pools {
		md := &s.pools[i]
		objects := render.ForeignReferences(md, render.Settings{})
		if len(objects) == 0 {
			continue
		}
		osc := s.configs[lineage.NamesOf(client.ObjectKeyFromObject(md)).Config]
		switch ready, uses := readsCloudConfig(osc); {
		case !ready:
			refused.add(client.ObjectKeyFromObject(md), objects)
		case uses:
			served.add(client.ObjectKeyFromObject(md), objects)
		}
	}
	const remedy = "%s; or copy them into the namespaces of these pools, name those there, and leave the flag out: a user who can write a MachineDeployment in any namespace can read the listed objects. " +
		"With --external-cloud-provider none of these are read"
	if len(served.pools) > 0 {
		w.add(Finding{
			Check: checkReferences, Level: Note, Cluster: w.in(w.Worker),
			Found:  plural(len(served.pools), "served pool refers", "served pools refer") + " to objects in other namespaces: " + some(served.pools),
			Remedy: fmt.Sprintf("keep "+remedy, served.flag()),
		})
	}
	if len(refused.pools) > 0 {
		w.add(Finding{
			Check: checkReferences, Level: Problem, Cluster: w.in(w.Worker),
			Found:  plural(len(refused.pools), "pool refers", "pools refer") + " to objects in other namespaces, and do not have what they request: " + some(refused.pools),
			Remedy: fmt.Sprintf("give the controller "+remedy, refused.flag()),
		})
	}
}

// outside groups pools by the objects in other namespaces to which they refer.
type outside struct {
	pools   []string
	objects []types.NamespacedName
}

func (o *outside) add(pool types.NamespacedName, objects []types.NamespacedName) {
	o.pools = append(o.pools, pool.String())
	o.objects = append(o.objects, objects...)
}

// flag returns the flag that allows all of the objects.
func (o *outside) flag() string {
	slices.SortFunc(o.objects, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return render.AllowReferences(slices.Compact(o.objects))
}

// readsCloudConfig reports whether a pool has its requested configuration, and whether that
// was created from its cloudProviderSpec.
func readsCloudConfig(osc *osm.OperatingSystemConfig) (ready, uses bool) {
	if osc == nil || osc.Annotations[api.AnnotationRefused] != "" {
		return false, false
	}
	rec, err := lineage.AnnotatedRecord(osc)
	return err == nil, rec.Pool.CloudConfig != ""
}
