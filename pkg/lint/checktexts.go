package lint

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
)

// checkContents runs all checks on each distinct text of a profile. Equal findings of several
// texts about one line become one finding.
func (l *Linter) checkContents(ctx context.Context, r *profileRun) ([]Finding, error) {
	texts := r.sortedContents()
	checks := append([]TextCheck{unitsOf(r.doc, texts).check}, l.TextChecks...)
	found := make([][]Finding, len(texts))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range texts {
		group.Go(func() error {
			t := texts[i].text
			t.Example = r.describeFirstRow(texts[i].rows)
			r.budget.runWithinLimit(ctx, skippedText, func(ctx context.Context) func() {
				var all []Finding
				for _, check := range checks {
					all = append(all, check(ctx, t)...)
				}
				return func() { found[i] = all }
			})
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := make([]Text, len(texts))
	for i, t := range texts {
		all[i] = t.text
	}
	for _, check := range l.TextsChecks {
		r.budget.runWithinLimit(ctx, skippedTexts, func(ctx context.Context) func() {
			more := check(ctx, all)
			return func() {
				for i := range more {
					found[i] = append(found[i], more[i]...)
				}
			}
		})
	}
	return r.mergeTextFindings(texts, found), ctx.Err()
}

// describeFirstRow describes the first of the rows; "" if there are none, as for a text that every
// node gets.
func (r *profileRun) describeFirstRow(rows map[int]bool) string {
	if len(rows) == 0 {
		return ""
	}
	return matrix.DescribeRow(r.dims, r.rows[slices.Min(slices.Collect(maps.Keys(rows)))])
}

// mergeTextFindings joins equal findings of different texts, and records the texts to which they apply.
func (r *profileRun) mergeTextFindings(texts []*textHit, found [][]Finding) []Finding {
	hits := map[string]*hit{}
	everywhere := map[string]bool{}
	for i, findings := range found {
		for _, f := range findings {
			key := strings.Join([]string{f.Rule, f.Path, strconv.Itoa(f.Line), strconv.Itoa(f.Column), f.File, f.Message}, "\x00")
			if hits[key] == nil {
				hits[key] = &hit{finding: f, rows: map[int]bool{}}
			}
			maps.Copy(hits[key].rows, texts[i].rows)
			everywhere[key] = everywhere[key] || len(texts[i].rows) == 0
		}
	}
	var out []Finding
	for _, key := range slices.Sorted(maps.Keys(hits)) {
		h := hits[key]
		if h.finding.Where == "" && !everywhere[key] {
			h.finding.Where = r.describeRows(h.rows)
		}
		out = append(out, h.finding)
	}
	return out
}
