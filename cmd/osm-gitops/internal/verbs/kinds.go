package verbs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// kind is what get lists.
type kind struct {
	name    string // plural, as in the usage
	aliases []string
	// gvk and resource are those of the API; of rollouts, the kind that has them.
	gvk      schema.GroupVersionKind
	resource string
	// prefix begins its name as an argument of other verbs; empty for rollouts.
	prefix string
	// worker: it is in the worker cluster. cluster: it has no namespace.
	worker, cluster bool
	// rows lists it. nil: the API server prints it, as for kubectl.
	rows func(context.Context, *session, string) (*listing, error)
	// with are other kinds whose changes change the rows.
	with []*kind
}

var (
	sourceKind = &kind{
		name: "sources", aliases: []string{"source", "ps", "profilesource", "profilesources"},
		gvk: api.GroupVersion.WithKind("ProfileSource"), resource: "profilesources", prefix: "source/",
	}
	profileKind = &kind{
		name: "profiles", aliases: []string{"profile", "osp", "operatingsystemprofile", "operatingsystemprofiles"},
		gvk: osm.GroupVersion.WithKind("OperatingSystemProfile"), resource: "operatingsystemprofiles", prefix: "osp/",
	}
	poolKind = &kind{
		name: "pools", aliases: []string{"pool", "md", "machinedeployment", "machinedeployments"},
		gvk: cluster.GroupVersion.WithKind("MachineDeployment"), resource: "machinedeployments", prefix: "md/", worker: true,
		rows: poolRows, with: []*kind{{gvk: osm.GroupVersion.WithKind("OperatingSystemConfig")}, sourceKind, nodeKind},
	}
	nodeKind = &kind{
		name: "nodes", aliases: []string{"node", "np", "nodeprovenance", "nodeprovenances"},
		gvk: api.GroupVersion.WithKind("NodeProvenance"), resource: "nodeprovenances", prefix: "nodeprovenance/", worker: true, cluster: true,
	}
	rolloutKind = &kind{
		name: "rollouts", aliases: []string{"rollout"},
		gvk: api.GroupVersion.WithKind("ProfileSource"), resource: "profilesources", rows: rolloutRows,
	}
)

func kinds() []*kind { return []*kind{sourceKind, profileKind, poolKind, nodeKind, rolloutKind} }

// has reports whether a word names the kind, singular or plural.
func (k *kind) has(word string) bool { return word == k.name || slices.Contains(k.aliases, word) }

// in is the cluster that has the kind.
func (k *kind) in(s *session) *connection {
	if k.worker {
		return s.worker
	}
	return s.management
}

// names lists the objects of a kind, as "NAMESPACE/NAME" if they have a namespace.
func (k *kind) names(ctx context.Context, s *session, namespace string) ([]string, error) {
	var out []string
	list := kubeclient.MetadataList(k.gvk)
	err := kubeclient.EachPage(ctx, k.in(s), list, func() {
		for i := range list.Items {
			m := &list.Items[i]
			if k != poolKind || m.Annotations[api.AnnotationOSP] != "" {
				out = append(out, strings.TrimPrefix(m.Namespace+"/"+m.Name, "/"))
			}
		}
	}, client.InNamespace(namespace))
	return out, err
}

// mostNear is the number of names that are proposed instead of an unknown one.
const mostNear = 3

// near returns the names most like one.
func near(name string, all []string) []string {
	all = slices.Clone(all)
	distance := func(other string) int { return levenshtein.Distance(name, other, nil) }
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a, b)) })
	return all[:min(len(all), mostNear)]
}

// unknown is the error for a name that does not exist. It proposes names that do.
func unknown(what, name string, all []string) error {
	if len(all) == 0 {
		return fmt.Errorf("%s does not exist, and there is no other", what)
	}
	return fmt.Errorf("%s does not exist: did you mean %s?", what, strings.Join(near(name, all), ", "))
}

// read reads the object of a reference.
func (s *session) read(ctx context.Context, r *ref, obj client.Object) error {
	k, namespace := sourceKind, s.sourceNamespace()
	if r.pool {
		k, namespace = poolKind, s.poolNamespace
	}
	r.namespace = cmp.Or(r.namespace, namespace)
	found, err := kubeclient.Find(ctx, k.in(s), client.ObjectKey{Namespace: r.namespace, Name: r.name}, obj)
	if found || err != nil {
		return explain(err)
	}
	names, err := k.names(ctx, s, "")
	if err != nil { // no permission to list all of them: those of this namespace are enough
		names, _ = k.names(ctx, s, r.namespace)
	}
	return unknown(r.String(), r.namespace+"/"+r.name, names)
}
