package doctor

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

const checkNamespace = "namespace"

// SystemLease is the lease of operating-system-manager, and of a controller in kube-system.
const SystemLease = "operating-system-manager"

// ListOSMObjectsInKubeSystem lists what belongs to a controller in kube-system: the Deployment of
// operating-system-manager, its lease and its profiles. A controller in another namespace
// would not wait for that lease, and would not have these profiles.
func ListOSMObjectsInKubeSystem(ctx context.Context, from client.Reader) ([]string, error) {
	var out []string
	for _, k := range []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment"), coordinationv1.SchemeGroupVersion.WithKind("Lease")} {
		obj := kubeclient.Metadata(k)
		err := from.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: SystemLease}, obj)
		if err == nil {
			out = append(out, k.Kind+" "+SystemLease)
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading %s %s/%s: %w", k.Kind, metav1.NamespaceSystem, SystemLease, err)
		}
	}
	profiles := kubeclient.MetadataList(osm.GroupVersion.WithKind("OperatingSystemProfile"))
	err := from.List(ctx, profiles, client.InNamespace(metav1.NamespaceSystem), client.Limit(1))
	switch {
	case apimeta.IsNoMatchError(err), apierrors.IsNotFound(err): // the check of kinds reports a missing kind
	case err != nil:
		return nil, fmt.Errorf("listing OperatingSystemProfiles in %s: %w", metav1.NamespaceSystem, err)
	case len(profiles.Items) > 0:
		out = append(out, "OperatingSystemProfile "+profiles.Items[0].Name)
	}
	return out, nil
}

// StayInSystemRemedy is the remedy for ListOSMObjectsInKubeSystem.
const StayInSystemRemedy = "run the controller with --namespace kube-system; if all of this is a leftover, stop operating-system-manager and delete these objects first"

// examineNamespaceConflict reports a namespace other than kube-system if a controller is installed in
// kube-system. With two clusters it is a namespace of the management cluster.
func (w *examination) examineNamespaceConflict(ctx context.Context) {
	if w.hasWorkerCluster() || w.Namespace == metav1.NamespaceSystem {
		return
	}
	left, err := ListOSMObjectsInKubeSystem(ctx, w.Management.Client)
	switch {
	case err != nil:
		w.addUnreadable(checkNamespace, w.Management, "the Deployment, Lease and profiles of operating-system-manager in "+metav1.NamespaceSystem, err)
	case len(left) > 0:
		w.report(Problem, checkNamespace, nil, fmt.Sprintf("the controller should run in namespace %s, but %s has %s: the two controllers would not wait for each other", w.Namespace, metav1.NamespaceSystem, strings.Join(left, ", ")),
			StayInSystemRemedy)
	default:
		w.report(OK, checkNamespace, nil, "no other controller is installed in "+metav1.NamespaceSystem, "")
	}
}
