package pools

import (
	"context"
	"errors"
	"testing"
	"time"

	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// A clock that is set, to and fro, is noticed: no timer would run for what it ended.
func TestClockThatIsSet(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	set, ended := make(chan event.GenericEvent, 1), make(chan error, 1)
	go func() { ended <- f.r.watchClock(ctx, 10*time.Millisecond, set) }()
	time.Sleep(200 * time.Millisecond) // twenty looks at it
	select {
	case <-set:
		t.Error("a clock that nobody set was")
	default:
	}
	for _, jump := range []time.Duration{2 * time.Hour, -3 * time.Hour} {
		f.clock.Step(jump)
		select {
		case <-set:
		case <-time.After(30 * time.Second):
			t.Errorf("a jump of %s was not noticed", jump)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Soon after the clock jumps, a running controller has renewed the token of every pool, and
// changed nothing more.
func TestClockThatIsSetWhileItRuns(t *testing.T) {
	f := newFixture(t)
	f.start(t.TempDir())
	living := func(what string) {
		t.Helper()
		testenv.Await(t, time.Minute, what+" a token lives", func() error {
			for _, s := range f.tokens(t.Context()) {
				if end, err := time.Parse(time.RFC3339, string(s.Data[bootstrapapi.BootstrapTokenExpirationKey])); err == nil && end.After(f.clock.Now()) {
					return nil
				}
			}
			return errors.New("there is none")
		})
	}
	living("at first")
	time.Sleep(time.Second) // for what the first run started
	f.clock.Step(2 * time.Hour)
	living("after a jump")
}
