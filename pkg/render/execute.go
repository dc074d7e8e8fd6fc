package render

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"text/template/parse"
	"unicode/utf8"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Limits on what templates write, before encoding. A whole Secret may have 1 MiB:
// https://kubernetes.io/docs/concepts/configuration/secret/#restriction-data-limit
const (
	maxFileBytes  = 1 << 20 // 1 MiB, of one file or one named template
	maxStageBytes = 2 << 20 // 2 MiB, of all of them in a stage
)

// noValue is what text/template prints for a key that a map does not have.
const noValue = "<no value>"

// execute renders the files of a stage in their order.
func (s *compiledStage) execute(d *data) ([]osm.File, []*InvalidError) {
	var problems []*InvalidError
	left := maxStageBytes
	inserts := make(map[string]string, len(s.templates))
	for _, t := range s.templates {
		text := t.text
		if t.tmpl != nil {
			var problem *InvalidError
			if text, problem = run(t.tmpl, d, t.text, t.field, "", left); problem != nil {
				problems = append(problems, problem)
				continue
			}
		}
		left -= len(text)
		inserts[t.name] = insertedText(text)
	}
	if len(problems) > 0 {
		return nil, inStage(s.name, problems...)
	}
	files := make([]osm.File, 0, len(s.files))
	for i := range s.files {
		f := &s.files[i]
		text, problem := f.execute(d, inserts, left)
		if problem != nil {
			problems = append(problems, problem)
			continue
		}
		left -= len(text)
		files = append(files, osm.File{
			Path:        f.path,
			Permissions: f.permissions,
			Content:     osm.FileContent{Inline: &osm.FileContentInline{Encoding: f.encoding, Data: text}},
		})
	}
	if len(problems) > 0 {
		return nil, inStage(s.name, problems...)
	}
	return files, nil
}

// insertedText is what invoking a named template gives: a line break and its
// output, without the trailing blanks of the two (contract 3.3).
func insertedText(output string) string {
	return strings.TrimRight("\n"+output, " \t\r\n")
}

func (f *compiledFile) execute(d *data, inserts map[string]string, left int) (string, *InvalidError) {
	if f.tmpl == nil {
		return checkedText(f.text, f.field, f.path, left)
	}
	if len(f.inserts) == 0 {
		return run(f.tmpl, d, f.text, f.field, f.path, left)
	}
	in, err := f.inserter(inserts)
	if err != nil {
		return "", &InvalidError{Field: f.field, File: f.path, Err: err}
	}
	text, problem := run(in.tmpl, d, f.text, f.field, f.path, left)
	if f.idle != nil {
		f.idle.Put(in)
	}
	return text, problem
}

// inserter returns a copy of the file's template with the texts of the stage's
// templates under their names.
func (f *compiledFile) inserter(inserts map[string]string) (*inserter, error) {
	if f.idle != nil {
		if in, ok := f.idle.Get().(*inserter); ok {
			for i, name := range f.inserts {
				in.texts[i].Text = []byte(inserts[name])
			}
			return in, nil
		}
	}
	tmpl, err := f.tmpl.Clone()
	if err != nil {
		return nil, err
	}
	in := &inserter{tmpl: tmpl}
	for _, name := range f.inserts {
		// As when it is parsed: a blank text does not replace a template that the
		// file has under that name.
		if inserts[name] == "" && tmpl.Lookup(name) != nil {
			continue
		}
		tree := literalTree(name, inserts[name])
		in.texts = append(in.texts, tree.Root.Nodes[0].(*parse.TextNode))
		if _, err := tmpl.AddParseTree(name, tree); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// run executes one template. The text it returns is complete, valid UTF-8, and
// has no missing values.
func run(tmpl *template.Template, d *data, source, field, path string, left int) (string, *InvalidError) {
	w := limitedWriter{left: min(left, maxFileBytes)}
	if err := tmpl.Execute(&w, d); err != nil {
		var p *InvalidError
		if errors.Is(err, errTooLong) {
			p = &InvalidError{Field: field, Err: tooLong(left)}
		} else {
			p = templateProblem(tmpl.Name(), field, err)
		}
		p.File = path
		return "", p
	}
	text := w.b.String()
	if strings.Contains(text, noValue) {
		return "", missingValue(tmpl, d, source, field, path)
	}
	return checkedText(text, field, path, left)
}

func checkedText(text, field, path string, left int) (string, *InvalidError) {
	switch {
	case len(text) > min(left, maxFileBytes):
		return "", &InvalidError{Field: field, File: path, Err: tooLong(left)}
	case !utf8.ValidString(text):
		return "", &InvalidError{Field: field, File: path, Err: errors.New("the output is no UTF-8 text: give binary content in base64 and decode it on the node")}
	}
	return text, nil
}

var errTooLong = errors.New("output too long")

func tooLong(left int) error {
	if left < maxFileBytes {
		return fmt.Errorf("the files of this stage are longer than %d bytes together", maxStageBytes)
	}
	return fmt.Errorf("the output is longer than %d bytes", maxFileBytes)
}

// limitedWriter stops a template that writes too much.
type limitedWriter struct {
	b    strings.Builder
	left int
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errTooLong
	}
	return w.b.Write(p)
}

// missingValue says where a template printed "<no value>". It executes the
// template again and notes the last text of the template itself that was written
// before: what follows it is the culprit.
func missingValue(tmpl *template.Template, d *data, source, field, path string) *InvalidError {
	p := &InvalidError{Field: field, File: path,
		Err: fmt.Errorf("the output contains %q: the template prints a value that is not there; guard it with if or give a default", noValue)}
	w := tracingWriter{nodes: map[*byte]*parse.TextNode{}}
	for _, t := range tmpl.Templates() {
		if t.Tree == nil {
			continue
		}
		walk(t.Root, func(n parse.Node) bool {
			// Texts that were inserted have no position in the source.
			if n, ok := n.(*parse.TextNode); ok && len(n.Text) > 0 && n.Pos >= 0 {
				w.nodes[&n.Text[0]] = n
			}
			return true
		})
	}
	if tmpl.Execute(&w, d) == nil && w.found && w.end <= len(source) {
		rest := strings.TrimLeft(source[w.end:], " \t\r\n") // blanks that "{{-" took away
		p.Line = 1 + strings.Count(source[:len(source)-len(rest)], "\n")
	}
	return p
}

// tracingWriter knows the text nodes of a template by where their bytes lie.
type tracingWriter struct {
	nodes map[*byte]*parse.TextNode
	end   int // offset in the source where the last text node ended
	found bool
}

func (w *tracingWriter) Write(p []byte) (int, error) {
	switch {
	case w.found || len(p) == 0:
	case string(p) == noValue:
		w.found = true
	default:
		if n := w.nodes[&p[0]]; n != nil {
			w.end = int(n.Pos) + len(n.Text)
		}
	}
	return len(p), nil
}
