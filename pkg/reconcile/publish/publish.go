package publish

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
)

// publishEvery is the time between two snapshots. A snapshot costs one list from caches,
// and compressing the result.
const publishEvery = 5 * time.Minute

// firstPublish is the delay of the first snapshot, so that caches are filled and pools
// configured, and the delay after a failure.
const firstPublish = 5 * time.Second

// Publisher updates the snapshot in a ConfigMap of the controller's namespace.
type Publisher struct {
	Reader Reader
	// Live reads and Writer writes the ConfigMap, which is in no cache.
	Live   client.Reader
	Writer client.Writer
	Clock  clock.Clock
}

// Start publishes until ctx ends. It is for the leader only.
func (p *Publisher) Start(ctx context.Context) error {
	delay := firstPublish
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.Clock.After(wait.Jitter(delay, 0.2)):
		}
		delay = publishEvery
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "publishing the snapshot of pools")
			// A failure is retried soon, but a snapshot that is too large will be so again.
			delay = firstPublish
			if errors.Is(err, impact.ErrTooLarge) {
				delay = publishEvery
			}
		}
	}
}

// NeedLeaderElection returns true: one replica writes.
func (*Publisher) NeedLeaderElection() bool { return true }

// publish writes the snapshot if it differs from the stored one.
func (p *Publisher) publish(ctx context.Context) error {
	pools, err := p.Reader.Read(ctx)
	if err != nil {
		return err
	}
	want, err := pools.ConfigMap()
	if err != nil {
		return err
	}
	var have corev1.ConfigMap
	err = p.Live.Get(ctx, client.ObjectKeyFromObject(want), &have)
	switch {
	case apierrors.IsNotFound(err):
		if err := p.Writer.Create(ctx, want); err != nil {
			return fmt.Errorf("creating ConfigMap %s/%s: %w", want.Namespace, want.Name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("reading ConfigMap %s/%s: %w", want.Namespace, want.Name, err)
	case have.Labels[api.LabelManagedBy] != api.FieldManager:
		return fmt.Errorf("ConfigMap %s/%s is not managed by osm-gitops: delete it, or remove --publish-snapshot", want.Namespace, want.Name)
	case reflect.DeepEqual(have.BinaryData, want.BinaryData) && len(have.Data) == 0:
		return nil
	}
	next := have.DeepCopy()
	next.BinaryData, next.Data = want.BinaryData, nil
	if err := p.Writer.Update(ctx, next); err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", want.Namespace, want.Name, err)
	}
	return nil
}
