package trace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// The two clusters in a dump.
const (
	inManagement = "management"
	inWorker     = "worker"
)

const (
	dumpKind    = "OSMGitopsDump"
	dumpVersion = 1
)

// dumpLine is one line of a dump, a JSON object with one of these fields beside the
// cluster. The first is a header, the last an end.
type dumpLine struct {
	Header  *dumpHeader     `json:"header,omitempty"`
	Cluster string          `json:"cluster,omitempty"`
	Object  json.RawMessage `json:"object,omitempty"`
	Unread  *unread         `json:"unread,omitempty"`
	End     *dumpEnd        `json:"end,omitempty"`
}

type dumpHeader struct {
	Kind      string    `json:"kind"`
	Version   int       `json:"version"`
	Written   time.Time `json:"written"`
	Namespace string    `json:"namespace"`
	// Apart: there are two clusters.
	Apart bool `json:"apart,omitempty"`
}

// unread is a kind that could not be read.
type unread struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	// State is Missing for a kind that the cluster does not have, or Unreadable.
	State State  `json:"state"`
	Why   string `json:"why"`
}

type dumpEnd struct {
	Objects int `json:"objects"`
}

// Dumped says what a dump holds.
type Dumped struct {
	Objects int
	// Unread are the kinds that could not be read, with the reason.
	Unread []string
}

// Dump writes all objects that trails are made from, one a line. It leaves out every
// credential, and where one may stand: of Secrets, nodes and machines it keeps metadata,
// of pools and configurations of others no spec. What it keeps of profiles and of our
// configurations is what Git has, and placeholders.
func (c Clusters) Dump(ctx context.Context, to io.Writer, now time.Time) (*Dumped, error) {
	out := bufio.NewWriter(to)
	scheme, err := dumpScheme()
	if err != nil {
		return nil, err
	}
	d := dumper{enc: json.NewEncoder(out), scheme: scheme}
	d.enc.SetEscapeHTML(false)
	header := &dumpHeader{Kind: dumpKind, Version: dumpVersion, Written: now.UTC().Truncate(time.Second), Namespace: c.Namespace, Apart: c.Management != c.Worker}
	if err := d.enc.Encode(dumpLine{Header: header}); err != nil {
		return nil, fmt.Errorf("writing the dump: %w", err)
	}
	ours := client.MatchingLabels{api.LabelManagedBy: api.FieldManager}
	here := client.InNamespace(c.Namespace)
	manage, work := source{c.Management, inManagement}, source{c.Worker, inWorker}
	dumpAll(ctx, &d, manage, of[api.ProfileSourceList])
	dumpAll(ctx, &d, manage, of[osm.OperatingSystemProfileList])
	dumpAll(ctx, &d, manage, of[osm.OperatingSystemConfigList], here)
	dumpAll(ctx, &d, manage, of[appsv1.ControllerRevisionList], here, ours)
	dumpAll(ctx, &d, manage, of[corev1.ConfigMapList], here, ours)
	dumpAll(ctx, &d, work, of[cluster.MachineDeploymentList])
	dumpAll(ctx, &d, work, newMetadataList(machineSetKind))
	dumpAll(ctx, &d, work, of[cluster.MachineList])
	dumpAll(ctx, &d, work, newMetadataList(nodeKind))
	dumpAll(ctx, &d, work, newMetadataList(secretKind), client.InNamespace(api.NamespaceCloudInitSettings))
	dumpAll(ctx, &d, work, of[api.NodeProvenanceList])
	if d.err != nil {
		return nil, d.err
	}
	if err := errors.Join(d.enc.Encode(dumpLine{End: &dumpEnd{Objects: d.Objects}}), out.Flush()); err != nil {
		return nil, fmt.Errorf("writing the dump: %w", err)
	}
	return &d.Dumped, nil
}

// dumper writes the lines of a dump.
type dumper struct {
	Dumped
	enc    *json.Encoder
	scheme *runtime.Scheme
	err    error // the first one: nothing is read after it
}

// source is where objects are read from.
type source struct {
	from client.Reader
	in   string
}

// of makes a new list.
func of[T any]() *T { return new(T) }

// dumpAll writes all objects of a kind.
func dumpAll[L client.ObjectList](ctx context.Context, d *dumper, s source, empty func() L, opts ...client.ListOption) {
	if d.err == nil {
		d.err = dumpKindOf(ctx, d, s, empty, opts...)
	}
}

func dumpKindOf[L client.ObjectList](ctx context.Context, d *dumper, s source, empty func() L, opts ...client.ListOption) error {
	kind, err := kindIn(d.scheme, empty())
	if err != nil {
		return err
	}
	state, note, err := list(ctx, s.from, empty, func(page L) error {
		return eachItem(page, func(obj client.Object) error {
			obj.GetObjectKind().SetGroupVersionKind(kind)
			kept := withoutCredentials(obj)
			if kept == nil {
				return nil
			}
			text, err := json.Marshal(kept)
			if err != nil {
				return fmt.Errorf("encoding %s %s: %w", kind.Kind, client.ObjectKeyFromObject(obj), err)
			}
			d.Objects++
			if err := d.enc.Encode(dumpLine{Cluster: s.in, Object: text}); err != nil {
				return fmt.Errorf("writing the dump: %w", err)
			}
			return nil
		})
	}, opts...)
	if err != nil || state == Found {
		return err
	}
	d.Unread = append(d.Unread, kind.Kind+": "+note)
	if err := d.enc.Encode(dumpLine{Cluster: s.in, Unread: &unread{Group: kind.Group, Kind: kind.Kind, State: state, Why: note}}); err != nil {
		return fmt.Errorf("writing the dump: %w", err)
	}
	return nil
}

// eachItem visits the objects of a list.
func eachItem(page client.ObjectList, visit func(client.Object) error) error {
	return apimeta.EachListItem(page, func(obj runtime.Object) error {
		o, ok := obj.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", obj)
		}
		return visit(o)
	})
}

// lastApplied is where kubectl apply keeps a whole object, with what its Secret held
// (security.md 15).
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// withoutCredentials keeps of an object what trails are made from, and nothing that may
// be a credential; nil for an object that no trail needs.
func withoutCredentials(obj client.Object) client.Object {
	obj = obj.DeepCopyObject().(client.Object)
	obj.SetManagedFields(nil)
	annotations := maps.Clone(obj.GetAnnotations())
	delete(annotations, lastApplied)
	obj.SetAnnotations(annotations)
	switch o := obj.(type) {
	case *api.ProfileSource, *osm.OperatingSystemProfile, *api.NodeProvenance:
	case *osm.OperatingSystemConfig:
		if _, ok := lineage.RecordOf(o); !ok { // the reference's holds credentials
			o.Spec = osm.OperatingSystemConfigSpec{}
			keepOurs(o)
		}
	case *appsv1.ControllerRevision:
		if _, ok := lineage.DecodeRecord(o.Data.Raw); !ok {
			o.Data = runtime.RawExtension{}
		}
	case *corev1.ConfigMap:
		if o.Data[lineage.SettingsKey] == "" || !strings.HasPrefix(o.Name, lineage.SettingsName("")) {
			return nil
		}
		o.Data, o.BinaryData = map[string]string{lineage.SettingsKey: o.Data[lineage.SettingsKey]}, nil
	case *cluster.MachineDeployment:
		o.Spec = cluster.MachineDeploymentSpec{Replicas: o.Spec.Replicas, Paused: o.Spec.Paused} // the provider's may hold credentials
		keepOurs(o)
	case *cluster.Machine:
		o.Spec = cluster.MachineSpec{}
		keepOurs(o)
	case *metav1.PartialObjectMetadata:
		keepOurs(o)
	default:
		return nil
	}
	return obj
}

// keepOurs keeps of labels and annotations those that have a meaning here.
func keepOurs(obj client.Object) {
	known := func(key, _ string) bool {
		for _, prefix := range []string{api.GroupVersion.Group + "/", "k8c.io/", "machinedeployment.clusters.k8s.io/"} {
			if strings.HasPrefix(key, prefix) {
				return false
			}
		}
		switch key {
		case api.LabelManagedBy, api.LabelOwnedBy, api.AnnotationMachine:
			return false
		}
		return true
	}
	labels, annotations := maps.Clone(obj.GetLabels()), maps.Clone(obj.GetAnnotations())
	maps.DeleteFunc(labels, known)
	maps.DeleteFunc(annotations, known)
	obj.SetLabels(labels)
	obj.SetAnnotations(annotations)
}

// dumpScheme knows the kinds of a dump.
func dumpScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, osm.AddToScheme, api.AddToScheme, cluster.AddToScheme} {
		if err := add(s); err != nil {
			return nil, fmt.Errorf("registering types: %w", err)
		}
	}
	return s, nil
}
