package verbs

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// watchPause is the time after a watch ended until the next one begins.
const watchPause = time.Second

// watch reports that objects of a kind, or of those with it, can have changed: nil, or
// an error that ends the watch. Several changes can be one report.
func (s *session) watch(ctx context.Context, k *kind, namespace string) <-chan error {
	out := make(chan error, 1)
	one := func(c *connection, gvk schema.GroupVersionKind, namespace string) {
		for ctx.Err() == nil {
			w, err := c.Watch(ctx, kubeclient.MetadataList(gvk), client.InNamespace(namespace))
			if err != nil {
				select {
				case out <- err:
				// Nobody receives after the command has ended.
				case <-ctx.Done():
				}
				return
			}
			for range w.ResultChan() {
				select {
				case out <- nil:
				default: // a list is due already, which will contain this change
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(watchPause): // the next watch begins with all objects
			}
		}
	}
	go one(k.in(s), k.gvk, namespace)
	for _, gvk := range k.with {
		go one(s.management, gvk, s.controller)
	}
	return out
}
