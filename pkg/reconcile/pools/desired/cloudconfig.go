package desired

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// ValuesPoll is the time between two reads of an object that any number of cloudProviderSpecs
	// refer to. A watch would need the permission to list all Secrets of a namespace.
	ValuesPoll = 10 * time.Minute
	// ValuesRetry is that time while a referenced value is missing or invalid, or access is denied.
	ValuesRetry = time.Minute
)

// CloudConfigs makes the configurations of providers built into kubelets.
type CloudConfigs struct {
	// Management reads ProfileSources; Worker reads what pools refer to, from the API server.
	Management, Worker client.Reader
	// Namespace is the controller's, and RegistrySecret the one with credentials of
	// registries.
	Namespace      string
	RegistrySecret types.NamespacedName
	// Allowed are the objects outside of a pool's namespace to which any pool may refer.
	Allowed []types.NamespacedName
	// Environment are the controller's variables that render.CloudConfigEnvironmentNames lists.
	Environment map[string]string
	Clock       clock.PassiveClock
	// Values caches the values that were read.
	Values *Values
}

// Unallowed returns the objects among render.ForeignReferences that the controller is not allowed to read.
func (c CloudConfigs) Unallowed(objects []types.NamespacedName) []types.NamespacedName {
	return slices.DeleteFunc(objects, func(o types.NamespacedName) bool { return slices.Contains(c.Allowed, o) })
}

// AddCloudConfig renders the configuration of the provider built into a pool's kubelets from the current
// values that its cloudProviderSpec refers to. It returns the time until the next poll, 0 if there
// is nothing to poll, as with every kubelet from 1.29 on. A *fault.Rejection or
// *render.InvalidError says why there is no configuration.
func (c CloudConfigs) AddCloudConfig(ctx context.Context, md *cluster.MachineDeployment, in render.Input) (render.Pool, time.Duration, error) {
	refs := in.Pool.CloudConfigRefs(md, in.Settings)
	if len(refs) == 0 {
		pool, err := in.Pool.WithCloudConfig(md, in.Settings, render.ClusterValues{Environment: c.Environment})
		return pool, 0, err
	}
	// This comes before any read: the error must not depend on the content of an object that the
	// pool cannot use.
	if err := c.checkReferences(md, refs); err != nil {
		return in.Pool, 0, err
	}
	made := func(age time.Duration) (render.Pool, time.Time, error) {
		values, read, err := c.ClusterValues(ctx, refs, age)
		if err != nil {
			return in.Pool, read, err
		}
		pool, err := in.Pool.WithCloudConfig(md, in.Settings, values)
		return pool, read, err
	}
	next := func(read time.Time, age time.Duration) time.Duration {
		return max(read.Add(age).Sub(c.Clock.Now()), time.Second)
	}
	pool, read, err := made(ValuesPoll)
	if _, final := fault.PermanentReason(err); final { // or it was, when it was read
		if pool, read, err = made(ValuesRetry); err != nil {
			return pool, next(read, ValuesRetry), err
		}
	}
	return pool, next(read, ValuesPoll), err
}

// Values is what objects said when they were read, for all pools that refer to them.
type Values struct {
	mu sync.Mutex
	of map[string]*value // by kind and name
}

// value is what one object said.
type value struct {
	mu   sync.Mutex // locked while it is read
	data map[string]string
	err  error // if it is missing, or the controller is not allowed to read it
	read time.Time
}

// findOrCreate returns the cached entry of an object, or a new empty one. Entries that no pool has
// requested in the time of two polls are dropped.
func (v *Values) findOrCreate(object string, now time.Time) *value {
	v.mu.Lock()
	defer v.mu.Unlock()
	if have := v.of[object]; have != nil {
		return have
	}
	maps.DeleteFunc(v.of, func(_ string, old *value) bool {
		if !old.mu.TryLock() {
			return false // it is being read
		}
		defer old.mu.Unlock()
		return !old.read.IsZero() && now.Sub(old.read) > 2*ValuesPoll
	})
	if v.of == nil {
		v.of = map[string]*value{}
	}
	v.of[object] = &value{}
	return v.of[object]
}

// ClusterValues returns the values of objects, read not longer than age ago, and the time of the oldest
// read. Only a missing object counts as absent, so that an unavailable API server does not cause
// a value to be taken from the environment.
func (c CloudConfigs) ClusterValues(ctx context.Context, refs []render.ConfigVarRef, age time.Duration) (out render.ClusterValues, read time.Time, err error) {
	out = render.ClusterValues{
		Environment: c.Environment,
		Secrets:     map[string]map[string]string{},
		ConfigMaps:  map[string]map[string]string{},
	}
	read = c.Clock.Now()
	for _, ref := range refs {
		into := out.Secrets
		if ref.Kind == render.KindConfigMap {
			into = out.ConfigMaps
		}
		key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
		if _, ok := into[key.String()]; ok {
			continue
		}
		data, at, err := c.readObjectData(ctx, ref.Kind, key, age)
		if at.Before(read) {
			read = at
		}
		switch {
		case apierrors.IsNotFound(err):
		case apierrors.IsForbidden(err):
			return out, read, fault.Reject("the controller is not allowed to read %s %s, which %s names: give it a Role in namespace %q with get on this object, as deploy/cloud-provider-values.yaml does",
				ref.Kind, key, cloudProviderSpecField, ref.Namespace)
		case err != nil:
			return out, read, fmt.Errorf("reading %s %s: %w", ref.Kind, key, err)
		default:
			into[key.String()] = data
		}
	}
	return out, read, nil
}

// readObjectData returns the data of a Secret or ConfigMap, from the API server unless it was read
// no longer ago than age. A read that failed for a moment is not cached.
func (c CloudConfigs) readObjectData(ctx context.Context, kind string, key types.NamespacedName, age time.Duration) (map[string]string, time.Time, error) {
	cached := c.Values.findOrCreate(kind+" "+key.String(), c.Clock.Now())
	cached.mu.Lock()
	defer cached.mu.Unlock()
	now := c.Clock.Now()
	if !cached.read.IsZero() && now.Sub(cached.read) < age {
		return cached.data, cached.read, cached.err
	}
	read := c.secretData
	if kind == render.KindConfigMap {
		read = c.configMapData
	}
	data, err := read(ctx, key)
	if _, final := fault.PermanentReason(err); err != nil && !final && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, now, err
	}
	cached.data = data
	cached.err = err
	cached.read = now
	return data, now, err
}

// secretData reads a Secret that a pool can refer to. A user who can write a MachineDeployment
// sees its values on a machine, so Secrets of Kubernetes and of this controller are rejected,
// also in the pool's own namespace.
func (c CloudConfigs) secretData(ctx context.Context, key types.NamespacedName) (map[string]string, error) {
	reserved := fault.Reject("Secret %s is reserved, and no pool can refer to it even if --%s lists it: store the credentials of a provider in a Secret of their own", key, render.ReferencesFlag)
	if key.Namespace == api.NamespaceCloudInitSettings {
		return nil, reserved
	}
	// Check this with two kubeconfigs as well: both can be of the same cluster.
	if ofSource, err := c.isSourceCredential(ctx, key); err != nil {
		return nil, err
	} else if ofSource || key == c.RegistrySecret {
		return nil, reserved
	}
	var secret corev1.Secret
	if err := c.Worker.Get(ctx, key, &secret); err != nil {
		return nil, err
	}
	if secret.Labels[api.LabelManagedBy] == api.FieldManager {
		return nil, reserved
	}
	if reservedType(secret.Type) {
		return nil, typeError(key, secret.Type)
	}
	data := make(map[string]string, len(secret.Data))
	for k, v := range secret.Data {
		data[k] = string(v)
	}
	return data, nil
}

// isSourceCredential reports whether a ProfileSource reads its credentials from a Secret.
func (c CloudConfigs) isSourceCredential(ctx context.Context, key types.NamespacedName) (bool, error) {
	if key.Namespace != c.Namespace {
		return false, nil
	}
	var sources api.ProfileSourceList
	if err := c.Management.List(ctx, &sources, client.InNamespace(c.Namespace)); err != nil {
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

func (c CloudConfigs) configMapData(ctx context.Context, key types.NamespacedName) (map[string]string, error) {
	var cm corev1.ConfigMap
	if err := c.Worker.Get(ctx, key, &cm); err != nil {
		return nil, err
	}
	if cm.Data == nil {
		return map[string]string{}, nil
	}
	return cm.Data, nil
}

const cloudProviderSpecField = "spec.template.spec.providerSpec.value.cloudProviderSpec"

// checkReferences rejects references that leave the pool's namespace and are not allowed. It runs
// before any read: an error about the object would reveal whether it exists.
func (c CloudConfigs) checkReferences(md *cluster.MachineDeployment, refs []render.ConfigVarRef) error {
	others := c.Unallowed(render.ObjectsInOtherNamespaces(md, refs))
	if len(others) == 0 {
		return nil
	}
	return fault.Reject("%s refers to objects outside of namespace %q, which the controller does not allow: copy them to that namespace, or start the controller with %s",
		cloudProviderSpecField, md.Namespace, render.AllowReferencesFlag(others))
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

// typeError is the error about a Secret of such a type.
func typeError(key types.NamespacedName, t corev1.SecretType) error {
	return fault.Reject("Secret %s has type %s, to which no pool can refer even if --%s lists it: store the credentials of a provider in a Secret of type %s",
		key, t, render.ReferencesFlag, corev1.SecretTypeOpaque)
}
