// Package taint follows credentials from the data that templates read to what they write. It
// never executes a template, and does not know the credentials: tags on the fields of the data
// mark them. Start with Check; rules.go lists the functions that can have a credential, and
// why.
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

// Templates can print credentials, encode them and test whether they are set. Output that
// depended on the content of a credential would differ from what reviewers see with
// placeholders. So each template is followed from the data to its output: reading a credential
// in a way that rules does not list is a problem of the profile.

// Values of the tag "credential", on each field of the data whose value Input.Split replaces.
// The tag applies to the texts in the field, in any structure. The value "text", or any unknown
// one, says only that the text is replaced.
const (
	// credentialURL: the part of a URL before the "@" is replaced, nothing else.
	credentialURL = "url"
	// credentialTOML: some strings in this TOML text are replaced, but not its keys.
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

// flow is what is known about the credentials in a value of a template. The zero value contains
// none.
type flow struct {
	kind flowKind
	// from names the field that a credential comes from, such as ".Token".
	from string
	// tag is that of the field if the value is unchanged.
	tag string
	// maybeBlank: the text can be empty although the credential is not.
	maybeBlank bool
	// rejected: the value depends on a credential in a way that has been reported.
	rejected bool
	// shared: other values, which contain no credential, can be the same map.
	shared bool
	typ    reflect.Type
	// fields are the entries of a dict with literal keys; elem is any entry of other
	// structures.
	fields map[string]flow
	elem   *flow
}

// Limits of the analysis, so that every template is checked in a short time.
const (
	// maxFlowEntries is how many entries a structure can have before it counts as one text.
	maxFlowEntries = 200
	// maxFlowPasses is how many times templates are followed until variables no longer change.
	maxFlowPasses = 10
)

func (f flow) isPlain() bool { return f.kind == flowPlain && !f.rejected }

// textOf returns the flow of a text that a function makes from values.
func textOf(values ...flow) flow {
	out := flow{kind: flowText}
	for _, v := range values {
		if out.from == "" {
			out.from = v.from
		}
		out.maybeBlank = out.maybeBlank || v.containsBlank()
		out.rejected = out.rejected || v.rejected
	}
	return out
}

// containsBlank reports whether a text in f can be empty although its credentials are not.
func (f flow) containsBlank() bool {
	if f.maybeBlank || f.elem != nil && f.elem.containsBlank() {
		return true
	}
	for _, v := range f.fields {
		if v.containsBlank() {
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

// withShared returns the flow of a value that can be the same as one without credentials.
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

// join returns the flow of a value that is one of two.
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
	out.from, out.maybeBlank, out.rejected, out.shared = collapsed.from, a.maybeBlank || b.maybeBlank, collapsed.rejected, a.shared || b.shared
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

// dataFlow returns the flow of a value of the data.
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

// member returns the flow of a field, of a method's result or of an entry.
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
	// maybe: it is in parentheses, which "and" and "or" do not always evaluate. The name can
	// then refer to the previous declaration.
	maybe bool
}

// Check returns the uses of credentials in a template, and in those defined in it, that are not
// allowed, and the actions that print one. data is the type of the struct that the template
// reads; text is its source, and field the name of the template in problems.
func Check(t *template.Template, data reflect.Type, text, field string) (problems []*invalid.Error, printing map[*parse.ActionNode]bool) {
	c := &check{template: t, text: text, field: field, dots: map[string]flow{}, vars: map[*parse.VariableNode]flow{}}
	c.dots[t.Name()] = dataFlow(data, "", "the whole data")
	defined := slices.DeleteFunc(t.Templates(), func(t *template.Template) bool { return t.Tree == nil })
	slices.SortFunc(defined, func(a, b *template.Template) int { return strings.Compare(a.Name(), b.Name()) })
	// A value can flow through templates that were followed before, so this repeats until nothing
	// changes.
	for pass := 0; pass == 0 || c.changed; pass++ {
		c.changed, c.problems, c.printing = false, nil, map[*parse.ActionNode]bool{}
		if pass == maxFlowPasses {
			c.problems = []*invalid.Error{{Field: field, Line: 1, Err: fmt.Errorf("credentials pass through more than %d variables or templates: print them in the template that reads them", maxFlowPasses)}}
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
			if f := c.pipe(n.Pipe, dot); len(n.Pipe.Decl) == 0 && f.kind != flowPlain && !f.rejected {
				c.printing[n] = true
			}
		case *parse.TemplateNode:
			if f := c.pipe(n.Pipe, dot); c.template.Lookup(n.Name) != nil {
				was, ok := c.dots[n.Name]
				c.changed = c.changed || !ok && !f.isPlain() // the template can have been followed without it
				c.dots[n.Name] = c.update(was, ok, f)
			}
		case *parse.RangeNode:
			c.scoped(func() { c.loop(n, dot) })
		case *parse.IfNode:
			c.scoped(func() {
				c.truth(n.Pipe, c.pipe(n.Pipe, dot))
				c.branches(&n.BranchNode, dot, dot)
			})
		case *parse.WithNode:
			c.scoped(func() {
				f := c.pipe(n.Pipe, dot)
				c.truth(n.Pipe, f)
				c.branches(&n.BranchNode, f, dot)
			})
		}
	}
}

// branches follows both branches; neither sees the variables that the other declares.
func (c *check) branches(n *parse.BranchNode, dot, otherwise flow) {
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
	if f.kind == flowText && !f.rejected { // a struct cannot be gone over at all
		f = c.reject(n, f, "range goes over what its content says")
	}
	elem := f.entry()
	elem.rejected = elem.rejected || f.rejected
	switch decl := n.Pipe.Decl; len(decl) {
	case 1:
		c.set(n.Pipe, decl[0], elem)
	case 2:
		c.set(n.Pipe, decl[0], flow{rejected: f.rejected})
		c.set(n.Pipe, decl[1], elem)
	}
	c.branches(&n.BranchNode, elem, dot)
}

// truth follows a value that decides which branch a template takes.
func (c *check) truth(n parse.Node, f flow) {
	if f.maybeBlank && !f.rejected {
		c.reject(n, f, "whether anything is left of it is asked, which depends on its content")
	}
}

// pipe returns the flow of a pipeline, which can set variables.
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

// declarations returns the declarations that a name can refer to.
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

// update adds one more value to those that a variable or a template can have.
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

// argument is an argument of a function; node is nil for the one from the pipeline.
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
			return c.reject(cmd, a.flow, "it is an argument of a method")
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
		refused := f.rejected
		f = f.member(name, "."+strings.Join(names[:i+1], "."))
		f.rejected = f.rejected || refused
	}
	return f
}

func (c *check) call(n *parse.IdentifierNode, args []argument) flow {
	plain := true
	for _, a := range args {
		// A rejected value is reported already.
		if a.flow.rejected {
			return flow{kind: flowText, from: a.flow.from, rejected: true}
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
	return c.reject(n, args[i].flow, n.Ident+" reads it")
}

// reject reports a problem.
func (c *check) reject(n parse.Node, f flow, what string) flow {
	c.problems = append(c.problems, &invalid.Error{Field: c.field, Line: invalid.LineOf(c.text, int(n.Position())), Err: &Error{From: f.from, What: what}})
	return flow{kind: flowText, from: f.from, rejected: true}
}

// Error says that the output of a template depends on the content of a credential, so that
// reviewers, who see a placeholder, would see a different text from the one that nodes get.
type Error struct {
	// From is the field of the data, such as ".Token", and What is its use by the template.
	// Both are empty if two renderings differ.
	From, What string
}

func (e *Error) Error() string {
	const remedy = "print credentials, encode them (b64enc, quote, indent, toYaml), or test whether they are set ({{ if }}), and nothing more"
	if e.From == "" {
		return "the output depends on the content of a credential, so that reviewers, who see placeholders, would not see what nodes get: " + remedy
	}
	return fmt.Sprintf("%s holds a credential, and %s: reviewers see a placeholder, so it may render differently for nodes: %s", e.From, e.What, remedy)
}
