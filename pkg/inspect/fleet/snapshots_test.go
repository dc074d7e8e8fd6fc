package fleet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
)

// The read goes on for others when the context of the request that started it ends.
func TestCanceledRequestDoesNotCancelRead(t *testing.T) {
	started, proceed := make(chan struct{}, 2), make(chan struct{})
	s := &fleet.Snapshots{Clock: clocktesting.NewFakeClock(time.Unix(0, 0)), Fresh: time.Second, Stale: time.Second, Read: func(ctx context.Context) (fleet.Objects, error) {
		started <- struct{}{}
		select {
		case <-proceed:
			return fleet.Objects{}, nil
		case <-ctx.Done():
			return fleet.Objects{}, ctx.Err()
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error), make(chan error)
	get := func(ctx context.Context, done chan<- error) {
		_, err := s.Get(ctx)
		done <- err
	}
	go get(ctx, first)
	<-started
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled request gets error %v", err)
	}
	go get(t.Context(), second)
	close(proceed)
	if err := <-second; err != nil {
		t.Errorf("the other request gets error %v", err)
	}
	if len(started) > 0 {
		t.Error("the cluster is read twice")
	}
}
