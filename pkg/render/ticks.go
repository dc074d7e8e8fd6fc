package render

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"
)

// Limits on how far the templates of one rendering go. text/template cannot be
// cancelled, so they count themselves. A count, never a time: what renders once
// renders always.
const (
	// maxTicks: the body of a range and the body of a template take one each time
	// they are executed, and one more for every commandsPerTick commands in them.
	// All count once more for every bytesPerTick of the largest value at hand, for
	// as long as comparing it takes.
	maxTicks        = 1_000_000
	commandsPerTick = 8
	bytesPerTick    = 64 << 10 // 64 KiB
	// maxInvocations is how deep templates may invoke one another. text/template
	// would go on to 100,000, which with a few conditions in each takes more stack
	// than Go allows, and ends the process.
	maxInvocations = 1000
	// maxNesting is how deep range, if, with and else-if may stand in one another.
	maxNesting = 100
)

// meter counts what one rendering has used up.
type meter struct {
	ticks       int // of maxTicks
	work        int // of maxWork
	largest     int // bytes that an argument or a result had
	invocations int // of maxInvocations, at this moment
}

// gate lets one rendering at a time execute the templates of a profile: their
// functions charge its meter, and the texts they insert are its own. Executing
// takes a sixth of the time of rendering, the rest runs beside each other.
type gate struct {
	mu    sync.Mutex
	meter *meter
	// limited are the functions that the profile uses, by name.
	limited template.FuncMap
	// marks are put into the templates where an Inspector wants to see them executed.
	marks *marks
}

// program is a parsed template that counts.
type program struct {
	*template.Template
	ticks []tick
}

// tick is a text node that is not output: whoever writes for a rendering knows
// it and charges the meter. A function could not know for which rendering it is
// called, and a variable is not seen in every template.
type tick struct {
	node  *parse.TextNode
	pos   parse.Pos // of what it counts, in the source
	cost  int
	depth int  // 1 where a template begins, -1 where it ends
	hole  bool // what is written next is or holds a credential
}

// tickMark begins no text in UTF-8, so that comparing addresses is left for
// ticks.
const tickMark = 0xff

// addTicks puts the ticks into a parsed template and those defined in it.
func (p *program) addTicks() *nestingError {
	defined := p.Templates()
	slices.SortFunc(defined, func(a, b *template.Template) int { return strings.Compare(a.Name(), b.Name()) })
	for _, t := range defined {
		if t.Tree == nil {
			continue
		}
		if err := p.addTo(t.Root, 0); err != nil {
			return err
		}
		begin := p.tick(t.Root.Pos, cost(t.Root), 1)
		t.Root.Nodes = append(append([]parse.Node{begin}, t.Root.Nodes...), p.tick(t.Root.Pos, 0, -1))
	}
	return nil
}

// addTo puts a tick into every range below a list.
func (p *program) addTo(list *parse.ListNode, depth int) *nestingError {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		b := branch(n)
		if b == nil {
			continue
		}
		if depth == maxNesting {
			return &nestingError{pos: b.Pos}
		}
		if err := p.addTo(b.List, depth+1); err != nil {
			return err
		}
		if err := p.addTo(b.ElseList, depth+1); err != nil {
			return err
		}
		if b.NodeType == parse.NodeRange {
			b.List.Nodes = append([]parse.Node{p.tick(b.Pos, cost(b.List), 0)}, b.List.Nodes...)
		}
	}
	return nil
}

func (p *program) tick(pos parse.Pos, cost, depth int) *parse.TextNode {
	text := binary.BigEndian.AppendUint32([]byte{tickMark}, uint32(len(p.ticks))) //nolint:gosec // a source has fewer than 1<<20 bytes
	node := &parse.TextNode{NodeType: parse.NodeText, Pos: -1, Text: text}
	p.ticks = append(p.ticks, tick{node: node, pos: pos, cost: cost, depth: depth})
	return node
}

// ticked returns the tick whose text is written, nil for other texts.
func (p *program) ticked(text []byte) *tick {
	if len(text) != 5 || text[0] != tickMark {
		return nil
	}
	i := binary.BigEndian.Uint32(text[1:])
	if int(i) >= len(p.ticks) || &p.ticks[i].node.Text[0] != &text[0] {
		return nil
	}
	return &p.ticks[i]
}

// charge counts a tick.
func (m *meter) charge(t *tick) error {
	m.ticks += t.cost * (1 + m.largest/bytesPerTick)
	m.invocations += t.depth
	switch {
	case m.ticks > maxTicks:
		return &tickError{pos: t.pos, message: fmt.Sprintf("the templates do not end: stopped after %d ticks, one for each time that the body of a range or a template is executed", maxTicks)}
	case m.invocations > maxInvocations:
		return &tickError{pos: t.pos, message: fmt.Sprintf("templates invoke one another more than %d deep: stop the recursion", maxInvocations)}
	}
	return nil
}

// tickError ends an execution.
type tickError struct {
	pos     parse.Pos
	message string
}

func (e *tickError) Error() string { return e.message }

type nestingError struct{ pos parse.Pos }

func (e *nestingError) Error() string {
	return fmt.Sprintf("if, with and range are nested more than %d deep: make templates of the inner ones", maxNesting)
}

// branch returns what if, range and with have in common, nil for other nodes.
func branch(n parse.Node) *parse.BranchNode {
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

// cost is what executing a list takes at most, in ticks. What it repeats or
// invokes has its own.
func cost(list *parse.ListNode) int {
	commands := 0
	var count func(parse.Node) bool
	count = func(n parse.Node) bool {
		switch n := n.(type) {
		case *parse.CommandNode, *parse.TextNode:
			commands++
		case *parse.RangeNode:
			walk(n.Pipe, count)
			if n.ElseList != nil {
				walk(n.ElseList, count)
			}
			return false
		}
		return true
	}
	walk(list, count)
	return 1 + commands/commandsPerTick
}
