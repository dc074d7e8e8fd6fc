package templates

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/parsetree"
)

// Limits on the templates of one rendering. text/template cannot be canceled, so the templates
// count their own steps: the body of a range and the body of a template charge the meter each
// time they are executed.
const (
	// maxInvocations is how deep templates can invoke one another. The limit of text/template
	// is 100,000, which with a few conditions in each takes more stack than Go allows, and ends
	// the process.
	maxInvocations = 1000
	// maxNesting is the nesting of range, if, with and else-if.
	maxNesting = 100
	// maxVariables is how many variables the templates of one text can declare. Each use of a
	// variable searches the declared ones.
	maxVariables = 1000
)

// limiter lets one rendering at a time execute the templates of a profile: their functions charge
// its meter, and the inserted texts belong to it. Executing takes a sixth of the time of
// rendering; the rest runs concurrently.
type limiter struct {
	mu sync.Mutex
	funcs.Set
	data reflect.Type // that the templates read
	// marks are added to the templates if an Inspector needs to know which parts are executed.
	marks *Marks
}

// program is a parsed template that counts its steps.
type program struct {
	*template.Template
	steps []step
}

// definedTemplates returns the template and those defined in it, in the order of their names.
func (p *program) definedTemplates() []*template.Template {
	defined := slices.DeleteFunc(p.Templates(), func(t *template.Template) bool { return t.Tree == nil })
	slices.SortFunc(defined, func(a, b *template.Template) int { return strings.Compare(a.Name(), b.Name()) })
	return defined
}

// step is a text node that is not output: the writer of a rendering recognizes it and charges
// the meter. A function could not know which rendering calls it, and a variable is not visible
// in every template.
type step struct {
	node  *parse.TextNode
	pos   parse.Pos // of what it counts, in the source
	steps meter.Steps
	// depthChange is 1 at the beginning of a template, -1 at its end, otherwise 0.
	depthChange int
	omitsNext   bool // what is written next is or holds a credential
}

// stepMark cannot begin a text in UTF-8, so that addresses are compared only for steps.
const stepMark = 0xff

// insertMeteringSteps inserts the steps that charge the meter into a parsed template and those defined
// in it.
func (p *program) insertMeteringSteps() *limitError {
	defined := p.definedTemplates()
	variables, err := countVariables(defined)
	if err != nil {
		return err
	}
	for _, t := range defined {
		if err := p.insertRangeSteps(t.Root, variables, 0); err != nil {
			return err
		}
		begin := p.newStepNode(t.Root.Pos, parsetree.CountSteps(t.Root, variables), 1)
		t.Root.Nodes = append(append([]parse.Node{begin}, t.Root.Nodes...), p.newStepNode(t.Root.Pos, meter.Steps{}, -1))
	}
	return nil
}

// insertRangeSteps inserts a step into every range below a list. variables is how many the text
// declares, nesting how many conditions and ranges contain the list.
func (p *program) insertRangeSteps(list *parse.ListNode, variables, nesting int) *limitError {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		b := parsetree.AsBranch(n)
		if b == nil {
			continue
		}
		if nesting == maxNesting {
			return &limitError{pos: b.Pos, message: fmt.Sprintf("if, with and range are nested more than %d deep: make templates of the inner ones", maxNesting)}
		}
		if err := p.insertRangeSteps(b.List, variables, nesting+1); err != nil {
			return err
		}
		if err := p.insertRangeSteps(b.ElseList, variables, nesting+1); err != nil {
			return err
		}
		if b.NodeType == parse.NodeRange {
			b.List.Nodes = append([]parse.Node{p.newStepNode(b.Pos, parsetree.CountSteps(b.List, variables), 0)}, b.List.Nodes...)
		}
	}
	return nil
}

// newStepNode records a step of the program, and returns its node for the tree.
func (p *program) newStepNode(pos parse.Pos, steps meter.Steps, depthChange int) *parse.TextNode {
	text := binary.BigEndian.AppendUint32([]byte{stepMark}, uint32(len(p.steps))) //nolint:gosec // a source has fewer than 1<<20 bytes
	node := &parse.TextNode{NodeType: parse.NodeText, Pos: -1, Text: text}
	p.steps = append(p.steps, step{node: node, pos: pos, steps: steps, depthChange: depthChange})
	return node
}

// stepOfWrittenText returns the step whose node a template writes, nil if it writes output. It compares
// the address of the text.
func (p *program) stepOfWrittenText(text []byte) *step {
	if len(text) != 5 || text[0] != stepMark {
		return nil
	}
	index := binary.BigEndian.Uint32(text[1:])
	// Text of the output can have the same bytes, and never the same address.
	if int(index) >= len(p.steps) || &p.steps[index].node.Text[0] != &text[0] {
		return nil
	}
	return &p.steps[index]
}

// chargeTo has the meter count the step. The error says which limit was exceeded.
func (t *step) chargeTo(m *meter.Meter) error {
	m.Invocations += t.depthChange
	if m.Invocations > maxInvocations {
		return &stepError{pos: t.pos, message: fmt.Sprintf("templates invoke one another more than %d deep: stop the recursion", maxInvocations)}
	}
	err := m.Spend(t.steps.Cost(m))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, meter.ErrTooMuch):
		return &stepError{pos: t.pos, message: fmt.Sprintf("the templates do not end, or take too long: stopped after %d units of work", meter.MaxCost)}
	default:
		return &stepError{pos: t.pos, message: err.Error()}
	}
}

// stepError ends an execution.
type stepError struct {
	pos     parse.Pos
	message string
}

func (e *stepError) Error() string { return e.message }

// limitError is about a template that parses but exceeds a limit of nesting or variables.
type limitError struct {
	pos     parse.Pos
	message string
}

func (e *limitError) Error() string { return e.message }

// countVariables counts the variables that templates declare.
func countVariables(templates []*template.Template) (int, *limitError) {
	n, last := 0, parse.Pos(0)
	for _, t := range templates {
		parsetree.Walk(t.Root, func(node parse.Node) bool {
			if p, ok := node.(*parse.PipeNode); ok && p != nil && !p.IsAssign {
				// The position is that of the first variable beyond the limit.
				if n += len(p.Decl); n <= maxVariables+1 {
					last = p.Pos
				}
			}
			return true
		})
	}
	if n > maxVariables {
		return 0, &limitError{pos: last, message: fmt.Sprintf("the template declares more than %d variables: use a dict or a list instead", maxVariables)}
	}
	return n, nil
}

// bindFunctions sets the functions that a template calls, with their limits.
func (g *limiter) bindFunctions(p *program) {
	mutates := false
	var actions []*parse.ActionNode
	used := map[string]any{}
	for _, t := range p.definedTemplates() {
		parsetree.Walk(t.Root, func(n parse.Node) bool {
			switch n := n.(type) {
			case *parse.ActionNode:
				if len(n.Pipe.Decl) == 0 {
					actions = append(actions, n)
				}
			case *parse.IdentifierNode:
				mutates = mutates || funcs.Mutators[n.Ident]
				if f, ok := funcs.Map[n.Ident]; ok {
					used[n.Ident] = g.WrapMetered(n.Ident, f)
				}
			}
			return true
		})
	}
	if mutates {
		used[funcs.PrintedName] = g.WrapMetered(funcs.PrintedName, funcs.Identity)
		for _, a := range actions {
			call := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: a.Pos, Args: []parse.Node{parse.NewIdentifier(funcs.PrintedName).SetPos(a.Pos).SetTree(p.Tree)}}
			a.Pipe.Cmds = append(a.Pipe.Cmds, call)
		}
	}
	p.Funcs(used)
}
