package kubeclient

import (
	"context"
	"fmt"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// pageSize is the number of objects per list request of Pages, unless its options have a limit.
const pageSize = 500

// Cluster has the clients of one cluster.
type Cluster struct {
	// Client reads through a cache and writes.
	client.Client
	// Live reads what the cache does not contain, or not completely.
	Live client.Reader
}

// Find reads an object, and reports whether it exists.
func Find(ctx context.Context, from client.Reader, key types.NamespacedName, obj client.Object) (bool, error) {
	err := from.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
	return true, nil
}

// Pages lists objects page by page, each into a copy of an empty list, which the caller can keep. It
// ends with the first error. client.Limit(0) lists all at once: a cache has no pages.
func Pages[L client.ObjectList](ctx context.Context, from client.Reader, empty L, opts ...client.ListOption) iter.Seq2[L, error] {
	return func(yield func(L, error) bool) {
		options := (&client.ListOptions{Limit: pageSize}).ApplyOptions(opts)
		for {
			page := empty.DeepCopyObject().(L)
			err := from.List(ctx, page, options)
			if !yield(page, err) || err != nil {
				return
			}
			if options.Continue = page.GetContinue(); options.Continue == "" || options.Limit == 0 {
				return
			}
		}
	}
}

// Metadata returns an empty object of a kind, of which clients read metadata alone.
func Metadata(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(kind)
	return obj
}

// MetadataList returns an empty list of objects of a kind, see Metadata.
func MetadataList(kind schema.GroupVersionKind) *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list
}

// ConfigKind is the kind of OperatingSystemConfigs. Controllers read only their metadata, with the
// record: a second cache for complete objects would have each of them, as large as the files that
// it describes.
var ConfigKind = osm.GroupVersion.WithKind("OperatingSystemConfig")

// ListConfigMetadata lists the metadata of OperatingSystemConfigs. It belongs to the cache: do not modify it.
func ListConfigMetadata(ctx context.Context, from client.Reader, namespace string) ([]metav1.PartialObjectMetadata, error) {
	list := MetadataList(ConfigKind)
	if err := from.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing OperatingSystemConfigs: %w", err)
	}
	return list.Items, nil
}

// Owners reads the objects of a lineage.Chain, and archived records: from the first reader that has them.
type Owners []client.Reader

// Find implements lineage.Reader.
func (readers Owners) Find(ctx context.Context, ref lineage.Reference, obj lineage.Object) (bool, error) {
	for _, from := range readers {
		found, err := Find(ctx, from, ref.NamespacedName, obj)
		if err != nil || found && (ref.UID == "" || obj.GetUID() == ref.UID) {
			return found && err == nil, err
		}
	}
	return false, nil
}
