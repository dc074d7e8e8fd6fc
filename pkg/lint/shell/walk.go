package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Limits of the analysis. A script that exceeds them is unresolved.
const (
	maxSteps = 200_000 // statements per node
	maxDepth = 200     // nested functions, scripts and compound statements
)

// Machine models the machine that runs the scripts.
type Machine interface {
	// Program follows a program that is not part of the shell. The first argument is its name,
	// which can be a hole.
	Program(w *State, args []string)
	// Write receives the text that a script writes to a file.
	Write(w *State, file, text string)
	// File returns the text of a file; false if it is unknown.
	File(name string) (text string, ok bool)
	// Script returns the script at a path, nil if there is none.
	Script(name string) *Script
	// Unresolved receives commands that cannot be followed.
	Unresolved(what, reason string)
}

// Script is a file that a shell runs.
type Script struct {
	// Stage and Path identify the file.
	Stage, Path string
	File        *syntax.File
	// Called is true if another script runs it.
	Called bool
}

// Walker follows scripts. Its zero value is usable after Machine is set.
type Walker struct {
	Machine Machine
	// OSRelease contains the known variables of /etc/os-release: os-release(5).
	OSRelease map[string]string

	// Stage, Path and Line are the position to report. For a command in a function it is the
	// position of the call.
	Stage, Path string
	Line        int

	calls int // depth of running functions
	steps int
	depth int
	done  map[string]bool // scripts that were followed, with their arguments and variables
}

// At sets the origin of the text whose lines are counted.
func (k *Walker) At(stage, path string, line int) {
	k.Stage, k.Path, k.Line, k.calls = stage, path, line, 0
}

// Run follows a script whose caller and arguments are unknown.
func (k *Walker) Run(s *Script, w *State) {
	k.At(s.Stage, s.Path, 0)
	k.exec(s.File.Stmts, []*State{w})
}

// each applies f to every state and returns the resulting states.
func each(worlds []*State, becomes func(*State) []*State) []*State {
	var out []*State
	for _, w := range worlds {
		out = append(out, becomes(w)...)
	}
	return out
}

// exec follows statements in every state.
func (k *Walker) exec(stmts []*syntax.Stmt, worlds []*State) []*State {
	for _, s := range stmts {
		worlds = merged(each(worlds, func(w *State) []*State {
			if w.exit != staying {
				return []*State{w}
			}
			w = w.Clone()
			w.status = unknown
			return k.stmt(s, w)
		}))
	}
	return worlds
}

// stmt follows one statement with its redirections.
func (k *Walker) stmt(s *syntax.Stmt, w *State) []*State {
	k.steps++
	k.depth++
	defer func() { k.depth-- }()
	if k.steps > maxSteps || k.depth > maxDepth {
		k.Machine.Unresolved("the rest of this script", "it takes too many steps to follow: simplify it, or move its downloads to separate scripts")
		w.exit = leavingScript
		return []*State{w}
	}
	if k.calls == 0 {
		k.Line = int(s.Pos().Line())
	}
	outer, read, stdin := w.out, w.read, w.Stdin
	to := "" // the destination of standard output
	worlds := []*State{w}
	for _, r := range s.Redirs {
		worlds = each(worlds, func(w *State) []*State { return k.redirect(w, r, &to) })
	}
	// What is written to a file is collected, although no command reads it.
	if to != "" {
		for _, w := range worlds {
			w.out, w.read = "", true
		}
	}
	out := each(worlds, func(w *State) []*State { return k.command(s.Cmd, w) })
	for _, w := range out {
		if to != "" {
			k.Machine.Write(w, to, w.out)
			w.out, w.read = outer, read
		}
		w.Stdin = stdin
		if s.Negated {
			w.status = not(w.status)
		}
	}
	return out
}

// redirect sets the standard input of a state, and stores the destination of standard output
// in to.
func (k *Walker) redirect(w *State, r *syntax.Redirect, to *string) []*State {
	in := func(list []expanded, end string) []*State {
		var out []*State
		for _, e := range list {
			text := e.fields[0] + end
			c := e.Clone()
			c.Stdin = &text
			out = append(out, c)
		}
		return out
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		return in(k.document(w, r.Hdoc), "")
	case syntax.WordHdoc:
		return in(k.text(w, r.Word), "\n")
	case syntax.RdrIn:
		w = w.Clone()
		w.Stdin = nil
		for _, e := range k.text(w, r.Word) {
			if text, ok := k.Machine.File(e.fields[0]); ok {
				w.Stdin = &text
			}
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		if r.N == nil || r.N.Value == "1" {
			for _, e := range k.text(w, r.Word) {
				*to = e.fields[0]
			}
		}
	}
	return []*State{w}
}

// command follows the command of a statement.
func (k *Walker) command(cmd syntax.Command, w *State) []*State {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return k.call(c, w)
	case *syntax.Block:
		return k.exec(c.Stmts, []*State{w})
	case *syntax.Subshell:
		return w.after(k.subshell(w, c.Stmts))
	case *syntax.IfClause:
		return k.ifClause(c, w)
	case *syntax.WhileClause:
		return k.whileClause(c, w)
	case *syntax.ForClause:
		return k.forClause(c, w)
	case *syntax.CaseClause:
		return k.caseClause(c, w)
	case *syntax.BinaryCmd:
		return k.binary(c, w)
	case *syntax.FuncDecl:
		if c.Name != nil {
			w.funcs = with(w.funcs, c.Name.Value, c.Body)
		}
	case *syntax.TestClause:
		return k.testClause(c, w)
	case *syntax.DeclClause:
		return k.declare(c, w)
	case *syntax.ArithmCmd, *syntax.LetClause:
		k.forget(w, assigned(cmd, w.funcs))
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return k.stmt(c.Stmt, w)
		}
	case *syntax.CoprocClause:
		return k.stmt(c.Stmt, w)
	}
	return []*State{w}
}

func with[V any](m map[string]V, key string, value V) map[string]V {
	out := make(map[string]V, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	out[key] = value
	return out
}

// split separates the states in which the last command succeeded from those in which it
// failed; a state with an unknown result is copied to both.
func split(worlds []*State) (yes, no, gone []*State) {
	for _, w := range worlds {
		switch {
		case w.exit != staying:
			gone = append(gone, w)
		case w.status == succeeded:
			yes = append(yes, w)
		case w.status == failed:
			no = append(no, w)
		default:
			other := w.Clone()
			w.status, other.status = succeeded, failed
			yes, no = append(yes, w), append(no, other)
		}
	}
	return yes, no, gone
}

func (k *Walker) ifClause(c *syntax.IfClause, w *State) []*State {
	if len(c.Cond) == 0 { // the final alternative has no condition
		return k.exec(c.Then, []*State{w})
	}
	yes, no, out := split(k.exec(c.Cond, []*State{w}))
	out = append(out, k.exec(c.Then, yes)...)
	if c.Else == nil {
		return append(out, no...)
	}
	return append(out, each(no, func(w *State) []*State { return k.ifClause(c.Else, w) })...)
}

// whileClause follows the body of a loop once, with unknown values for all variables that
// the body changes, which covers every iteration.
func (k *Walker) whileClause(c *syntax.WhileClause, w *State) []*State {
	k.forget(w, assigned(c, w.funcs))
	yes, no, out := split(k.exec(c.Cond, []*State{w}))
	if c.Until {
		yes, no = no, yes
	}
	return append(append(out, no...), looped(k.exec(c.Do, yes))...)
}

// looped returns the states after a loop.
func looped(worlds []*State) []*State {
	for _, w := range worlds {
		if w.exit == leavingLoop {
			w.exit = staying
		}
	}
	return worlds
}

func (k *Walker) forClause(c *syntax.ForClause, w *State) []*State {
	items, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		k.forget(w, assigned(c, w.funcs))
		// One repetition suffices, because all variables that the loop changes are unknown.
		skipped := w.Clone()
		return looped(append(k.exec(c.Do, []*State{w}), skipped))
	}
	list := []expanded{{w, w.args}}
	switch {
	case items.InPos.IsValid():
		list = k.words(w, items.Items)
	case !w.named:
		list[0].fields = []string{UnknownText(items.Name.Value)}
	}
	var out []*State
	for _, e := range list {
		worlds := []*State{e.State}
		for _, item := range e.fields {
			var inside []*State
			for _, w := range worlds {
				if w.exit == staying {
					w = w.Clone()
					w.setText(items.Name.Value, item)
					inside = append(inside, w)
				} else {
					out = append(out, w)
				}
			}
			worlds = k.exec(c.Do, inside)
		}
		out = append(out, worlds...)
	}
	return merged(looped(out))
}

func (k *Walker) caseClause(c *syntax.CaseClause, w *State) []*State {
	var out []*State
	for _, e := range k.text(w, c.Word) {
		rest := e.State // of the states that no earlier item matches
		for _, item := range c.Items {
			if rest == nil {
				break
			}
			var taken *State
			taken, rest = k.caseItem(rest, e.fields[0], item)
			if taken != nil {
				out = append(out, k.exec(item.Stmts, []*State{taken})...)
			}
		}
		if rest != nil {
			out = append(out, rest)
		}
	}
	return out
}

// caseItem returns the state in which an item matches and the one in which it does not; nil
// if that is impossible.
func (k *Walker) caseItem(w *State, value string, item *syntax.CaseItem) (taken, rest *State) {
	for _, p := range item.Patterns {
		for _, e := range k.pattern(w, p) {
			switch matches(value, e.fields[0]) {
			case succeeded:
				return w, nil
			case unknown:
				taken = w.Clone()
				// With several patterns it is unknown which one matched.
				if text := e.fields[0]; IsUnknown(value) && len(item.Patterns) == 1 && !strings.ContainsAny(text, `*?[\`) && !HasUnknown(text) {
					taken.assume(value, text)
				}
			}
		}
	}
	return taken, w
}

func (k *Walker) binary(c *syntax.BinaryCmd, w *State) []*State {
	switch c.Op {
	case syntax.AndStmt, syntax.OrStmt:
		yes, no, out := split(k.stmt(c.X, w))
		if c.Op == syntax.OrStmt {
			yes, no = no, yes
		}
		out = append(out, each(yes, func(w *State) []*State {
			w.status = unknown
			return k.stmt(c.Y, w)
		})...)
		return merged(append(out, no...))
	}
	return merged(each(k.subshell(w, []*syntax.Stmt{c.X}), func(left *State) []*State {
		reader := w.Clone()
		reader.inherit(left)
		reader.Stdin = &left.out
		return w.after(k.subshell(reader, []*syntax.Stmt{c.Y}))
	}))
}

// declare follows local, export and similar declarations.
func (k *Walker) declare(c *syntax.DeclClause, w *State) []*State {
	worlds := []*State{w}
	for _, a := range c.Args {
		if a.Name == nil {
			continue // an option
		}
		worlds = each(worlds, func(w *State) []*State {
			if c.Variant.Value != "export" && c.Variant.Value != "readonly" {
				w.local = with(w.local, a.Name.Value, true)
			}
			if !a.Naked {
				return k.assign(w, a)
			}
			if c.Variant.Value == "local" {
				w.set(a.Name.Value, expand.Variable{})
			}
			return []*State{w}
		})
	}
	return worlds
}

// assign sets a variable.
func (k *Walker) assign(w *State, a *syntax.Assign) []*State {
	name := a.Name.Value
	if a.Index != nil {
		w = w.Clone()
		w.setText(name, UnknownText(name))
		return []*State{w}
	}
	var out []*State
	if a.Array != nil {
		var words []*syntax.Word
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				words = append(words, e.Value)
			}
		}
		for _, e := range k.words(w, words) {
			c, list := e.Clone(), e.fields
			if had := c.vars[name]; a.Append {
				list = slices.Concat(had.List, list)
			}
			c.set(name, expand.Variable{Set: true, Kind: expand.Indexed, List: list})
			out = append(out, c)
		}
		return out
	}
	for _, e := range k.text(w, a.Value) {
		c, value := e.Clone(), e.fields[0]
		if a.Append {
			value = (&environ{State: c}).Get(name).Str + value
		}
		c.setText(name, value)
		out = append(out, c)
	}
	return out
}

// forget marks variables as unknown.
func (k *Walker) forget(w *State, names map[string]bool) {
	for name := range names {
		w.setText(name, UnknownText(name))
	}
}

// assigned returns the variables that a part of a script can change, including changes in
// functions that it calls.
func assigned(n syntax.Node, funcs map[string]*syntax.Stmt) map[string]bool {
	out, seen := map[string]bool{}, map[string]bool{}
	var look func(syntax.Node) bool
	words := func(c *syntax.CallExpr) {
		first := ""
		if len(c.Args) > 0 {
			first = c.Args[0].Lit()
		}
		switch first {
		case "read", "mapfile", "readarray", "getopts", "unset", "printf":
			for _, a := range c.Args[1:] {
				if isName(a.Lit()) {
					out[a.Lit()] = true
				}
			}
		}
		// A function can call itself.
		if body := funcs[first]; body != nil && !seen[first] {
			seen[first] = true
			syntax.Walk(body, look)
		}
	}
	arithmetic := func(x syntax.ArithmExpr) {
		if w, ok := x.(*syntax.Word); ok && isName(w.Lit()) {
			out[w.Lit()] = true
		}
	}
	look = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil && !n.Naked {
				out[n.Name.Value] = true
			}
		case *syntax.WordIter:
			out[n.Name.Value] = true
		case *syntax.CallExpr:
			words(n)
		case *syntax.UnaryArithm:
			arithmetic(n.X)
		case *syntax.BinaryArithm:
			// Comparisons end in "=" too, and assign nothing.
			if strings.HasSuffix(n.Op.String(), "=") && !slices.Contains([]string{"==", "!=", "<=", ">="}, n.Op.String()) {
				arithmetic(n.X)
			}
		}
		return true
	}
	syntax.Walk(n, look)
	return out
}
