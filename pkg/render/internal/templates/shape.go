package templates

import (
	"hash/maphash"
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/parsetree"
)

// shape is the output of the templates of a rendering, with a hole in place of each printed
// credential, together with the branches that they take. It is the same for two inputs that
// differ only in the content of credentials: otherwise reviewers, who see placeholders, would
// see a different text from the one that nodes get. Package taint rejects such templates
// earlier; this comparison finds those that taint would overlook, just before the output is
// written.
type shape struct {
	hash maphash.Hash
	// omitNext: the next output is omitted.
	omitNext bool
	// path records the steps to find the first difference of two shapes; otherwise nil.
	path *ExecutionPath
}

// shapeSeed makes the hashes of this process unpredictable, so that no template can be written
// for two texts with the same hash. No output depends on it.
var shapeSeed = maphash.MakeSeed()

// templateMark cannot begin a text in UTF-8, like stepMark.
const templateMark = 0xfe

// beginTemplate is called before a template is executed.
func (s *shape) beginTemplate(p *program, from origin) {
	s.omitNext = false
	_ = s.hash.WriteByte(templateMark) // never fails
	if s.path != nil {
		s.path.begin(p, from)
	}
}

// addStep takes a step that was passed.
func (s *shape) addStep(t *step) {
	_, _ = s.hash.Write(t.node.Text) // never fails
	if t.omitsNext {
		s.omitNext = true
	}
	if s.path != nil {
		pos := t.pos
		if t.depth < 0 {
			pos = -1 // the template's: it ends behind what was executed last
		}
		s.path.recordOrCompareHashAt(&s.hash, pos, pos)
	}
}

// hashText adds a text of the output to the hash.
func (s *shape) hashText(p []byte) {
	if s.omitNext {
		s.omitNext = false
		return
	}
	_, _ = s.hash.Write(p) // never fails
	if s.path != nil {
		s.path.recordOrCompareHashAfterText(&s.hash, p)
	}
}

// newOmissionStep returns a step to put before an action that prints a credential: the text after
// it is omitted from the hash.
func (p *program) newOmissionStep(pos parse.Pos) *parse.TextNode {
	node := p.newStepNode(pos, meter.Steps{}, 0)
	p.steps[len(p.steps)-1].omitsNext = true
	return node
}

// addOmissions puts a hole before actions, and a step on each branch of a condition below a list.
func (p *program) addOmissions(list *parse.ListNode, holes map[*parse.ActionNode]bool) {
	if list == nil {
		return
	}
	nodes := make([]parse.Node, 0, len(list.Nodes))
	for _, n := range list.Nodes {
		if a, ok := n.(*parse.ActionNode); ok && holes[a] {
			nodes = append(nodes, p.newOmissionStep(a.Pos))
		}
		nodes = append(nodes, n)
		if b := parsetree.AsBranch(n); b != nil {
			for _, way := range []*parse.ListNode{b.List, b.ElseList} {
				if p.addOmissions(way, holes); way != nil {
					way.Nodes = append([]parse.Node{p.newStepNode(b.Pos, meter.Steps{}, 0)}, way.Nodes...)
				}
			}
		}
	}
	list.Nodes = nodes
}

// maxPathSteps is how many steps a trail records. After that, no line is named.
const maxPathSteps = 1 << 17

// ExecutionPath records the hashes of one rendering, and finds the first step of another at which they
// differ. Execute one rendering, call Again, and execute the other.
type ExecutionPath struct {
	sums []uint64
	// second: this is the second rendering, and at is its next step.
	second bool
	at     int
	parted *invalid.Error

	from      origin
	positions map[*byte]*parse.TextNode // by the first byte
	pos       parse.Pos                 // of what was executed last
}

// BeginSecondRun begins the second rendering.
func (t *ExecutionPath) BeginSecondRun() { t.second, t.at = true, 0 }

// FirstDifference returns the place at which the second rendering differs from the first, without a
// cause. The error is about the whole profile if no line is known.
func (t *ExecutionPath) FirstDifference() *invalid.Error {
	if t.parted == nil {
		return &invalid.Error{Field: "spec"}
	}
	return t.parted
}

func (t *ExecutionPath) begin(p *program, from origin) {
	t.from, t.pos, t.positions = from, 0, p.textNodes()
}

// recordOrCompareHashAfterText records the hash after a text of the output, or compares it in the
// second rendering.
func (t *ExecutionPath) recordOrCompareHashAfterText(h *maphash.Hash, p []byte) {
	here, behind := t.pos, t.pos
	if len(p) > 0 {
		if n := t.positions[&p[0]]; n != nil {
			here, behind = n.Pos, n.Pos+parse.Pos(len(n.Text))
		}
	}
	t.recordOrCompareHashAt(h, here, behind)
}

// recordOrCompareHashAt records the hash after the part at a position, or in the second rendering
// compares it; a part without a position gets the end of
func (t *ExecutionPath) recordOrCompareHashAt(h *maphash.Hash, here, behind parse.Pos) {
	if here >= 0 {
		t.pos = behind
	} else {
		here = t.pos
	}
	switch {
	case !t.second:
		// Longer executions are compared up to this number of steps.
		if len(t.sums) < maxPathSteps {
			t.sums = append(t.sums, h.Sum64())
		}
	case t.parted == nil && t.at < len(t.sums) && t.sums[t.at] != h.Sum64():
		t.parted = &invalid.Error{Field: t.from.field, File: t.from.path, Line: lineOf(t.from.text, here)}
	}
	t.at++
}
