package pools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"

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
	// factsPoll is the time between two looks at an object that cloudProviderSpecs refer
	// to, however many. A watch would need the right to list all Secrets of a namespace.
	factsPoll = 10 * time.Minute
	// factsRetry is that time while something there is missing, wrong or may not be read.
	factsRetry = time.Minute
)

// withCloudConfig makes the configuration of the provider built into a pool's
// kubelets, of what its cloudProviderSpec refers to now. It returns the time until
// the next look, 0 where there is nothing to look at, as with every kubelet from
// 1.29 on. A *fault.Refusal or *render.InvalidError says why there is none.
func (r *Reconciler) withCloudConfig(ctx context.Context, md *cluster.MachineDeployment, in render.Input) (render.Pool, time.Duration, error) {
	refs := in.Pool.CloudConfigRefs(md, in.Settings)
	if len(refs) == 0 {
		pool, err := in.Pool.WithCloudConfig(md, in.Settings, render.Facts{Environment: r.Environment})
		return pool, 0, err
	}
	if err := r.mayRefer(md, refs); err != nil {
		return in.Pool, 0, err
	}
	made := func(age time.Duration) (render.Pool, time.Time, error) {
		facts, read, err := r.facts(ctx, refs, age)
		if err != nil {
			return in.Pool, read, err
		}
		pool, err := in.Pool.WithCloudConfig(md, in.Settings, facts)
		return pool, read, err
	}
	next := func(read time.Time, age time.Duration) time.Duration {
		return max(read.Add(age).Sub(r.Clock.Now()), time.Second)
	}
	pool, read, err := made(factsPoll)
	if _, final := fault.Permanent(err); final { // or it was, when it was read
		if pool, read, err = made(factsRetry); err != nil {
			return pool, next(read, factsRetry), err
		}
	}
	return pool, next(read, factsPoll), err
}

// fact is what an object said when it was read, for all pools that refer to it.
type fact struct {
	mu   sync.Mutex // held while it is read
	data map[string]string
	err  error // that it is missing, or may not be read
	read time.Time
}

// facts returns what objects say that were read no longer ago than age, and when the
// first of them was. Only a missing object counts as absent, so that a value is not taken
// from the environment because the API server is away.
func (r *Reconciler) facts(ctx context.Context, refs []render.ConfigVarRef, age time.Duration) (out render.Facts, read time.Time, err error) {
	out = render.Facts{
		Environment: r.Environment,
		Secrets:     map[string]map[string]string{},
		ConfigMaps:  map[string]map[string]string{},
	}
	read = r.Clock.Now()
	for _, ref := range refs {
		into := out.Secrets
		if ref.Kind == render.KindConfigMap {
			into = out.ConfigMaps
		}
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		if _, ok := into[key.String()]; ok {
			continue
		}
		data, at, err := r.fact(ctx, ref.Kind, key, age)
		if at.Before(read) {
			read = at
		}
		switch {
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			return out, read, fault.Refuse("%s %s, which %s names, may not be read by the controller: give it a Role in namespace %q with get on this object, as deploy/cloud-provider-values.yaml does",
				ref.Kind, key, cloudProviderSpecField, ref.Namespace)
		case err != nil:
			return out, read, fmt.Errorf("reading %s %s: %w", ref.Kind, key, err)
		default:
			into[key.String()] = data
		}
	}
	return out, read, nil
}

// fact reads an object from the API server, unless it was read no longer ago than age. A
// read that failed for a moment is none.
func (r *Reconciler) fact(ctx context.Context, kind string, key types.NamespacedName, age time.Duration) (map[string]string, time.Time, error) {
	f := r.factOf(kind + " " + key.String())
	f.mu.Lock()
	defer f.mu.Unlock()
	now := r.Clock.Now()
	if !f.read.IsZero() && now.Sub(f.read) < age {
		return f.data, f.read, f.err
	}
	read := r.secretData
	if kind == render.KindConfigMap {
		read = r.configMapData
	}
	data, err := read(ctx, key)
	if _, final := fault.Permanent(err); err != nil && !final && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, now, err
	}
	f.data, f.err, f.read = data, err, now
	return data, now, err
}

// factOf finds what is known of an object. What no pool has asked for in the time of two
// polls is forgotten.
func (r *Reconciler) factOf(object string) *fact {
	have, known := r.looked.LoadOrStore(object, &fact{})
	if !known {
		r.looked.Range(func(key, of any) bool {
			if f := of.(*fact); f.mu.TryLock() {
				if !f.read.IsZero() && r.Clock.Now().Sub(f.read) > 2*factsPoll {
					r.looked.Delete(key)
				}
				f.mu.Unlock()
			}
			return true
		})
	}
	return have.(*fact)
}

// secretData reads a Secret that a pool may refer to. Anyone who may write a
// MachineDeployment gets to see its values on a machine, so Secrets of Kubernetes and of
// this controller are refused, in the pool's own namespace too.
func (r *Reconciler) secretData(ctx context.Context, key types.NamespacedName) (map[string]string, error) {
	reserved := fault.Refuse("Secret %s is not for pools, whatever --%s lists: keep the credentials of a provider in a Secret of their own", key, render.ReferencesFlag)
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
	if secret.Labels[api.LabelManagedBy] == api.FieldManager {
		return nil, reserved
	}
	if reservedType(secret.Type) {
		return nil, refuseType(key, secret.Type)
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

const cloudProviderSpecField = "spec.template.spec.providerSpec.value.cloudProviderSpec"

// Unallowed are those of render.ForeignReferences that this controller refuses to read.
func (r *Reconciler) Unallowed(md *cluster.MachineDeployment) []types.NamespacedName {
	return r.unallowed(render.ForeignReferences(md, r.Settings))
}

func (r *Reconciler) unallowed(objects []types.NamespacedName) []types.NamespacedName {
	return slices.DeleteFunc(objects, func(o types.NamespacedName) bool { return slices.Contains(r.CloudProviderReferences, o) })
}

// mayRefer refuses references that leave the pool's namespace and are not allowed. Nothing
// is read before: an error about the object would tell whether it exists.
func (r *Reconciler) mayRefer(md *cluster.MachineDeployment, refs []render.ConfigVarRef) error {
	others := r.unallowed(render.ForeignObjects(md, refs))
	if len(others) == 0 {
		return nil
	}
	return fault.Refuse("%s refers to objects outside of namespace %q, which the controller does not allow: copy them to that namespace, or start the controller with %s",
		cloudProviderSpecField, md.Namespace, render.AllowReferences(others))
}

// reservedType reports whether Secrets of a type belong to Kubernetes, to Helm, or to
// registries and servers, so that no machine is shown one.
func reservedType(t corev1.SecretType) bool {
	switch t {
	case corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken, corev1.SecretTypeTLS,
		corev1.SecretTypeDockercfg, corev1.SecretTypeDockerConfigJson:
		return true
	}
	// https://helm.sh/docs/topics/advanced/#storage-backends: helm.sh/release.v1
	return strings.HasPrefix(string(t), "helm.sh/")
}

// refuseType is the error about a Secret of such a type.
func refuseType(key types.NamespacedName, t corev1.SecretType) error {
	return fault.Refuse("Secret %s has type %s, which no pool may refer to, whatever --%s lists: keep the credentials of a provider in a Secret of type %s",
		key, t, render.ReferencesFlag, corev1.SecretTypeOpaque)
}
