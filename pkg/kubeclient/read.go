package kubeclient

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is the number of objects that EachPage reads at a time.
const pageSize = 500

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

// EachPage lists page by page, for visit to read the list each time.
func EachPage(ctx context.Context, from client.Reader, list client.ObjectList, visit func(), opts ...client.ListOption) error {
	token := ""
	for {
		page := append(opts[:len(opts):len(opts)], client.Limit(pageSize), client.Continue(token))
		if err := from.List(ctx, list, page...); err != nil {
			return err
		}
		visit()
		if token = list.GetContinue(); token == "" {
			return nil
		}
	}
}
