// Package access grants the token of a pool permission to read the Secrets of that pool and to
// report boots into the BootReport of that pool, and no other object: with a ServiceAccount, a Role
// and a RoleBinding of the same name in cloud-init-settings.
//
// Read finds these objects, PlanGrant and PlanRetirement plan without a client, and Writer writes.
// Package token requests the tokens.
package access

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// Objects are those of a pool, nil where absent.
type Objects struct {
	Account *corev1.ServiceAccount
	Role    *rbacv1.Role
	Binding *rbacv1.RoleBinding
}

// Read reads the objects that have the names of a pool.
func Read(ctx context.Context, from client.Reader, md *cluster.MachineDeployment) (Objects, error) {
	var out Objects
	key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(client.ObjectKeyFromObject(md))}
	for _, obj := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		found, err := kubeclient.Find(ctx, from, key, obj)
		if err != nil {
			return out, err
		}
		if !found {
			continue
		}
		switch obj := obj.(type) {
		case *corev1.ServiceAccount:
			out.Account = obj
		case *rbacv1.Role:
			out.Role = obj
		case *rbacv1.RoleBinding:
			out.Binding = obj
		}
	}
	return out, nil
}

// All lists the objects that exist. The account is last: as long as it exists, the remaining
// objects lead back to their pool and are cleaned up.
func (o Objects) All() []client.Object {
	var out []client.Object
	if o.Binding != nil {
		out = append(out, o.Binding)
	}
	if o.Role != nil {
		out = append(out, o.Role)
	}
	if o.Account != nil {
		out = append(out, o.Account)
	}
	return out
}

// AccountOf returns the pool's account, nil if there is none or if it was made for a pool
// of the same name before: tokens of that one must not read what this one has.
func (o Objects) AccountOf(md *cluster.MachineDeployment) *corev1.ServiceAccount {
	if o.Account == nil {
		return nil
	}
	if uid := o.Account.Annotations[api.AnnotationPoolUID]; uid != "" && uid != string(md.UID) {
		return nil
	}
	return o.Account
}

// Plan is what happens to the objects. The zero value changes nothing.
type Plan struct {
	// NextRun is when to plan again, zero for never.
	NextRun time.Time

	grant  []change        // before documents need it, in any order
	retire []client.Object // once no document needs them
}

// change is one object's: it is removed, created, or patched, in this order.
type change struct {
	remove, create, have client.Object
	patch                map[string]any
	withoutReports       []rbacv1.PolicyRule // of a Role, if the API server rejects the others
}

// refusalRetry is the time until a Role that lets machines report their boots is tried again.
const refusalRetry = 10 * time.Minute

// ReportRefusal says whether the API server rejects Roles that let machines report their boots:
// permissions or policies of an earlier release do. The zero value says that it does not. Pools
// then get Roles without that rule, until one is accepted.
type ReportRefusal struct{ until atomic.Int64 } // in nanoseconds since 1970

// IsActive reports whether a Role was rejected recently.
func (r *ReportRefusal) IsActive(now time.Time) bool { return now.UnixNano() < r.until.Load() }

// RetainAll returns the plan without what it retires.
func (p Plan) RetainAll() Plan {
	p.retire = nil
	return p
}

// PlanGrant plans that tokens of the pool's account can get the Secrets of the given names, and patch
// the pool's BootReport unless reports is false. A Role that already has that permission retains it.
// It does not create the account: see EnsureAccount.
func (o Objects) PlanGrant(md *cluster.MachineDeployment, reports bool, secrets ...string) Plan {
	var grant Plan
	add := func(needed bool, c change) {
		if needed {
			grant.grant = append(grant.grant, c)
		}
	}
	meta := lineage.AccessMeta(md)
	// A Pod that names this account must not get its token.
	if o.Account != nil {
		mount := o.Account.AutomountServiceAccountToken
		add(mount == nil || *mount || !sameAnnotations(o.Account, meta),
			change{have: o.Account, patch: map[string]any{"metadata": patchedMeta(meta), "automountServiceAccountToken": false}})
	}

	rules := []rbacv1.PolicyRule{{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: secrets, Verbs: []string{"get"}}}
	role := change{withoutReports: rules}
	reporting := append(slices.Clone(rules), rbacv1.PolicyRule{
		APIGroups: []string{api.GroupVersion.Group}, Resources: []string{"bootreports"}, ResourceNames: []string{meta.Name}, Verbs: []string{"patch"},
	})
	if reports || o.Role != nil && equality.Semantic.DeepEqual(o.Role.Rules, reporting) {
		rules = reporting
	}
	if o.Role == nil {
		role.create = &rbacv1.Role{ObjectMeta: meta, Rules: rules}
		add(true, role)
	} else {
		role.have, role.patch = o.Role, map[string]any{"metadata": patchedMeta(meta), "rules": rules}
		add(!equality.Semantic.DeepEqual(o.Role.Rules, rules) || !sameAnnotations(o.Role, meta), role)
	}

	// A binding to a Role that does not exist yet needs permission to bind all of them.
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
	}
	switch {
	case o.Binding == nil:
		add(true, change{create: binding})
	case o.Binding.RoleRef != binding.RoleRef: // immutable
		add(true, change{remove: o.Binding, create: binding})
	default:
		add(!equality.Semantic.DeepEqual(o.Binding.Subjects, binding.Subjects) || !sameAnnotations(o.Binding, meta),
			change{have: o.Binding, patch: map[string]any{"metadata": patchedMeta(meta), "subjects": binding.Subjects}})
	}
	return grant
}

// PlanRetirement plans the deletion of a pool's objects after the last token that a document carried
// has expired: until then a machine can be booting with it. The expiry is read from the
// documents until they are written without the token, and from the account afterwards.
func (o Objects) PlanRetirement(md *cluster.MachineDeployment, now time.Time, documents ...*corev1.Secret) Plan {
	pool := client.ObjectKeyFromObject(md).String()
	retirement := Plan{retire: slices.DeleteFunc(o.All(), func(obj client.Object) bool { return lineage.PoolOf(obj) != pool })}
	// Tokens are invalid without their account, so the rest can be deleted now.
	if len(retirement.retire) == 0 || o.Account == nil {
		return retirement
	}
	end := lineage.AnnotatedTime(o.Account.Annotations, api.AnnotationCredentialsExpireAt)
	recorded := end
	for _, document := range documents {
		if document == nil {
			continue
		}
		if expires := lineage.AnnotatedTime(document.Annotations, api.AnnotationCredentialsExpireAt); expires.After(end) {
			end = expires
		}
	}
	if !now.Before(end) {
		return retirement
	}
	retirement = Plan{NextRun: end}
	if end.After(recorded) {
		retirement.grant = []change{{have: o.Account, patch: map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{api.AnnotationCredentialsExpireAt: lineage.FormatTime(end)},
		}}}}
	}
	return retirement
}

// compared are the annotations that say whose an object is, and of an account also that it
// is about to go.
var compared = []string{api.AnnotationPool, api.AnnotationPoolUID, api.AnnotationCredentialsExpireAt}

func sameAnnotations(have client.Object, want metav1.ObjectMeta) bool {
	return !slices.ContainsFunc(compared, func(key string) bool { return have.GetAnnotations()[key] != want.Annotations[key] })
}

func patchedMeta(want metav1.ObjectMeta) map[string]any {
	annotations := map[string]any{api.AnnotationCredentialsExpireAt: nil}
	for k, v := range want.Annotations {
		annotations[k] = v
	}
	return map[string]any{"labels": want.Labels, "annotations": annotations}
}

// Trim reduces a ServiceAccount, Role or RoleBinding to the fields that plans compare, for a
// cache. It returns other objects unchanged.
func Trim(obj any) any {
	switch obj := obj.(type) {
	case *corev1.ServiceAccount:
		obj.Secrets, obj.ImagePullSecrets = nil, nil
	case *rbacv1.Role, *rbacv1.RoleBinding:
	default:
		return obj
	}
	meta := obj.(metav1.Object)
	meta.SetManagedFields(nil)
	meta.SetLabels(nil)
	annotations := map[string]string{}
	for _, key := range compared {
		if v, ok := meta.GetAnnotations()[key]; ok {
			annotations[key] = v
		}
	}
	meta.SetAnnotations(annotations)
	return obj
}

// Writer writes the objects. It patches and deletes them only in the state in which they were read.
type Writer struct {
	Worker client.Client
	// Reports records that Roles are rejected which let machines report, at the time of Clock.
	Reports *ReportRefusal
	Clock   clock.PassiveClock
}

// EnsureAccount returns the pool's account. It creates one if there is none, or in place of
// one that was made for a pool of the same name before.
func (w Writer) EnsureAccount(ctx context.Context, md *cluster.MachineDeployment, have Objects) (*corev1.ServiceAccount, error) {
	if account := have.AccountOf(md); account != nil {
		return account, nil
	}
	// The account of a deleted pool of the same name is not used again: its tokens must end with
	// it.
	if have.Account != nil {
		if err := w.remove(ctx, have.Account); err != nil {
			return nil, err
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: lineage.AccessMeta(md), AutomountServiceAccountToken: new(false)}
	if err := w.Worker.Create(ctx, account, client.FieldOwner(api.FieldManager)); err != nil {
		return nil, fault.ClassifyCreateError(fmt.Errorf("creating ServiceAccount %s: %w", client.ObjectKeyFromObject(account), err))
	}
	return account, nil
}

// Grant writes what documents need, at the same time: the API server needs longest for a Role, whose
// permissions it compares with those of its creator.
func (w Writer) Grant(ctx context.Context, p Plan) error {
	var writes errgroup.Group
	for _, c := range p.grant {
		writes.Go(func() error { return w.write(ctx, c) })
	}
	return writes.Wait()
}

// RevokeUnneeded deletes what no document needs.
func (w Writer) RevokeUnneeded(ctx context.Context, p Plan) error {
	for _, obj := range p.retire {
		if err := w.remove(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

func (w Writer) write(ctx context.Context, c change) error {
	err := w.writeChange(ctx, c)
	if c.withoutReports == nil || !apierrors.IsForbidden(err) {
		return err
	}
	if role, ok := c.create.(*rbacv1.Role); ok {
		role = role.DeepCopy()
		role.Rules = c.withoutReports
		c.create = role
	} else {
		c.patch = map[string]any{"metadata": c.patch["metadata"], "rules": c.withoutReports}
	}
	// If this is rejected too, the reason is another one.
	if again := w.writeChange(ctx, c); again != nil {
		return again
	}
	w.Reports.until.Store(w.Clock.Now().Add(refusalRetry).UnixNano())
	log.FromContext(ctx).Info("machines cannot report their boots: apply deploy/rbac.yaml and deploy/controller-policy.yaml of this release (two clusters: deploy/two-clusters/worker.yaml)", "cause", err.Error())
	return nil
}

func (w Writer) writeChange(ctx context.Context, c change) error {
	if c.remove != nil {
		if err := w.remove(ctx, c.remove); err != nil {
			return err
		}
	}
	if c.create != nil {
		if err := w.Worker.Create(ctx, c.create, client.FieldOwner(api.FieldManager)); err != nil {
			return fault.ClassifyCreateError(fmt.Errorf("creating %T %s: %w", c.create, client.ObjectKeyFromObject(c.create), err))
		}
	}
	if c.patch == nil {
		return nil
	}
	return fault.MarkRace(kubeclient.MergePatchWithLock(ctx, w.Worker, c.have, c.patch))
}

func (w Writer) remove(ctx context.Context, obj client.Object) error {
	if err := client.IgnoreNotFound(w.Worker.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})); err != nil {
		return fault.MarkRace(fmt.Errorf("deleting %T %s: %w", obj, client.ObjectKeyFromObject(obj), err))
	}
	return nil
}
