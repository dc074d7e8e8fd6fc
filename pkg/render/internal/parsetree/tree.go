package parsetree

import "text/template/parse"

// Walk visits a node and, if visit returns true, all below it.
func Walk(n parse.Node, visit func(parse.Node) bool) {
	branch := func(b *parse.BranchNode) {
		Walk(b.Pipe, visit)
		Walk(b.List, visit)
		if b.ElseList != nil {
			Walk(b.ElseList, visit)
		}
	}
	if n == nil || !visit(n) {
		return
	}
	switch n := n.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			Walk(child, visit)
		}
	case *parse.ActionNode:
		Walk(n.Pipe, visit)
	case *parse.PipeNode:
		for _, cmd := range n.Cmds {
			Walk(cmd, visit)
		}
	case *parse.CommandNode:
		for _, arg := range n.Args {
			Walk(arg, visit)
		}
	case *parse.ChainNode:
		Walk(n.Node, visit)
	case *parse.TemplateNode:
		if n.Pipe != nil {
			Walk(n.Pipe, visit)
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	}
}

// AsBranch returns the fields that if, range and with share, and nil for other nodes.
func AsBranch(n parse.Node) *parse.BranchNode {
	switch n := n.(type) {
	case *parse.IfNode:
		return &n.BranchNode
	case *parse.RangeNode:
		return &n.BranchNode
	case *parse.WithNode:
		return &n.BranchNode
	}
	return nil
}

// Fields returns the names of the fields that a node of a template selects one after the other.
func Fields(n parse.Node) []string {
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

// NewEmpty returns a template of one text, which is empty. The node has no position in any source.
func NewEmpty(name string) *parse.Tree {
	return &parse.Tree{Name: name, ParseName: name, Root: &parse.ListNode{
		NodeType: parse.NodeList,
		Nodes:    []parse.Node{&parse.TextNode{NodeType: parse.NodeText, Pos: -1}},
	}}
}
