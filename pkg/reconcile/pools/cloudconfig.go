package pools

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// factsPoll is the time between two looks at what a cloudProviderSpec refers
	// to. A watch would need the right to list all Secrets of a namespace.
	factsPoll = 10 * time.Minute
	// factsRetry is that time while something there is missing, wrong or may not be read.
	factsRetry = time.Minute
)

// withCloudConfig makes the configuration of the provider built into a pool's
// kubelets, of what its cloudProviderSpec refers to now. It returns the time until
// the next look, 0 where there is nothing to look at, as with every kubelet from
// 1.29 on. A *refusedError or *render.InvalidError says why there is none.
func (r *Reconciler) withCloudConfig(ctx context.Context, md *cluster.MachineDeployment, in render.Input) (render.Pool, time.Duration, error) {
	refs := in.Pool.CloudConfigRefs(md, in.Settings)
	facts, err := r.facts(ctx, refs)
	pool := in.Pool
	if err == nil {
		pool, err = in.Pool.WithCloudConfig(md, in.Settings, facts)
	}
	switch {
	case len(refs) == 0:
		return pool, 0, err
	case err != nil:
		return pool, factsRetry, err
	}
	return pool, factsPoll, nil
}

// facts reads from the API server. Only a missing object counts as absent, so that
// a value is not taken from the environment because the API server is away.
func (r *Reconciler) facts(ctx context.Context, refs []render.ConfigVarRef) (render.Facts, error) {
	out := render.Facts{
		Environment: r.Environment,
		Secrets:     map[string]map[string]string{},
		ConfigMaps:  map[string]map[string]string{},
	}
	for _, ref := range refs {
		into, read := out.Secrets, r.secretData
		if ref.Kind == render.KindConfigMap {
			into, read = out.ConfigMaps, r.configMapData
		}
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		if _, ok := into[key.String()]; ok {
			continue
		}
		data, err := read(ctx, key)
		switch {
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			return out, refuse("%s %s, which %s names, may not be read by the controller: give it a Role in namespace %q with get on this object, as deploy/cloud-provider-values.yaml does",
				ref.Kind, key, "spec.template.spec.providerSpec.value.cloudProviderSpec", ref.Namespace)
		case err != nil:
			return out, fmt.Errorf("reading %s %s: %w", ref.Kind, key, err)
		default:
			into[key.String()] = data
		}
	}
	return out, nil
}

// secretData reads a Secret that a pool may refer to. Whoever may write a
// MachineDeployment gets to see its values on a machine, so what Kubernetes and
// this controller keep for themselves is refused.
func (r *Reconciler) secretData(ctx context.Context, key types.NamespacedName) (map[string]string, error) {
	reserved := refuse("Secret %s is not for pools: keep the credentials of a provider in a Secret of their own", key)
	if key.Namespace == api.NamespaceCloudInitSettings {
		return nil, reserved
	}
	// With two kubeconfigs as well: both may be of one cluster.
	if ofSource, err := r.ofSource(ctx, key); err != nil {
		return nil, err
	} else if ofSource || key == r.RegistrySecret {
		return nil, reserved
	}
	var secret corev1.Secret
	if err := r.Worker.Live.Get(ctx, key, &secret); err != nil {
		return nil, err
	}
	switch {
	case secret.Labels[api.LabelManagedBy] == api.FieldManager,
		secret.Type == corev1.SecretTypeServiceAccountToken, secret.Type == corev1.SecretTypeBootstrapToken:
		return nil, reserved
	}
	data := make(map[string]string, len(secret.Data))
	for k, v := range secret.Data {
		data[k] = string(v)
	}
	return data, nil
}

// ofSource reports whether a ProfileSource keeps credentials in a Secret.
func (r *Reconciler) ofSource(ctx context.Context, key types.NamespacedName) (bool, error) {
	if key.Namespace != r.Namespace {
		return false, nil
	}
	var sources api.ProfileSourceList
	if err := r.Management.List(ctx, &sources, client.InNamespace(r.Namespace)); err != nil {
		return false, fmt.Errorf("listing ProfileSources: %w", err)
	}
	for _, ps := range sources.Items {
		if hook := ps.Spec.Webhook; hook != nil && hook.SecretRef.Name == key.Name {
			return true, nil
		}
		git := ps.Spec.Git
		if git == nil {
			continue
		}
		for _, ref := range []*meta.LocalObjectReference{git.SecretRef, git.ProxySecretRef} {
			if ref != nil && ref.Name == key.Name {
				return true, nil
			}
		}
	}
	return false, nil
}

func (r *Reconciler) configMapData(ctx context.Context, key types.NamespacedName) (map[string]string, error) {
	var cm corev1.ConfigMap
	if err := r.Worker.Live.Get(ctx, key, &cm); err != nil {
		return nil, err
	}
	if cm.Data == nil {
		return map[string]string{}, nil
	}
	return cm.Data, nil
}
