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

// newTextFlow returns the flow of a text that a function makes from values.
func newTextFlow(values ...flow) flow {
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

// anyEntry returns the flow of any entry of a structure.
func (f flow) anyEntry() flow {
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

// newEntriesFlow returns f as the flow of a structure, or of one text if it has too many entries.
func newEntriesFlow(f flow) flow {
	f.kind = flowEntries
	if f.entries() > maxFlowEntries {
		return newTextFlow(f)
	}
	return f
}

// markMayAliasPlain returns the flow of a value that can be the same as one without credentials.
func (f flow) markMayAliasPlain() flow {
	if f.kind == flowPlain {
		return f
	}
	f.shared = true
	if f.elem != nil {
		e := f.elem.markMayAliasPlain()
		f.elem = &e
	}
	if f.fields != nil {
		f.fields = maps.Clone(f.fields)
		for name, v := range f.fields {
			f.fields[name] = v.markMayAliasPlain()
		}
	}
	return f
}

// join returns the flow of a value that is one of two.
func join(a, b flow) flow {
	switch {
	case a.isPlain():
		return b.markMayAliasPlain()
	case b.isPlain():
		return a.markMayAliasPlain()
	}
	collapsed := newTextFlow(a, b)
	if a.kind != b.kind || a.typ != b.typ {
		return collapsed
	}
	out := a
	out.from = collapsed.from
	out.maybeBlank = a.maybeBlank || b.maybeBlank
	out.rejected = collapsed.rejected
	out.shared = a.shared || b.shared
	if a.tag != b.tag {
		out.tag = ""
	}
	if a.kind != flowEntries {
		return out
	}
	if a.elem != nil || b.elem != nil {
		e := join(a.anyEntry(), b.anyEntry())
		out.fields, out.elem = nil, &e
		return newEntriesFlow(out)
	}
	out.fields = maps.Clone(a.fields)
	for name, v := range b.fields {
		out.fields[name] = join(out.fields[name], v)
	}
	for name, v := range a.fields {
		if _, ok := b.fields[name]; !ok {
			out.fields[name] = v.markMayAliasPlain()
		}
	}
	return newEntriesFlow(out)
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
		return newTextFlow(f)
	case flowEntries:
		if f.fields != nil {
			return f.fields[name]
		}
		return f.anyEntry()
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

// checker follows the credentials through one template and those defined in it.
type checker struct {
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
	c := &checker{template: t, text: text, field: field, dots: map[string]flow{}, vars: map[*parse.VariableNode]flow{}}
	c.dots[t.Name()] = dataFlow(data, "", "the whole data")
	defined := slices.DeleteFunc(t.Templates(), func(t *template.Template) bool { return t.Tree == nil })
	slices.SortFunc(defined, func(a, b *template.Template) int { return strings.Compare(a.Name(), b.Name()) })
	// A value can flow through templates that were followed before, so this repeats until nothing
	// changes.
	for pass := 0; pass == 0 || c.changed; pass++ {
		c.changed = false
		c.problems = nil
		c.printing = map[*parse.ActionNode]bool{}
		if pass == maxFlowPasses {
			c.problems = []*invalid.Error{{Field: field, Line: 1, Err: fmt.Errorf("credentials pass through more than %d variables or templates: print them in the template that reads them", maxFlowPasses)}}
			break
		}
		for _, t := range defined {
			c.dollar, c.scope = c.dots[t.Name()], nil
			c.checkList(t.Root, c.dollar)
		}
	}
	return c.problems, c.printing
}

func (c *checker) checkList(l *parse.ListNode, dot flow) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *parse.ActionNode:
			if f := c.pipeFlow(n.Pipe, dot); len(n.Pipe.Decl) == 0 && f.kind != flowPlain && !f.rejected {
				c.printing[n] = true
			}
		case *parse.TemplateNode:
			if f := c.pipeFlow(n.Pipe, dot); c.template.Lookup(n.Name) != nil {
				was, ok := c.dots[n.Name]
				c.changed = c.changed || !ok && !f.isPlain() // the template can have been followed without it
				c.dots[n.Name] = c.addPossibleFlow(was, ok, f)
			}
		case *parse.RangeNode:
			c.runInScope(func() { c.checkRange(n, dot) })
		case *parse.IfNode:
			c.runInScope(func() {
				c.checkCondition(n.Pipe, c.pipeFlow(n.Pipe, dot))
				c.checkBranches(&n.BranchNode, dot, dot)
			})
		case *parse.WithNode:
			c.runInScope(func() {
				f := c.pipeFlow(n.Pipe, dot)
				c.checkCondition(n.Pipe, f)
				c.checkBranches(&n.BranchNode, f, dot)
			})
		}
	}
}

// checkBranches follows both branches; neither sees the variables that the other declares.
func (c *checker) checkBranches(n *parse.BranchNode, dot, otherwise flow) {
	c.runInScope(func() { c.checkList(n.List, dot) })
	c.runInScope(func() { c.checkList(n.ElseList, otherwise) })
}

// runInScope calls a function, and then drops the variables that were declared in it.
func (c *checker) runInScope(follow func()) {
	mark := len(c.scope)
	follow()
	c.scope = c.scope[:mark]
}

func (c *checker) checkRange(n *parse.RangeNode, dot flow) {
	f := c.commandsFlow(n.Pipe, dot)
	if f.kind == flowText && !f.rejected { // a struct cannot be gone over at all
		f = c.reportProblem(n, f, "range goes over what its content says")
	}
	elem := f.anyEntry()
	elem.rejected = elem.rejected || f.rejected
	switch decl := n.Pipe.Decl; len(decl) {
	case 1:
		c.assignVariable(n.Pipe, decl[0], elem)
	case 2:
		c.assignVariable(n.Pipe, decl[0], flow{rejected: f.rejected})
		c.assignVariable(n.Pipe, decl[1], elem)
	}
	c.checkBranches(&n.BranchNode, elem, dot)
}

// checkCondition rejects a value that decides which branch a template takes, if that depends on the
// content of a credential.
func (c *checker) checkCondition(n parse.Node, f flow) {
	if f.maybeBlank && !f.rejected {
		c.reportProblem(n, f, "whether anything is left of it is asked, which depends on its content")
	}
}

// pipeFlow returns the flow of a pipeline, and sets the variables that it declares or assigns.
func (c *checker) pipeFlow(p *parse.PipeNode, dot flow) flow {
	f := c.commandsFlow(p, dot)
	if p != nil {
		for _, v := range p.Decl {
			c.assignVariable(p, v, f)
		}
	}
	return f
}

func (c *checker) assignVariable(p *parse.PipeNode, v *parse.VariableNode, f flow) {
	set := []*parse.VariableNode{v}
	if p.IsAssign {
		set = c.findDeclarations(v.Ident[0])
	} else {
		c.scope = append(c.scope, declaration{variable: v})
	}
	for _, v := range set {
		was, ok := c.vars[v]
		c.vars[v] = c.addPossibleFlow(was, ok, f)
	}
}

// findDeclarations returns the declarations that a name can refer to.
func (c *checker) findDeclarations(name string) []*parse.VariableNode {
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

func (c *checker) variableFlow(name string) flow {
	if name == "$" {
		return c.dollar
	}
	var f flow
	for i, v := range c.findDeclarations(name) {
		if i == 0 {
			f = c.vars[v]
		} else {
			f = join(f, c.vars[v])
		}
	}
	return f
}

// addPossibleFlow adds one more value to those that a variable or a template can have.
func (c *checker) addPossibleFlow(was flow, known bool, f flow) flow {
	if !known || reflect.DeepEqual(was, f) {
		return f
	}
	f = join(was, f)
	c.changed = c.changed || !reflect.DeepEqual(was, f)
	return f
}

// commandsFlow returns the flow of the last command of a pipeline.
func (c *checker) commandsFlow(p *parse.PipeNode, dot flow) flow {
	var f flow
	if p == nil {
		return f
	}
	for i, cmd := range p.Cmds {
		f = c.commandFlow(cmd, dot, i > 0, f)
	}
	return f
}

// argument is an argument of a function; node is nil for the one from the pipeline.
type argument struct {
	node parse.Node
	flow flow
}

func (c *checker) commandFlow(cmd *parse.CommandNode, dot flow, piped bool, final flow) flow {
	var args []argument
	for _, n := range cmd.Args[1:] {
		args = append(args, argument{n, c.operandFlow(n, dot)})
	}
	if piped {
		args = append(args, argument{nil, final})
	}
	if n, ok := cmd.Args[0].(*parse.IdentifierNode); ok {
		return c.callFlow(n, args)
	}
	f := c.operandFlow(cmd.Args[0], dot)
	for _, a := range args { // of a method: the data has none that take arguments
		if !a.flow.isPlain() {
			return c.reportProblem(cmd, a.flow, "it is an argument of a method")
		}
	}
	return f
}

func (c *checker) operandFlow(n parse.Node, dot flow) flow {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot
	case *parse.FieldNode:
		return nestedMember(dot, n.Ident)
	case *parse.VariableNode:
		return nestedMember(c.variableFlow(n.Ident[0]), n.Ident[1:])
	case *parse.PipeNode:
		before := len(c.scope)
		f := c.pipeFlow(n, dot)
		for i := range c.scope[before:] {
			c.scope[before+i].maybe = true
		}
		return f
	case *parse.ChainNode:
		return nestedMember(c.operandFlow(n.Node, dot), n.Field)
	case *parse.IdentifierNode:
		return c.callFlow(n, nil)
	}
	return flow{}
}

// nestedMember returns the flow of the member that a chain of names selects.
func nestedMember(f flow, names []string) flow {
	for i, name := range names {
		wasRejected := f.rejected
		f = f.member(name, "."+strings.Join(names[:i+1], "."))
		f.rejected = f.rejected || wasRejected
	}
	return f
}

func (c *checker) callFlow(n *parse.IdentifierNode, args []argument) flow {
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
	return c.reportProblem(n, args[i].flow, n.Ident+" reads it")
}

// reportProblem reports a problem at a node, and returns a flow marked as rejected so that it is
// not reported again.
func (c *checker) reportProblem(n parse.Node, f flow, what string) flow {
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
