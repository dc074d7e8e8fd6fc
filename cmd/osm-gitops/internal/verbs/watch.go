package verbs

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/session"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

const (
	// watchPause is the time after a watch ended until the next one begins.
	watchPause = time.Second
	// listPause is the least time between two lists of get --watch.
	listPause = 2 * time.Second
)

// relatedKinds returns the kinds whose changes change the rows of a kind.
func relatedKinds(k *session.Kind) []*session.Kind {
	if k != session.PoolKind {
		return nil
	}
	return []*session.Kind{{GVK: osm.GroupVersion.WithKind("OperatingSystemConfig")}, session.SourceKind, session.NodeKind}
}

// watch reports that objects of a kind, or of related kinds, can have changed: nil, or
// an error that ends the watch. Several changes can be one report.
func watch(ctx context.Context, s *session.Session, k *session.Kind, namespace string) <-chan error {
	out := make(chan error, 1)
	one := func(of *session.Kind, namespace string) {
		for ctx.Err() == nil {
			w, err := of.ConnectionIn(s).Watch(ctx, kubeclient.MetadataList(of.GVK), client.InNamespace(namespace))
			if err != nil && of != k && (apierrors.IsForbidden(err) || apimeta.IsNoMatchError(err)) {
				return // the rows lack what these objects say, which the first list has reported
			}
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
	go one(k, namespace)
	for _, of := range relatedKinds(k) {
		if of.ClusterScoped {
			go one(of, "")
		} else {
			go one(of, s.ControllerNamespace)
		}
	}
	return out
}
