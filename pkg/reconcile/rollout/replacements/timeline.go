package replacements

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// TimelineOf builds the timeline of a pool: its current configuration and its archived records.
func TimelineOf(current lineage.Generation, records []metav1.PartialObjectMetadata) lineage.Timeline {
	var archived []lineage.Generation
	for i := range records {
		archived = append(archived, lineage.GenerationsFromArchivedRecord(&records[i])...)
	}
	return lineage.Assemble(&current, archived)
}

// inputDigestOf returns the input digest of the configuration that a machine got.
func inputDigestOf(t lineage.Timeline, m waves.Machine) string {
	g, _ := t.ForMachine(m.Created, strconv.FormatUint(m.Revision, 10))
	return g.InputDigest
}

// isRevert reports whether a pool has returned to a configuration that it had before another
// one.
func isRevert(t lineage.Timeline) bool {
	var digests []string
	for _, g := range t {
		digests = append(digests, g.InputDigest)
	}
	digests = slices.Compact(digests)
	last := len(digests) - 1
	return slices.Contains(digests[:last], digests[last])
}
