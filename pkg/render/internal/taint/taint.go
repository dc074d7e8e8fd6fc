// Package taint follows credentials from the data that templates read to what they write. It
// never executes a template, and does not know which credentials there are: tags on the
// fields of the data say so. Start with Check; rules.go says which functions may have a
// credential, and why.
package taint

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// Templates may print credentials, encode them and ask whether they are there. What
// depended on the content of one would render differently with the placeholders that
// reviewers see. So each template is followed from the data to its output: what reads
// a credential in a way that is not in rules is a problem of the profile.

// Values of the tag "credential", on each field of the data whose value Input.Split
// replaces. It applies to the texts in the field, whatever holds them. With any other
// value, "text", nothing is known but that it is replaced.
const (
	// credentialURL: of URLs the part before the "@" is replaced, nothing else.
	credentialURL = "url"
	// credentialTOML: some strings in this TOML text are replaced, its keys are not.
	credentialTOML = "toml"
)

type flowKind uint8

const (
	flowPlain   flowKind = iota // holds no credential
	flowText                    // a text with a credential in it, or a value too complex to follow
	flowData                    // a struct of the data, of type typ
	flowEntries                 // a list or map that a template or the data made
	flowDecoded                 // anything in a decoded credentialTOML: only strings are credentials
)

// flow is what is known about the credentials in a value of a template. The zero
// value holds none.
type flow struct {
	kind flowKind
	// from names the field that a credential comes from, such as ".Token".
	from string
	// tag of the field if the value is unchanged.
	tag string
	// maybeBlank: the text may be empty although the credential is not.
	maybeBlank bool
	// refused: the value depends on a credential in a way that has been reported.
	refused bool
	// shared: other values, which hold no credential, may be the same map.
	shared bool
	typ    reflect.Type
	// fields are the entries of a dict with literal keys; elem is any entry of others.
	fields map[string]flow
	elem   *flow
}

// Limits of the analysis, so that no template takes long to check.
const (
	// maxFlowEntries is how many entries a structure may have until it counts as one text.
	maxFlowEntries = 200
	// maxFlowPasses is how often templates are followed until variables are settled.
	maxFlowPasses = 10
)

func (f flow) isPlain() bool { return f.kind == flowPlain && !f.refused }

// text is what a function makes of values.
func textOf(values ...flow) flow {
	out := flow{kind: flowText}
	for _, v := range values {
		if out.from == "" {
			out.from = v.from
		}
		out.maybeBlank = out.maybeBlank || v.holdsBlank()
		out.refused = out.refused || v.refused
	}
	return out
}

// holdsBlank: a text of it may be empty although its credentials are not.
func (f flow) holdsBlank() bool {
	if f.maybeBlank || f.elem != nil && f.elem.holdsBlank() {
		return true
	}
	for _, v := range f.fields {
		if v.holdsBlank() {
			return true
		}
	}
	return false
}

// any entry of a structure.
func (f flow) entry() flow {
	switch {
	case f.kind == flowDecoded:
		return f
	case f.elem != nil:
		return *f.elem
	}
	var out flow
	for i, name := range slices.Sorted(maps.Keys(f.fields)) {
		if i == 0 {
			out = f.fields[name]
		} else {
			out = join(out, f.fields[name])
		}
	}
	return out
}

func (f flow) entries() int {
	n := 1
	if f.elem != nil {
		n += f.elem.entries()
	}
	for _, v := range f.fields {
		n += v.entries()
	}
	return n
}

func entriesOf(f flow) flow {
	f.kind = flowEntries
	if f.entries() > maxFlowEntries {
		return textOf(f)
	}
	return f
}

// withShared is for a value that may be another one, which holds no credential.
func (f flow) withShared() flow {
	if f.kind == flowPlain {
		return f
	}
	f.shared = true
	if f.elem != nil {
		e := f.elem.withShared()
		f.elem = &e
	}
	if f.fields != nil {
		f.fields = maps.Clone(f.fields)
		for name, v := range f.fields {
			f.fields[name] = v.withShared()
		}
	}
	return f
}

// join is the flow of a value that is one of two.
func join(a, b flow) flow {
	switch {
	case a.isPlain():
		return b.withShared()
	case b.isPlain():
		return a.withShared()
	}
	collapsed := textOf(a, b)
	if a.kind != b.kind || a.typ != b.typ {
		return collapsed
	}
	out := a
	out.from, out.maybeBlank, out.refused, out.shared = collapsed.from, a.maybeBlank || b.maybeBlank, collapsed.refused, a.shared || b.shared
	if a.tag != b.tag {
		out.tag = ""
	}
	if a.kind != flowEntries {
		return out
	}
	if a.elem != nil || b.elem != nil {
		e := join(a.entry(), b.entry())
		out.fields, out.elem = nil, &e
		return entriesOf(out)
	}
	out.fields = maps.Clone(a.fields)
	for name, v := range b.fields {
		out.fields[name] = join(out.fields[name], v)
	}
	for name, v := range a.fields {
		if _, ok := b.fields[name]; !ok {
			out.fields[name] = v.withShared()
		}
	}
	return entriesOf(out)
}

// dataFlow is the flow of a value of the data.
func dataFlow(typ reflect.Type, tag, from string) flow {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch typ.Kind() {
	case reflect.String:
		if tag != "" {
			return flow{kind: flowText, tag: tag, from: from}
		}
	case reflect.Slice, reflect.Array, reflect.Map:
		if e := dataFlow(typ.Elem(), tag, from); !e.isPlain() {
			return flow{kind: flowEntries, from: from, elem: &e}
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(typ) {
			if f.IsExported() && !dataFlow(f.Type, f.Tag.Get("credential"), from).isPlain() {
				return flow{kind: flowData, from: from, typ: typ}
			}
		}
	}
	return flow{}
}

// member is the flow of a field, of a method's result or of an entry.
func (f flow) member(name, from string) flow {
	switch f.kind {
	case flowText:
		return textOf(f)
	case flowEntries:
		if f.fields != nil {
			return f.fields[name]
		}
		return f.entry()
	case flowDecoded:
		return f
	case flowData:
		if m, ok := reflect.PointerTo(f.typ).MethodByName(name); ok {
			return dataFlow(m.Type.Out(0), "", from)
		}
		if field, ok := f.typ.FieldByName(name); ok && field.IsExported() {
			return dataFlow(field.Type, field.Tag.Get("credential"), from)
		}
	}
	return flow{}
}

// check follows the credentials through one template and those defined in it.
type check struct {
	template    *template.Template
	text, field string
	problems    []*invalid.Error
	// printing are the actions that print credentials.
	printing map[*parse.ActionNode]bool

	dots    map[string]flow              // by name of a define: what it is executed with
	vars    map[*parse.VariableNode]flow // by declaration
	scope   []declaration                // those at hand, the last one counts first
	dollar  flow                         // "$" of the template that is followed
	changed bool
}

// declaration is one of a variable.
type declaration struct {
	variable *parse.VariableNode
	// maybe: it is in parentheses, which "and" and "or" do not always look at. The name
	// may then be that of the declaration before.
	maybe bool
}

// Check returns what a template, and those defined in it, do with credentials beyond what
// they may, and the actions that print one. Data is the type of the struct that it reads;
// text is its source, and field names that in problems.
func Check(t *template.Template, data reflect.Type, text, field string) (problems []*invalid.Error, printing map[*parse.ActionNode]bool) {
	c := &check{template: t, text: text, field: field, dots: map[string]flow{}, vars: map[*parse.VariableNode]flow{}}
	c.dots[t.Name()] = dataFlow(data, "", "the whole data")
	defined := slices.DeleteFunc(t.Templates(), func(t *template.Template) bool { return t.Tree == nil })
	slices.SortFunc(defined, func(a, b *template.Template) int { return strings.Compare(a.Name(), b.Name()) })
	for pass := 0; pass == 0 || c.changed; pass++ {
		c.changed, c.problems, c.printing = false, nil, map[*parse.ActionNode]bool{}
		if pass == maxFlowPasses {
			c.problems = []*invalid.Error{{Field: field, Line: 1, Err: fmt.Errorf("credentials pass through more than %d variables or templates: print them where they are read", maxFlowPasses)}}
			break
		}
		for _, t := range defined {
			c.dollar, c.scope = c.dots[t.Name()], nil
			c.list(t.Root, c.dollar)
		}
	}
	return c.problems, c.printing
}

func (c *check) list(l *parse.ListNode, dot flow) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			if f := c.pipe(n.Pipe, dot); len(n.Pipe.Decl) == 0 && f.kind != flowPlain && !f.refused {
				c.printing[n] = true
			}
		case *parse.TemplateNode:
			if f := c.pipe(n.Pipe, dot); c.template.Lookup(n.Name) != nil {
				was, ok := c.dots[n.Name]
				c.changed = c.changed || !ok && !f.isPlain() // it may have been followed before
				c.dots[n.Name] = c.update(was, ok, f)
			}
		case *parse.RangeNode:
			c.scoped(func() { c.loop(n, dot) })
		case *parse.IfNode:
			c.scoped(func() {
				c.truth(n.Pipe, c.pipe(n.Pipe, dot))
				c.ways(&n.BranchNode, dot, dot)
			})
		case *parse.WithNode:
			c.scoped(func() {
				f := c.pipe(n.Pipe, dot)
				c.truth(n.Pipe, f)
				c.ways(&n.BranchNode, f, dot)
			})
		}
	}
}

// ways follows both, of which neither sees what the other declares.
func (c *check) ways(n *parse.BranchNode, dot, otherwise flow) {
	c.scoped(func() { c.list(n.List, dot) })
	c.scoped(func() { c.list(n.ElseList, otherwise) })
}

func (c *check) scoped(follow func()) {
	mark := len(c.scope)
	follow()
	c.scope = c.scope[:mark]
}

func (c *check) loop(n *parse.RangeNode, dot flow) {
	f := c.value(n.Pipe, dot)
	if f.kind == flowText && !f.refused { // a struct cannot be gone over at all
		f = c.refuse(n, f, "range goes over what its content says")
	}
	elem := f.entry()
	elem.refused = elem.refused || f.refused
	switch decl := n.Pipe.Decl; len(decl) {
	case 1:
		c.set(n.Pipe, decl[0], elem)
	case 2:
		c.set(n.Pipe, decl[0], flow{refused: f.refused})
		c.set(n.Pipe, decl[1], elem)
	}
	c.ways(&n.BranchNode, elem, dot)
}

// truth is where a value decides which way a template goes.
func (c *check) truth(n parse.Node, f flow) {
	if f.maybeBlank && !f.refused {
		c.refuse(n, f, "whether anything is left of it is asked, which depends on its content")
	}
}

// pipe is the flow of a pipeline, which may set variables.
func (c *check) pipe(p *parse.PipeNode, dot flow) flow {
	f := c.value(p, dot)
	if p != nil {
		for _, v := range p.Decl {
			c.set(p, v, f)
		}
	}
	return f
}

func (c *check) set(p *parse.PipeNode, v *parse.VariableNode, f flow) {
	set := []*parse.VariableNode{v}
	if p.IsAssign {
		set = c.declarations(v.Ident[0])
	} else {
		c.scope = append(c.scope, declaration{variable: v})
	}
	for _, v := range set {
		was, ok := c.vars[v]
		c.vars[v] = c.update(was, ok, f)
	}
}

// declarations are those of which a name may be.
func (c *check) declarations(name string) []*parse.VariableNode {
	var out []*parse.VariableNode
	for _, d := range slices.Backward(c.scope) {
		if d.variable.Ident[0] == name {
			if out = append(out, d.variable); !d.maybe {
				break
			}
		}
	}
	return out
}

func (c *check) variable(name string) flow {
	if name == "$" {
		return c.dollar
	}
	var f flow
	for i, v := range c.declarations(name) {
		if i == 0 {
			f = c.vars[v]
		} else {
			f = join(f, c.vars[v])
		}
	}
	return f
}

// update adds one more value to those that a variable or a template may have.
func (c *check) update(was flow, known bool, f flow) flow {
	if !known || reflect.DeepEqual(was, f) {
		return f
	}
	f = join(was, f)
	c.changed = c.changed || !reflect.DeepEqual(was, f)
	return f
}

func (c *check) value(p *parse.PipeNode, dot flow) flow {
	var f flow
	if p == nil {
		return f
	}
	for i, cmd := range p.Cmds {
		f = c.command(cmd, dot, i > 0, f)
	}
	return f
}

// argument is one of a function; node is nil for the one from the pipeline.
type argument struct {
	node parse.Node
	flow flow
}

func (c *check) command(cmd *parse.CommandNode, dot flow, piped bool, final flow) flow {
	var args []argument
	for _, n := range cmd.Args[1:] {
		args = append(args, argument{n, c.operand(n, dot)})
	}
	if piped {
		args = append(args, argument{nil, final})
	}
	if n, ok := cmd.Args[0].(*parse.IdentifierNode); ok {
		return c.call(n, args)
	}
	f := c.operand(cmd.Args[0], dot)
	for _, a := range args { // of a method: the data has none that take arguments
		if !a.flow.isPlain() {
			return c.refuse(cmd, a.flow, "it is an argument of a method")
		}
	}
	return f
}

func (c *check) operand(n parse.Node, dot flow) flow {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return chain(dot, n.Ident)
	case *parse.VariableNode:
		return chain(c.variable(n.Ident[0]), n.Ident[1:])
	case *parse.PipeNode:
		before := len(c.scope)
		f := c.pipe(n, dot)
		for i := range c.scope[before:] {
			c.scope[before+i].maybe = true
		}
		return f
	case *parse.ChainNode:
		return chain(c.operand(n.Node, dot), n.Field)
	case *parse.IdentifierNode:
		return c.call(n, nil)
	}
	return flow{}
}

func chain(f flow, names []string) flow {
	for i, name := range names {
		refused := f.refused
		f = f.member(name, "."+strings.Join(names[:i+1], "."))
		f.refused = f.refused || refused
	}
	return f
}

func (c *check) call(n *parse.IdentifierNode, args []argument) flow {
	plain := true
	for _, a := range args {
		if a.flow.refused {
			return flow{kind: flowText, from: a.flow.from, refused: true}
		}
		plain = plain && a.flow.isPlain()
	}
	if plain {
		return flow{}
	}
	if rule, ok := rules[n.Ident]; ok {
		if f, ok := rule(args); ok {
			return f
		}
	}
	i := slices.IndexFunc(args, func(a argument) bool { return !a.flow.isPlain() })
	return c.refuse(n, args[i].flow, n.Ident+" reads it")
}

// refuse reports a problem.
func (c *check) refuse(n parse.Node, f flow, what string) flow {
	c.problems = append(c.problems, &invalid.Error{Field: c.field, Line: invalid.LineOf(c.text, int(n.Position())), Err: &Error{From: f.from, What: what}})
	return flow{kind: flowText, from: f.from, refused: true}
}

// Error says that what a template renders depends on the content of a
// credential, so that reviewers, who see a placeholder, would be shown something else
// than what nodes get.
type Error struct {
	// From is the field of the data, such as ".Token", and What says what the template
	// does with it. Empty where two renderings differ.
	From, What string
}

func (e *Error) Error() string {
	const remedy = "print credentials, encode them (b64enc, quote, indent, toYaml), or ask whether they are there ({{ if }}), and nothing else"
	if e.From == "" {
		return "what is rendered depends on the content of a credential, so that reviewers, who see placeholders, are shown something else than what nodes get: " + remedy
	}
	return fmt.Sprintf("%s holds a credential, and %s: reviewers see a placeholder, so it may render differently for nodes: %s", e.From, e.What, remedy)
}
