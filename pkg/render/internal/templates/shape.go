package templates

import (
	"hash/maphash"
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/parsetree"
)

// shape is the output of the templates of a rendering, without the printed credentials, together with
// the branches that they take. It is the same for two inputs that differ only in the content of
// credentials: otherwise reviewers, who see placeholders, would see a different text from the one that
// nodes get. Package taint rejects such templates earlier; this comparison finds those that taint would
// overlook, just before the output is written.
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

// recordStep adds an executed step to the hash.
func (s *shape) recordStep(t *step) {
	_, _ = s.hash.Write(t.node.Text) // never fails
	if t.omitsNext {
		s.omitNext = true
	}
	if s.path != nil {
		pos := t.pos
		if t.depthChange < 0 {
			pos = -1 // the template's: it ends behind what was executed last
		}
		s.path.recordOrCompareHashAt(&s.hash, pos, pos)
	}
}

// hashOutput adds a text of the output to the hash.
func (s *shape) hashOutput(p []byte) {
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

// insertOmissionSteps inserts an omission step before each of the actions below a list, and a step into
// each branch of a condition, so that the shape depends on the branch.
func (p *program) insertOmissionSteps(list *parse.ListNode, credentialActions map[*parse.ActionNode]bool) {
	if list == nil {
		return
	}
	nodes := make([]parse.Node, 0, len(list.Nodes))
	for _, n := range list.Nodes {
		if a, ok := n.(*parse.ActionNode); ok && credentialActions[a] {
			nodes = append(nodes, p.newOmissionStep(a.Pos))
		}
		nodes = append(nodes, n)
		if b := parsetree.AsBranch(n); b != nil {
			for _, branch := range []*parse.ListNode{b.List, b.ElseList} {
				if p.insertOmissionSteps(branch, credentialActions); branch != nil {
					branch.Nodes = append([]parse.Node{p.newStepNode(b.Pos, meter.Steps{}, 0)}, branch.Nodes...)
				}
			}
		}
	}
	list.Nodes = nodes
}

// maxPathSteps is how many steps an ExecutionPath records. After that, no line is named.
const maxPathSteps = 1 << 17

// ExecutionPath records the hashes of one rendering, and finds the first step of another at which they
// differ. Execute one rendering, call BeginSecondRun, and execute the other.
type ExecutionPath struct {
	hashes []uint64 // of the first rendering, after each step
	// isSecondRun: this is the second rendering, and next is the index of its next hash.
	isSecondRun bool
	next        int
	difference  *invalid.Error // the first one, nil if there is none

	from      origin
	textNodes map[*byte]*parse.TextNode // by the first byte
	pos       parse.Pos                 // of what was executed last
}

// BeginSecondRun begins the second rendering.
func (t *ExecutionPath) BeginSecondRun() { t.isSecondRun, t.next = true, 0 }

// FirstDifference returns the place at which the second rendering differs from the first, without a
// cause. The error is about the whole profile if no line is known.
func (t *ExecutionPath) FirstDifference() *invalid.Error {
	if t.difference == nil {
		return &invalid.Error{Field: "spec"}
	}
	return t.difference
}

func (t *ExecutionPath) begin(p *program, from origin) {
	t.from = from
	t.pos = 0
	t.textNodes = p.textNodesByAddress()
}

// recordOrCompareHashAfterText records the hash after a text of the output, or compares it in the
// second rendering.
func (t *ExecutionPath) recordOrCompareHashAfterText(h *maphash.Hash, p []byte) {
	start, end := t.pos, t.pos
	if len(p) > 0 {
		if n := t.textNodes[&p[0]]; n != nil {
			start, end = n.Pos, n.Pos+parse.Pos(len(n.Text))
		}
	}
	t.recordOrCompareHashAt(h, start, end)
}

// recordOrCompareHashAt records the hash after a part of the template that begins and ends at a
// position, or compares it in the second rendering. A part without a position has a negative start, and
// counts as where the part before it ended.
func (t *ExecutionPath) recordOrCompareHashAt(h *maphash.Hash, start, end parse.Pos) {
	if start >= 0 {
		t.pos = end
	} else {
		start = t.pos
	}
	switch {
	case !t.isSecondRun:
		// Longer executions are compared up to this number of steps.
		if len(t.hashes) < maxPathSteps {
			t.hashes = append(t.hashes, h.Sum64())
		}
	case t.difference == nil && t.next < len(t.hashes) && t.hashes[t.next] != h.Sum64():
		t.difference = &invalid.Error{Field: t.from.field, File: t.from.path, Line: lineOf(t.from.text, start)}
	}
	t.next++
}
