package templates

import (
	"errors"
	"fmt"
	"strings"
	"text/template/parse"
	"unicode/utf8"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/parsetree"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templateerror"
)

// Limits on the output of templates, before encoding. A whole Secret can have 1 MiB:
// https://kubernetes.io/docs/concepts/configuration/secret/#restriction-data-limit
const (
	maxFileBytes  = 1 << 20 // 1 MiB, of one file or one named template
	MaxStageBytes = 2 << 20 // 2 MiB, of all of them in a stage
)

// Execution is one rendering of a profile: the data that templates read, the resources that
// they use, and their output without credentials.
type Execution struct {
	// Data is "." and "$": a pointer to a struct of the compiler's type.
	Data  any
	Meter meter.Meter
	// Trace follows the rendering for an Inspector, and Path for Parted; usually both are nil.
	Trace *Trace
	Path  *ExecutionPath

	shape shape
}

// NewExecution begins a rendering.
func NewExecution(data any) *Execution {
	x := &Execution{Data: data}
	x.shape.hash.SetSeed(shapeSeed)
	return x
}

// Shape returns a hash of the shape of the output so far.
func (x *Execution) Shape() uint64 { return x.shape.hash.Sum64() }

// Execute renders the files of a stage in their order.
func (s *Stage) Execute(x *Execution) ([]osm.File, []*invalid.Error) {
	// All templates of a stage use the functions and the meter of the limiter.
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.limiter.Meter = &x.Meter
	x.shape.path = x.Path
	x.Trace.beginStage(s)
	var problems []*invalid.Error
	remaining := MaxStageBytes
	outputs := make(map[string]string, len(s.templates))
	for _, t := range s.templates {
		text := t.text
		if t.tmpl != nil {
			var problem *invalid.Error
			if text, problem = executeTemplate(t.tmpl, x, origin{text: t.text, field: t.field}, remaining); problem != nil {
				problems = append(problems, problem)
				continue
			}
		}
		remaining -= len(text)
		outputs[t.name] = invocationOutput(text)
	}
	// Files that insert one of these templates would fail for the same reason.
	if len(problems) > 0 {
		return nil, invalid.SetStage(s.Name, problems...)
	}
	files := make([]osm.File, 0, len(s.Files))
	for i := range s.Files {
		f := &s.Files[i]
		text, problem := f.execute(x, outputs, remaining)
		if problem != nil {
			problems = append(problems, problem)
			continue
		}
		remaining -= len(text)
		files = append(files, osm.File{
			Path:        f.Path,
			Permissions: f.Permissions,
			Content:     osm.FileContent{Inline: &osm.FileContentInline{Encoding: f.encoding, Data: text}},
		})
	}
	if len(problems) > 0 {
		return nil, invalid.SetStage(s.Name, problems...)
	}
	return files, nil
}

// invocationOutput returns what a file that invokes a named template writes in its place: a line break
// and the output of the template, without the trailing blanks of both.
func invocationOutput(output string) string {
	return strings.TrimRight("\n"+output, " \t\r\n")
}

// execute renders the content of a file. outputs are those of the named templates of the stage, and
// remaining is the number of bytes that the stage can still have.
func (f *File) execute(x *Execution, outputs map[string]string, remaining int) (string, *invalid.Error) {
	if f.tmpl == nil {
		return validateOutput(f.Text, f.Field, f.Path, remaining)
	}
	for i := range f.outputSlots {
		slot := &f.outputSlots[i]
		slot.setOutput(outputs[slot.name])
	}
	return executeTemplate(f.tmpl, x, origin{text: f.Text, field: f.Field, path: f.Path, outputSlots: f.outputSlots}, remaining)
}

// origin is the place of a template in the profile.
type origin struct {
	text, field, path string
	outputSlots       []outputSlot // of a file
}

// executeTemplate executes one template, whose output can have the remaining number of bytes. The
// returned text is complete, valid UTF-8, and has no missing values.
func executeTemplate(tmpl *program, x *Execution, from origin, remaining int) (string, *invalid.Error) {
	w := limitedWriter{remaining: max(min(remaining, maxFileBytes), 0), program: tmpl, meter: &x.Meter, shape: &x.shape}
	x.shape.beginTemplate(tmpl, from)
	w.b.Grow(min(len(from.text)+len(from.text)/4, w.remaining)) // most of a template is what comes out of it
	x.Meter.Invocations = 0
	if err := tmpl.Execute(x.Trace.wrapWriter(&w, from), x.Data); err != nil {
		p := templateerror.FromTemplateError(tmpl.Name(), from.field, err)
		var atStep *stepError
		switch {
		case errors.Is(err, errTooLong):
			p.Err = outputTooLong(remaining)
		case errors.As(err, &atStep):
			p.Line = lineOf(from.text, atStep.pos)
		}
		p.File = from.path
		return "", p
	}
	text := w.b.String()
	if strings.Contains(text, funcs.NoValue) {
		return "", findMissingValue(tmpl, x, from)
	}
	return validateOutput(text, from.field, from.path, remaining)
}

// validateOutput returns the output, or the problem that it is too long or not UTF-8.
func validateOutput(text, field, path string, remaining int) (string, *invalid.Error) {
	switch {
	case len(text) > min(remaining, maxFileBytes):
		return "", &invalid.Error{Field: field, File: path, Err: outputTooLong(remaining)}
	case !utf8.ValidString(text):
		return "", &invalid.Error{Field: field, File: path, Err: errors.New("the output is not UTF-8 text: give binary content in base64 and decode it on the node")}
	}
	return text, nil
}

var errTooLong = errors.New("output too long")

// outputTooLong returns the error of an output that has more than the remaining bytes.
func outputTooLong(remaining int) error {
	if remaining < maxFileBytes {
		return fmt.Errorf("the files of this stage are longer than %d bytes together", MaxStageBytes)
	}
	return fmt.Errorf("the output is longer than %d bytes", maxFileBytes)
}

// limitedWriter stops a template that writes too much or does not end.
type limitedWriter struct {
	b         strings.Builder
	remaining int // bytes that can be written
	program   *program
	meter     *meter.Meter
	shape     *shape
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	// A step is not part of the output.
	if t := w.program.stepOfWrittenText(p); t != nil {
		w.shape.recordStep(t)
		return len(p), t.chargeTo(w.meter)
	}
	w.shape.hashOutput(p)
	if w.remaining -= len(p); w.remaining < 0 {
		return 0, errTooLong
	}
	if err := w.meter.Allocate(len(p)); err != nil {
		return 0, err
	}
	return w.b.Write(p)
}

// findMissingValue finds the place at which a template printed "<no value>". It executes the
// template again and records the last text of the template itself that was written before: the
// action after that text is the cause.
func findMissingValue(tmpl *program, x *Execution, from origin) *invalid.Error {
	p := &invalid.Error{Field: from.field, File: from.path,
		Err: fmt.Errorf("the output contains %q: the template prints a value that is not there; guard it with if or give a default", funcs.NoValue)}
	w := missingValueFinder{nodes: tmpl.textNodesByAddress()}
	if tmpl.Execute(&w, x.Data) == nil && w.found && w.end <= len(from.text) {
		rest := strings.TrimLeft(from.text[w.end:], " \t\r\n") // blanks that "{{-" took away
		p.Line = lineOf(from.text, parse.Pos(len(from.text)-len(rest)))
	}
	return p
}

// textNodesByAddress returns the text nodes of a template and of those defined in it, by the address of
// their first byte.
func (p *program) textNodesByAddress() map[*byte]*parse.TextNode {
	texts := map[*byte]*parse.TextNode{}
	for _, t := range p.definedTemplates() {
		parsetree.Walk(t.Root, func(n parse.Node) bool {
			// Inserted texts and steps have no position in the source.
			if n, ok := n.(*parse.TextNode); ok && len(n.Text) > 0 && n.Pos >= 0 {
				texts[&n.Text[0]] = n
			}
			return true
		})
	}
	return texts
}

// missingValueFinder is a writer that remembers the last text node written before a missing value.
type missingValueFinder struct {
	nodes map[*byte]*parse.TextNode
	end   int // offset in the source of the end of the last text node
	found bool
}

func (w *missingValueFinder) Write(p []byte) (int, error) {
	switch {
	case w.found || len(p) == 0:
	case string(p) == funcs.NoValue:
		w.found = true
	default:
		if n := w.nodes[&p[0]]; n != nil {
			w.end = int(n.Pos) + len(n.Text)
		}
	}
	return len(p), nil
}
