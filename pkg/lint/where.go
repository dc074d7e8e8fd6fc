package lint

import (
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
)

// describeRows describes the rendered rows to which a finding applies: the fewest dimensions that
// distinguish these rows from all others, with their values. It is empty if the finding
// applies to all rows.
func (r *profileRun) describeRows(rowsWithFinding map[int]bool) string {
	if len(rowsWithFinding) == 0 || len(rowsWithFinding) == len(r.rows) {
		return ""
	}
	// For each dimension, the values that occur in these rows.
	among := make([][]bool, len(r.dims))
	for d := range r.dims {
		among[d] = make([]bool, len(r.dims[d].Values))
		for row := range rowsWithFinding {
			among[d][r.rows[row][d]] = true
		}
	}
	needed := make([]bool, len(r.dims))
	for d := range needed {
		needed[d] = slices.Contains(among[d], false)
	}
	// The last go first: provider and kubelet say most to a reader.
	for d := len(needed) - 1; d >= 0; d-- {
		if !needed[d] {
			continue
		}
		needed[d] = false
		needed[d] = !r.isDistinguishedBy(rowsWithFinding, among, needed)
	}
	var parts []string
	for d, dim := range r.dims {
		if !needed[d] {
			continue
		}
		var names []string
		for v, ok := range among[d] {
			if ok {
				names = append(names, dim.Values[v].Name)
			}
		}
		parts = append(parts, matrix.Describe(dim.Name, strings.Join(names, " or ")))
	}
	return strings.Join(parts, ", ")
}

// isDistinguishedBy reports whether no row outside of rowsWithFinding has, in every needed dimension, one of
// the values in among.
func (r *profileRun) isDistinguishedBy(rowsWithFinding map[int]bool, among [][]bool, needed []bool) bool {
	for n, row := range r.rows {
		if rowsWithFinding[n] {
			continue
		}
		other := false
		for d, v := range row {
			other = other || needed[d] && !among[d][v]
		}
		if !other {
			return false
		}
	}
	return true
}
