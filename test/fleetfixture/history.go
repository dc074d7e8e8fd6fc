package fleetfixture

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
)

// Restored is the commit that made v1.2.0 current again.
var Restored = strings.Repeat("5e", 20)

// Rotated is a pool that had v1.0.0, v1.1.0 and v1.2.0 within one second, was set back to
// v1.0.0 a day later, and then got v1.2.0 again. The names of objects do not reveal their
// order.
func Rotated(uids [3]types.UID) fleet.Objects {
	start, back, again := Ago(3*Day), Ago(2*Day), Ago(Day)
	o := fleet.Objects{
		Pools: []metav1.ObjectMeta{PoolMeta("shop", "web")},
		Profiles: []metav1.ObjectMeta{
			ProfileMeta("osp-web", "v1.0.0", First, First, "Ada <ada@example.com>", 30*Day),
			ProfileMeta("osp-web", "v1.1.0", Second, Written, "Ben <ben@example.com>", 20*Day),
			ProfileMeta("osp-web", "v1.2.0", Third, Third, "Eve <eve@example.com>", 10*Day),
		},
		Records: []metav1.ObjectMeta{
			RecordMeta("shop/web", "v1.2.0", Third, "d-3", api.Interval{From: start, Until: back, UID: uids[2], Replaces: uids[1]}),
			RecordMeta("shop/web", "v1.0.0", First, "d-1", api.Interval{From: start, Until: start, UID: uids[0]}),
			RecordMeta("shop/web", "v1.1.0", Second, "d-2", api.Interval{From: start, Until: start, UID: uids[1], Replaces: uids[0]}),
		},
	}
	intervals, err := json.Marshal([]api.Interval{{From: start, Until: start, UID: uids[0]}, {From: back, Until: again, UID: "back", Replaces: uids[2], SelectedBy: Written}})
	if err != nil {
		panic(err)
	}
	o.Records[1].Annotations[api.AnnotationIntervals] = string(intervals)
	config := ConfigOf("shop/web", "v1.2.0", Third, "d-3", again, "again")
	config.Annotations[api.AnnotationReplaces] = "back"
	config.Annotations[api.AnnotationSelectedBy] = Restored
	o.Configs = []osm.OperatingSystemConfig{config}
	o.Nodes = []fleet.ProvenanceSummary{{Record: "n.0a1b2c3d", Node: "n", UID: "u", Pool: "shop/web", Digest: "d-3", Profile: "osp-web", Version: "v1.2.0", Evidence: api.EvidenceReported, Joined: Ago(3*Day - 1)}}
	return o
}
