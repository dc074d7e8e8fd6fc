package lint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// File is a file to check.
type File struct {
	// Path as findings name it.
	Path string
	Data []byte
	// Folder is the folder that was read. The bases of overlays are in it and in its history.
	// If it is "", they are in the folder of the file.
	Folder string
}

// Linter checks files with profiles. Its zero value has the rules of the engine.
type Linter struct {
	// TextChecks run on every distinct text that nodes get.
	TextChecks []TextCheck
	// TextsChecks run once on all these texts of a profile.
	TextsChecks []TextsCheck
	// ProfileChecks run on every profile that was decoded.
	ProfileChecks []ProfileCheck
	// Providers and Kubelets, minor releases such as "1.34", restrict the renderings of a
	// profile; empty means all. A profile that supports none of these is rendered for
	// everything that it supports.
	Providers, Kubelets []string
	// Bases finds the bases of overlays in addition to the files that are checked; nil
	// searches only the folders of the files.
	Bases *Bases
	// FileTime limits the time to check each file, summed over all goroutines; 0 is
	// DefaultFileTime. Work that is not done in time is a finding of RuleIncomplete.
	FileTime time.Duration
	// Found gets the findings of files as soon as these files and those before them are
	// checked, in the order of the report, which has them too. It can be nil.
	Found func([]Finding)
}

// ProfileCheck checks one profile as it is written in its file.
type ProfileCheck func(ctx context.Context, doc profile.Document) []Finding

// Run checks files. The error is the context's.
func (l *Linter) Run(ctx context.Context, files []File) (*Report, error) {
	r := &Report{}
	contents := r.decodeFiles(files)
	overlays := l.newOverlays(files)
	if err := r.assembleProfiles(ctx, overlays, contents); err != nil {
		return nil, err
	}
	r.add(findDuplicateVersions(r.Documents)...)
	budgets := l.newTimeBudgets(r.Documents)
	runs := l.checkProfiles(ctx, r, budgets)
	sorted := func() []Finding {
		return SortAndCompact(dropBaseFindings(overlays.relocateOrDropFindings(slices.Clone(r.Findings), r.Documents), r.Documents))
	}
	unfinished := overlays.possibleFindingFiles(r.Documents)
	reported := 0
	for _, file := range slices.Sorted(maps.Keys(budgets)) {
		fileRuns := slices.DeleteFunc(slices.Clone(runs), func(run *profileRun) bool { return run.doc.Path != file })
		if err := renderAll(ctx, fileRuns); err != nil {
			return nil, err
		}
		for _, run := range fileRuns {
			found, err := l.checkContents(ctx, run)
			if err != nil {
				return nil, err
			}
			r.add(found...)
			r.addRun(run)
		}
		r.add(budgets[file].incompleteFindings()...)
		delete(unfinished, file)
		if l.Found == nil {
			continue
		}
		// Later files add findings only to the files that they affect.
		complete := sorted()
		for _, paths := range unfinished {
			complete = slices.DeleteFunc(complete, func(f Finding) bool { return f.Path >= slices.Min(paths) })
		}
		if len(complete) > reported {
			l.Found(complete[reported:])
			reported = len(complete)
		}
	}
	r.Findings = sorted()
	return r, ctx.Err()
}

func (r *Report) add(findings ...Finding) { r.Findings = append(r.Findings, findings...) }

// decodeFiles reads what files hold, and says what cannot be read.
func (r *Report) decodeFiles(files []File) []profile.Contents {
	var contents []profile.Contents
	var others []Finding
	for _, f := range files {
		in, err := profile.DecodeFile(f.Path, f.Data)
		for _, p := range strictyaml.Problems(err) {
			r.add(findingFromProblem(p))
		}
		if in.Empty {
			r.add(Finding{Rule: RuleEmptyFile, Severity: SeverityWarning, Path: f.Path,
				Message: "contains no profile: a profile that was in it is no longer offered", Fix: "restore the profile, or delete the file"})
		}
		for _, o := range in.Others {
			others = append(others, Finding{Path: f.Path, Line: o.Line, Message: o.Kind})
		}
		contents = append(contents, in)
	}
	r.add(ignoredDocumentsNote(others)...)
	return contents
}

// assembleProfiles gathers the profiles, those that overlays make included.
func (r *Report) assembleProfiles(ctx context.Context, overlays overlays, contents []profile.Contents) error {
	docs, found, err := overlays.resolveOverlays(ctx, contents)
	r.Documents, r.Profiles = docs, len(docs)
	r.add(found...)
	return err
}

// newTimeBudgets returns a time budget for each file, by path.
func (l *Linter) newTimeBudgets(docs []profile.Document) map[string]*timeBudget {
	out := map[string]*timeBudget{}
	for _, doc := range docs {
		if out[doc.Path] == nil {
			out[doc.Path] = &timeBudget{path: doc.Path, limit: cmp.Or(l.FileTime, DefaultFileTime)}
		}
	}
	return out
}

// checkProfiles checks each profile as it is written in its file, and prepares the renderings of
// those that are valid.
func (l *Linter) checkProfiles(ctx context.Context, r *Report, budgets map[string]*timeBudget) []*profileRun {
	engine := render.NewEngine()
	var runs []*profileRun
	for _, doc := range r.Documents {
		budget := budgets[doc.Path]
		for _, check := range l.ProfileChecks {
			budget.runWithinLimit(ctx, skippedCheck, func(ctx context.Context) func() {
				found := check(ctx, doc)
				return func() { r.add(found...) }
			})
		}
		var run *profileRun
		budget.runWithinLimit(ctx, skippedProfile, func(context.Context) func() {
			found, renders := checkProfile(engine, doc)
			made := newRun(doc, budget, renders)
			return func() {
				r.add(found...)
				run = made
			}
		})
		if run == nil {
			continue
		}
		run.restrictDimension(matrix.Provider, func(name string) bool { return slices.Contains(l.Providers, name) })
		run.restrictDimension(matrix.Kubelet, func(name string) bool {
			return slices.ContainsFunc(l.Kubelets, func(minor string) bool { return strings.HasPrefix(name, minor+".") })
		})
		runs = append(runs, run)
	}
	return runs
}

// addRun adds what rendering a profile has shown.
func (r *Report) addRun(run *profileRun) {
	r.add(run.renderFindings()...)
	unexecuted := run.unexecutedBranches()
	if !run.budget.isComplete() {
		unexecuted = nil // a branch can be unreached because of a skipped rendering
	}
	for _, b := range unexecuted {
		if !b.inner {
			r.add(b.finding())
		}
	}
	r.UnexecutedBranches = append(r.UnexecutedBranches, unexecuted...)
	r.Renderings += len(run.rows)
	r.Contents += len(run.contents)
	r.Branches += len(run.branches)
}

// ignoredDocumentsNote returns one note for all documents of other kinds, at the first of them.
func ignoredDocumentsNote(others []Finding) []Finding {
	const most = 5 // that a line still holds
	if len(others) == 0 {
		return nil
	}
	var names []string
	for _, o := range others {
		names = append(names, fmt.Sprintf("%s is %s", o.Path, o.Message))
	}
	return []Finding{{Rule: RulePassedOver, Severity: SeverityNote, Path: others[0].Path, Line: others[0].Line, Message: phrase.First(names, most) + ": ignored"}}
}

// findingFromProblem converts a problem of decoding a file to a finding.
func findingFromProblem(p *strictyaml.Problem) Finding {
	rule := RuleSchema
	if p.Field == "" && errors.Is(p.Err, strictyaml.ErrSyntax) {
		rule = RuleYAML
	}
	message := p.Err.Error()
	if p.Field != "" {
		message = p.Field + ": " + message // "is required" alone says little
	}
	return Finding{Rule: rule, Severity: SeverityError, Path: p.Path, Line: p.Line, Field: p.Field, Message: message}
}

// findDuplicateVersions finds profiles that several files have with one version. Those within
// one file are the decoder's to find.
func findDuplicateVersions(docs []profile.Document) []Finding {
	first := map[[2]string]profile.Document{}
	var findings []Finding
	for _, doc := range docs {
		id := [2]string{doc.Name, doc.Spec.Version}
		other, ok := first[id]
		if !ok {
			first[id] = doc
			continue
		}
		findings = append(findings, Finding{
			Rule: RuleDuplicate, Severity: SeverityError, Path: doc.Path, Line: doc.Line("metadata.name"),
			Profile: doc.Name, Version: doc.Spec.Version, Field: "metadata.name",
			Message: fmt.Sprintf("profile %q %s is also in %s, on line %d: remove one of them, or give it another name or version",
				doc.Name, doc.Spec.Version, other.Path, other.Line("metadata.name")),
		})
	}
	return findings
}

// checkProfile returns the findings that do not depend on the pool, and whether the profile
// can be rendered.
func checkProfile(engine *render.Engine, doc profile.Document) (findings []Finding, renders bool) {
	p := matrix.Profile(doc, render.Provenance{})
	problems := render.Problems(engine.Check(p))
	for _, problem := range problems {
		findings = append(findings, findingFromRenderError(doc, problem))
	}
	for _, problem := range p.Findings() {
		f := findingFromRenderError(doc, problem)
		var schema *render.SchemaError
		if !errors.As(problem.Err, &schema) {
			f.Severity = SeverityWarning
		}
		findings = append(findings, f)
	}
	return findings, len(problems) == 0
}

// findingFromRenderError converts an error of rendering a profile to a finding.
func findingFromRenderError(doc profile.Document, p *render.InvalidError) Finding {
	rule := RuleTemplate
	var size *render.UserDataError
	var schema *render.SchemaError
	var credential *render.CredentialError
	switch {
	case errors.As(p.Err, &size):
		rule = RuleUserData
	case errors.As(p.Err, &credential):
		rule = RuleCredential
	case errors.As(p.Err, &schema), strings.Contains(p.Field, ".modules"):
		rule = RuleCloudInit
	case strings.Contains(p.Field, ".units"):
		rule = RuleUnit
	case strings.HasSuffix(p.Field, ".path"), strings.HasSuffix(p.Field, ".permissions"), strings.HasSuffix(p.Field, ".content"):
		rule = RuleFile
	}
	return Finding{
		Rule: rule, Severity: SeverityError, Path: cmp.Or(doc.FileOf(p.Field), doc.Path), Line: p.PathLine(), Profile: doc.Name, Version: doc.Spec.Version,
		Field: p.Field, File: p.File, Message: p.Err.Error(),
	}
}

// chunkRows is how many combinations a goroutine renders at a time, with templates
// compiled for it.
const chunkRows = 24

// renderAll renders the combinations of some profiles concurrently, then those that may reach
// what was not reached.
func renderAll(ctx context.Context, runs []*profileRun) error {
	pairwiseRows := func(r *profileRun) [][]int { return matrix.PairwiseRows(r.dims) }
	for _, newRows := range []func(*profileRun) [][]int{pairwiseRows, (*profileRun).rowsForUnreachedBranches} {
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for _, r := range runs {
			first := len(r.rows)
			r.rows = append(r.rows, newRows(r)...)
			for next := first; next < len(r.rows); next += chunkRows {
				group.Go(func() error {
					r.renderRows(ctx, next, min(next+chunkRows, len(r.rows)))
					return ctx.Err()
				})
			}
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return ctx.Err()
}
