package offline

import (
	"context"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage/dump"
)

// Written says what a snapshot has.
type Written struct {
	Objects int
	// ReadErrors are the kinds that could not be read, with the reason.
	ReadErrors []string
}

// Write writes all objects that answers are made from, one per line. It omits every credential and
// every field that can have one: of Secrets, nodes and machines it writes metadata, of pools and
// foreign configurations no spec. Profiles have the content of Git, and our configurations have
// placeholders.
func Write(ctx context.Context, from trace.Clusters, to io.Writer, now time.Time) (*Written, error) {
	scheme, err := kubeclient.NewScheme()
	if err != nil {
		return nil, err
	}
	out, err := dump.NewWriter(to, dump.Header{Written: now.UTC().Truncate(time.Second), Namespace: from.Namespace, Apart: from.Management != from.Worker})
	if err != nil {
		return nil, err
	}
	w := &writer{out: out, scheme: scheme}
	ours := client.MatchingLabels{api.LabelManagedBy: api.FieldManager}
	here := client.InNamespace(from.Namespace)
	for _, c := range []struct {
		name   string
		reader client.Reader
		kinds  []objects
	}{
		{dump.ManagementCluster, from.Management, []objects{
			{&api.ProfileSourceList{}, nil},
			{&osm.OperatingSystemProfileList{}, nil},
			{&osm.OperatingSystemConfigList{}, []client.ListOption{here}},
			{&appsv1.ControllerRevisionList{}, []client.ListOption{here, ours}},
			{&corev1.ConfigMapList{}, []client.ListOption{here, ours}},
		}},
		{dump.WorkerCluster, from.Worker, []objects{
			{&cluster.MachineDeploymentList{}, nil},
			{kubeclient.MetadataList(cluster.GroupVersion.WithKind("MachineSet")), nil},
			{&cluster.MachineList{}, nil},
			{kubeclient.MetadataList(corev1.SchemeGroupVersion.WithKind("Node")), nil},
			{kubeclient.MetadataList(corev1.SchemeGroupVersion.WithKind("Secret")), []client.ListOption{client.InNamespace(api.NamespaceCloudInitSettings)}},
			{&api.NodeProvenanceList{}, nil},
		}},
	} {
		for _, kind := range c.kinds {
			if err := w.addObjectsOfKind(ctx, c.name, c.reader, kind); err != nil {
				return nil, err
			}
		}
	}
	return &Written{Objects: out.Objects, ReadErrors: w.readErrors}, out.Close()
}

// objects are what Write reads of one kind.
type objects struct {
	list client.ObjectList
	opts []client.ListOption
}

type writer struct {
	out        *dump.Writer
	scheme     *runtime.Scheme
	readErrors []string
}

// addObjectsOfKind adds all objects of a kind, or why they could not be read.
func (w *writer) addObjectsOfKind(ctx context.Context, name string, from client.Reader, o objects) error {
	kind, err := kindIn(w.scheme, o.list)
	if err != nil {
		return err
	}
	state, why, err := trace.List(ctx, from, o.list, func(page client.ObjectList) error {
		return apimeta.EachListItem(page, func(item runtime.Object) error {
			obj, ok := item.(client.Object)
			if !ok {
				return fmt.Errorf("unexpected item %T of a list", item)
			}
			obj.GetObjectKind().SetGroupVersionKind(kind)
			return w.out.Add(name, obj)
		})
	}, o.opts...)
	if err != nil || state == trace.Found {
		return err
	}
	w.readErrors = append(w.readErrors, kind.Kind+": "+why)
	return w.out.AddUnreadable(name, dump.UnreadableKind{Group: kind.Group, Kind: kind.Kind, State: string(state), Why: why})
}
