package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage/dump"
)

// NewClusters returns clusters whose objects are those of a snapshot.
func NewClusters(snapshot *dump.Snapshot, hosts githost.Hosts) (trace.Clusters, error) {
	scheme, err := kubeclient.NewScheme()
	if err != nil {
		return trace.Clusters{}, err
	}
	c := trace.Clusters{Management: &reader{scheme, snapshot.Management}, Namespace: snapshot.Namespace, Hosts: hosts}
	c.Worker = c.Management
	if snapshot.Apart {
		c.Worker = &reader{scheme, snapshot.Worker}
	}
	return c, nil
}

// reader implements client.Reader on the objects of one cluster.
type reader struct {
	scheme *runtime.Scheme
	from   *dump.Objects
}

// kindIn is the kind of an object, or of the items of a list.
func kindIn(s *runtime.Scheme, obj runtime.Object) (schema.GroupVersionKind, error) {
	kind, err := apiutil.GVKForObject(obj, s)
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	return kind, err
}

// objectsOfKind returns those of a kind, or the error with which the cluster had answered.
func (r *reader) objectsOfKind(kind schema.GroupVersionKind, name string) ([]dump.Object, error) {
	unreadable, ok := r.from.Unreadable[kind.GroupKind()]
	switch {
	case !ok:
		return r.from.Objects[kind.GroupKind()], nil
	case unreadable.State == dump.Missing:
		return nil, &apimeta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}
	return nil, apierrors.NewForbidden(resourceOf(kind), name, errors.New("it was not readable for who wrote the dump"))
}

func resourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	return schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}
}

// Get implements client.Reader.
func (r *reader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	kind, err := kindIn(r.scheme, obj)
	if err != nil {
		return err
	}
	all, err := r.objectsOfKind(kind, key.Name)
	if err != nil {
		return err
	}
	i, found := slices.BinarySearchFunc(all, dump.Object{Namespace: key.Namespace, Name: key.Name}, dump.Object.Compare)
	if !found {
		return apierrors.NewNotFound(resourceOf(kind), key.Name)
	}
	return decode(all[i], obj)
}

func decode(from dump.Object, into runtime.Object) error {
	if err := json.Unmarshal(from.JSON, into); err != nil {
		return fmt.Errorf("reading %s/%s in the dump: %w", from.Namespace, from.Name, err)
	}
	return nil
}

// List implements client.Reader. It selects by labels, and by name and namespace.
func (r *reader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := kindIn(r.scheme, list)
	if err != nil {
		return err
	}
	all, err := r.objectsOfKind(kind, "")
	if err != nil {
		return err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	at := 0
	if o.Continue != "" {
		if at, err = strconv.Atoi(o.Continue); err != nil || at < 0 || at > len(all) {
			return fmt.Errorf("%q is no place in a dump to go on from", o.Continue)
		}
	}
	var items []runtime.Object
	for ; at < len(all) && (o.Limit == 0 || int64(len(items)) < o.Limit); at++ {
		if !matches(all[at], o) {
			continue
		}
		item, err := r.newItem(kind, list)
		if err != nil {
			return err
		}
		if err := decode(all[at], item); err != nil {
			return err
		}
		items = append(items, item)
	}
	if at < len(all) {
		list.SetContinue(strconv.Itoa(at))
	}
	return apimeta.SetList(list, items)
}

func (r *reader) newItem(kind schema.GroupVersionKind, of client.ObjectList) (runtime.Object, error) {
	if _, ok := of.(*metav1.PartialObjectMetadataList); ok {
		return &metav1.PartialObjectMetadata{}, nil
	}
	return r.scheme.New(kind)
}

func matches(obj dump.Object, o *client.ListOptions) bool {
	return (o.Namespace == "" || o.Namespace == obj.Namespace) &&
		(o.LabelSelector == nil || o.LabelSelector.Matches(obj.Labels)) &&
		(o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{"metadata.name": obj.Name, "metadata.namespace": obj.Namespace}))
}
