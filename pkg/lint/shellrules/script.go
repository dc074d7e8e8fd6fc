package shellrules

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// script is a parsed script: its calls in the order in which they stand, and what
// every rule asks about them.
type script struct {
	file      *syntax.File
	bash      bool // bash, and not sh
	command   bool // one command of a cloud-init module, no script of its own
	shebang   string
	calls     []*call
	functions map[string]*syntax.FuncDecl
	constants map[string]string // variables that are set once, to a constant
	secrets   map[string]bool   // variables that hold a credential, see credentialVariables
	asked     []*request        // nil until somebody wants the requests
	done      <-chan struct{}   // closed when nobody waits for the findings any more
}

// stopped reports whether nobody waits for the findings any more.
func (s *script) stopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// call is one command that a script runs. Programs that run another one, such as
// sudo and timeout, are taken away.
type call struct {
	name  string // the program's base name; "" where it is a variable's
	args  []word // without the name
	stmt  *syntax.Stmt
	line  int
	pipe  *pipeline // nil outside one
	place int       // in the pipeline
}

// word is one argument as the program gets it, as far as that can be told: variables
// that are no constants stand as "${NAME}", outputs of commands as "$(...)".
type word struct {
	text    string
	dynamic bool // holds something that the script computes
	node    *syntax.Word
}

// pipeline is what "|" joins.
type pipeline struct {
	calls [][]*call // of each part
	line  int
}

// maxBrackets bounds what may be nested: the parser goes as deep as a script does, and
// a stack that has run out ends the program. The largest of our scripts has 300.
const maxBrackets = 10_000

// parse reads a script. The error is a syntax.ParseError, a syntax.LangError, or that
// of maxBrackets.
func parse(content []byte, interpreter string, command bool) (*script, error) {
	if n := bytes.Count(content, []byte("(")) + bytes.Count(content, []byte("{")); n > maxBrackets {
		return nil, fmt.Errorf("it has %d opening brackets, and %d are read at most", n, maxBrackets)
	}
	// What dash refuses is for shellcheck to say: the parser's POSIX knows less than
	// dash does, "local" for one.
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(content), "")
	if err != nil {
		return nil, err
	}
	s := &script{file: file, bash: interpreter == "bash", command: command, functions: map[string]*syntax.FuncDecl{}}
	if bytes.HasPrefix(content, []byte("#!")) {
		first, _, _ := bytes.Cut(content, []byte("\n"))
		s.shebang = string(first)
	}
	s.constants = constants(file)
	s.secrets = credentialVariables(file)
	syntax.Walk(file, func(n syntax.Node) bool {
		if f, ok := n.(*syntax.FuncDecl); ok {
			s.functions[f.Name.Value] = f
		}
		return true
	})
	s.collect()
	return s, nil
}

// collect lists the calls and the pipelines that they are in.
func (s *script) collect() {
	of := map[*syntax.Stmt]*call{}
	syntax.Walk(s.file, func(n syntax.Node) bool {
		stmt, ok := n.(*syntax.Stmt)
		if !ok {
			return true
		}
		if expr, ok := stmt.Cmd.(*syntax.CallExpr); ok && len(expr.Args) > 0 {
			c := s.call(expr, stmt)
			of[stmt] = c
			s.calls = append(s.calls, c)
		}
		return true
	})
	inner := map[*syntax.BinaryCmd]bool{}
	syntax.Walk(s.file, func(n syntax.Node) bool {
		b, ok := n.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll || inner[b] {
			return true
		}
		p := &pipeline{line: line(b)}
		for _, part := range parts(b, inner) {
			p.calls = append(p.calls, callsIn(part, of))
		}
		for i, calls := range p.calls {
			for _, c := range calls {
				if c.pipe == nil {
					c.pipe, c.place = p, i
				}
			}
		}
		return true
	})
}

// parts are the statements of a pipeline, from left to right.
func parts(b *syntax.BinaryCmd, inner map[*syntax.BinaryCmd]bool) []*syntax.Stmt {
	var out []*syntax.Stmt
	for _, side := range []*syntax.Stmt{b.X, b.Y} {
		if more, ok := side.Cmd.(*syntax.BinaryCmd); ok && (more.Op == syntax.Pipe || more.Op == syntax.PipeAll) && !inner[more] {
			inner[more] = true
			out = append(out, parts(more, inner)...)
			continue
		}
		out = append(out, side)
	}
	return out
}

// callsIn are the calls that read and write the standard streams of a statement:
// not those in the substitutions of its words.
func callsIn(stmt *syntax.Stmt, of map[*syntax.Stmt]*call) []*call {
	var out []*call
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

// wrappers are programs that run their arguments, with the options of theirs that
// take a value.
var wrappers = map[string]string{
	"sudo": "ugCDhpRTrt", "command": "", "exec": "a", "env": "uSC", "nice": "n", "ionice": "cnp", "nohup": "", "time": "fo", "timeout": "ks",
	"setsid": "", "stdbuf": "ioe", "chronic": "", "builtin": "", "flock": "wE", "retry": "",
}

// call reads a command.
func (s *script) call(expr *syntax.CallExpr, stmt *syntax.Stmt) *call {
	words := make([]word, len(expr.Args))
	for i, w := range expr.Args {
		words[i] = s.word(w)
	}
	for len(words) > 1 {
		values, ok := wrappers[path.Base(words[0].text)]
		if !ok {
			break
		}
		rest := skipOptions(path.Base(words[0].text), words[1:], values)
		if len(rest) == 0 {
			break
		}
		words = rest
	}
	c := &call{args: words[1:], stmt: stmt, line: line(expr)}
	if !words[0].dynamic {
		c.name = path.Base(words[0].text)
	}
	return c
}

// skipOptions takes away what a wrapper has for itself.
func skipOptions(wrapper string, words []word, values string) []word {
	for len(words) > 0 {
		text := words[0].text
		switch {
		case wrapper == "env" && !strings.HasPrefix(text, "-") && strings.Contains(text, "="):
		case !strings.HasPrefix(text, "-") || text == "-":
			if wrapper == "timeout" || wrapper == "flock" { // the duration, the file
				wrapper = ""
				break
			}
			return words
		case text == "--":
			return words[1:]
		case wrapper == "command" && strings.ContainsAny(text, "vV"):
			return nil // "command -v curl" runs nothing
		case len(text) == 2 && strings.Contains(values, text[1:]) && len(words) > 1:
			words = words[1:]
		}
		words = words[1:]
	}
	return nil
}

// word reads an argument.
func (s *script) word(w *syntax.Word) word {
	out := word{node: w}
	var b strings.Builder
	out.dynamic = s.text(&b, w.Parts, false)
	out.text = b.String()
	return out
}

func (s *script) text(b *strings.Builder, parts []syntax.WordPart, quoted bool) (dynamic bool) {
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			escaped := ""
			if quoted {
				escaped = "$`\"\\"
			}
			b.WriteString(unescaped(part.Value, escaped))
		case *syntax.SglQuoted:
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			dynamic = s.text(b, part.Parts, true) || dynamic
		case *syntax.ParamExp:
			dynamic = s.parameter(b, part) || dynamic
		default:
			dynamic = true
			b.WriteString("$(...)")
		}
	}
	return dynamic
}

// parameter writes a variable: its value where that is a constant.
func (s *script) parameter(b *strings.Builder, p *syntax.ParamExp) (dynamic bool) {
	if p.Param == nil {
		b.WriteString("${}")
		return true
	}
	value, ok := s.constants[p.Param.Value]
	if ok && p.Exp == nil && p.Repl == nil && p.Slice == nil && p.Index == nil && !p.Length && !p.Excl {
		b.WriteString(value)
		return false
	}
	b.WriteString("${" + p.Param.Value + "}")
	return true
}

// unescaped takes the backslashes away that the shell takes away: those before one of
// some characters, or all of them where none are given. Of a line that goes on in the
// next one the parser has taken them.
func unescaped(text, before string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) && (before == "" || strings.IndexByte(before, text[i+1]) >= 0) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// constants are the variables that are set once in a script, to a constant.
func constants(file *syntax.File) map[string]string {
	plain := &script{}
	values, times := map[string]string{}, map[string]int{}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name == nil {
				break
			}
			name := n.Name.Value
			times[name]++
			if n.Append || n.Index != nil || n.Array != nil || n.Value == nil {
				times[name]++
			} else if w := plain.word(n.Value); w.dynamic {
				times[name]++
			} else {
				values[name] = w.text
			}
		case *syntax.WordIter:
			times[n.Name.Value] += 2
		case *syntax.CallExpr:
			// "read" and "printf -v" set what they name.
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

// assigned is the line on which a variable is set.
func (s *script) assigned(name string) int {
	at := 1
	syntax.Walk(s.file, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.Assign); ok && a.Name != nil && a.Name.Value == name {
			at = line(a)
		}
		return true
	})
	return at
}

func line(n syntax.Node) int { return int(n.Pos().Line()) }

// stdin is what here-documents and here-strings give a statement to read.
func (s *script) stdin(stmt *syntax.Stmt) []word {
	var out []word
	for _, r := range stmt.Redirs {
		switch {
		case r.Hdoc != nil:
			out = append(out, s.document(r))
		case r.Op == syntax.WordHdoc:
			out = append(out, s.word(r.Word))
		}
	}
	return out
}

// document reads a here-document. The shell leaves one whose end is quoted as it is, and
// takes no backslash before a double quote from any other:
// https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_07_04
func (s *script) document(r *syntax.Redirect) word {
	out := word{node: r.Hdoc}
	var b strings.Builder
	for _, part := range r.Hdoc.Parts {
		lit, ok := part.(*syntax.Lit)
		switch {
		case !ok:
			out.dynamic = s.text(&b, []syntax.WordPart{part}, true) || out.dynamic
		case r.Word.Lit() == "" || strings.Contains(r.Word.Lit(), `\`): // quoted
			b.WriteString(lit.Value)
		default:
			b.WriteString(unescaped(lit.Value, "$`\\"))
		}
	}
	out.text = b.String()
	return out
}

// writes are the files to which a statement redirects.
func (s *script) writes(stmt *syntax.Stmt) []word {
	var out []word
	for _, r := range stmt.Redirs {
		switch r.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
			if r.N == nil || r.N.Value == "1" {
				out = append(out, s.word(r.Word))
			}
		}
	}
	return out
}

// mentions reports whether a text stands in an argument, or in what the call reads.
func (s *script) mentions(c *call, text string) bool {
	for _, w := range append(s.stdin(c.stmt), c.args...) {
		if strings.Contains(w.text, text) {
			return true
		}
	}
	return false
}
