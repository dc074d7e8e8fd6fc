package nodes

import (
	"sync"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// nodeCounts counts NodeProvenances with equal labels as they are added and deleted, so that
// a scrape does not iterate over all of them.
type nodeCounts struct {
	mu    sync.Mutex
	alike map[metrics.NodeCount]int
}

// countKeyOf returns the labels by which a NodeProvenance is counted.
func countKeyOf(obj any) (metrics.NodeCount, bool) {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	np, ok := obj.(*api.NodeProvenance)
	if !ok {
		return metrics.NodeCount{}, false
	}
	differing := ""
	if c := apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition); c != nil && c.Status == metav1.ConditionFalse {
		differing = c.Reason
	}
	return metrics.NodeCount{
		Differing: differing, Evidence: string(np.Spec.Evidence), Behind: string(np.Status.Behind), Gone: np.Status.Removed != nil,
		Disputed: apimeta.IsStatusConditionFalse(np.Status.Conditions, api.AgreedCondition),
	}, true
}

// adjustCount adds n to the count of the NodeProvenances with the labels of an object.
func (c *nodeCounts) adjustCount(obj any, n int) {
	key, ok := countKeyOf(obj)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alike == nil {
		c.alike = map[metrics.NodeCount]int{}
	}
	if c.alike[key] += n; c.alike[key] == 0 {
		delete(c.alike, key)
	}
}

// eventHandler receives the changes of the cache.
func (c *nodeCounts) eventHandler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.adjustCount(obj, 1) },
		UpdateFunc: func(was, is any) { c.adjustCount(was, -1); c.adjustCount(is, 1) },
		DeleteFunc: func(obj any) { c.adjustCount(obj, -1) },
	}
}

// listCounts returns the current counts.
func (c *nodeCounts) listCounts() []metrics.NodeCount {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []metrics.NodeCount
	for key, n := range c.alike {
		key.Count = n
		out = append(out, key)
	}
	return out
}
