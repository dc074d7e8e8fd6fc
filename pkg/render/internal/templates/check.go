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

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// Check finds fields that templates cannot read, and missing templates.
func (s *Stage) Check() []*invalid.Error {
	var problems []*invalid.Error
	names := make([]string, 0, len(s.templates))
	for _, t := range s.templates {
		names = append(names, t.name)
		// A named template is executed alone: it sees only the templates that it defines
		// itself.
		problems = append(problems, checkTemplate(s.gate.data, t.tmpl, t.text, t.field, "", nil)...)
	}
	for _, f := range s.Files {
		problems = append(problems, checkTemplate(s.gate.data, f.tmpl, f.Text, f.Field, f.Path, names)...)
	}
	return invalid.InStage(s.Name, problems...)
}

// Reading finds the places where templates read a field with one of the names, and says of the
// field what is wrong. It does not follow values: the field of a template's own dict counts, too.
func (s *Stage) Reading(names []string, wrong string) []*invalid.Error {
	var problems []*invalid.Error
	find := func(p *program, source, field, path string) {
		if p == nil {
			return
		}
		before := len(problems)
		for _, t := range p.defined() { // in the order of their names
			walk(t.Root, func(n parse.Node) bool {
				chain := fieldsOf(n)
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
	return invalid.InStage(s.Name, problems...)
}

// fieldsOf returns the names of the fields that a node of a template selects one after the other.
func fieldsOf(n parse.Node) []string {
	switch n := n.(type) {
	case *parse.FieldNode:
		return n.Ident
	case *parse.VariableNode:
		return n.Ident[1:]
	case *parse.ChainNode:
		return n.Field
	}
	return nil
}

// checkTemplate finds fields that the data does not have, at the places where "." or "$" is
// known to be the data: outside of with, range and define, and after "$" outside of define. It
// also reports templates that are invoked unconditionally but do not exist.
func checkTemplate(data reflect.Type, tmpl *program, source, field, path string, templates []string) []*invalid.Error {
	if tmpl == nil {
		return nil
	}
	var problems []*invalid.Error
	report := func(n parse.Node, err error) {
		problems = append(problems, &invalid.Error{Field: field, File: path, Err: err, Line: lineOf(source, n.Position())})
	}
	w := fieldWalker{data: data, report: report}
	w.list(tmpl.Root, true)
	for _, n := range tmpl.Root.Nodes {
		if n, ok := n.(*parse.TemplateNode); ok && tmpl.Lookup(n.Name) == nil && !slices.Contains(templates, n.Name) {
			hint := ""
			if near := invalid.Nearest(n.Name, templates); near != "" {
				hint = ": did you mean " + strconv.Quote(near) + "?"
			}
			report(n, errors.New("there is no template "+strconv.Quote(n.Name)+hint))
		}
	}
	return problems
}

// fieldWalker checks chains of fields. Inside, rooted says whether "." is the
// root data.
type fieldWalker struct {
	data   reflect.Type
	report func(parse.Node, error)
}

func (w fieldWalker) list(l *parse.ListNode, rooted bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			w.pipe(n.Pipe, rooted)
		case *parse.TemplateNode:
			w.pipe(n.Pipe, rooted)
		case *parse.IfNode:
			w.branch(&n.BranchNode, rooted, rooted)
		case *parse.WithNode:
			w.branch(&n.BranchNode, rooted, false)
		case *parse.RangeNode:
			w.branch(&n.BranchNode, rooted, false)
		}
	}
}

func (w fieldWalker) branch(b *parse.BranchNode, rooted, bodyRooted bool) {
	w.pipe(b.Pipe, rooted)
	w.list(b.List, bodyRooted)
	w.list(b.ElseList, rooted)
}

func (w fieldWalker) pipe(p *parse.PipeNode, rooted bool) {
	if p == nil {
		return
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			switch n := arg.(type) {
			case *parse.PipeNode:
				w.pipe(n, rooted)
			case *parse.ChainNode:
				if inner, ok := n.Node.(*parse.PipeNode); ok {
					w.pipe(inner, rooted)
				}
			case *parse.FieldNode:
				if rooted {
					w.chain(n, n.Ident)
				}
			case *parse.VariableNode:
				if n.Ident[0] == "$" {
					w.chain(n, n.Ident[1:])
				}
			}
		}
	}
}

// chain follows names from the root data as far as the types are known.
func (w fieldWalker) chain(n parse.Node, names []string) {
	typ := w.data
	for i, name := range names {
		next, ok := member(typ, name)
		if !ok {
			hint := ""
			if near := invalid.Nearest(name, members(typ)); near != "" {
				hint = ": did you mean " + strconv.Quote(near) + "?"
			}
			w.report(n, errors.New("."+strings.Join(names[:i+1], ".")+" does not exist"+hint))
			return
		}
		if typ = next; typ == nil {
			return
		}
	}
}

// member returns the type of a field, of a method's result or of a map's elements, and a nil
// type if it is known only during rendering.
func member(typ reflect.Type, name string) (reflect.Type, bool) {
	if typ.Kind() == reflect.Interface {
		return nil, true
	}
	holder := typ
	if holder.Kind() != reflect.Pointer {
		holder = reflect.PointerTo(typ)
	}
	if m, ok := holder.MethodByName(name); ok {
		return m.Type.Out(0), true
	}
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.Struct:
		f, ok := typ.FieldByName(name)
		if !ok || !f.IsExported() {
			return nil, false
		}
		return f.Type, true
	case reflect.Map:
		return typ.Elem(), true
	case reflect.Interface:
		return nil, true
	}
	return nil, false
}

// members returns the names of a struct's fields, including embedded ones.
func members(typ reflect.Type) []string {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, f := range reflect.VisibleFields(typ) {
		if f.IsExported() {
			names = append(names, f.Name)
		}
	}
	return names
}
