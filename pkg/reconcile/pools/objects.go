package pools

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// reader reads what exists of pools. It is a value, made for one use.
type reader struct {
	management, worker kubeclient.Cluster
	namespace          string // of configurations
	indexed            bool   // worker lists by the fields of Index
	clock              clock.PassiveClock
}

// readers read the two clusters: through caches, or the API servers themselves.
type readers struct {
	management, worker client.Reader
	indexed            bool // by token.Index
}

func (r reader) cached() readers { return readers{r.management, r.worker, r.indexed} }

func (r reader) live() readers { return readers{r.management.Live, r.worker.Live, false} }

// objects are the objects of a pool, nil where absent. The Data of Secrets from the cache are digests,
// which digestIn and isEdited read: see DigestSecretsAndTrim.
type objects struct {
	osc                                         *osm.OperatingSystemConfig
	kubeconfig, provisioning, bootstrap, inputs *corev1.Secret
	edge                                        *corev1.Secret
	access                                      access.Objects
}

// isNew reports whether no machine of the pool can have booted: the pool has neither a configuration
// nor documents.
func (o objects) isNew() bool { return o.osc == nil && o.provisioning == nil && o.bootstrap == nil }

// revisionFor is the revision of the MachineDeployment that a generation was made for. It reads
// the document that is written first: an interrupted run has not written the other.
func (o objects) revisionFor(inputDigest string) string {
	for _, document := range []*corev1.Secret{o.provisioning, o.bootstrap} {
		if document != nil && document.Annotations[api.AnnotationInputDigest] == inputDigest {
			return document.Annotations[api.AnnotationRevisionFor]
		}
	}
	if o.osc != nil {
		return o.osc.Annotations[api.AnnotationRevisionFor]
	}
	if o.bootstrap != nil {
		return o.bootstrap.Annotations[api.AnnotationRevisionFor]
	}
	return ""
}

// hasDocumentWithInput reports whether a document of the pool says that it was made with an input.
func (o objects) hasDocumentWithInput(inputDigest string) bool {
	return slices.ContainsFunc([]*corev1.Secret{o.provisioning, o.bootstrap}, func(s *corev1.Secret) bool {
		return s != nil && s.Annotations[api.AnnotationInputDigest] == inputDigest
	})
}

// hasOnlyOtherInputs reports whether the pool has documents that say what they were made with, and
// none that was made with this input.
func (o objects) hasOnlyOtherInputs(inputDigest string) bool {
	return (hasInputDigest(o.provisioning) || hasInputDigest(o.bootstrap)) && !o.hasDocumentWithInput(inputDigest)
}

func (o objects) listExisting() []client.Object {
	var out []client.Object
	if o.osc != nil {
		out = append(out, o.osc)
	}
	for _, secret := range []*corev1.Secret{o.kubeconfig, o.provisioning, o.bootstrap, o.inputs, o.edge} {
		if secret != nil {
			out = append(out, secret)
		}
	}
	return append(out, o.access.All()...)
}

// objects reads the objects of a pool by their names.
func (r reader) objects(ctx context.Context, from readers, md *cluster.MachineDeployment) (objects, error) {
	var out objects
	var err error
	if out.osc, err = readConfigMetadata(ctx, from.management, types.NamespacedName{Namespace: r.namespace, Name: namesOf(md).Config}); err != nil {
		return out, err
	}
	for name, into := range map[string]**corev1.Secret{
		namesOf(md).Kubeconfig:   &out.kubeconfig,
		namesOf(md).Provisioning: &out.provisioning,
		namesOf(md).Bootstrap:    &out.bootstrap,
		namesOf(md).Inputs:       &out.inputs,
		namesOf(md).EdgeScript:   &out.edge,
	} {
		secret := &corev1.Secret{}
		found, err := kubeclient.Find(ctx, from.worker, types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: name}, secret)
		if err != nil {
			return out, err
		}
		if found {
			*into = secret
		}
	}
	out.access, err = access.Read(ctx, from.worker, md)
	return out, err
}

// readConfigMetadata reads a configuration without its spec, nil if there is none.
func readConfigMetadata(ctx context.Context, from client.Reader, key types.NamespacedName) (*osm.OperatingSystemConfig, error) {
	osc := kubeclient.Metadata(kubeclient.ConfigKind)
	found, err := kubeclient.Find(ctx, from, key, osc)
	if err != nil || !found {
		return nil, err
	}
	return &osm.OperatingSystemConfig{ObjectMeta: osc.ObjectMeta}, nil
}

// listOwned lists what exists of a pool and was made for it.
func (r reader) listOwned(ctx context.Context, from readers, md *cluster.MachineDeployment) ([]client.Object, error) {
	have, err := r.objects(ctx, from, md)
	if err != nil {
		return nil, err
	}
	tokens, err := token.ListBootstrapSecrets(ctx, from.worker, from.indexed, md)
	if err != nil {
		return nil, err
	}
	all := have.listExisting()
	for i := range tokens {
		all = append(all, &tokens[i])
	}
	left, err := r.selectOSMObjects(ctx, md, have)
	if err != nil {
		return nil, err
	}
	return append(left, slices.DeleteFunc(all, func(obj client.Object) bool { return lineage.PoolOf(obj) != poolKey(md) })...), nil
}

// selectOSMObjects returns the objects that OSM made for a pool, among those with its names. They name no
// owner; the two without annotations are recognized by the other objects next to them.
func (r reader) selectOSMObjects(ctx context.Context, md *cluster.MachineDeployment, have objects) ([]client.Object, error) {
	seen := &observed{md: md, objects: have}
	var err error
	if seen.conflicts, err = r.conflictingPools(ctx, seen); err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(have.listExisting(), func(obj client.Object) bool { return !seen.mayTakeOver(obj) })
	for _, secret := range []*corev1.Secret{have.kubeconfig, have.edge} {
		if secret != nil && lineage.PoolOf(secret) == "" && len(out) > 0 && !seen.shared(secret) {
			out = append(out, secret)
		}
	}
	return out, nil
}

// userDataSecretsOf are the user-data Secrets among the objects of a pool.
func userDataSecretsOf(md *cluster.MachineDeployment, among []client.Object) objects {
	var out objects
	for _, obj := range among {
		secret, ok := obj.(*corev1.Secret)
		switch {
		case !ok:
		case secret.Name == namesOf(md).Provisioning:
			out.provisioning = secret
		case secret.Name == namesOf(md).Bootstrap:
			out.bootstrap = secret
		}
	}
	return out
}

// readCompleteConfig reads a configuration with its spec from the API server, and fails if it is
// not the cached one any more.
func (r reader) readCompleteConfig(ctx context.Context, cached *osm.OperatingSystemConfig) (*osm.OperatingSystemConfig, error) {
	key := client.ObjectKeyFromObject(cached)
	var osc osm.OperatingSystemConfig
	if err := r.management.Live.Get(ctx, key, &osc); err != nil {
		return nil, fault.MarkRace(fmt.Errorf("reading OperatingSystemConfig %s: %w", key, err))
	}
	// The caller decided from the cached annotations, which must still be true.
	if osc.UID != cached.UID || !sameKeys(osc.Annotations, cached.Annotations, api.AnnotationRecord, api.AnnotationInputDigest, api.AnnotationSelectedBy) {
		return nil, fmt.Errorf("%w: OperatingSystemConfig %s is another one, or was edited", fault.ErrRaced, key)
	}
	return &osc, nil
}

// DigestSecretsAndTrim replaces each value of a Secret in cloud-init-settings by its digest, for
// digestIn: the user data of ten thousand pools does not fit in memory. It preserves the getter's
// token, which every pool reads. It reduces ServiceAccounts, Roles and RoleBindings to the fields
// that package access compares.
//
// client-go can pass the same object twice. StringData, which the API server never returns,
// marks an object whose data are digests already.
func DigestSecretsAndTrim(obj any) (any, error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return access.Trim(obj), nil
	}
	secret.ManagedFields = nil
	if secret.Name == api.SecretGetterToken {
		return secret, nil
	}
	if secret.StringData == nil {
		for key, value := range secret.Data {
			secret.Data[key] = []byte(lineage.DataDigest(value))
		}
	}
	secret.StringData = digested
	return secret, nil
}

// digested marks a Secret whose data are digests.
var digested = map[string]string{}

// TrimClusterInfo reduces cluster-info to what pools read. It also contains a signature for
// every bootstrap token, thousands of them, and every pool reads it in each run.
func TrimClusterInfo(obj any) (any, error) {
	if cm, ok := obj.(*corev1.ConfigMap); ok {
		kubeconfig, found := cm.Data[kubeclient.ClusterInfoKey]
		cm.ManagedFields = nil
		cm.BinaryData = nil
		cm.Data = nil
		if found {
			cm.Data = map[string]string{kubeclient.ClusterInfoKey: kubeconfig}
		}
	}
	return obj, nil
}

// digestIn is the digest of the value under a key of a cached Secret, empty if the key is absent.
func digestIn(s *corev1.Secret, key string) string { return string(s.Data[key]) }

// isEdited reports whether the value under a key of a cached Secret differs from the recorded digest.
func isEdited(s *corev1.Secret, key string) bool {
	return digestIn(s, key) != s.Annotations[api.AnnotationDataDigest]
}
