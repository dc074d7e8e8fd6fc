package runnables

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// AddCache adds to a manager another cache of a cluster, for objects that the cache of its clients does
// not have, or has in part. The manager starts the cache.
func AddCache(mgr ctrl.Manager, of cluster.Cluster, o cache.Options) (cache.Cache, error) {
	o.Scheme = of.GetScheme()
	o.Mapper = of.GetRESTMapper()
	o.HTTPClient = of.GetHTTPClient()
	c, err := cache.New(of.GetConfig(), o)
	if err != nil {
		return nil, err
	}
	return c, mgr.Add(c)
}
