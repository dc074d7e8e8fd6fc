package session

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// Kind is a kind of the API that arguments of verbs name, or rollouts.
type Kind struct {
	Plural string // as in the usage
	// words are the names that cli.CanonicalKind returns for it.
	words []string
	// GVK and Resource are those of the API; of rollouts, the kind that has them.
	GVK      schema.GroupVersionKind
	Resource string
	// ArgumentPrefix begins its name as an argument of other verbs; empty for rollouts.
	ArgumentPrefix string
	// ClusterScoped: it has no namespace.
	InWorkerCluster, ClusterScoped bool
}

var (
	SourceKind = &Kind{
		Plural: "sources", words: []string{"source"},
		GVK: api.GroupVersion.WithKind("ProfileSource"), Resource: "profilesources", ArgumentPrefix: "source/",
	}
	ProfileKind = &Kind{
		Plural: "profiles", words: []string{"osp"},
		GVK: osm.GroupVersion.WithKind("OperatingSystemProfile"), Resource: "operatingsystemprofiles", ArgumentPrefix: "osp/",
	}
	PoolKind = &Kind{
		Plural: "pools", words: []string{"machinedeployment"},
		GVK: cluster.GroupVersion.WithKind("MachineDeployment"), Resource: "machinedeployments", ArgumentPrefix: "md/", InWorkerCluster: true,
	}
	NodeKind = &Kind{
		Plural: "nodes", words: []string{"node", "nodeprovenance"},
		GVK: api.GroupVersion.WithKind("NodeProvenance"), Resource: "nodeprovenances", ArgumentPrefix: "nodeprovenance/", InWorkerCluster: true, ClusterScoped: true,
	}
	RolloutKind = &Kind{
		Plural: "rollouts", words: []string{"rollout"},
		GVK: api.GroupVersion.WithKind("ProfileSource"), Resource: "profilesources",
	}
	// WindowKind are maintenance windows, by the name of their ProfileSource.
	WindowKind = &Kind{
		Plural: "windows", words: []string{"window"},
		GVK: api.GroupVersion.WithKind("ProfileSource"), Resource: "profilesources",
	}
)

// IsNamed reports whether a word names the kind, singular or plural.
func (k *Kind) IsNamed(word string) bool { return slices.Contains(k.words, cli.CanonicalKind(word)) }

// ConnectionIn returns the connection to the cluster that has the kind.
func (k *Kind) ConnectionIn(s *Session) *Connection {
	if k.InWorkerCluster {
		return s.Worker
	}
	return s.Management
}

// ListNames lists the objects of a kind, as "NAMESPACE/NAME" if they have a namespace.
func (k *Kind) ListNames(ctx context.Context, s *Session, namespace string) ([]string, error) {
	var out []string
	for list, err := range kubeclient.Pages(ctx, k.ConnectionIn(s), kubeclient.MetadataList(k.GVK), client.InNamespace(namespace)) {
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			m := &list.Items[i]
			if k != PoolKind || m.Annotations[api.AnnotationOSP] != "" {
				out = append(out, strings.TrimPrefix(m.Namespace+"/"+m.Name, "/"))
			}
		}
	}
	return out, nil
}
