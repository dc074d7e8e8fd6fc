package handback

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// controllerPolicy is the prefix of the names of the policies in
// deploy/controller-policy.yaml.
const controllerPolicy = "osm-gitops-controller"

// planDeleteAdmission removes the admission policies and webhooks of osm-gitops, identified by
// the common label or by their names. A binding is removed before its policy. If the
// management cluster has other controllers, they are shared and remain.
func (h *Cluster) planDeleteAdmission(ctx context.Context, p *Plan) error {
	others, err := h.otherNamespaces(ctx)
	if err != nil {
		return err
	}
	clusters := []client.Client{h.Management}
	if len(others) > 0 {
		clusters = nil
		p.warn("policies and webhooks of osm-gitops remain in the cluster with ProfileSources, since there are some in other namespaces, which other controllers serve: %s. If none does, delete them manually", strings.Join(others, ", "))
	}
	if h.Worker != h.Management {
		clusters = append(clusters, h.Worker)
	}
	for _, c := range clusters {
		for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
			err := h.eachOf(ctx, c, admissionv1.SchemeGroupVersion.WithKind(kind), func(obj *metav1.PartialObjectMetadata) {
				if strings.HasPrefix(obj.Name, controllerPolicy) {
					return // it limits the controller's permissions as long as they exist
				}
				if obj.Labels[api.LabelManagedBy] == api.FieldManager || obj.Name == api.FieldManager || strings.HasPrefix(obj.Name, api.FieldManager+"-") {
					h.planDelete(p, c, obj)
					if kind == "ValidatingAdmissionPolicy" {
						p.policies = append(p.policies, obj.Name)
					}
				}
			})
			if err != nil && !meta.IsNoMatchError(err) {
				return err
			}
		}
	}
	return nil
}

// otherNamespaces returns the namespaces of other controllers.
func (h *Cluster) otherNamespaces(ctx context.Context) ([]string, error) {
	var sources api.ProfileSourceList
	if err := h.Management.List(ctx, &sources); err != nil {
		return nil, fmt.Errorf("listing ProfileSources: %w", err)
	}
	namespaces := map[string]bool{}
	for i := range sources.Items {
		namespaces[sources.Items[i].Namespace] = true
	}
	delete(namespaces, h.Namespace)
	return slices.Sorted(maps.Keys(namespaces)), nil
}

// planDeleteTokenAccess removes the permissions of pools' own tokens: first the binding, then its
// subject and role.
func (h *Cluster) planDeleteTokenAccess(ctx context.Context, p *Plan, served map[string]bool) error {
	for _, kind := range []schema.GroupVersionKind{
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), rbacv1.SchemeGroupVersion.WithKind("Role"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	} {
		err := h.eachOf(ctx, h.Worker, kind, func(obj *metav1.PartialObjectMetadata) {
			if served[lineage.PoolOf(obj)] {
				h.planDelete(p, h.Worker, obj)
			}
		}, client.InNamespace(api.NamespaceCloudInitSettings), client.MatchingLabels{api.LabelManagedBy: api.FieldManager})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachOf visits the objects of a kind.
func (h *Cluster) eachOf(ctx context.Context, from client.Client, kind schema.GroupVersionKind, visit func(*metav1.PartialObjectMetadata), opts ...client.ListOption) error {
	for list, err := range kubeclient.Pages(ctx, from, kubeclient.MetadataList(kind), opts...) {
		if err != nil {
			return fmt.Errorf("listing objects of kind %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			obj := list.Items[i].DeepCopy()
			obj.SetGroupVersionKind(kind)
			visit(obj)
		}
	}
	return nil
}
