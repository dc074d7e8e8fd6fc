package lint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// profileRun is the state of rendering one profile with combinations of values, and of the findings
// about the results.
type profileRun struct {
	doc  profile.Document
	dims []matrix.Dimension
	rows [][]int // a value per dimension
	// budget is that of the file.
	budget *timeBudget

	mu       sync.Mutex
	hits     map[string]*hit
	contents map[[sha256.Size]byte]*textHit
	checked  map[[sha256.Size]byte][]Finding // by the digest of a document
	branches []render.Branch
}

// hit is a finding with the rows that have it.
type hit struct {
	finding Finding
	rows    map[int]bool
	// size is that of a document that is too large: the largest one is reported.
	size int
}

// textHit is a text with the rows that have it.
type textHit struct {
	text Text
	rows map[int]bool
}

// newRun returns nil for a profile that cannot be rendered.
func newRun(doc profile.Document, budget *timeBudget, renders bool) *profileRun {
	if !renders {
		return nil
	}
	inspector := render.NewInspector(matrix.Profile(doc, render.Provenance{}))
	r := &profileRun{
		doc: doc, budget: budget, branches: slices.Clone(inspector.Branches()),
		hits: map[string]*hit{}, contents: map[[sha256.Size]byte]*textHit{}, checked: map[[sha256.Size]byte][]Finding{},
	}
	r.dims = dimensionsForConditions(doc, r.branches)
	for _, s := range []struct {
		stage  string
		config *osm.OSPConfig
	}{{"bootstrap", &doc.Spec.BootstrapConfig}, {"provisioning", &doc.Spec.ProvisioningConfig}} {
		for _, t := range unitAndCommandTexts(doc, s.stage, s.config) {
			r.addText(t, -1)
		}
	}
	return r
}

// restrictDimension leaves the values of a dimension that are asked for, all of them where none
// is.
func (r *profileRun) restrictDimension(dimension string, isRequested func(name string) bool) {
	for i, d := range r.dims {
		if d.Name != dimension {
			continue
		}
		left := slices.DeleteFunc(slices.Clone(d.Values), func(v matrix.Value) bool { return !isRequested(v.Name) })
		if len(left) > 0 {
			r.dims[i].Values = left
		}
	}
}

// renderRows renders some rows.
func (r *profileRun) renderRows(ctx context.Context, first, last int) {
	if r.budget.remainingTime() <= 0 {
		for range last - first {
			r.budget.recordSpentAndSkipped(skippedRendering, 0)
		}
		return
	}
	begin := time.Now()
	inspector := render.NewInspector(matrix.Profile(r.doc, render.Provenance{}))
	r.budget.recordSpentAndSkipped("", time.Since(begin))
	for n := first; n < last && ctx.Err() == nil; n++ {
		if begin := time.Now(); r.budget.remainingTime() > 0 {
			r.renderRow(inspector, n) // takes a second at most
			r.budget.recordSpentAndSkipped("", time.Since(begin))
		} else {
			r.budget.recordSpentAndSkipped(skippedRendering, 0)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range inspector.Branches() {
		r.branches[i].Hits += b.Hits
	}
}

func (r *profileRun) renderRow(inspector *render.Inspector, n int) {
	in, err := matrix.Combine(r.doc, r.dims, r.rows[n]).Input()
	var out *render.Inspection
	if err == nil {
		out, err = inspector.Inspect(in)
	}
	for _, p := range render.Problems(err) {
		f := findingFromRenderError(r.doc, p)
		size := 0
		if tooLarge, ok := errors.AsType[*render.UserDataError](p.Err); ok {
			size = tooLarge.Size
		}
		r.recordFinding(f, size, n)
	}
	if out == nil {
		return
	}
	for stage, s := range map[string]render.InspectedStage{"bootstrap": out.Bootstrap, "provisioning": out.Provisioning} {
		r.checkCloudInitSchema(in, stage, s, n)
		for _, f := range s.Files {
			r.addText(r.textOf(stage, f), n)
		}
	}
}

// checkCloudInitSchema holds a document to cloud-init's schema, each content once.
func (r *profileRun) checkCloudInitSchema(in render.Input, stage string, s render.InspectedStage, n int) {
	id := sha256.Sum256(s.Document)
	r.mu.Lock()
	findings, known := r.checked[id]
	r.mu.Unlock()
	if !known {
		// The check takes long, so it needs no lock; two rows can check the same document.
		for _, p := range in.Profile.CheckCloudInitDocument(stage, s) {
			findings = append(findings, findingFromRenderError(r.doc, p))
		}
		r.mu.Lock()
		r.checked[id] = findings
		r.mu.Unlock()
	}
	for _, f := range findings {
		r.recordFinding(f, 0, n)
	}
}

// recordFinding adds a finding of a rendered row to the equal ones of other rows. size is that of a
// document that is too large, otherwise 0: the finding with the largest one is reported.
func (r *profileRun) recordFinding(f Finding, size, row int) {
	message := f.Message
	if size > 0 {
		message = r.valueName(row, matrix.Provider) // regardless of the size
	}
	key := strings.Join([]string{f.Rule, f.Path, strconv.Itoa(f.Line), f.Field, message}, "\x00")
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.hits[key]
	if h == nil {
		h = &hit{finding: f, size: size, rows: map[int]bool{}}
		r.hits[key] = h
	}
	if size > h.size || size == h.size && f.Message < h.finding.Message {
		h.finding, h.size = f, size
	}
	h.rows[row] = true
}

// valueName returns the name of a row's value in a dimension.
func (r *profileRun) valueName(row int, dimension string) string {
	i := slices.IndexFunc(r.dims, func(d matrix.Dimension) bool { return d.Name == dimension })
	return r.dims[i].Values[r.rows[row][i]].Name
}

// textOf makes a text of a rendered file.
func (r *profileRun) textOf(stage string, f render.InspectedFile) Text {
	t := Text{Document: r.doc, Stage: stage, File: f.Path, Mode: f.Mode, Field: f.Field, Content: []byte(f.Content), origins: f.LineOrigins}
	t.Kind, t.Interpreter = kindOf(f.Path, t.Content)
	return t
}

// addText adds a text unless it is already recorded; row -1 is for a text of all rows.
func (r *profileRun) addText(t Text, row int) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s\x00%o\x00", t.Stage, t.Field, t.File, t.Mode)
	h.Write(t.Content)
	id := [sha256.Size]byte(h.Sum(nil))
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.contents[id]
	if known == nil {
		known = &textHit{text: t, rows: map[int]bool{}}
		r.contents[id] = known
	}
	if row >= 0 {
		known.rows[row] = true
	}
}

func (r *profileRun) renderFindings() []Finding {
	var findings []Finding
	for _, key := range slices.Sorted(maps.Keys(r.hits)) {
		h := r.hits[key]
		h.finding.Where = r.describeRows(h.rows)
		findings = append(findings, h.finding)
	}
	return findings
}

// sortedContents are the texts in an order that does not depend on chance.
func (r *profileRun) sortedContents() []*textHit {
	texts := slices.Collect(maps.Values(r.contents))
	slices.SortFunc(texts, func(a, b *textHit) int {
		if c := strings.Compare(a.text.Field, b.text.Field); c != 0 {
			return c
		}
		return bytes.Compare(a.text.Content, b.text.Content)
	})
	return texts
}

// unitAndCommandTexts returns the units and commands of a stage, which are not templates.
func unitAndCommandTexts(doc profile.Document, stage string, config *osm.OSPConfig) []Text {
	root := "spec." + stage + "Config"
	var texts []Text
	add := func(file, field, content string, kind Kind) {
		t := Text{Document: doc, Stage: stage, File: file, Field: field, Kind: kind, Content: []byte(content)}
		switch kind {
		case KindUnit:
			t.Mode = 0o644
		case KindShell:
			t.Interpreter = "sh"
		}
		for i := range 1 + strings.Count(content, "\n") {
			t.origins = append(t.origins, render.LineOrigin{Field: field, Line: 1 + i})
		}
		texts = append(texts, t)
	}
	for i, u := range config.Units {
		field := root + ".units[" + strconv.Itoa(i) + "]"
		if u.Content != nil && *u.Content != "" && (u.Mask == nil || !*u.Mask) {
			add(unitDir+u.Name, field+".content", *u.Content, KindUnit)
		}
		for j, d := range u.DropIns {
			add(unitDir+u.Name+".d/"+d.Name, field+".dropIns["+strconv.Itoa(j)+"].content", d.Content, KindUnit)
		}
	}
	if m := config.CloudInitModules; m != nil {
		for _, list := range []struct {
			name     string
			commands []string
		}{{"bootcmd", m.BootCMD}, {"runcmd", m.RunCMD}} {
			for i, command := range list.commands {
				name := list.name + "[" + strconv.Itoa(i) + "]"
				add(name, root+".modules."+name, command, KindShell)
			}
		}
	}
	return texts
}
