package running

import (
	"os"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// system has what only tests of this package do.
type system struct{ *e2e.System }

func newSystem(t *testing.T) *system {
	t.Helper()
	return &system{e2e.NewSystem(t)}
}
