package receiver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// asked counts requests, and fails on demand. Timers send requests from their own
// goroutines.
type asked struct {
	begin time.Time

	mu     sync.Mutex
	at     []time.Duration
	err    error
	failed int
}

func newAsked() (*asked, *debouncer) {
	a := &asked{begin: time.Now()}
	return a, &debouncer{
		request: func(context.Context, types.NamespacedName) error {
			a.mu.Lock()
			defer a.mu.Unlock()
			if a.err == nil {
				a.at = append(a.at, time.Since(a.begin))
			}
			return a.err
		},
		failed: func(error, types.NamespacedName) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.failed++
		},
	}
}

// fail makes every request fail from now on; nil ends that.
func (a *asked) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// seen returns when reconciliations were requested, and how many attempts have failed.
func (a *asked) seen() (at []time.Duration, failed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.at), a.failed
}

// windows is how many are open.
func (l *debouncer) windows() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

var one = types.NamespacedName{Namespace: "n", Name: "one"}

// security.md 22: a thousand replays cause one more request.
func TestLooksAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := newAsked()
		for range 1000 {
			if err := l.requestOrMerge(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		if at, _ := a.seen(); len(at) != 1 || at[0] != 0 {
			t.Fatalf("the first is not asked for at once: %v", at)
		}
		time.Sleep(10 * spacing)
		synctest.Wait()
		if at, _ := a.seen(); len(at) != 2 || at[1] != spacing {
			t.Errorf("requests at %v, want 0 and %s", at, spacing)
		}
		if n := l.windows(); n != 0 {
			t.Errorf("%d windows stay open", n)
		}
		err := l.requestOrMerge(t.Context(), one)
		if at, _ := a.seen(); err != nil || len(at) != 3 {
			t.Errorf("after a while it is not asked for at once: %v, err %v", at, err)
		}
		time.Sleep(2 * spacing)
		synctest.Wait()
	})
}

func TestNoLookIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := newAsked()
		a.fail(errors.New("the API server is away"))
		if err := l.requestOrMerge(t.Context(), one); err == nil {
			t.Error("nobody was told")
		}
		a.fail(nil)
		err := l.requestOrMerge(t.Context(), one)
		if at, _ := a.seen(); err != nil || len(at) != 1 {
			t.Errorf("after a failure it is not asked for at once: %v, err %v", at, err)
		}
		if err := l.requestOrMerge(t.Context(), one); err != nil {
			t.Error(err)
		}
		a.fail(errors.New("the API server is away"))
		time.Sleep(3*spacing + spacing/2)
		synctest.Wait()
		a.fail(nil)
		time.Sleep(2 * spacing)
		synctest.Wait()
		if at, failed := a.seen(); len(at) != 2 || failed != 3 {
			t.Errorf("requests at %v after %d failures: the merged one is lost", at, failed)
		}
		if err := l.requestOrMerge(t.Context(), one); err != nil {
			t.Error(err)
		}
		if err := l.requestOrMerge(t.Context(), one); err != nil {
			t.Error(err)
		}
		before, _ := a.seen()
		l.stopAndFlush(t.Context())
		if at, _ := a.seen(); len(at) != len(before)+1 {
			t.Error("one that was put off is lost at the end")
		}
		time.Sleep(10 * spacing)
		synctest.Wait()
		if at, _ := a.seen(); len(at) != len(before)+1 {
			t.Error("a timer goes on after the end")
		}
	})
}

func TestLooksAtWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := newAsked()
		for range 2 {
			if err := l.requestOrMerge(t.Context(), one); err != nil {
				t.Error(err)
			}
		}
		a.fail(apierrors.NewNotFound(schema.GroupResource{}, one.Name))
		time.Sleep(10 * spacing)
		synctest.Wait()
		if _, failed := a.seen(); failed != 1 || l.windows() != 0 {
			t.Errorf("%d attempts, %d windows open", failed, l.windows())
		}
	})
}
