// Package handback prepares a cluster for operating-system-manager (OSM), which served it before: it
// creates what OSM needs, and removes what would prevent its work. Pools whose Secrets remain valid
// get the configuration that OSM would have created, so that it replaces nothing. Those of other
// pools name a version that OSM does not know, so that it creates their objects again. Start with
// Cluster.Plan, which only reads; Plan.Apply writes.
package handback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// Cluster has the clusters that one controller serves.
type Cluster struct {
	// Management has profiles and configurations, Worker pools and their Secrets. With one
	// cluster both are the same.
	Management, Worker client.Client
	// Namespace is the controller's namespace.
	Namespace string
	// LeaseName is the name of the controller's lease, and the prefix of the leases of shards.
	LeaseName string
	// Now is the current time.
	Now time.Time
	// Overwrite replaces profiles of other owners under the names that pools use. Those of this
	// program are replaced without it.
	Overwrite bool
}

// Plan has the necessary steps.
type Plan struct {
	// Steps in order.
	Steps []Step
	// Obstacles are reasons not to apply the plan now.
	Obstacles []string
	// Warnings describe what will change.
	Warnings []string

	// policies are the names of the admission policies that the plan deletes.
	policies []string
}

// Step is one write, or two that belong together.
type Step struct {
	// What describes it, such as "delete Role cloud-init-settings/node-web-1a2b3c4d".
	What string
	// Run executes it. It succeeds if the step is already done.
	Run func(ctx context.Context) error
}

func (p *Plan) step(do func(ctx context.Context) error, format string, args ...any) {
	p.Steps = append(p.Steps, Step{What: fmt.Sprintf(format, args...), Run: do})
}

func (p *Plan) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

// Plan reads both clusters and plans the steps. It writes nothing.
func (h *Cluster) Plan(ctx context.Context) (*Plan, error) {
	p := &Plan{}
	if err := h.checkNamespace(ctx); err != nil {
		return nil, err
	}
	pools, err := h.poolsWithProfile(ctx)
	if err != nil {
		return nil, err
	}
	served, err := h.servedPools(ctx, pools)
	if err != nil {
		return nil, err
	}
	profiles := futureProfiles{}
	var remain map[string]bool
	for _, part := range []func(context.Context, *Plan) error{
		h.planObstacles,
		h.planDeleteAdmission, // first, so that our policies do not reject later steps
		func(ctx context.Context, p *Plan) error { return h.planProfiles(ctx, p, pools, profiles) },
		h.planRemoveFinalizers,
		func(ctx context.Context, p *Plan) (err error) { // before the credentials are deleted that it needs
			remain, err = h.planConfigs(ctx, p, pools, served, profiles)
			return err
		},
		func(ctx context.Context, p *Plan) error { return h.planDeleteTokenAccess(ctx, p, served) },
		func(ctx context.Context, p *Plan) error { return h.planSecrets(ctx, p, served, remain) },
		func(ctx context.Context, p *Plan) error { return h.planTokens(ctx, p, served) },
	} {
		if err := part(ctx, p); err != nil {
			return nil, err
		}
	}
	for _, md := range pools {
		for _, key := range []string{api.AnnotationVersionPin, api.AnnotationSuspend, api.AnnotationIgnitionVersion} {
			if v := md.Annotations[key]; v != "" {
				p.warn("MachineDeployment %s has annotation %s: %q, which has no effect with operating-system-manager", client.ObjectKeyFromObject(&md), key, v)
			}
		}
	}
	return p, nil
}

// checkNamespace returns an error if nothing in the namespace shows that a
// controller served it: no ProfileSource, no configuration, no record of one and no lease.
func (h *Cluster) checkNamespace(ctx context.Context) error {
	ours := client.MatchingLabels{api.LabelManagedBy: api.FieldManager}
	for _, list := range []struct {
		of   client.ObjectList
		opts []client.ListOption
	}{
		{&api.ProfileSourceList{}, nil},
		{kubeclient.MetadataList(osm.GroupVersion.WithKind("OperatingSystemConfig")), []client.ListOption{ours}},
		{kubeclient.MetadataList(appsv1.SchemeGroupVersion.WithKind("ControllerRevision")), []client.ListOption{ours}}, // of replaced ones
	} {
		if err := h.Management.List(ctx, list.of, append(list.opts, client.InNamespace(h.Namespace), client.Limit(1))...); err != nil {
			return fmt.Errorf("reading namespace %s: %w", h.Namespace, err)
		}
		if meta.LenList(list.of) > 0 {
			return nil
		}
	}
	leases, err := h.leases(ctx)
	if err != nil || len(leases) > 0 {
		return err
	}
	others, err := h.otherNamespaces(ctx)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("namespace %q has no ProfileSource, OperatingSystemConfig or Lease of osm-gitops: set --namespace to that of the controller", h.Namespace)
	if len(others) > 0 {
		text += "; ProfileSources are in " + strings.Join(others, ", ")
	}
	return errors.New(text)
}

// servedPools returns the pools whose configuration is in the namespace, or would be if its replacement
// had not been interrupted. Other pools of the cluster can belong to controllers of other
// namespaces.
func (h *Cluster) servedPools(ctx context.Context, pools []cluster.MachineDeployment) (map[string]bool, error) {
	served, owners := map[string]bool{}, map[string]string{} // by the name of the configuration
	// By UID: each namespace can be that of another worker cluster, with pools of equal names.
	servedByOthers := map[string]bool{}
	err := h.eachOf(ctx, h.Management, osm.GroupVersion.WithKind("OperatingSystemConfig"), func(osc *metav1.PartialObjectMetadata) {
		key := lineage.PoolOf(osc)
		ours := key != "" && osc.Labels[api.LabelManagedBy] == api.FieldManager
		switch {
		case osc.Namespace == h.Namespace && ours:
			served[key] = true
		case ours:
			servedByOthers[osc.Annotations[api.AnnotationPoolUID]] = true
		}
		if osc.Namespace == h.Namespace {
			owners[osc.Name] = key
		}
	})
	if err != nil {
		return nil, err
	}
	for _, md := range pools {
		key := client.ObjectKeyFromObject(&md)
		owner, exists := owners[lineage.NamesOf(key).Config]
		switch {
		case served[key.String()] || servedByOthers[string(md.UID)]:
		case exists && owner == "": // replaced by an earlier run
			served[key.String()] = true
		case !exists:
			interrupted, err := h.interrupted(ctx, key)
			if err != nil {
				return nil, err
			}
			if interrupted {
				served[key.String()] = true
			}
		}
	}
	return served, nil
}

// interrupted reports whether the namespace has the record of the documents of a pool that has no
// configuration.
func (h *Cluster) interrupted(ctx context.Context, pool types.NamespacedName) (bool, error) {
	var document corev1.Secret
	found, err := kubeclient.Find(ctx, h.Worker, types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: lineage.NamesOf(pool).Provisioning}, &document)
	if err != nil || !found || lineage.PoolOf(&document) != pool.String() {
		return false, err
	}
	rec, err := h.recordOf(ctx, pool, nil, &document)
	return lineage.Intact(rec), err
}

// leases returns the leases of controllers of the namespace, one for each shard.
func (h *Cluster) leases(ctx context.Context) ([]coordinationv1.Lease, error) {
	var list coordinationv1.LeaseList
	if err := h.Management.List(ctx, &list, client.InNamespace(h.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Leases: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(lease coordinationv1.Lease) bool {
		return lease.Name != h.LeaseName && !strings.HasPrefix(lease.Name, h.LeaseName+api.ShardLeaseInfix)
	}), nil
}

func (h *Cluster) poolsWithProfile(ctx context.Context) ([]cluster.MachineDeployment, error) {
	var list cluster.MachineDeploymentList
	if err := h.Worker.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(md cluster.MachineDeployment) bool { return md.Annotations[api.AnnotationOSP] == "" }), nil
}

// planObstacles checks for a running controller and for booting machines: their documents
// can contain a token that is deleted with its ServiceAccount.
func (h *Cluster) planObstacles(ctx context.Context, p *Plan) error {
	leases, err := h.leases(ctx)
	if err != nil {
		return err
	}
	for _, lease := range leases {
		if holder := h.holder(lease.Spec); holder != "" {
			p.Obstacles = append(p.Obstacles, fmt.Sprintf("a controller runs: Lease %s is held by %q: stop it, since it would restore what is removed here", client.ObjectKeyFromObject(&lease), holder))
		}
	}
	var joining []string
	for machines, err := range kubeclient.Pages(ctx, h.Worker, &cluster.MachineList{}) {
		if err != nil {
			return fmt.Errorf("listing Machines: %w", err)
		}
		for _, m := range machines.Items {
			if _, booting := takeover.IsBooting(&m, h.Now); booting {
				joining = append(joining, m.Namespace+"/"+m.Name)
			}
		}
	}
	if n := len(joining); n > 0 {
		p.Obstacles = append(p.Obstacles, fmt.Sprintf("%d machines have no node yet, %s among them: their tokens would expire: wait until they have joined, or for %s", n, joining[0], takeover.BootTime))
	}
	return nil
}

// holder returns the current holder of a lease, or "".
func (h *Cluster) holder(lease coordinationv1.LeaseSpec) string {
	if lease.HolderIdentity == nil || lease.RenewTime == nil || lease.LeaseDurationSeconds == nil {
		return ""
	}
	if end := lease.RenewTime.Add(time.Duration(*lease.LeaseDurationSeconds) * time.Second); !h.Now.Before(end) {
		return ""
	}
	return *lease.HolderIdentity
}

// futureProfiles are the profiles that the plan creates, by name. One is nil if OSM has another of that
// name built in, by which it replaces ours.
type futureProfiles map[string]*osm.OperatingSystemProfileSpec

// planProfiles creates or replaces the profiles of sources under the names that pools use.
func (h *Cluster) planProfiles(ctx context.Context, p *Plan, pools []cluster.MachineDeployment, future futureProfiles) error {
	var sources api.ProfileSourceList
	if err := h.Management.List(ctx, &sources, client.InNamespace(h.Namespace)); err != nil {
		return fmt.Errorf("listing ProfileSources: %w", err)
	}
	userSources, builtin := selection.SplitBuiltin(sources.Items)
	names := map[string]bool{}
	for _, md := range pools {
		if ns := md.Annotations[api.AnnotationOSPNamespace]; ns == "" || ns == h.Namespace {
			names[md.Annotations[api.AnnotationOSP]] = true
		}
	}
	for _, ps := range userSources {
		for _, e := range ps.Status.Profiles {
			names[e.Name] = names[e.Name] || !e.Removed
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		o, ok := selection.FindCandidate(userSources, name)
		if !ok {
			o, ok = selection.FindCandidate(builtin, name)
			if ok && osm.IsBuiltinProfile(name) {
				p.warn("profile %q is built into osm-gitops, and another one into operating-system-manager: pools that name it get the latter", name)
				continue
			}
		}
		if !names[name] || !ok {
			continue // an object with this name exists, or nothing
		}
		if err := h.planProfile(ctx, p, name, o.Entry.Object, future); err != nil {
			return err
		}
	}
	return nil
}

// planProfile creates one profile under its plain name, or deletes and creates it again if that exists
// with another content.
func (h *Cluster) planProfile(ctx context.Context, p *Plan, name, object string, future futureProfiles) error {
	var from, have osm.OperatingSystemProfile
	found, err := kubeclient.Find(ctx, h.Management, types.NamespacedName{Namespace: h.Namespace, Name: object}, &from)
	if err != nil {
		return err
	}
	if !found {
		p.Obstacles = append(p.Obstacles, fmt.Sprintf("OperatingSystemProfile %s/%s, from which profile %q has to be created, is missing: let the controller create it again at the next reconciliation of its source, then stop it", h.Namespace, object, name))
		return nil
	}
	text, err := json.Marshal(from.Spec)
	if err != nil {
		return fmt.Errorf("encoding OperatingSystemProfile %s: %w", object, err)
	}
	if strings.Contains(string(text), ".Provenance") {
		p.warn("profile %q uses .Provenance, which operating-system-manager does not support: it cannot render the profile for any pool until that is removed", name)
	}
	if from.Spec.OSName != "flatcar" && len(from.Spec.BootstrapConfig.Units)+len(from.Spec.ProvisioningConfig.Units) > 0 {
		p.warn("profile %q has units, which operating-system-manager accepts only for flatcar", name)
	}
	if found, err = kubeclient.Find(ctx, h.Management, types.NamespacedName{Namespace: h.Namespace, Name: name}, &have); err != nil {
		return err
	}
	next := &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: name, Labels: map[string]string{api.LabelManagedBy: api.FieldManager}},
		Spec:       from.Spec,
	}
	planned := func() {
		if future[name] = nil; !osm.IsBuiltinProfile(name) {
			future[name] = &from.Spec
		}
	}
	create := func(ctx context.Context) error {
		return h.Management.Create(ctx, next, client.FieldOwner(api.FieldManager))
	}
	switch {
	case !found:
		planned()
		p.step(create, "create OperatingSystemProfile %s/%s of %s", h.Namespace, name, object)
	case equality.Semantic.DeepEqual(have.Spec, from.Spec):
		if have.Labels[api.LabelManagedBy] == api.FieldManager {
			planned() // by an earlier run
		}
	case have.Labels[api.LabelManagedBy] != api.FieldManager && !h.Overwrite:
		p.warn("OperatingSystemProfile %s/%s, version %s, has another owner and differs from version %s of the profile: pools would get that object; to replace it, set --overwrite-profiles", h.Namespace, name, have.Spec.Version, from.Spec.Version)
	default:
		planned()
		p.step(func(ctx context.Context) error {
			// Its spec is immutable for one version, so it is created again.
			if err := client.IgnoreNotFound(h.Management.Delete(ctx, &have, client.Preconditions{UID: &have.UID})); err != nil {
				return err
			}
			return create(ctx)
		}, "replace OperatingSystemProfile %s/%s by %s", h.Namespace, name, object)
	}
	return nil
}

// planRemoveFinalizers removes the finalizers of ProfileSources, which no controller would process
// any more.
func (h *Cluster) planRemoveFinalizers(ctx context.Context, p *Plan) error {
	var sources api.ProfileSourceList
	if err := h.Management.List(ctx, &sources, client.InNamespace(h.Namespace)); err != nil {
		return fmt.Errorf("listing ProfileSources: %w", err)
	}
	for _, ps := range sources.Items {
		before := ps.DeepCopy()
		ps.Finalizers = slices.DeleteFunc(ps.Finalizers, func(f string) bool { return strings.Contains(f, api.GroupVersion.Group) })
		if len(ps.Finalizers) == len(before.Finalizers) {
			continue
		}
		p.step(func(ctx context.Context) error {
			return h.Management.Patch(ctx, &ps, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(api.FieldManager))
		}, "remove the finalizer of ProfileSource %s", client.ObjectKeyFromObject(&ps))
	}
	return nil
}

// planSecrets deletes what OSM would neither update nor delete: the credentials of generations, and the
// scripts of edge pools, which it only creates, unless the pool remains as it
// is.
func (h *Cluster) planSecrets(ctx context.Context, p *Plan, served, remain map[string]bool) error {
	return h.eachOf(ctx, h.Worker, corev1.SchemeGroupVersion.WithKind("Secret"), func(s *metav1.PartialObjectMetadata) {
		pool, ok := lineage.ParsePool(lineage.PoolOf(s))
		names := lineage.NamesOf(pool)
		if ok && served[lineage.PoolOf(s)] && (s.Name == names.Inputs || s.Name == names.EdgeScript && !remain[lineage.PoolOf(s)]) {
			h.planDelete(p, h.Worker, s)
		}
	}, client.InNamespace(api.NamespaceCloudInitSettings), client.MatchingLabels{api.LabelManagedBy: api.FieldManager})
}

// planTokens leaves one bootstrap token to each pool: OSM fails if there are two.
func (h *Cluster) planTokens(ctx context.Context, p *Plan, served map[string]bool) error {
	ours := map[string]bool{} // values of the label
	for key := range served {
		if pool, ok := lineage.ParsePool(key); ok {
			ours[lineage.TokenLabel(pool)] = true
		}
	}
	var list corev1.SecretList
	if err := h.Worker.List(ctx, &list, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{api.LabelTokenPool}); err != nil {
		return fmt.Errorf("listing bootstrap tokens: %w", err)
	}
	byPool := map[string][]corev1.Secret{}
	for _, s := range list.Items {
		if pool := s.Labels[api.LabelTokenPool]; ours[pool] {
			byPool[pool] = append(byPool[pool], s)
		}
	}
	for _, pool := range slices.Sorted(maps.Keys(byPool)) {
		if len(byPool[pool]) < 2 {
			continue
		}
		retained := token.LongestLived(byPool[pool], h.Now)
		for _, s := range byPool[pool] {
			if retained == nil || s.UID != retained.UID {
				s.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
				h.planDelete(p, h.Worker, &s)
			}
		}
	}
	return nil
}

// planDelete deletes an object if it is unchanged since it was read.
func (h *Cluster) planDelete(p *Plan, from client.Client, obj client.Object) {
	name := obj.GetName()
	if ns := obj.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	p.step(func(ctx context.Context) error {
		return client.IgnoreNotFound(from.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())}))
	}, "delete %s %s", obj.GetObjectKind().GroupVersionKind().Kind, name)
}

// Apply executes all steps, and calls report before each. It stops at the first failure;
// another Plan has the remaining steps.
func (p *Plan) Apply(ctx context.Context, report func(what string)) error {
	for _, s := range p.Steps {
		report(s.What)
		// The API server applies a deleted policy for about a second more.
		var denied error
		err := wait.ExponentialBackoffWithContext(ctx, attempts, func(ctx context.Context) (bool, error) {
			err := s.Run(ctx)
			if p.deniedByDeletedPolicy(err) {
				denied = err
				return false, nil
			}
			return true, err
		})
		if wait.Interrupted(err) && ctx.Err() == nil {
			err = denied
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.What, err)
		}
	}
	return nil
}

// deniedByDeletedPolicy reports whether a policy that the plan has deleted rejected a request. The API
// server's message is all that names it.
func (p *Plan) deniedByDeletedPolicy(err error) bool {
	return err != nil && slices.ContainsFunc(p.policies, func(name string) bool {
		return strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+name+"' ")
	})
}
