package e2e

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/permissions"
)

// controllerUser is who the controller of these tests is: the ServiceAccount of
// deploy/rbac.yaml, with its rights and no others.
const controllerUser = "system:serviceaccount:" + namespace + ":osm-gitops"

// The files of deploy/ with the controller's rights.
const (
	oneCluster        = "deploy/rbac.yaml"
	managementCluster = "deploy/two-clusters/management.yaml"
	workerCluster     = "deploy/two-clusters/worker.yaml"
)

// usedElsewhere are rights that no test of this package needs, by the beginning of what they
// are, with the place where they are needed.
var usedElsewhere = map[string]string{
	// An API server of this release gives watchers what there is (WatchList); those that do
	// not are asked for a list first: k8s.io/client-go/tools/cache, Reflector.
	"list ":                                          "API servers without WatchList",
	"bind roles.rbac.authorization.k8s.io":           "no request of its own: the API server looks for it when a RoleBinding is created",
	"get machines.cluster.k8s.io":                    "the audit page of a node: test/ui",
	"get machinesets.cluster.k8s.io":                 "the audit page of a node: test/ui",
	"get configmaps cluster-info in kube-public":     "what the audit page verifies: test/ui",
	"get serviceaccounts in kube-system":             "--bootstrap-token-service-account-name: pkg/reconcile/pools",
	"delete configmaps in kube-system":               "settings that no record has any more: pkg/reconcile/pools, TestUnusedSettingsGo",
	"delete controllerrevisions.apps in kube-system": "records above the limit: pkg/reconcile/pools, TestHistory",
	"delete nodeprovenances.gitops.k8c.io":           "--provenance-retention: pkg/reconcile/nodes, TestRetention",
	"patch roles.rbac.authorization.k8s.io":          "rights that somebody changed: pkg/reconcile/pools, TestAccessIsPutBack",
	"patch rolebindings.rbac.authorization.k8s.io":   "rights that somebody changed: pkg/reconcile/pools, TestAccessIsPutBack",
	"update configmaps osm-gitops-snapshot":          "--publish-snapshot: pkg/reconcile/publish, TestPublish",
	"update secrets osm-gitops-webhook-cert":         "certificates that end: pkg/reconcile/webhook, TestRenewal",
	// Whether it happens in a test depends on how long the test takes.
	"patch events.events.k8s.io": "an event that happens again within six minutes: k8s.io/client-go/tools/events",
	// Each kind of Flux's needs the same; tests have a GitRepository.
	"get buckets.source.toolkit.fluxcd.io":             "as GitRepositories",
	"get ocirepositories.source.toolkit.fluxcd.io":     "as GitRepositories",
	"get externalartifacts.source.toolkit.fluxcd.io":   "as GitRepositories",
	"watch buckets.source.toolkit.fluxcd.io":           "as GitRepositories",
	"watch ocirepositories.source.toolkit.fluxcd.io":   "as GitRepositories",
	"watch externalartifacts.source.toolkit.fluxcd.io": "as GitRepositories",
}

// asked is what the controllers of all tests asked for, by the file with their rights. Tests
// with clusters of their own add to it when they end, TestMain looks at it.
var asked struct {
	sync.Mutex
	of map[string]map[permissions.Request]int
}

// requestsOf reads what the controller has asked a cluster for.
func requestsOf(c *cluster.Cluster, file string) (map[permissions.Request]int, error) {
	log, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	requests, err := permissions.Requests(log, controllerUser)
	if err != nil {
		return nil, err
	}
	asked.Lock()
	defer asked.Unlock()
	if asked.of == nil {
		asked.of = map[string]map[permissions.Request]int{}
	}
	if asked.of[file] == nil {
		asked.of[file] = map[permissions.Request]int{}
	}
	for q, n := range requests {
		asked.of[file][q] += n
	}
	return requests, nil
}

// audited fails a test with two clusters where either has refused something. Its API servers
// come and go, and refuse everybody until they have read the roles: what a role allows is no
// refusal of the role's.
func (a *apart) audited() {
	for file, s := range map[string]*system{managementCluster: a.management, workerCluster: a.worker} {
		requests, err := requestsOf(s.cluster, file)
		if err != nil {
			s.t.Error(err)
			continue
		}
		rules, err := permissions.Read(repoPath(file))
		if err != nil {
			s.t.Error(err)
			continue
		}
		for q := range requests {
			if q.Denied {
				s.t.Errorf("deploy/controller-policy.yaml refused the controller to %s", q)
			}
			if q.Forbidden && !permissions.Allowed(rules, q) {
				s.t.Errorf("the controller was forbidden to %s: %s lacks it, or the controller should not ask", q, file)
			}
		}
	}
}

// onlyWithRights looks, when all tests are over, at what the API servers were asked for:
// a request that was forbidden fails them, and rights that nothing needed are listed
// unless usedElsewhere says where they are. With OSM_UNUSED_RIGHTS=1 these fail too.
func onlyWithRights(c *cluster.Cluster, code int) error {
	requests, err := requestsOf(c, oneCluster)
	if err != nil {
		return err
	}
	var errs []error
	for q, n := range requests {
		if q.Denied {
			errs = append(errs, fmt.Errorf("rights: deploy/controller-policy.yaml refused the controller %d times to %s", n, q))
		}
		if q.Forbidden {
			errs = append(errs, fmt.Errorf("rights: the controller was forbidden %d times to %s: %s lacks it, or the controller should not ask", n, q, oneCluster))
		}
	}
	// A part of the tests needs a part of the rights.
	run, skip := flag.Lookup("test.run"), flag.Lookup("test.skip")
	whole := run.Value.String() == "" && skip.Value.String() == "" && code == 0
	strict := os.Getenv("OSM_UNUSED_RIGHTS") == "1"
	if !whole && !strict {
		return errors.Join(errs...)
	}
	for _, file := range []string{oneCluster, managementCluster, workerCluster} {
		unused, err := unusedRights(file)
		if err != nil {
			return err
		}
		if len(unused) == 0 {
			continue
		}
		err = fmt.Errorf("rights: of those in %s these tests needed none of\n\t%s\nhint: take them away, or say in usedElsewhere which test needs them", file, strings.Join(unused, "\n\t"))
		if strict {
			errs = append(errs, err)
		} else {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return errors.Join(errs...)
}

// unusedRights are those in a file that nothing needed. Tests with two clusters need a part of
// what is needed: for the rest the tests with one speak, unless it was the other half that
// needed it.
func unusedRights(file string) ([]string, error) {
	rules, err := permissions.Read(repoPath(file))
	if err != nil {
		return nil, err
	}
	asked.Lock()
	defer asked.Unlock()
	management, worker := asked.of[managementCluster], asked.of[workerCluster]
	requests, other := maps.Clone(asked.of[oneCluster]), management
	switch file {
	case oneCluster:
		maps.Copy(requests, worker)
		maps.Copy(requests, management)
	case managementCluster:
		other = worker
	}
	if file != oneCluster {
		maps.DeleteFunc(requests, func(q permissions.Request, _ int) bool { return other[q] > 0 })
		maps.Copy(requests, asked.of[file])
	}
	var out []string
	for _, r := range permissions.Unused(rules, requests) {
		if !needed(r.String()) {
			out = append(out, r.String())
		}
	}
	slices.Sort(out)
	return out, nil
}

func needed(right string) bool {
	for part := range usedElsewhere {
		if strings.HasPrefix(right, part) {
			return true
		}
	}
	return false
}
