package fleet_test

import (
	"os"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }
