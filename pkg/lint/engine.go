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
	"sync"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
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
	// Workers is the number of goroutines that render; 0 is GOMAXPROCS.
	Workers int
	// Progress reports the progress of the run, from one goroutine at a time. It can be
	// nil.
	Progress func(Progress)
	// Found gets the findings of files as soon as these files and those before them are
	// checked, in the order of the report, which has them too. It can be nil.
	Found func([]Finding)
}

// ProfileCheck checks one profile as it is written in its file.
type ProfileCheck func(ctx context.Context, doc profile.Document) []Finding

// Progress is how far a run has come.
type Progress struct {
	// Profile that is rendered.
	Profile string
	// Done of Total renderings, of all profiles. Total grows where branches are
	// searched for.
	Done, Total int
}

// Run checks files. The error is the context's.
func (l *Linter) Run(ctx context.Context, files []File) (*Report, error) {
	r := &Report{}
	contents := r.decode(files)
	overlays := l.overlays(files)
	if err := r.assemble(ctx, overlays, contents); err != nil {
		return nil, err
	}
	r.add(duplicates(r.Documents)...)
	watches := l.watches(r.Documents)
	runs := l.checkProfiles(ctx, r, watches)
	renderings := l.plan(runs)
	sorted := func() []Finding {
		return Sort(withoutBases(overlays.placed(slices.Clone(r.Findings), r.Documents), r.Documents))
	}
	unfinished := overlays.affected(r.Documents)
	told := 0
	for _, file := range slices.Sorted(maps.Keys(watches)) {
		own := slices.DeleteFunc(slices.Clone(runs), func(run *run) bool { return run.doc.Path != file })
		if err := renderings.render(ctx, own); err != nil {
			return nil, err
		}
		for _, run := range own {
			found, err := l.checkContents(ctx, run)
			if err != nil {
				return nil, err
			}
			r.add(found...)
			r.addRun(run)
		}
		r.add(watches[file].findings()...)
		delete(unfinished, file)
		if l.Found == nil {
			continue
		}
		// Later files add findings only to the files that they affect.
		complete := sorted()
		for _, paths := range unfinished {
			complete = slices.DeleteFunc(complete, func(f Finding) bool { return f.Path >= slices.Min(paths) })
		}
		if len(complete) > told {
			l.Found(complete[told:])
			told = len(complete)
		}
	}
	r.Findings = sorted()
	return r, ctx.Err()
}

func (r *Report) add(findings ...Finding) { r.Findings = append(r.Findings, findings...) }

// decode reads what files hold, and says what cannot be read.
func (r *Report) decode(files []File) []profile.Contents {
	var contents []profile.Contents
	var others []Finding
	for _, f := range files {
		in, err := profile.DecodeFile(f.Path, f.Data)
		for _, p := range profile.Problems(err) {
			r.add(decodeFinding(p))
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
	r.add(passedOver(others)...)
	return contents
}

// assemble gathers the profiles, those that overlays make included.
func (r *Report) assemble(ctx context.Context, overlays overlays, contents []profile.Contents) error {
	docs, found, err := overlays.assemble(ctx, contents)
	r.Documents, r.Profiles = docs, len(docs)
	r.add(found...)
	return err
}

// watches are the stopwatches of files by their paths.
func (l *Linter) watches(docs []profile.Document) map[string]*stopwatch {
	out := map[string]*stopwatch{}
	for _, doc := range docs {
		if out[doc.Path] == nil {
			out[doc.Path] = &stopwatch{path: doc.Path, limit: cmp.Or(l.FileTime, DefaultFileTime)}
		}
	}
	return out
}

// checkProfiles checks each profile as it is written in its file, and prepares the renderings of
// those that are valid.
func (l *Linter) checkProfiles(ctx context.Context, r *Report, watches map[string]*stopwatch) []*run {
	engine := render.NewEngine()
	var runs []*run
	for _, doc := range r.Documents {
		watch := watches[doc.Path]
		for _, check := range l.ProfileChecks {
			watch.run(ctx, skippedCheck, func(ctx context.Context) func() {
				found := check(ctx, doc)
				return func() { r.add(found...) }
			})
		}
		var run *run
		watch.run(ctx, skippedProfile, func(context.Context) func() {
			found, renders := checkProfile(engine, doc)
			made := newRun(doc, watch, renders)
			return func() {
				r.add(found...)
				run = made
			}
		})
		if run == nil {
			continue
		}
		run.restrict(matrix.Provider, func(name string) bool { return slices.Contains(l.Providers, name) })
		run.restrict(matrix.Kubelet, func(name string) bool {
			return slices.ContainsFunc(l.Kubelets, func(minor string) bool { return strings.HasPrefix(name, minor+".") })
		})
		runs = append(runs, run)
	}
	return runs
}

// addRun adds what rendering a profile has shown.
func (r *Report) addRun(run *run) {
	r.add(run.findings()...)
	notReached := run.unexecutedBranches()
	if !run.watch.complete() {
		notReached = nil // a branch can be unreached because of a skipped rendering
	}
	for _, b := range notReached {
		if !b.inner {
			r.add(b.finding())
		}
	}
	r.UnexecutedBranches = append(r.UnexecutedBranches, notReached...)
	r.Renderings += len(run.rows)
	r.Contents += len(run.contents)
	r.Branches += len(run.branches)
}

// passedOver returns one note for all documents of other kinds, at the first of them.
func passedOver(others []Finding) []Finding {
	const most = 5 // that a line still holds
	if len(others) == 0 {
		return nil
	}
	var names []string
	for _, o := range others[:min(len(others), most)] {
		names = append(names, fmt.Sprintf("%s is %s", o.Path, o.Message))
	}
	text := strings.Join(names, ", ")
	if more := len(others) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return []Finding{{Rule: RulePassedOver, Severity: SeverityNote, Path: others[0].Path, Line: others[0].Line, Message: text + ": ignored"}}
}

// decodeFinding is a problem of a file as a finding.
func decodeFinding(p *profile.Problem) Finding {
	rule := RuleSchema
	if p.Field == "" && errors.Is(p.Err, profile.ErrSyntax) {
		rule = RuleYAML
	}
	message := p.Err.Error()
	if p.Field != "" {
		message = p.Field + ": " + message // "is required" alone says little
	}
	return Finding{Rule: rule, Severity: SeverityError, Path: p.Path, Line: p.Line, Field: p.Field, Message: message}
}

// duplicates finds profiles that several files have with one version. Those within
// one file are the decoder's to find.
func duplicates(docs []profile.Document) []Finding {
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
		findings = append(findings, renderFinding(doc, problem))
	}
	for _, problem := range p.Findings() {
		f := renderFinding(doc, problem)
		var schema *render.SchemaError
		if !errors.As(problem.Err, &schema) {
			f.Severity = SeverityWarning
		}
		findings = append(findings, f)
	}
	return findings, len(problems) == 0
}

// renderFinding is a problem of rendering as a finding.
func renderFinding(doc profile.Document, p *render.InvalidError) Finding {
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
	file := doc.FileOf(p.Field)
	if file == "" {
		file = doc.Path
	}
	return Finding{
		Rule: rule, Severity: SeverityError, Path: file, Line: p.Line, Profile: doc.Name, Version: doc.Spec.Version,
		Field: p.Field, File: p.File, Message: p.Err.Error(),
	}
}

// chunkRows is how many combinations a goroutine renders at a time, with templates
// compiled for it.
const chunkRows = 24

// plan plans all combinations of all profiles.
func (l *Linter) plan(runs []*run) *pool {
	p := &pool{workers: l.Workers, progress: l.Progress, todo: map[*run][]chunk{}}
	if p.workers == 0 {
		p.workers = runtime.GOMAXPROCS(0)
	}
	for _, r := range runs {
		p.plan(r, r.pairwise())
	}
	return p
}

// pool renders chunks of rows.
type pool struct {
	workers  int
	progress func(Progress)

	todo        map[*run][]chunk
	mu          sync.Mutex
	done, total int
}

type chunk struct {
	run         *run
	first, last int // rows
}

func (p *pool) plan(r *run, rows [][]int) {
	first := len(r.rows)
	r.rows = append(r.rows, rows...)
	p.total += len(rows)
	for ; first < len(r.rows); first += chunkRows {
		p.todo[r] = append(p.todo[r], chunk{r, first, min(first+chunkRows, len(r.rows))})
	}
}

// render renders all combinations of some profiles, then those that may reach what was not
// reached.
func (p *pool) render(ctx context.Context, runs []*run) error {
	if err := p.work(ctx, runs); err != nil {
		return err
	}
	for _, r := range runs {
		p.plan(r, r.search())
	}
	return p.work(ctx, runs)
}

func (p *pool) work(ctx context.Context, runs []*run) error {
	next := make(chan chunk)
	var wg sync.WaitGroup
	for range p.workers {
		wg.Go(func() {
			for c := range next {
				c.run.renderRows(ctx, c.first, c.last, func() { p.report(c.run) })
			}
		})
	}
	for _, r := range runs {
		for _, c := range p.todo[r] {
			next <- c
		}
		delete(p.todo, r)
	}
	close(next)
	wg.Wait()
	return ctx.Err()
}

func (p *pool) report(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.progress != nil {
		p.progress(Progress{Profile: r.doc.Name, Done: p.done, Total: p.total})
	}
}
