package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/osm-gitops/osm-gitops/deploy"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// ExamineBeforeInstall examines one cluster before the controller is installed: whether it can serve
// there, and whether the current user can install it.
func (d *Doctor) ExamineBeforeInstall(ctx context.Context) Report {
	w := &examination{Doctor: d}
	kinds := kindChecks{w}
	permissions := permissionChecks{w}
	webhooks := webhookChecks{w}
	return w.runChecks(ctx,
		w.examineKubernetesVersion, kinds.examineMachineControllerCRDs, w.examineClusterInfo, w.examinePredecessorObjects,
		webhooks.examinePredecessorWebhooks, permissions.examineInstallerPermissions)
}

// oldest is the first release with stable ValidatingAdmissionPolicies, as the chart's kubeVersion:
// https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/
var oldest = version.MustParseGeneric("1.30.0")

// examineKubernetesVersion checks the release of the API server.
func (w *examination) examineKubernetesVersion(context.Context) {
	serverVersion := w.Management.seen.version
	have, err := version.ParseGeneric(serverVersion)
	f := Finding{Check: "kubernetes", Level: OK, Found: "the API server is " + serverVersion}
	switch {
	case err != nil:
		f.Level, f.Found = Unknown, fmt.Sprintf("the API server does not say its version, but %q", serverVersion)
		f.Remedy = "run osm-gitops doctor as a user who can read /version, which ClusterRole system:discovery allows"
	case have.LessThan(oldest):
		f.Level = Problem
		f.Found = fmt.Sprintf("the API server is %s, and osm-gitops needs %d.%d", serverVersion, oldest.Major(), oldest.Minor())
		f.Remedy = "upgrade Kubernetes first"
	}
	w.addFinding(f)
}

// examineMachineControllerCRDs checks the kinds of machine-controller, and reports how many exist
// if there is no problem.
func (w kindChecks) examineMachineControllerCRDs(ctx context.Context) {
	before := len(w.Findings)
	w.examineMachineKinds(ctx)
	if len(w.Findings) == before {
		w.report(OK, checkKinds, nil, fmt.Sprintf("%d kinds of machine-controller exist", len(foreignKinds)), "")
	}
}

const checkPredecessor = "predecessor"

// releaseName is the annotation by which Helm recognizes its objects; it refuses to install over
// others: https://helm.sh/docs/topics/charts/
const releaseName = "meta.helm.sh/release-name"

// examinePredecessorObjects reports operating-system-manager, and objects that Helm would refuse to replace.
func (w *examination) examinePredecessorObjects(ctx context.Context) {
	found, err := ListOSMDeployments(ctx, w.Management.Client, w.Namespace)
	if err != nil {
		w.addUnreadable(checkPredecessor, w.Management, "Deployments of namespace "+w.Namespace, err)
		return
	}
	for _, s := range found {
		w.report(Problem, checkPredecessor, nil, fmt.Sprintf("Deployment %s/%s is operating-system-manager (%s)", w.Namespace, s.Name, s.Image),
			"follow docs/migration.md, which installs osm-gitops beside it and then takes over")
	}
	kinds, err := projectCRDs()
	if err != nil {
		w.report(Unknown, checkPredecessor, nil, err.Error(), "")
		return
	}
	var others []string
	namespace := kubeclient.Metadata(corev1.SchemeGroupVersion.WithKind("Namespace"))
	exists, err := kubeclient.Find(ctx, w.Management.Client, types.NamespacedName{Name: api.NamespaceCloudInitSettings}, namespace)
	if err == nil && exists && namespace.Annotations[releaseName] == "" {
		others = append(others, "Namespace "+namespace.Name)
	}
	for _, kind := range kinds {
		crd := kubeclient.Metadata(crdKind)
		if err == nil {
			exists, err = kubeclient.Find(ctx, w.Management.Client, types.NamespacedName{Name: kind.GetName()}, crd)
		}
		if err == nil && exists && crd.Annotations[releaseName] == "" {
			others = append(others, "CustomResourceDefinition "+crd.Name)
		}
	}
	switch {
	case err != nil:
		w.addUnreadable(checkPredecessor, w.Management, "Namespaces and CustomResourceDefinitions", err)
	case len(others) > 0:
		w.report(Warning, checkPredecessor, nil, "Helm did not install "+joinSome(others)+": helm install fails on them",
			"add --take-ownership to helm install, unless another tool restores them; if osm-gitops is installed, run osm-gitops doctor without --pre")
	case len(found) == 0:
		w.report(OK, checkPredecessor, nil, "operating-system-manager is not installed in "+w.Namespace, "")
	}
}

// examinePredecessorWebhooks reports webhooks of operating-system-manager that were left without an endpoint.
func (w webhookChecks) examinePredecessorWebhooks(ctx context.Context) {
	before := len(w.Findings)
	hooks, ok := w.listAdmissionWebhooks(ctx, w.Management)
	if !ok {
		return
	}
	for _, h := range hooks {
		if pointsToOSM(h.config) && !strings.HasSuffix(h.name, ourHooks) {
			w.examineOSMHook(ctx, w.Management, h)
		}
	}
	if len(w.Findings) == before {
		w.report(OK, checkWebhooks, nil, "no webhook of operating-system-manager blocks MachineDeployments", "")
	}
}

// examineInstallerPermissions checks the permissions of the current user for everything that an installation applies.
func (w permissionChecks) examineInstallerPermissions(ctx context.Context) {
	needs, err := w.listInstallerPermissions(ctx)
	if err == nil {
		err = reviewAccess(ctx, w.Management, "", true, needs)
	}
	if err != nil {
		w.report(Unknown, checkRights, nil, fmt.Sprintf("your permissions cannot be checked: %v", err), "")
		return
	}
	lacks, verbs := missingPermissions(needs)
	for _, n := range lacks[:min(len(lacks), maxListed)] {
		w.report(Problem, checkRights, nil, fmt.Sprintf("you cannot %s %s, which the installation needs, or grants to the controller", strings.Join(verbs[n.resourceDescription()], ", "), n.resourceDescription()),
			"install as a user with this permission, such as a cluster admin")
	}
	w.addRemaining(checkRights, len(lacks), "permissions are missing")
	if len(lacks) == 0 {
		w.report(OK, checkRights, nil, fmt.Sprintf("you have all %d permissions that the installation needs", len(needs)), "")
	}
}

// listInstallerPermissions lists what an installation reads and writes, and the permissions that it grants.
func (w permissionChecks) listInstallerPermissions(ctx context.Context) ([]*permission, error) {
	files, err := deploy.Installation()
	if err != nil {
		return nil, err
	}
	// Helm stores its release in a Secret.
	things := []permission{{ResourceAttributes: authorizationv1.ResourceAttributes{Resource: "secrets", Namespace: w.Namespace}}}
	for _, file := range files {
		objects, err := deploy.Objects(file)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			resource, _ := apimeta.UnsafeGuessKindToResource(o.GroupVersionKind())
			namespace := o.GetNamespace()
			if namespace == metav1.NamespaceSystem {
				namespace = w.Namespace
			}
			n := permission{ResourceAttributes: authorizationv1.ResourceAttributes{Group: resource.Group, Resource: resource.Resource, Namespace: namespace}}
			if !slices.Contains(things, n) {
				things = append(things, n)
			}
		}
	}
	var out []*permission
	escalates := true
	for _, n := range things {
		for _, verb := range []string{"get", "create", "patch"} {
			n.Verb = verb
			one := n
			out = append(out, &one)
		}
		if n.Resource == "roles" || n.Resource == "clusterroles" {
			n.Verb = "escalate"
			allowed, err := isAccessAllowed(ctx, w.Management, "", true, n.ResourceAttributes)
			if err != nil {
				return nil, err
			}
			escalates = escalates && allowed
		}
	}
	// Users can grant what they have, or anything with the verb escalate:
	// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
	if escalates {
		return out, nil
	}
	for _, file := range []string{"rbac.yaml", "webhook.yaml"} {
		granted, err := w.listFilePermissions(w.Management, file)
		if err != nil {
			return nil, err
		}
		out = append(out, granted...)
	}
	return out, nil
}
