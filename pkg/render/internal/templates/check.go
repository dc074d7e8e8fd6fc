package templates

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/parsetree"
)

// Check finds fields that templates cannot read, and missing templates.
func (s *Stage) Check() []*invalid.Error {
	var problems []*invalid.Error
	names := make([]string, 0, len(s.templates))
	for _, t := range s.templates {
		names = append(names, t.name)
		// A named template is executed alone: it sees only the templates that it defines
		// itself.
		problems = append(problems, checkTemplate(s.limiter.data, t.tmpl, t.text, t.field, "", nil)...)
	}
	for _, f := range s.Files {
		problems = append(problems, checkTemplate(s.limiter.data, f.tmpl, f.Text, f.Field, f.Path, names)...)
	}
	return invalid.SetStage(s.Name, problems...)
}

// FindFieldReads finds the places where templates read a field with one of the names, and says of
// the field what is wrong. It does not follow values: the field of a template's own dict counts,
// too.
func (s *Stage) FindFieldReads(names []string, wrong string) []*invalid.Error {
	var problems []*invalid.Error
	find := func(p *program, source, field, path string) {
		if p == nil {
			return
		}
		before := len(problems)
		for _, t := range p.definedTemplates() { // in the order of their names
			parsetree.Walk(t.Root, func(n parse.Node) bool {
				chain := parsetree.Fields(n)
				if i := slices.IndexFunc(chain, func(name string) bool { return slices.Contains(names, name) }); i >= 0 {
					problems = append(problems, &invalid.Error{Field: field, File: path, Line: lineOf(source, n.Position()), Err: fmt.Errorf(".%s %s", strings.Join(chain[i:], "."), wrong)})
				}
				return true
			})
		}
		slices.SortStableFunc(problems[before:], func(a, b *invalid.Error) int { return cmp.Compare(a.Line, b.Line) })
	}
	for _, t := range s.templates {
		find(t.tmpl, t.text, t.field, "")
	}
	for _, f := range s.Files {
		find(f.tmpl, f.Text, f.Field, f.Path)
	}
	return invalid.SetStage(s.Name, problems...)
}

// checkTemplate finds fields that the data does not have, and templates that are invoked
// unconditionally but do not exist.
func checkTemplate(data reflect.Type, tmpl *program, source, field, path string, templates []string) []*invalid.Error {
	if tmpl == nil {
		return nil
	}
	var problems []*invalid.Error
	report := func(n parse.Node, err error) {
		problems = append(problems, &invalid.Error{Field: field, File: path, Err: err, Line: lineOf(source, n.Position())})
	}
	parsetree.CheckFields(data, tmpl.Root, report)
	for _, n := range tmpl.Root.Nodes {
		if n, ok := n.(*parse.TemplateNode); ok && tmpl.Lookup(n.Name) == nil && !slices.Contains(templates, n.Name) {
			report(n, errors.New("there is no template "+strconv.Quote(n.Name)+phrase.DidYouMean(n.Name, templates)))
		}
	}
	return problems
}
