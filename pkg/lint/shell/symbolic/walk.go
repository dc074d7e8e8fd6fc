package symbolic

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/execution"
)

// Limits of the analysis. A script that exceeds them is unresolved.
const (
	maxSteps = 200_000 // statements per node
	maxDepth = 200     // nested functions, scripts and compound statements
)

// Machine models the machine that runs the scripts.
type Machine interface {
	// RunProgram follows a program that is not part of the shell. The first argument is its name,
	// which can be unknown.
	RunProgram(w *execution.State, args []string)
	// Write receives the text that a script writes to a file.
	Write(w *execution.State, file, text string)
	// File returns the text of a file; false if it is unknown.
	File(name string) (text string, ok bool)
	// Script returns the script at a path, nil if there is none.
	Script(name string) *Script
	// ReportUnresolved receives commands that cannot be followed.
	ReportUnresolved(what, reason string)
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
	k.Stage = stage
	k.Path = path
	k.Line = line
	k.calls = 0
}

// Run follows a script whose caller and arguments are unknown.
func (k *Walker) Run(s *Script, w *execution.State) {
	k.At(s.Stage, s.Path, 0)
	k.exec(s.File.Stmts, []*execution.State{w})
}

// exec follows statements in every state.
func (k *Walker) exec(stmts []*syntax.Stmt, worlds []*execution.State) []*execution.State {
	for _, s := range stmts {
		worlds = execution.Merge(execution.FlatMap(worlds, func(w *execution.State) []*execution.State {
			if w.Exit != execution.Staying {
				return []*execution.State{w}
			}
			w = w.Clone()
			w.Status = execution.Unknown
			return k.stmt(s, w)
		}))
	}
	return worlds
}

// stmt follows one statement with its redirections.
func (k *Walker) stmt(s *syntax.Stmt, w *execution.State) []*execution.State {
	k.steps++
	k.depth++
	defer func() { k.depth-- }()
	if k.steps > maxSteps || k.depth > maxDepth {
		k.Machine.ReportUnresolved("the rest of this script", "it takes too many steps to follow: simplify it, or move its downloads to separate scripts")
		w.Exit = execution.LeavingScript
		return []*execution.State{w}
	}
	if k.calls == 0 {
		k.Line = int(s.Pos().Line())
	}
	outer := w.Output
	read := w.OutputIsRead
	stdin := w.Stdin
	to := "" // the destination of standard output
	worlds := []*execution.State{w}
	for _, r := range s.Redirs {
		worlds = execution.FlatMap(worlds, func(w *execution.State) []*execution.State { return k.applyRedirect(w, r, &to) })
	}
	// What is written to a file is collected, although no command reads it.
	if to != "" {
		for _, w := range worlds {
			w.Output, w.OutputIsRead = "", true
		}
	}
	out := execution.FlatMap(worlds, func(w *execution.State) []*execution.State { return k.command(s.Cmd, w) })
	for _, w := range out {
		if to != "" {
			k.Machine.Write(w, to, w.Output)
			w.Output, w.OutputIsRead = outer, read
		}
		w.Stdin = stdin
		if s.Negated {
			w.Status = execution.Negate(w.Status)
		}
	}
	return out
}

// applyRedirect sets the standard input of a state, and stores the destination of standard output
// in to.
func (k *Walker) applyRedirect(w *execution.State, r *syntax.Redirect, to *string) []*execution.State {
	in := func(list []expanded, end string) []*execution.State {
		var out []*execution.State
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
		return in(k.expandHereDocument(w, r.Hdoc), "")
	case syntax.WordHdoc:
		return in(k.expandText(w, r.Word), "\n")
	case syntax.RdrIn:
		w = w.Clone()
		w.Stdin = nil
		for _, e := range k.expandText(w, r.Word) {
			if text, ok := k.Machine.File(e.fields[0]); ok {
				w.Stdin = &text
			}
		}
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
		if r.N == nil || r.N.Value == "1" {
			for _, e := range k.expandText(w, r.Word) {
				*to = e.fields[0]
			}
		}
	}
	return []*execution.State{w}
}

// command follows the command of a statement.
func (k *Walker) command(cmd syntax.Command, w *execution.State) []*execution.State {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		return k.call(c, w)
	case *syntax.Block:
		return k.exec(c.Stmts, []*execution.State{w})
	case *syntax.Subshell:
		return w.AfterSubshell(k.runSubshell(w, c.Stmts))
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
			w.DefineFunction(c.Name.Value, c.Body)
		}
	case *syntax.TestClause:
		return k.testClause(c, w)
	case *syntax.DeclClause:
		return k.declareVariables(c, w)
	case *syntax.ArithmCmd, *syntax.LetClause:
		w.MarkUnknown(shell.AssignedVariables(cmd, w.Functions))
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return k.stmt(c.Stmt, w)
		}
	case *syntax.CoprocClause:
		return k.stmt(c.Stmt, w)
	}
	return []*execution.State{w}
}

func (k *Walker) ifClause(c *syntax.IfClause, w *execution.State) []*execution.State {
	if len(c.Cond) == 0 { // the final alternative has no condition
		return k.exec(c.Then, []*execution.State{w})
	}
	yes, no, out := execution.SplitByExitStatus(k.exec(c.Cond, []*execution.State{w}))
	out = append(out, k.exec(c.Then, yes)...)
	if c.Else == nil {
		return append(out, no...)
	}
	return append(out, execution.FlatMap(no, func(w *execution.State) []*execution.State { return k.ifClause(c.Else, w) })...)
}

// whileClause follows the body of a loop once, with unknown values for all variables that
// the body changes, which covers every iteration.
func (k *Walker) whileClause(c *syntax.WhileClause, w *execution.State) []*execution.State {
	w.MarkUnknown(shell.AssignedVariables(c, w.Functions))
	yes, no, out := execution.SplitByExitStatus(k.exec(c.Cond, []*execution.State{w}))
	if c.Until {
		yes, no = no, yes
	}
	return append(append(out, no...), execution.EndLoop(k.exec(c.Do, yes))...)
}

func (k *Walker) forClause(c *syntax.ForClause, w *execution.State) []*execution.State {
	items, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		w.MarkUnknown(shell.AssignedVariables(c, w.Functions))
		// One repetition suffices, because all variables that the loop changes are unknown.
		skipped := w.Clone()
		return execution.EndLoop(append(k.exec(c.Do, []*execution.State{w}), skipped))
	}
	list := []expanded{{w, w.Arguments}}
	switch {
	case items.InPos.IsValid():
		list = k.words(w, items.Items)
	case !w.ArgumentsKnown:
		list[0].fields = []string{shell.UnknownText(items.Name.Value)}
	}
	var out []*execution.State
	for _, e := range list {
		worlds := []*execution.State{e.State}
		for _, item := range e.fields {
			var inside []*execution.State
			for _, w := range worlds {
				if w.Exit == execution.Staying {
					w = w.Clone()
					w.SetText(items.Name.Value, item)
					inside = append(inside, w)
				} else {
					out = append(out, w)
				}
			}
			worlds = k.exec(c.Do, inside)
		}
		out = append(out, worlds...)
	}
	return execution.Merge(execution.EndLoop(out))
}

func (k *Walker) caseClause(c *syntax.CaseClause, w *execution.State) []*execution.State {
	var out []*execution.State
	for _, e := range k.expandText(w, c.Word) {
		rest := e.State // of the states that no earlier item matches
		for _, item := range c.Items {
			if rest == nil {
				break
			}
			var matched *execution.State
			matched, rest = k.caseItem(rest, e.fields[0], item)
			if matched != nil {
				out = append(out, k.exec(item.Stmts, []*execution.State{matched})...)
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
func (k *Walker) caseItem(w *execution.State, value string, item *syntax.CaseItem) (matched, rest *execution.State) {
	for _, p := range item.Patterns {
		for _, e := range k.pattern(w, p) {
			switch execution.MatchPattern(value, e.fields[0]) {
			case execution.Succeeded:
				return w, nil
			case execution.Unknown:
				matched = w.Clone()
				// With several patterns it is unknown which one matched.
				if text := e.fields[0]; shell.IsUnknown(value) && len(item.Patterns) == 1 && !strings.ContainsAny(text, `*?[\`) && !shell.HasUnknown(text) {
					matched.ReplaceUnknownInVariables(value, text)
				}
			}
		}
	}
	return matched, w
}

func (k *Walker) binary(c *syntax.BinaryCmd, w *execution.State) []*execution.State {
	switch c.Op {
	case syntax.AndStmt, syntax.OrStmt:
		yes, no, out := execution.SplitByExitStatus(k.stmt(c.X, w))
		if c.Op == syntax.OrStmt {
			yes, no = no, yes
		}
		out = append(out, execution.FlatMap(yes, func(w *execution.State) []*execution.State {
			w.Status = execution.Unknown
			return k.stmt(c.Y, w)
		})...)
		return execution.Merge(append(out, no...))
	}
	return execution.Merge(execution.FlatMap(k.runSubshell(w, []*syntax.Stmt{c.X}), func(left *execution.State) []*execution.State {
		reader := w.Clone()
		reader.CopySubshellResult(left)
		reader.Stdin = &left.Output
		return w.AfterSubshell(k.runSubshell(reader, []*syntax.Stmt{c.Y}))
	}))
}

// declareVariables follows local, export and similar declarations.
func (k *Walker) declareVariables(c *syntax.DeclClause, w *execution.State) []*execution.State {
	worlds := []*execution.State{w}
	for _, a := range c.Args {
		if a.Name == nil {
			continue // an option
		}
		worlds = execution.FlatMap(worlds, func(w *execution.State) []*execution.State {
			if c.Variant.Value != "export" && c.Variant.Value != "readonly" {
				w.DeclareLocal(a.Name.Value)
			}
			if !a.Naked {
				return k.assign(w, a)
			}
			if c.Variant.Value == "local" {
				w.SetVariable(a.Name.Value, expand.Variable{})
			}
			return []*execution.State{w}
		})
	}
	return worlds
}

// assign sets a variable.
func (k *Walker) assign(w *execution.State, a *syntax.Assign) []*execution.State {
	name := a.Name.Value
	if a.Index != nil {
		w = w.Clone()
		w.SetText(name, shell.UnknownText(name))
		return []*execution.State{w}
	}
	var out []*execution.State
	if a.Array != nil {
		var words []*syntax.Word
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				words = append(words, e.Value)
			}
		}
		for _, e := range k.words(w, words) {
			c, list := e.Clone(), e.fields
			if had := c.Variables[name]; a.Append {
				list = slices.Concat(had.List, list)
			}
			c.SetVariable(name, expand.Variable{Set: true, Kind: expand.Indexed, List: list})
			out = append(out, c)
		}
		return out
	}
	for _, e := range k.expandText(w, a.Value) {
		c, value := e.Clone(), e.fields[0]
		if a.Append {
			value = (&execution.Environment{State: c}).Get(name).Str + value
		}
		c.SetText(name, value)
		out = append(out, c)
	}
	return out
}
