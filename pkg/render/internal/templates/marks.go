package templates

import (
	"io"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/parsetree"
)

// Branch is one branch of an if, with or range of a profile's templates: its body, or the else,
// which can be absent.
type Branch struct {
	// Field of the template, File on the node if it is the template of a file, and Define the
	// name if it is inside of a define.
	Field, File, Define string
	// Line of the condition, in the field's text; 1 is the first.
	Line int
	// Condition as it is written, such as "if .HTTPProxy".
	Condition string
	Else      bool
	// Inside is the index of the branch that contains this one, -1 for none.
	Inside int
	// Reads are the data that the condition depends on, if known: "HTTPProxy",
	// "KubeletFeatureGates.ImageVolume". Literals are the strings in the condition.
	Reads, Literals []string
	// Hits is how often it was executed.
	Hits int
}

// Marks are steps that cost nothing and record the position of an execution. Only the templates
// of an Inspector have them. An Inspector executes its templates one at a time.
type Marks struct {
	marks     map[*byte]mark // by the first byte of the text of their node
	textLines map[*byte]int  // the line of each text of a template, in the same way
	branches  []Branch
}

// mark is the position that a node of marker.newMarkNode records.
type mark struct {
	line   int // of what is executed next
	branch int // that begins here, -1 for none
}

// NewMarks returns marks for the templates of one profile.
func NewMarks() *Marks { return &Marks{marks: map[*byte]mark{}, textLines: map[*byte]int{}} }

// Branches returns all branches of the templates with their hits so far, always in the same
// order.
func (m *Marks) Branches() []Branch { return m.branches }

// source is a template to mark.
type source struct{ text, field, name string }

// marker marks one template.
type marker struct {
	*Marks
	program *program
	source
	define string
	// reads has for each variable the data that its values depend on.
	reads map[string][]string
}

// markTemplate marks a parsed template and those defined in it.
func (m *Marks) markTemplate(p *program, from source) {
	for _, t := range p.definedTemplates() {
		k := marker{Marks: m, program: p, source: from, reads: map[string][]string{}}
		if t.Name() != from.name {
			k.define = t.Name()
		}
		k.recordVariableReads(t.Root)
		k.markList(t.Root, -1)
	}
}

// recordVariableReads records the data that variables depend on. It runs twice, for variables that are
// set from others.
func (k *marker) recordVariableReads(root *parse.ListNode) {
	for range 2 {
		parsetree.Walk(root, func(n parse.Node) bool {
			if p, ok := n.(*parse.PipeNode); ok && p != nil {
				reads, _ := k.pipeDependencies(p)
				for _, v := range p.Decl {
					k.reads[v.Ident[0]] = sortAndCompact(append(k.reads[v.Ident[0]], reads...))
				}
			}
			return true
		})
	}
}

// markList marks what a list executes.
func (k *marker) markList(markList *parse.ListNode, inside int) {
	var nodes []parse.Node
	for _, n := range markList.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			if n.Pos >= 0 && len(n.Text) > 0 {
				k.textLines[&n.Text[0]] = lineOf(k.text, n.Pos)
			}
		case *parse.ActionNode, *parse.TemplateNode:
			nodes = append(nodes, k.newMarkNode(n.Position(), -1))
		}
		if b := parsetree.AsBranch(n); b != nil {
			k.markBranch(b, inside)
		}
		nodes = append(nodes, n)
	}
	markList.Nodes = nodes
}

// markBranch marks both branches of a condition, including an absent else. Of a range it marks only
// the written ones: a list without items is not a condition.
func (k *marker) markBranch(b *parse.BranchNode, inside int) {
	if b.ElseList == nil && b.NodeType != parse.NodeRange {
		b.ElseList = &parse.ListNode{NodeType: parse.NodeList, Pos: b.Pos}
	}
	keyword := map[parse.NodeType]string{parse.NodeIf: "if", parse.NodeWith: "with", parse.NodeRange: "range"}[b.NodeType]
	reads, literals := k.pipeDependencies(b.Pipe)
	if inside >= 0 && b.NodeType != parse.NodeIf || inside >= 0 && slices.Contains(reads, "") {
		reads = sortAndCompact(append(reads, k.branches[inside].Reads...))
	}
	for _, side := range []struct {
		list   *parse.ListNode
		isElse bool
	}{{b.List, false}, {b.ElseList, true}} {
		if side.list == nil {
			continue
		}
		id := len(k.branches)
		branch := Branch{Field: k.field, Define: k.define, Line: lineOf(k.text, b.Pos), Condition: keyword + " " + b.Pipe.String(),
			Else: side.isElse, Inside: inside, Reads: reads, Literals: literals}
		if strings.HasSuffix(k.field, ".data") {
			branch.File = k.name
		}
		k.branches = append(k.branches, branch)
		k.markList(side.list, id)
		side.list.Nodes = append([]parse.Node{k.newMarkNode(b.Pos, id)}, side.list.Nodes...)
	}
}

// newMarkNode returns a text node that records, when it is written, that a line and a branch were
// executed.
func (k *marker) newMarkNode(pos parse.Pos, branch int) parse.Node {
	node := k.program.newStepNode(pos, meter.Steps{}, 0)
	k.marks[&node.Text[0]] = mark{line: lineOf(k.text, pos), branch: branch}
	return node
}

// pipeDependencies returns the data and the strings in a pipeline. For "." alone, in a with or
// range, only the existence of a dependency is known: "".
func (k *marker) pipeDependencies(p *parse.PipeNode) (reads, literals []string) {
	parsetree.Walk(p, func(n parse.Node) bool {
		switch n := n.(type) {
		case *parse.FieldNode:
			reads = append(reads, strings.Join(n.Ident, "."))
		case *parse.VariableNode:
			if n.Ident[0] == "$" {
				reads = append(reads, strings.Join(n.Ident[1:], "."))
			} else {
				reads = append(reads, k.reads[n.Ident[0]]...)
			}
		case *parse.DotNode:
			reads = append(reads, "")
		case *parse.StringNode:
			literals = append(literals, n.Text)
		}
		return true
	})
	return sortAndCompact(reads), sortAndCompact(literals)
}

func sortAndCompact(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// LineOrigin is the origin of one line of a rendered file.
type LineOrigin struct {
	// Field of the profile, and Line of its text; 1 is the first.
	Field string
	Line  int
}

// Trace follows one rendering. A nil Trace records nothing.
type Trace struct {
	marks *Marks
	stage *Stage
	// lineOrigins has the origin of the lines of each field that was executed.
	lineOrigins map[string][]LineOrigin
}

// NewTrace returns a Trace for templates that have the marks.
func NewTrace(marks *Marks) *Trace {
	return &Trace{marks: marks, lineOrigins: map[string][]LineOrigin{}}
}

func (t *Trace) beginStage(s *Stage) {
	if t != nil {
		t.stage = s
	}
}

// wrapWriter returns w itself, or a writer to w that records the origin of lines.
func (t *Trace) wrapWriter(w *limitedWriter, from origin) io.Writer {
	if t == nil {
		return w
	}
	r := &lineRecorder{w: w, trace: t, from: from, insertedTemplates: map[*byte]string{}, line: 1}
	for _, slot := range from.outputSlots {
		if len(slot.outputNode.Text) > 0 {
			r.insertedTemplates[&slot.outputNode.Text[0]] = slot.name
		}
	}
	t.lineOrigins[from.field] = nil
	return r
}

// LineOrigins returns the origin of each line of a field; text without actions is its own origin.
func (t *Trace) LineOrigins(field, text string) []LineOrigin {
	if origins, ok := t.lineOrigins[field]; ok {
		return origins
	}
	origins := make([]LineOrigin, 1+strings.Count(text, "\n"))
	for i := range origins {
		origins[i] = LineOrigin{Field: field, Line: 1 + i}
	}
	return origins
}

// templateLineOrigins returns the origins of the lines of a named template of the stage, which a file
// inserts after a line break.
func (t *Trace) templateLineOrigins(name string) []LineOrigin {
	for _, n := range t.stage.templates {
		if n.name == name {
			return t.LineOrigins(n.field, n.text)
		}
	}
	return nil
}

// lineRecorder is a writer that records for each written line the origin of its first text that is not
// blank.
type lineRecorder struct {
	w     *limitedWriter
	trace *Trace
	from  origin
	// insertedTemplates has the names of templates by the first byte of their output in a file.
	insertedTemplates map[*byte]string
	line              int // of the last mark
	origins           []LineOrigin
	isLineOpen        bool // the last of origins is of a line that has no end yet
	isLineBlank       bool // and no text so far
}

func (r *lineRecorder) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if err != nil || len(p) == 0 {
		return n, err
	}
	first := &p[0]
	if m, ok := r.trace.marks.marks[first]; ok {
		r.line = m.line
		if m.branch >= 0 {
			r.trace.marks.branches[m.branch].Hits++
		}
		return n, nil
	}
	if r.w.program.stepOfWrittenText(p) != nil {
		return n, nil
	}
	field := r.from.field
	lineOrigin := func(int) LineOrigin { return LineOrigin{field, r.line} } // of a line of p, 0 for the first
	if name, ok := r.insertedTemplates[first]; ok {
		if origins := r.trace.templateLineOrigins(name); len(origins) > 0 {
			invocation := lineOrigin(0)
			lineOrigin = func(i int) LineOrigin {
				if i == 0 {
					return invocation
				}
				return origins[min(i, len(origins))-1]
			}
		}
	} else if line, ok := r.trace.marks.textLines[first]; ok {
		lineOrigin = func(i int) LineOrigin { return LineOrigin{field, line + i} }
	}
	r.recordOrigins(p, lineOrigin)
	r.trace.lineOrigins[field] = r.origins
	return n, nil
}

// recordOrigins records the origins of the lines of a text that is written. lineOrigin returns that of a
// line by its index in the text.
func (r *lineRecorder) recordOrigins(p []byte, lineOrigin func(int) LineOrigin) {
	i := 0
	for line := range strings.SplitAfterSeq(string(p), "\n") {
		if line == "" {
			break
		}
		isBlank := strings.TrimSpace(line) == ""
		switch {
		case !r.isLineOpen:
			r.origins, r.isLineBlank = append(r.origins, lineOrigin(i)), isBlank
		case r.isLineBlank && !isBlank:
			r.origins[len(r.origins)-1], r.isLineBlank = lineOrigin(i), false
		}
		r.isLineOpen = !strings.HasSuffix(line, "\n")
		i++
	}
}
