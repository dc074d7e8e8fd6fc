package running

import (
	"testing"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/e2e"
	"github.com/osm-gitops/osm-gitops/test/permissions"
)

// audited fails a test if one of its clusters, by the file with their rights, denied a request. Their API servers
// restart, and deny all requests until they have read the roles: a request that the role allows
// is not counted.
func audited(t *testing.T, clusters map[string]*cluster.Cluster) {
	for file, c := range clusters {
		requests, err := e2e.RequestsOf(c, file)
		if err != nil {
			t.Error(err)
			continue
		}
		rules, err := permissions.Read(e2e.RepoPath(file))
		if err != nil {
			t.Error(err)
			continue
		}
		for q := range requests {
			if q.Denied {
				t.Errorf("deploy/controller-policy.yaml refused the controller to %s", q)
			}
			if q.Forbidden && !permissions.Allowed(rules, q) {
				t.Errorf("the controller was forbidden to %s: %s lacks it, or the controller should not ask", q, file)
			}
		}
	}
}
