package parsetree

import (
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

// comparing are the functions of text/template that read their arguments to the end.
var comparing = map[string]bool{"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "index": true}

// CountSteps counts the steps of executing a list once. Repeated and invoked lists count
// themselves.
func CountSteps(list *parse.ListNode, variables int) meter.Steps {
	s := meter.Steps{Units: meter.StepCost}
	lookup := meter.NodeCost * (1 + variables/meter.VariablesPerNode)
	names := func(idents []string) {
		for _, name := range idents {
			s.Units += meter.NodeCost + len(name)/meter.CompareBytes
		}
	}
	var count func(parse.Node) bool
	count = func(n parse.Node) bool {
		switch n := n.(type) {
		case *parse.TextNode, *parse.ActionNode, *parse.TemplateNode, *parse.IfNode, *parse.WithNode:
			s.Units += meter.NodeCost
			if a, ok := n.(*parse.ActionNode); ok && len(a.Pipe.Decl) == 0 {
				s.Sorts++
			}
		case *parse.RangeNode:
			s.Units += meter.NodeCost
			s.Sorts++
			Walk(n.Pipe, count)
			if n.ElseList != nil {
				Walk(n.ElseList, count)
			}
			return false
		case *parse.CommandNode:
			s.Units += meter.NodeCost
			if f, ok := n.Args[0].(*parse.IdentifierNode); ok && comparing[f.Ident] {
				s.Compares += len(n.Args)
			}
		case *parse.FieldNode:
			names(n.Ident)
		case *parse.ChainNode:
			names(n.Field)
		case *parse.VariableNode:
			s.Units += lookup
			names(n.Ident[1:])
		case *parse.StringNode:
			s.Units += meter.NodeCost + len(n.Text)/meter.CompareBytes
		case *parse.PipeNode:
			s.Units += len(n.Decl) * lookup
		case *parse.ListNode: // its nodes count
		default:
			s.Units += meter.NodeCost
		}
		return true
	}
	Walk(list, count)
	return s
}
