package pools

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// planAdmission removes what judges objects in the name of osm-gitops: its policies and
// webhooks, known by the common label or by their names. A binding goes before its policy.
func (h *Handback) planAdmission(ctx context.Context, p *HandbackPlan) error {
	clusters := []client.Client{h.Management}
	if h.Worker != h.Management {
		clusters = append(clusters, h.Worker)
	}
	for _, c := range clusters {
		for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"} {
			err := h.eachOf(ctx, c, admissionv1.SchemeGroupVersion.WithKind(kind), func(obj *metav1.PartialObjectMetadata) {
				if obj.Labels[api.LabelManagedBy] == api.FieldManager || obj.Name == api.FieldManager || strings.HasPrefix(obj.Name, api.FieldManager+"-") {
					h.planDelete(p, c, obj)
				}
			})
			if err != nil && !meta.IsNoMatchError(err) {
				return err
			}
		}
	}
	return nil
}

// planAccess removes the rights of pools' own tokens: the binding first, then what it
// binds.
func (h *Handback) planAccess(ctx context.Context, p *HandbackPlan) error {
	for _, kind := range []schema.GroupVersionKind{
		rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), rbacv1.SchemeGroupVersion.WithKind("Role"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	} {
		err := h.eachOf(ctx, h.Worker, kind, func(obj *metav1.PartialObjectMetadata) {
			if ownerOf(obj) != "" {
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
func (h *Handback) eachOf(ctx context.Context, from client.Client, kind schema.GroupVersionKind, visit func(*metav1.PartialObjectMetadata), opts ...client.ListOption) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := pages(ctx, from, list, func() {
		for i := range list.Items {
			obj := list.Items[i].DeepCopy()
			obj.SetGroupVersionKind(kind)
			visit(obj)
		}
	}, opts...)
	if err != nil {
		return fmt.Errorf("listing objects of kind %s: %w", kind.Kind, err)
	}
	return nil
}
