package hooks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// asked counts looks, and fails as told.
type asked struct {
	at     []time.Duration
	begin  time.Time
	err    error
	failed int
}

func newAsked() (*asked, *looks) {
	a := &asked{begin: time.Now()}
	return a, &looks{
		ask: func(context.Context, types.NamespacedName) error {
			if a.err == nil {
				a.at = append(a.at, time.Since(a.begin))
			}
			return a.err
		},
		failed: func(error, types.NamespacedName) { a.failed++ },
	}
}

var one = types.NamespacedName{Namespace: "n", Name: "one"}

// security.md 22: a thousand replays cause one look more.
func TestLooksAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := newAsked()
		for range 1000 {
			if err := l.want(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		}
		if len(a.at) != 1 || a.at[0] != 0 {
			t.Fatalf("the first is not asked for at once: %v", a.at)
		}
		time.Sleep(10 * spacing)
		synctest.Wait()
		if len(a.at) != 2 || a.at[1] != spacing {
			t.Errorf("looks at %v, want 0 and %s", a.at, spacing)
		}
		if len(l.open) != 0 {
			t.Errorf("%d windows stay open", len(l.open))
		}
		if err := l.want(t.Context(), one); err != nil || len(a.at) != 3 {
			t.Errorf("after a while it is not asked for at once: %v, err %v", a.at, err)
		}
		time.Sleep(2 * spacing)
		synctest.Wait()
	})
}

func TestNoLookIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := newAsked()
		a.err = errors.New("the API server is away")
		if err := l.want(t.Context(), one); err == nil {
			t.Error("nobody was told")
		}
		a.err = nil
		if err := l.want(t.Context(), one); err != nil || len(a.at) != 1 {
			t.Errorf("after a failure it is not asked for at once: %v, err %v", a.at, err)
		}
		if err := l.want(t.Context(), one); err != nil {
			t.Error(err)
		}
		a.err = errors.New("the API server is away")
		time.Sleep(3*spacing + spacing/2)
		synctest.Wait()
		a.err = nil
		time.Sleep(2 * spacing)
		synctest.Wait()
		if len(a.at) != 2 || a.failed != 3 {
			t.Errorf("looks at %v after %d failures: the one that was promised is lost", a.at, a.failed)
		}
		if err := l.want(t.Context(), one); err != nil {
			t.Error(err)
		}
		if err := l.want(t.Context(), one); err != nil {
			t.Error(err)
		}
		before := len(a.at)
		l.stop(t.Context())
		if len(a.at) != before+1 {
			t.Error("one that was put off is lost at the end")
		}
		time.Sleep(10 * spacing)
		synctest.Wait()
		if len(a.at) != before+1 {
			t.Error("a timer goes on after the end")
		}
	})
}

func TestLooksAtWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, l := newAsked()
		for range 2 {
			if err := l.want(t.Context(), one); err != nil {
				t.Error(err)
			}
		}
		a.err = apierrors.NewNotFound(schema.GroupResource{}, one.Name)
		time.Sleep(10 * spacing)
		synctest.Wait()
		if a.failed != 1 || len(l.open) != 0 {
			t.Errorf("%d attempts, %d windows open", a.failed, len(l.open))
		}
	})
}
