package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OSMDeployment is a Deployment of operating-system-manager. It waits for the controller's lease,
// and takes over as soon as the controller releases it.
type OSMDeployment struct {
	// Name and Image identify the Deployment in its namespace.
	Name, Image string
	// Replicas is 0 if it is scaled down.
	Replicas int32
}

// SuccessorRemedy removes an OSMDeployment.
const SuccessorRemedy = "plain installations: delete this Deployment; " + platformRemedy

// platformRemedy is for the two platforms that create and scale it again.
const platformRemedy = "KubeOne: set operatingSystemManager.deploy: false first, because kubeone apply creates and scales it again (with deploy/kubeone in the addons path leave it true, and run kubeone apply); " +
	"KKP: set the image under spec.userCluster.operatingSystemManager of the KubermaticConfiguration to that of osm-gitops, because KKP reconciles it"

// ListOSMDeployments returns the Deployments of operating-system-manager in a namespace.
func ListOSMDeployments(ctx context.Context, from client.Reader, namespace string) ([]OSMDeployment, error) {
	var list appsv1.DeploymentList
	if err := from.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Deployments in %s: %w", namespace, err)
	}
	var out []OSMDeployment
	for _, d := range list.Items {
		i := slices.IndexFunc(d.Spec.Template.Spec.Containers, runsOSMController)
		if i < 0 {
			continue
		}
		s := OSMDeployment{Name: d.Name, Image: d.Spec.Template.Spec.Containers[i].Image, Replicas: 1} // the API's default
		if d.Spec.Replicas != nil {
			s.Replicas = *d.Spec.Replicas
		}
		out = append(out, s)
	}
	return out, nil
}

// The last part of the image's name, and the two programs in it.
const (
	osmImage      = "operating-system-manager"
	osmController = "osm-controller"
	osmWebhook    = "webhook"
	productImage  = "osm-gitops"
)

// runsOSMController reports whether a container runs the controller of operating-system-manager.
// Its webhook has the same image and another lease. Our image answers to the same commands.
func runsOSMController(c corev1.Container) bool {
	image, _, _ := strings.Cut(path.Base(c.Image), "@")
	image, _, _ = strings.Cut(image, ":")
	program := ""
	if len(c.Command) > 0 {
		program = path.Base(c.Command[0])
	}
	switch program {
	case osmWebhook:
		return false
	case osmController:
		return !strings.Contains(image, productImage)
	}
	return image == osmImage
}

// examineOSMDeployments reports the Deployments of operating-system-manager next to the controller.
func (w *examination) examineOSMDeployments(ctx context.Context) {
	found, err := ListOSMDeployments(ctx, w.Management.Client, w.Namespace)
	if err != nil {
		w.addUnreadable(checkLease, w.Management, "Deployments of namespace "+w.Namespace, err)
		return
	}
	for _, s := range found {
		f := Finding{
			Check: checkLease, Level: Problem, Cluster: w.clusterLabel(w.Management), Remedy: SuccessorRemedy,
			Found: fmt.Sprintf("Deployment %s/%s runs operating-system-manager (%s), which takes Lease %s as soon as the controller releases it", w.Namespace, s.Name, s.Image, w.LeaseName),
		}
		if s.Replicas == 0 {
			f.Remedy = "plain installations: leave it for the way back (docs/migration.md), or delete it; " + platformRemedy
			f.Level = Note
			f.Found = fmt.Sprintf("Deployment %s/%s of operating-system-manager (%s) is scaled to 0: with a replica it takes Lease %s as soon as the controller releases it", w.Namespace, s.Name, s.Image, w.LeaseName)
		}
		w.addFinding(f)
	}
}
