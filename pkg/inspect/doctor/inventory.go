package doctor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

const settingsNamespace = api.NamespaceCloudInitSettings

// inventory contains the objects of all pools.
type inventory struct {
	pools   []cluster.MachineDeployment // with a profile
	configs map[string]*osm.OperatingSystemConfig
	secrets map[string]*metav1.PartialObjectMetadata // Secrets of cloud-init-settings by name, without data
}

// sharesConfigName reports whether another pool's configuration has the same name.
func (s *inventory) sharesConfigName(md *cluster.MachineDeployment) bool {
	name := lineage.NamesOf(client.ObjectKeyFromObject(md)).Config
	return slices.ContainsFunc(s.pools, func(other cluster.MachineDeployment) bool {
		return other.UID != md.UID && lineage.NamesOf(client.ObjectKeyFromObject(&other)).Config == name
	})
}

// readInventory reads the inventory once. It is nil if that fails, which it reports for the
// check.
func (w *examination) readInventory(ctx context.Context, check string) *inventory {
	if w.inventory != nil {
		return w.inventory
	}
	s := &inventory{configs: map[string]*osm.OperatingSystemConfig{}, secrets: map[string]*metav1.PartialObjectMetadata{}}
	var mds cluster.MachineDeploymentList
	if err := w.Worker.Client.List(ctx, &mds); err != nil {
		w.addUnreadable(check, w.Worker, "MachineDeployments", err)
		return nil
	}
	for i := range mds.Items {
		if mds.Items[i].Annotations[api.AnnotationOSP] != "" {
			s.pools = append(s.pools, mds.Items[i])
		}
	}
	var configs osm.OperatingSystemConfigList
	if err := w.Management.Client.List(ctx, &configs, client.InNamespace(w.Namespace)); err != nil {
		w.addUnreadable(check, w.Management, "OperatingSystemConfigs of namespace "+w.Namespace, err)
		return nil
	}
	for i := range configs.Items {
		s.configs[configs.Items[i].Name] = &configs.Items[i]
	}
	secrets := kubeclient.MetadataList(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := w.Worker.Client.List(ctx, secrets, client.InNamespace(settingsNamespace)); err != nil {
		w.addUnreadable(check, w.Worker, "the names of Secrets of namespace "+settingsNamespace, err)
		return nil
	}
	for i := range secrets.Items {
		s.secrets[secrets.Items[i].Name] = &secrets.Items[i]
	}
	w.inventory = s
	return s
}
