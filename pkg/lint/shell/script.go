package shell

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Commands contains the calls of a script in source order, and the values of variables that are
// the same on all paths.
type Commands struct {
	File      *syntax.File
	Calls     []*Call
	Functions map[string]*syntax.FuncDecl
	Constants map[string]string // variables that are set once, to a constant
}

// Call is one command that a script runs, without the programs that run it, such as sudo.
type Call struct {
	Name          string // the program's base name; "" if a variable has it
	Args          []Word // without the name
	Stmt          *syntax.Stmt
	Line          int
	Pipe          *Pipeline // nil outside one
	PipelineIndex int       // in the pipeline
}

// Word is one argument as the program receives it, as far as it is known: variables that are
// not constant appear as "${NAME}", outputs of commands as "$(...)".
type Word struct {
	Text    string
	Dynamic bool // the script computes a part of it
	Node    *syntax.Word
}

// line returns the line of the word, 0 for a synthesized one.
func (w Word) line() int {
	if w.Node == nil {
		return 0
	}
	return LineOf(w.Node)
}

// Pipeline contains the parts that "|" joins.
type Pipeline struct {
	Calls [][]*Call // of each part
	Line  int
}

// maxBrackets limits nesting: the parser recurses, and a stack overflow ends the program.
// The largest built-in script has 300 brackets.
const maxBrackets = 10_000

// Parse reads a script. The error is a syntax.ParseError, a syntax.LangError, or that
// of maxBrackets.
func Parse(text string) (*syntax.File, error) {
	if n := strings.Count(text, "(") + strings.Count(text, "{") + strings.Count(text, "`"); n > maxBrackets {
		return nil, fmt.Errorf("it has %d opening brackets: the limit is %d", n, maxBrackets)
	}
	// The parser's POSIX dialect rejects constructs that dash accepts, such as "local".
	// shellcheck reports what dash rejects.
	return syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
}

// CommandsOf finds the commands of a script.
func CommandsOf(file *syntax.File) *Commands {
	s := &Commands{File: file, Functions: map[string]*syntax.FuncDecl{}, Constants: constantVariables(file)}
	syntax.Walk(file, func(n syntax.Node) bool {
		if f, ok := n.(*syntax.FuncDecl); ok {
			s.Functions[f.Name.Value] = f
		}
		return true
	})
	s.collectCalls()
	return s
}

// collectCalls records the calls and their pipelines.
func (s *Commands) collectCalls() {
	of := map[*syntax.Stmt]*Call{}
	syntax.Walk(s.File, func(n syntax.Node) bool {
		stmt, ok := n.(*syntax.Stmt)
		if !ok {
			return true
		}
		if expr, ok := stmt.Cmd.(*syntax.CallExpr); ok && len(expr.Args) > 0 {
			c := s.newCall(expr, stmt)
			of[stmt] = c
			s.Calls = append(s.Calls, c)
		}
		return true
	})
	inner := map[*syntax.BinaryCmd]bool{}
	syntax.Walk(s.File, func(n syntax.Node) bool {
		b, ok := n.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll || inner[b] {
			return true
		}
		// Walk reaches a whole pipeline before its parts.
		p := &Pipeline{Line: LineOf(b)}
		for _, part := range pipelineStatements(b, inner) {
			p.Calls = append(p.Calls, callsOutsideSubstitutions(part, of))
		}
		for i, calls := range p.Calls {
			for _, c := range calls {
				if c.Pipe == nil {
					c.Pipe, c.PipelineIndex = p, i
				}
			}
		}
		return true
	})
}

// pipelineStatements returns the statements of a pipeline, from left to right.
func pipelineStatements(b *syntax.BinaryCmd, inner map[*syntax.BinaryCmd]bool) []*syntax.Stmt {
	var out []*syntax.Stmt
	for _, side := range []*syntax.Stmt{b.X, b.Y} {
		if more, ok := side.Cmd.(*syntax.BinaryCmd); ok && (more.Op == syntax.Pipe || more.Op == syntax.PipeAll) && !inner[more] {
			inner[more] = true
			out = append(out, pipelineStatements(more, inner)...)
			continue
		}
		out = append(out, side)
	}
	return out
}

// callsOutsideSubstitutions returns the calls that use the standard streams of a statement, without those in
// the substitutions of its words.
func callsOutsideSubstitutions(stmt *syntax.Stmt, of map[*syntax.Stmt]*Call) []*Call {
	var out []*Call
	syntax.Walk(stmt, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			if c := of[n]; c != nil {
				out = append(out, c)
			}
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		}
		return true
	})
	return out
}

// newCall reads a command.
func (s *Commands) newCall(expr *syntax.CallExpr, stmt *syntax.Stmt) *Call {
	words, texts := make([]Word, len(expr.Args)), make([]string, len(expr.Args))
	for i, w := range expr.Args {
		words[i] = s.Word(w)
		texts[i] = words[i].Text
	}
	// Wrappers are removed from the beginning.
	words = words[len(words)-len(RemoveWrappers(texts)):]
	c := &Call{Args: words[1:], Stmt: stmt, Line: LineOf(expr)}
	if !words[0].Dynamic {
		c.Name = path.Base(words[0].Text)
	}
	return c
}

// UpstreamCalls returns the calls of its pipeline that write to its standard input.
func (c *Call) UpstreamCalls() []*Call {
	if c.Pipe == nil {
		return nil
	}
	return slices.Concat(c.Pipe.Calls[:c.PipelineIndex]...)
}

// InlineScript returns the text that a call passes to a shell, "" if there is none or it is unknown.
func (c *Call) InlineScript() string {
	args := []string{c.Name}
	for _, w := range c.Args {
		args = append(args, w.Text)
	}
	if i := InlineScriptIndex(args); i > 0 && !c.Args[i-1].Dynamic {
		return args[i]
	}
	return ""
}

// Word reads an argument.
func (s *Commands) Word(w *syntax.Word) Word {
	return s.expandWord(w, expand.Literal, func(lit string) string { return escaped.ReplaceAllString(lit, "$1") })
}

// escaped matches a character that expand.Literal leaves with its backslash.
var escaped = regexp.MustCompile(`(?s)\\(.)`)

// readHereDocument reads a here-document. If its delimiter is quoted, the shell does not expand it:
// https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_07_04
func (s *Commands) readHereDocument(r *syntax.Redirect) Word {
	if end := r.Word.Lit(); end == "" || strings.Contains(end, `\`) {
		return s.expandWord(r.Hdoc, expand.Document, func(lit string) string { return lit })
	}
	return s.expandWord(r.Hdoc, expand.Document, nil)
}

// expandWord expands a word, with names for the parts that the script computes. The function literal
// reads unquoted text; without it, expand does.
func (s *Commands) expandWord(w *syntax.Word, with func(*expand.Config, *syntax.Word) (string, error), literal func(string) string) Word {
	out := Word{Node: w}
	plain := &syntax.Word{Parts: s.toLiteralParts(w.Parts, literal, &out.Dynamic)}
	out.Text, _ = with(&expand.Config{}, plain) // no part of it can fail
	return out
}

// toLiteralParts replaces the parts of a word that are not literal text.
func (s *Commands) toLiteralParts(parts []syntax.WordPart, literal func(string) string, dynamic *bool) []syntax.WordPart {
	out := make([]syntax.WordPart, len(parts))
	for i, part := range parts {
		text := "$(...)"
		switch part := part.(type) {
		case *syntax.SglQuoted:
			out[i] = part
			continue
		case *syntax.DblQuoted:
			out[i] = &syntax.DblQuoted{Parts: s.toLiteralParts(part.Parts, nil, dynamic)}
			continue
		case *syntax.Lit:
			out[i] = part
			if literal != nil {
				out[i] = &syntax.SglQuoted{Value: literal(part.Value)}
			}
			continue
		case *syntax.ParamExp:
			if part.Param == nil {
				text = "${}"
				break
			}
			value, ok := s.Constants[part.Param.Value]
			if ok && part.Exp == nil && part.Repl == nil && part.Slice == nil && part.Index == nil && !part.Length && !part.Excl {
				out[i] = &syntax.SglQuoted{Value: value}
				continue
			}
			text = "${" + part.Param.Value + "}"
		}
		out[i] = &syntax.SglQuoted{Value: text}
		*dynamic = true
	}
	return out
}

// constantVariables returns the variables that a script sets exactly once, to a constant.
func constantVariables(file *syntax.File) map[string]string {
	plain := &Commands{}
	values, times := map[string]string{}, map[string]int{}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name == nil {
				break
			}
			name := n.Name.Value
			times[name]++
			// A second count excludes the variable: its value is not constant.
			if n.Append || n.Index != nil || n.Array != nil || n.Value == nil {
				times[name]++
			} else if w := plain.Word(n.Value); w.Dynamic {
				times[name]++
			} else {
				values[name] = w.Text
			}
		case *syntax.WordIter:
			times[n.Name.Value] += 2
		case *syntax.CallExpr:
			// "read" and "printf -v" set their arguments.
			if len(n.Args) > 0 && (n.Args[0].Lit() == "read" || n.Args[0].Lit() == "printf" || n.Args[0].Lit() == "mapfile") {
				for _, w := range n.Args[1:] {
					times[w.Lit()] += 2
				}
			}
		}
		return true
	})
	for name := range values {
		if times[name] != 1 {
			delete(values, name)
		}
	}
	return values
}

// AssignedAt returns the line of the last assignment to a variable, 1 if there is none.
func (s *Commands) AssignedAt(name string) int {
	at := 1
	syntax.Walk(s.File, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.Assign); ok && a.Name != nil && a.Name.Value == name {
			at = LineOf(a)
		}
		return true
	})
	return at
}

func LineOf(n syntax.Node) int { return int(n.Pos().Line()) }

// InlineStdin returns the input of a statement from here-documents and here-strings.
func (s *Commands) InlineStdin(stmt *syntax.Stmt) []Word {
	var out []Word
	for _, r := range stmt.Redirs {
		switch {
		case r.Hdoc != nil:
			out = append(out, s.readHereDocument(r))
		case r.Op == syntax.WordHdoc:
			out = append(out, s.Word(r.Word))
		}
	}
	return out
}

// OutputFiles returns the files to which a statement redirects its output.
func (s *Commands) OutputFiles(stmt *syntax.Stmt) []Word {
	var out []Word
	for _, r := range stmt.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
			if r.N == nil || r.N.Value == "1" {
				out = append(out, s.Word(r.Word))
			}
		}
	}
	return out
}

// Mentions reports whether an argument or the input of the call contains a text.
func (s *Commands) Mentions(c *Call, text string) bool {
	for _, w := range append(s.InlineStdin(c.Stmt), c.Args...) {
		if strings.Contains(w.Text, text) {
			return true
		}
	}
	return false
}
