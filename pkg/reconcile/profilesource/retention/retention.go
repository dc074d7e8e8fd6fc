package retention

import (
	"time"

	"k8s.io/client-go/tools/events"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
)

// Retainer handles the versions that exist as objects in addition to the current ones: versions
// that pools request or use, and the newest others. It reads what NewPlan decides from, creates
// the objects that are missing, and deletes those without references.
type Retainer struct {
	Objects  *objects.Writer
	Archive  *Archive // nil when the source is deleted
	Pools    *Pools
	Recorder events.EventRecorder
	Now      func() time.Time
}

// Archive is what the controller remembers about the versions of a source between
// reconciliations.
type Archive struct {
	rejected map[string]string                      // rejectedKey -> why the API server rejects the version
	skipped  string                                 // text of the last event about skipped versions
	recorded map[string]time.Time                   // objects that archived records name, and when they were last seen
	deleted  map[string]*osm.OperatingSystemProfile // deleted objects that no history contains
	failed   string                                 // text of the last event about rejected writes
}

func NewArchive() *Archive {
	return &Archive{rejected: map[string]string{}, recorded: map[string]time.Time{}, deleted: map[string]*osm.OperatingSystemProfile{}}
}
