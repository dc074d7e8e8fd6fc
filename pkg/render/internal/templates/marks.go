package templates

import (
	"io"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

// Branch is one way through an if, with or range of a profile's templates: its
// body, or what is executed when the condition does not hold, written or not.
type Branch struct {
	// Field of the template, File on the node where it is a file's, and Define the
	// name where it stands in a define.
	Field, File, Define string
	// Line of the condition, in the field's text; 1 is the first.
	Line int
	// Condition as it stands there, such as "if .HTTPProxy".
	Condition string
	Else      bool
	// Inside is the index of the branch that it stands in, -1 for none.
	Inside int
	// Reads are the data that the condition depends on, as far as that is known:
	// "HTTPProxy", "KubeletFeatureGates.ImageVolume". Literals are the strings in it.
	Reads, Literals []string
	// Hits is how often it was executed.
	Hits int
}

// Marks are ticks that cost nothing and say where an execution is. Only an
// Inspector's templates have them. Its templates are executed one at a time.
type Marks struct {
	at       map[*byte]spot // by the first byte of its text
	texts    map[*byte]int  // the line of each text of a template, in the same way
	branches []Branch
}

type spot struct {
	line   int // of what is executed next
	branch int // that begins here, -1 for none
}

// NewMarks returns marks for the templates of one profile.
func NewMarks() *Marks { return &Marks{at: map[*byte]spot{}, texts: map[*byte]int{}} }

// Branches are all of the templates with their hits so far, in the same order each time.
func (m *Marks) Branches() []Branch { return m.branches }

// source is a template to mark.
type source struct{ text, field, name string }

// marker marks one template.
type marker struct {
	*Marks
	program *program
	source
	define string
	// reads has for each variable what its values depend on.
	reads map[string][]string
}

// add marks a parsed template and those defined in it.
func (m *Marks) add(p *program, from source) {
	for _, t := range p.defined() {
		k := marker{Marks: m, program: p, source: from, reads: map[string][]string{}}
		if t.Name() != from.name {
			k.define = t.Name()
		}
		k.variables(t.Root)
		k.list(t.Root, -1)
	}
}

// variables notes what variables depend on. Twice, for those made of others.
func (k *marker) variables(root *parse.ListNode) {
	for range 2 {
		walk(root, func(n parse.Node) bool {
			if p, ok := n.(*parse.PipeNode); ok && p != nil {
				reads, _ := k.dependencies(p)
				for _, v := range p.Decl {
					k.reads[v.Ident[0]] = distinctNames(append(k.reads[v.Ident[0]], reads...))
				}
			}
			return true
		})
	}
}

// list marks what a list executes.
func (k *marker) list(list *parse.ListNode, inside int) {
	var nodes []parse.Node
	for _, n := range list.Nodes {
		switch n := n.(type) {
		case *parse.TextNode:
			if n.Pos >= 0 && len(n.Text) > 0 {
				k.texts[&n.Text[0]] = lineOf(k.text, n.Pos)
			}
		case *parse.ActionNode, *parse.TemplateNode:
			nodes = append(nodes, k.mark(n.Position(), -1))
		}
		if b := branch(n); b != nil {
			k.branch(b, inside)
		}
		nodes = append(nodes, n)
	}
	list.Nodes = nodes
}

// branch marks both ways of a condition, one that is not written, too; of a range
// only what is written: a list without items is no condition.
func (k *marker) branch(b *parse.BranchNode, inside int) {
	if b.ElseList == nil && b.NodeType != parse.NodeRange {
		b.ElseList = &parse.ListNode{NodeType: parse.NodeList, Pos: b.Pos}
	}
	keyword := map[parse.NodeType]string{parse.NodeIf: "if", parse.NodeWith: "with", parse.NodeRange: "range"}[b.NodeType]
	reads, literals := k.dependencies(b.Pipe)
	if inside >= 0 && b.NodeType != parse.NodeIf || inside >= 0 && slices.Contains(reads, "") {
		reads = distinctNames(append(reads, k.branches[inside].Reads...))
	}
	for _, way := range []struct {
		list *parse.ListNode
		not  bool
	}{{b.List, false}, {b.ElseList, true}} {
		if way.list == nil {
			continue
		}
		id := len(k.branches)
		made := Branch{Field: k.field, Define: k.define, Line: lineOf(k.text, b.Pos), Condition: keyword + " " + b.Pipe.String(),
			Else: way.not, Inside: inside, Reads: reads, Literals: literals}
		if strings.HasSuffix(k.field, ".data") {
			made.File = k.name
		}
		k.branches = append(k.branches, made)
		k.list(way.list, id)
		way.list.Nodes = append([]parse.Node{k.mark(b.Pos, id)}, way.list.Nodes...)
	}
}

func (k *marker) mark(pos parse.Pos, branch int) parse.Node {
	node := k.program.tick(pos, meter.Steps{}, 0)
	k.at[&node.Text[0]] = spot{line: lineOf(k.text, pos), branch: branch}
	return node
}

// dependencies are the data and the strings in a pipeline. Of "." alone, in a with
// or range, nothing is known but that it depends on those: "".
func (k *marker) dependencies(p *parse.PipeNode) (reads, literals []string) {
	walk(p, func(n parse.Node) bool {
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
	return distinctNames(reads), distinctNames(literals)
}

func distinctNames(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// Place is where a line of a rendered file comes from.
type Place struct {
	// Field of the profile, and Line of its text; 1 is the first.
	Field string
	Line  int
}

// Trace follows one rendering. A nil one follows nothing.
type Trace struct {
	marks *Marks
	stage *Stage
	// places has for each field that was executed where its lines come from.
	places map[string][]Place
}

// NewTrace follows a rendering of templates that have the marks.
func NewTrace(marks *Marks) *Trace { return &Trace{marks: marks, places: map[string][]Place{}} }

func (t *Trace) enter(s *Stage) {
	if t != nil {
		t.stage = s
	}
}

// writer returns w itself, or one that writes to w and notes where lines come from.
func (t *Trace) writer(w *limitedWriter, from origin) io.Writer {
	if t == nil {
		return w
	}
	r := &recorder{w: w, trace: t, from: from, inserted: map[*byte]string{}, line: 1}
	for _, i := range from.inserts {
		if len(i.text.Text) > 0 {
			r.inserted[&i.text.Text[0]] = i.name
		}
	}
	t.places[from.field] = nil
	return r
}

// Places returns where the lines of a field come from; of text without actions its own lines.
func (t *Trace) Places(field, text string) []Place {
	if places, ok := t.places[field]; ok {
		return places
	}
	places := make([]Place, 1+strings.Count(text, "\n"))
	for i := range places {
		places[i] = Place{Field: field, Line: 1 + i}
	}
	return places
}

// inserted are the places of what a named template inserts, behind the line break.
func (t *Trace) inserted(name string) []Place {
	for _, n := range t.stage.templates {
		if n.name == name {
			return t.Places(n.field, n.text)
		}
	}
	return nil
}

// recorder notes for each line that is written where the first of its text comes
// from that is not blank.
type recorder struct {
	w     *limitedWriter
	trace *Trace
	from  origin
	// inserted has the names of templates by the first byte of what they insert.
	inserted map[*byte]string
	line     int // of the last mark
	places   []Place
	open     bool // the last of places is of a line that has no end yet
	blank    bool // and no text so far
}

func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if err != nil || len(p) == 0 {
		return n, err
	}
	first := &p[0]
	if m, ok := r.trace.marks.at[first]; ok {
		r.line = m.line
		if m.branch >= 0 {
			r.trace.marks.branches[m.branch].Hits++
		}
		return n, nil
	}
	if r.w.program.ticked(p) != nil {
		return n, nil
	}
	field := r.from.field
	at := func(int) Place { return Place{field, r.line} }
	if name, ok := r.inserted[first]; ok {
		if places := r.trace.inserted(name); len(places) > 0 {
			here := at(0)
			at = func(i int) Place {
				if i == 0 {
					return here
				}
				return places[min(i, len(places))-1]
			}
		}
	} else if line, ok := r.trace.marks.texts[first]; ok {
		at = func(i int) Place { return Place{field, line + i} }
	}
	r.note(p, at)
	r.trace.places[field] = r.places
	return n, nil
}

// note takes text whose lines are at places.
func (r *recorder) note(p []byte, at func(int) Place) {
	i := 0
	for line := range strings.SplitAfterSeq(string(p), "\n") {
		if line == "" {
			break
		}
		blank := strings.TrimSpace(line) == ""
		switch {
		case !r.open:
			r.places, r.blank = append(r.places, at(i)), blank
		case r.blank && !blank:
			r.places[len(r.places)-1], r.blank = at(i), false
		}
		r.open = !strings.HasSuffix(line, "\n")
		i++
	}
}
