package operators

import (
	"fmt"
	"testing"
	"time"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// apart lets so much time pass that what was current when a machine was created is beyond doubt: times of
// the API server have whole seconds, and those that differ by lineage.Leeway can belong together.
func apart() { time.Sleep(lineage.Leeway + 2*time.Second) }

// The commit of a node over three pushes, one of them a revert, with the controller's own
// records and rights, including changes that the controller did not see.
func TestProvenance(t *testing.T) {
	s := newSystem(t)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Begin(first)
	s.Pool("pool-a", "osp-a")
	_, provisioning := s.Served("pool-a", "v1.0.0")
	one := s.Joins("pool-a", "one", provisioning)
	s.ComesFrom(one, api.EvidenceReported, "v1.0.0", first, api.BehindNo)
	apart()

	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	_, provisioning = s.Served("pool-a", "v1.1.0")
	np := s.ComesFrom(one, api.EvidenceReported, "v1.0.0", first, api.BehindYes)
	if m := np.Status.Missing; m == nil || m.Version != "v1.1.0" || m.Commit != second {
		t.Errorf("it misses %+v", m)
	}
	two := s.Joins("pool-a", "two", provisioning)
	s.ComesFrom(two, api.EvidenceReported, "v1.1.0", second, api.BehindNo)
	three := s.Joins("pool-a", "three", nil)
	s.ComesFrom(three, api.EvidenceInferred, "v1.1.0", second, api.BehindNo)

	s.Stop()
	unseen := s.Joins("pool-a", "unseen", nil)
	apart()
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")}) // the revert
	s.Start()
	s.Served("pool-a", "v1.0.0")
	s.ComesFrom(unseen, api.EvidenceInferred, "v1.1.0", second, api.BehindYes)
	s.ComesFrom(two, api.EvidenceReported, "v1.1.0", second, api.BehindYes)
	s.ComesFrom(one, api.EvidenceReported, "v1.0.0", first, api.BehindNo)
	apart()
	four := s.Joins("pool-a", "four", nil)
	s.ComesFrom(four, api.EvidenceInferred, "v1.0.0", first, api.BehindNo)

	s.Must(s.Client.Delete(t.Context(), two))
	s.Eventually("the removal of a node to be noted", func() error {
		if err := s.Get("", lineage.ProvenanceName(two.Name, two.UID), np); err != nil {
			return err
		}
		if np.Status.Removed == nil {
			return fmt.Errorf("got %+v", np.Status)
		}
		return nil
	})
}
