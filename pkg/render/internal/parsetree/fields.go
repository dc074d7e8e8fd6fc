package parsetree

import (
	"errors"
	"reflect"
	"strings"
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/phrase"
)

// CheckFields reports fields that the data does not have, at the places where "." or "$" is
// known to be the data: outside of with, range and define, and after "$" outside of define.
func CheckFields(data reflect.Type, root *parse.ListNode, report func(parse.Node, error)) {
	w := fieldWalker{data: data, report: report}
	w.walkList(root, true)
}

// fieldWalker checks chains of fields. Inside, rooted says whether "." is the
// root data.
type fieldWalker struct {
	data   reflect.Type
	report func(parse.Node, error)
}

func (w fieldWalker) walkList(l *parse.ListNode, rooted bool) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			w.walkPipe(n.Pipe, rooted)
		case *parse.TemplateNode:
			w.walkPipe(n.Pipe, rooted)
		case *parse.IfNode:
			w.walkBranch(&n.BranchNode, rooted, rooted)
		case *parse.WithNode:
			w.walkBranch(&n.BranchNode, rooted, false)
		case *parse.RangeNode:
			w.walkBranch(&n.BranchNode, rooted, false)
		}
	}
}

func (w fieldWalker) walkBranch(b *parse.BranchNode, rooted, bodyRooted bool) {
	w.walkPipe(b.Pipe, rooted)
	w.walkList(b.List, bodyRooted)
	w.walkList(b.ElseList, rooted)
}

func (w fieldWalker) walkPipe(p *parse.PipeNode, rooted bool) {
	if p == nil {
		return
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			switch n := arg.(type) {
			case *parse.PipeNode:
				w.walkPipe(n, rooted)
			case *parse.ChainNode:
				if inner, ok := n.Node.(*parse.PipeNode); ok {
					w.walkPipe(inner, rooted)
				}
			case *parse.FieldNode:
				if rooted {
					w.followChain(n, n.Ident)
				}
			case *parse.VariableNode:
				if n.Ident[0] == "$" {
					w.followChain(n, n.Ident[1:])
				}
			}
		}
	}
}

// followChain follows names from the root data as far as the types are known.
func (w fieldWalker) followChain(n parse.Node, names []string) {
	typ := w.data
	for i, name := range names {
		next, ok := memberType(typ, name)
		if !ok {
			w.report(n, errors.New("."+strings.Join(names[:i+1], ".")+" does not exist"+phrase.DidYouMean(name, structFieldNames(typ))))
			return
		}
		if typ = next; typ == nil {
			return
		}
	}
}

// memberType returns the type of a field, of a method's result or of a map's elements, and a nil
// type if it is known only during rendering.
func memberType(typ reflect.Type, name string) (reflect.Type, bool) {
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

// structFieldNames returns the names of a struct's fields, including embedded ones.
func structFieldNames(typ reflect.Type) []string {
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
