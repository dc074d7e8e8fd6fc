package virtual

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// A Trim removes fields from an object, as a cache that stores only a part of it.
type Trim func(obj any) (any, error)

// reader reads a cluster with the writes applied.
type reader struct {
	store   *Store
	cluster string
	from    client.Reader
	trim    Trim // nil if nothing is removed
	indexed bool // from has the field indexes, too
}

func (r reader) refTo(obj runtime.Object, key types.NamespacedName) (Ref, error) {
	kind, err := apiutil.GVKForObject(obj, r.store.scheme)
	if err != nil {
		return Ref{}, fmt.Errorf("dry run: unsupported object %T: %w", obj, err)
	}
	return Ref{Cluster: r.cluster, Kind: kind, Key: key}, nil
}

// Get reads an object.
func (r reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	at, err := r.refTo(obj, key)
	if err != nil {
		return err
	}
	switch written := r.store.writtenObject(at); {
	case written == nil:
		return r.from.Get(ctx, key, obj, opts...)
	case written.gone:
		return notFound(at)
	default:
		return r.decodeAndTrim(obj, at, written.doc)
	}
}

// decodeAndTrim decodes an object and reduces it like the cache does.
func (r reader) decodeAndTrim(obj client.Object, at Ref, doc []byte) error {
	if err := decodeInto(obj, at, doc); err != nil {
		return err
	}
	if r.trim == nil {
		return nil
	}
	_, err := r.trim(obj)
	return err
}

// List lists objects, ignoring limits. Fields must be registered with IndexField.
func (r reader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	at, err := r.refTo(list, types.NamespacedName{})
	if err != nil {
		return err
	}
	at.Kind.Kind = strings.TrimSuffix(at.Kind.Kind, "List")
	plain := client.ListOptions{Namespace: o.Namespace, LabelSelector: o.LabelSelector, UnsafeDisableDeepCopy: o.UnsafeDisableDeepCopy}
	if r.indexed {
		plain.FieldSelector = o.FieldSelector
	}
	if err := r.from.List(ctx, list, &plain); err != nil {
		return err
	}
	listed, written := r.store.listWritten(at, o)
	if !written && (r.indexed || o.FieldSelector == nil) {
		return nil
	}
	items, err := apimeta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("listing %s: %w", at.Kind.Kind, err)
	}
	items = slices.DeleteFunc(items, func(item runtime.Object) bool {
		obj, ok := item.(client.Object)
		return ok && r.store.writtenObject(Ref{Cluster: at.Cluster, Kind: at.Kind, Key: client.ObjectKeyFromObject(obj)}) != nil
	})
	more, err := r.decodeWritten(list, at, listed)
	if err != nil {
		return err
	}
	if items, err = r.filterByFields(at.Kind, append(items, more...), o); err != nil {
		return err
	}
	return apimeta.SetList(list, items)
}

// decodeWritten returns the written objects of a list.
func (r reader) decodeWritten(list client.ObjectList, at Ref, written map[types.NamespacedName]*object) ([]runtime.Object, error) {
	var out []runtime.Object
	for key, w := range written {
		var obj client.Object = &metav1.PartialObjectMetadata{}
		if _, metadata := list.(*metav1.PartialObjectMetadataList); !metadata {
			made, err := r.store.scheme.New(at.Kind)
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", at.Kind.Kind, err)
			}
			obj = made.(client.Object)
		}
		if err := r.decodeAndTrim(obj, Ref{Cluster: at.Cluster, Kind: at.Kind, Key: key}, w.doc); err != nil {
			return nil, err
		}
		out = append(out, obj)
	}
	return out, nil
}

// filterByFields returns the items with the requested fields.
func (r reader) filterByFields(kind schema.GroupVersionKind, items []runtime.Object, o client.ListOptions) ([]runtime.Object, error) {
	if o.FieldSelector == nil {
		return items, nil
	}
	for _, want := range o.FieldSelector.Requirements() {
		r.store.mu.Lock()
		values := r.store.indexes[indexName(kind, want.Field)]
		r.store.mu.Unlock()
		if values == nil {
			return nil, fmt.Errorf("dry run: the field %q of %s is not indexed", want.Field, kind.Kind)
		}
		items = slices.DeleteFunc(items, func(item runtime.Object) bool {
			obj, ok := item.(client.Object)
			return !ok || !slices.Contains(values(obj), want.Value)
		})
	}
	return items, nil
}

// IndexField registers a field for lists. It makes Store a client.FieldIndexer.
func (w *Store) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	kind, err := apiutil.GVKForObject(obj, w.scheme)
	if err != nil {
		return fmt.Errorf("indexing %T: %w", obj, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.indexes[indexName(kind, field)] = values
	return nil
}

// NewFieldIndexer returns an indexer that registers fields with the View and with its cache, so
// that lists by field need no search. Call it before the View is used.
func (v *View) NewFieldIndexer(cached client.FieldIndexer) client.FieldIndexer {
	v.indexed = true
	return indexers{v.store, cached}
}

// indexers forward to several indexers.
type indexers []client.FieldIndexer

func (all indexers) IndexField(ctx context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	for _, one := range all {
		if err := one.IndexField(ctx, obj, field, values); err != nil {
			return err
		}
	}
	return nil
}

func indexName(kind schema.GroupVersionKind, field string) string {
	return kind.Group + "/" + kind.Kind + "/" + field
}

func notFound(at Ref) error { return apierrors.NewNotFound(at.groupResource(), at.Key.Name) }

// groupResource returns a kind for the text of an error.
func (at Ref) groupResource() schema.GroupResource {
	plural, _ := apimeta.UnsafeGuessKindToResource(at.Kind)
	return plural.GroupResource()
}
