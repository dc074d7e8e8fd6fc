package pools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// accessName is the name of a pool's ServiceAccount, Role and RoleBinding: at most
// 62 characters, with a digest, so that no two pools have the same.
func accessName(md *cluster.MachineDeployment) string {
	const readable = 40
	name := strings.TrimRight(md.Name[:min(len(md.Name), readable)], "-.")
	sum := sha256.Sum256([]byte(poolKey(md)))
	return "node-" + name + "-" + hex.EncodeToString(sum[:8])
}

// accessPlan is what happens to the objects that let a pool's token read the pool's
// Secrets.
type accessPlan struct {
	account accessChange    // before documents need it
	rights  []accessChange  // so too, one after the other: nobody may bind a Role that is not there
	retire  []client.Object // after no document needs them
	look    time.Time       // when to look again, zero for never
}

// accessChange is one object's: it is removed, created, or patched, in this order.
type accessChange struct {
	remove, create, have client.Object
	patch                map[string]any
}

// decideAccess compares a pool's ServiceAccount, Role and RoleBinding with what its
// token needs. Where nodes share the getter's token they go, once the last token
// that any document had has ended: a machine may be booting with it.
func (r *Reconciler) decideAccess(seen *observed, pool render.Pool) accessPlan {
	if seen.node.Account == "" {
		if r.NodeTokenTTL != 0 {
			return accessPlan{} // withNodeToken comes first
		}
		return retireAccess(seen)
	}
	var p accessPlan
	add := func(c accessChange, needed bool) {
		if needed {
			p.rights = append(p.rights, c)
		}
	}
	have, meta := seen.objects, accessMeta(seen.md)
	if mount := have.account.AutomountServiceAccountToken; mount == nil || *mount || !sameMeta(have.account, meta) {
		p.account = accessChange{have: have.account, patch: map[string]any{"metadata": patchedMeta(meta), "automountServiceAccountToken": false}}
	}
	rules := accessRules(seen.md, pool)
	if have.role == nil {
		add(accessChange{create: &rbacv1.Role{ObjectMeta: meta, Rules: rules}}, true)
	} else {
		add(accessChange{have: have.role, patch: map[string]any{"metadata": patchedMeta(meta), "rules": rules}},
			!equality.Semantic.DeepEqual(have.role.Rules, rules) || !sameMeta(have.role, meta))
	}

	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
	}
	switch {
	case have.binding == nil:
		add(accessChange{create: binding}, true)
	case have.binding.RoleRef != binding.RoleRef: // immutable
		add(accessChange{remove: have.binding, create: binding}, true)
	default:
		add(accessChange{have: have.binding, patch: map[string]any{"metadata": patchedMeta(meta), "subjects": binding.Subjects}},
			!equality.Semantic.DeepEqual(have.binding.Subjects, binding.Subjects) || !sameMeta(have.binding, meta))
	}
	return p
}

// retireAccess plans the end of a pool's ServiceAccount. When its last token ends is
// known from the documents until they are written, and from the account afterwards.
func retireAccess(seen *observed) accessPlan {
	var p accessPlan
	for _, obj := range seen.objects.access() {
		if ownerOf(obj) == poolKey(seen.md) {
			p.retire = append(p.retire, obj)
		}
	}
	account := seen.objects.account
	if len(p.retire) == 0 || account == nil {
		return p
	}
	end := lineage.AnnotatedTime(account.Annotations, api.AnnotationCredentialsExpireAt)
	noted := end
	for _, s := range []*corev1.Secret{seen.objects.provisioning, seen.objects.bootstrap, seen.objects.edge} {
		if s == nil {
			continue
		}
		if t := lineage.AnnotatedTime(s.Annotations, api.AnnotationCredentialsExpireAt); t.After(end) {
			end = t
		}
	}
	if !seen.now.Before(end) {
		return p
	}
	p.retire, p.look = nil, end
	if end.After(noted) {
		p.account = accessChange{have: account, patch: map[string]any{"metadata": map[string]any{
			"annotations": map[string]any{api.AnnotationCredentialsExpireAt: lineage.Stamp(end)},
		}}}
	}
	return p
}

// accessRules are the rights of a pool's token: to get its own Secrets, by name.
func accessRules(md *cluster.MachineDeployment, pool render.Pool) []rbacv1.PolicyRule {
	names := []string{namesOf(md).Provisioning, namesOf(md).Kubeconfig}
	if pool.HasEdgeScript() {
		names = append(names, namesOf(md).Bootstrap)
	}
	return []rbacv1.PolicyRule{{APIGroups: []string{corev1.GroupName}, Resources: []string{"secrets"}, ResourceNames: names, Verbs: []string{"get"}}}
}

func accessMeta(md *cluster.MachineDeployment) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: api.NamespaceCloudInitSettings, Name: accessName(md),
		Labels:      map[string]string{api.LabelManagedBy: api.FieldManager},
		Annotations: map[string]string{api.AnnotationPool: poolKey(md), api.AnnotationPoolUID: string(md.UID)},
	}
}

// sameMeta reports whether an object says whose it is, and of an account that it is
// not about to go.
func sameMeta(have client.Object, want metav1.ObjectMeta) bool {
	return sameKeys(have.GetAnnotations(), want.Annotations, api.AnnotationPool, api.AnnotationPoolUID, api.AnnotationCredentialsExpireAt)
}

func patchedMeta(want metav1.ObjectMeta) map[string]any {
	annotations := map[string]any{api.AnnotationCredentialsExpireAt: nil}
	for k, v := range want.Annotations {
		annotations[k] = v
	}
	return map[string]any{"labels": want.Labels, "annotations": annotations}
}

// otherPool reports whether an account was made for a pool of the same name before:
// tokens of that one must not read what this one has.
func otherPool(account *corev1.ServiceAccount, md *cluster.MachineDeployment) bool {
	uid := account.Annotations[api.AnnotationPoolUID]
	return uid != "" && uid != string(md.UID)
}

// ensureAccount returns the pool's ServiceAccount, made where there is none.
func (r *Reconciler) ensureAccount(ctx context.Context, seen *observed) (*corev1.ServiceAccount, error) {
	have := seen.objects.account
	if have != nil && !otherPool(have, seen.md) {
		return have, nil
	}
	if have != nil {
		if err := r.writer().remove(ctx, have); err != nil {
			return nil, err
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: accessMeta(seen.md), AutomountServiceAccountToken: ptr(false)}
	if err := r.Worker.Create(ctx, account, client.FieldOwner(api.FieldManager)); err != nil {
		return nil, fault.Creating(fmt.Errorf("creating ServiceAccount %s: %w", client.ObjectKeyFromObject(account), err))
	}
	return account, nil
}

// trimAccess keeps of a ServiceAccount, Role or RoleBinding what decideAccess compares.
func trimAccess(obj any) any {
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
	for _, key := range []string{api.AnnotationPool, api.AnnotationPoolUID, api.AnnotationCredentialsExpireAt} {
		if v, ok := meta.GetAnnotations()[key]; ok {
			annotations[key] = v
		}
	}
	meta.SetAnnotations(annotations)
	return obj
}

// together runs writes that do not wait for each other, and returns when all have ended.
func together(writes ...func() error) error {
	errs := make([]error, len(writes))
	var wg sync.WaitGroup
	for i, write := range writes {
		wg.Go(func() { errs[i] = write() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
