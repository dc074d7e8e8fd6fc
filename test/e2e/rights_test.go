package e2e

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/rights"
)

// controllerUser is who the controller of these tests is: the ServiceAccount of
// deploy/rbac.yaml, with its rights and no others.
const controllerUser = "system:serviceaccount:" + namespace + ":osm-gitops"

// refusedOnPurpose are requests that are forbidden because a test wants them to be, by a part of
// what the request is, with that test.
var refusedOnPurpose = map[string]string{}

// usedElsewhere are rights that no test of this package needs on its one cluster, by the
// beginning of what they are, with the place where they are needed.
var usedElsewhere = map[string]string{
	// An API server of this release gives watchers what there is (WatchList); those that do
	// not are asked for a list first: k8s.io/client-go/tools/cache, Reflector.
	"list ":                                "API servers without WatchList",
	"bind roles.rbac.authorization.k8s.io": "no request of its own: the API server looks for it when a RoleBinding is created",
	"create tokenreviews.authentication.k8s.io":        "the audit page over TLS: test/page",
	"create subjectaccessreviews.authorization.k8s.io": "the audit page over TLS: test/page",
	"create leases.coordination.k8s.io":                "leader election: TestLeases, with two clusters of its own",
	"get leases.coordination.k8s.io":                   "leader election: TestLeases, with two clusters of its own",
	"update leases.coordination.k8s.io":                "leader election: TestLeases, with two clusters of its own",
	"create events in ":                                "who became leader: TestLeases, with two clusters of its own",
	"patch events in ":                                 "who became leader: TestLeases, with two clusters of its own",
	"get serviceaccounts in kube-system":               "--bootstrap-token-service-account-name: pkg/reconcile/pools",
	// Each kind of Flux's needs the same; tests have a GitRepository.
	"get buckets.source.toolkit.fluxcd.io":             "as GitRepositories",
	"get ocirepositories.source.toolkit.fluxcd.io":     "as GitRepositories",
	"get externalartifacts.source.toolkit.fluxcd.io":   "as GitRepositories",
	"watch buckets.source.toolkit.fluxcd.io":           "as GitRepositories",
	"watch ocirepositories.source.toolkit.fluxcd.io":   "as GitRepositories",
	"watch externalartifacts.source.toolkit.fluxcd.io": "as GitRepositories",
}

// onlyWithRights looks, when all tests are over, at what the API server was asked for:
// a request that was forbidden fails them, and rights that nothing needed are listed
// unless usedElsewhere says where they are.
func onlyWithRights(c *cluster.Cluster, code int) error {
	log, err := os.Open(c.AuditLog())
	if err != nil {
		return err
	}
	defer log.Close()
	requests, err := rights.Requests(log, controllerUser)
	if err != nil {
		return err
	}
	var errs []error
	for q, n := range requests {
		if q.Forbidden && !expected(q.String(), refusedOnPurpose) {
			errs = append(errs, fmt.Errorf("rights: the controller was forbidden %d times to %s: deploy/rbac.yaml lacks it, or the controller should not ask", n, q))
		}
	}
	rules, err := rights.Read(repoPath("deploy/rbac.yaml"))
	if err != nil {
		return err
	}
	var unused []string
	for _, r := range rights.Unused(rules, requests) {
		if !expected(r.String(), usedElsewhere) {
			unused = append(unused, r.String())
		}
	}
	slices.Sort(unused)
	// A part of the tests needs a part of the rights.
	run, skip := flag.Lookup("test.run"), flag.Lookup("test.skip")
	whole := run.Value.String() == "" && skip.Value.String() == "" && code == 0
	if len(unused) > 0 && (whole || os.Getenv("OSM_UNUSED_RIGHTS") == "1") {
		fmt.Fprintf(os.Stderr, "rights: of those in deploy/rbac.yaml these tests needed none of\n\t%s\nhint: take them away, or say in usedElsewhere which test needs them\n", strings.Join(unused, "\n\t"))
	}
	return errors.Join(errs...)
}

func expected(what string, reasons map[string]string) bool {
	for part := range reasons {
		if strings.HasPrefix(what, part) {
			return true
		}
	}
	return false
}
