package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/permissions"
)

// controllerUser is who the controller of these tests is: the ServiceAccount of
// deploy/rbac.yaml, with its rights and no others.
const controllerUser = "system:serviceaccount:" + Namespace + ":osm-gitops"

// The files of deploy/ with the controller's rights.
const (
	oneCluster        = "deploy/rbac.yaml"
	ManagementCluster = "deploy/two-clusters/management.yaml"
	WorkerCluster     = "deploy/two-clusters/worker.yaml"
)

// rightsTestedOutside lists rights that no test of these packages needs, by their prefix, with the
// place where they are needed.
var rightsTestedOutside = map[string]string{
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
	"create bootreports.gitops.k8c.io":               "a machine that does not join: pkg/reconcile/boots",
	"patch bootreports.gitops.k8c.io":                "the same, and each pool's Role, which the API server checks without a request",
	"delete bootreports.gitops.k8c.io":               "the same",
	"watch bootreports.gitops.k8c.io":                "the same",
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

// parts are the packages whose tests together need every right but those rightsTestedOutside.
var parts = []string{"delivery", "operators", "running"}

// requestedRights is what the controllers of all tests asked for, by the file with their rights. Tests
// with clusters of their own add to it when they end, TestMain looks at it.
var requestedRights struct {
	sync.Mutex
	of map[string]map[permissions.Request]int
}

// RequestsOf reads what the controller has asked a cluster for.
func RequestsOf(c *cluster.Cluster, file string) (map[permissions.Request]int, error) {
	log, err := os.Open(c.AuditLog())
	if err != nil {
		return nil, err
	}
	defer log.Close()
	requests, err := permissions.Requests(log, controllerUser)
	if err != nil {
		return nil, err
	}
	requestedRights.Lock()
	defer requestedRights.Unlock()
	if requestedRights.of == nil {
		requestedRights.of = map[string]map[permissions.Request]int{}
	}
	if requestedRights.of[file] == nil {
		requestedRights.of[file] = map[permissions.Request]int{}
	}
	for q, n := range requests {
		requestedRights.of[file][q] += n
	}
	return requests, nil
}

// onlyWithRights looks, when all tests of a package are over, at what the API servers were asked
// for: a request that was forbidden fails them. With a folder in OSM_UNUSED_RIGHTS, rights that no
// test of any of the packages needed fail the last of them.
func onlyWithRights(c *cluster.Cluster, code int) error {
	requests, err := RequestsOf(c, oneCluster)
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
	if together := os.Getenv("OSM_UNUSED_RIGHTS"); together != "" && code == 0 {
		errs = append(errs, onlyNeededRights(together))
	}
	return errors.Join(errs...)
}

// onlyNeededRights writes the rights that this package's tests used to a folder. The package that
// ends last fails if a right is in none of these files and not in rightsTestedOutside.
func onlyNeededRights(together string) error {
	run, skip := flag.Lookup("test.run"), flag.Lookup("test.skip")
	if run.Value.String() != "" || skip.Value.String() != "" {
		return nil // a part of the tests needs a part of the rights
	}
	requestedRights.Lock()
	defer requestedRights.Unlock()
	own := map[string][]permissions.Request{}
	for file, requests := range requestedRights.of {
		own[file] = slices.Collect(maps.Keys(requests))
	}
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	path := filepath.Join(together, filepath.Base(here))
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	for _, part := range parts {
		text, err := os.ReadFile(filepath.Join(together, part))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // its tests have not ended
		}
		if err != nil {
			return err
		}
		var others map[string][]permissions.Request
		if err := json.Unmarshal(text, &others); err != nil {
			return err
		}
		for file, requests := range others {
			if requestedRights.of[file] == nil {
				requestedRights.of[file] = map[permissions.Request]int{}
			}
			for _, q := range requests {
				requestedRights.of[file][q]++
			}
		}
	}
	var errs []error
	for _, file := range []string{oneCluster, ManagementCluster, WorkerCluster} {
		unused, err := unusedRights(file)
		if err != nil {
			return err
		}
		if len(unused) > 0 {
			errs = append(errs, fmt.Errorf("rights: of those in %s these tests needed none of\n\t%s\nhint: take them away, or say in usedElsewhere which test needs them", file, strings.Join(unused, "\n\t")))
		}
	}
	return errors.Join(errs...)
}

// unusedRights are those in a file that nothing needed. Tests with two clusters need a part of
// what is needed: for the rest the tests with one speak, unless it was the other half that
// needed it.
func unusedRights(file string) ([]string, error) {
	rules, err := permissions.Read(RepoPath(file))
	if err != nil {
		return nil, err
	}
	management, worker := requestedRights.of[ManagementCluster], requestedRights.of[WorkerCluster]
	requests, other := maps.Clone(requestedRights.of[oneCluster]), management
	switch file {
	case oneCluster:
		maps.Copy(requests, worker)
		maps.Copy(requests, management)
	case ManagementCluster:
		other = worker
	}
	if file != oneCluster {
		maps.DeleteFunc(requests, func(q permissions.Request, _ int) bool { return other[q] > 0 })
		maps.Copy(requests, requestedRights.of[file])
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
	for part := range rightsTestedOutside {
		if strings.HasPrefix(right, part) {
			return true
		}
	}
	return false
}
