package running

import (
	"github.com/osm-gitops/osm-gitops/test/e2e"
	"github.com/osm-gitops/osm-gitops/test/permissions"
)

// audited fails a test with two clusters if either of them denied a request. Their API servers
// restart, and deny all requests until they have read the roles: a request that the role allows
// is not counted.
func (a *apart) audited() {
	for file, s := range map[string]*system{e2e.ManagementCluster: a.management, e2e.WorkerCluster: a.worker} {
		requests, err := e2e.RequestsOf(s.Cluster, file)
		if err != nil {
			s.T.Error(err)
			continue
		}
		rules, err := permissions.Read(e2e.RepoPath(file))
		if err != nil {
			s.T.Error(err)
			continue
		}
		for q := range requests {
			if q.Denied {
				s.T.Errorf("deploy/controller-policy.yaml refused the controller to %s", q)
			}
			if q.Forbidden && !permissions.Allowed(rules, q) {
				s.T.Errorf("the controller was forbidden to %s: %s lacks it, or the controller should not ask", q, file)
			}
		}
	}
}
