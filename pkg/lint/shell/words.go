package shell

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// expanded contains the expansion of words in one state.
type expanded struct {
	*State
	fields []string
}

// words expands words as the arguments of a command. It returns the fields for each state
// that the command substitutions result in.
func (k *Walker) words(w *State, words []*syntax.Word) []expanded {
	return k.expand(w, words, func(c *expand.Config) ([]string, error) { return expand.Fields(c, words...) })
}

// text expands a word as the value of a variable, into a single field.
func (k *Walker) text(w *State, word *syntax.Word) []expanded {
	if word == nil {
		return []expanded{{w, []string{""}}}
	}
	return k.expand(w, []*syntax.Word{word}, one(func(c *expand.Config) (string, error) { return expand.Literal(c, word) }))
}

// document expands a here-document; the parser returns a nil word for an empty one.
func (k *Walker) document(w *State, word *syntax.Word) []expanded {
	if word == nil {
		return []expanded{{w, []string{""}}}
	}
	return k.expand(w, []*syntax.Word{word}, one(func(c *expand.Config) (string, error) { return expand.Document(c, word) }))
}

// pattern expands a pattern of case or [[.
func (k *Walker) pattern(w *State, word *syntax.Word) []expanded {
	return k.expand(w, []*syntax.Word{word}, one(func(c *expand.Config) (string, error) { return expand.Pattern(c, word) }))
}

func one(f func(*expand.Config) (string, error)) func(*expand.Config) ([]string, error) {
	return func(c *expand.Config) ([]string, error) {
		text, err := f(c)
		return []string{text}, err
	}
}

// withoutPanic converts a panic to an error: expand compiles patterns that are not UTF-8, and
// quotes text that no shell can quote, without checking whether that is possible.
func withoutPanic(f func(*expand.Config) ([]string, error)) func(*expand.Config) ([]string, error) {
	return func(c *expand.Config) (fields []string, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("expanding: %v", cause)
			}
		}()
		return f(c)
	}
}

// expand runs the command substitutions of words, then expands the words in each resulting state.
// A text that is unsafe, that fails or that is too long becomes UnknownText.
func (k *Walker) expand(w *State, words []*syntax.Word, with func(*expand.Config) ([]string, error)) []expanded {
	states := []*State{w}
	for _, cs := range substitutions(words) {
		states = each(states, func(w *State) []*State { return k.substitute(w, cs) })
	}
	var out []expanded
	for _, w := range states {
		env := &environ{State: w, mayBeUnset: defaulted(words)}
		fields, err := []string(nil), error(nil)
		if k.unsafe(env, words) {
			fields = []string{UnknownText(source(words))}
		} else if fields, err = withoutPanic(with)(&expand.Config{
			Env: env,
			CmdSubst: func(to io.Writer, cs *syntax.CmdSubst) error {
				_, err := io.WriteString(to, w.subst[cs])
				return err
			},
			ProcSubst: func(ps *syntax.ProcSubst) (string, error) {
				k.exec(ps.Stmts, []*State{w.Clone()}) // for its findings: it runs in a shell of its own
				return UnknownText("process substitution"), nil
			},
		}); err != nil {
			fields = []string{UnknownText(source(words))}
		}
		for i, f := range fields {
			// Repeated expansion can result in a text of any size.
			if len(f) > maxText {
				fields[i] = UnknownText(source(words))
			}
		}
		w.subst = nil
		out = append(out, expanded{w, fields})
	}
	return out
}

// substitutions returns the command substitutions of words, except those nested in others.
func substitutions(words []*syntax.Word) []*syntax.CmdSubst {
	var out []*syntax.CmdSubst
	for _, w := range words {
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst:
				out = append(out, n)
				return false
			case *syntax.ProcSubst:
				return false
			}
			return true
		})
	}
	return out
}

// substitute follows a command substitution. Each resulting state has one of the possible
// outputs.
func (k *Walker) substitute(w *State, cs *syntax.CmdSubst) []*State {
	var out []*State
	for _, inside := range k.subshell(w, cs.Stmts) {
		c := w.Clone()
		c.inherit(inside)
		c.subst = maps.Clone(w.subst)
		if c.subst == nil {
			c.subst = map[*syntax.CmdSubst]string{}
		}
		c.subst[cs] = inside.out
		out = append(out, c)
	}
	return merged(out)
}

// subshell follows statements that do not change the outer state, and captures their output.
func (k *Walker) subshell(w *State, stmts []*syntax.Stmt) []*State {
	c := w.Clone()
	c.out, c.read, c.status = "", true, unknown
	out := k.exec(stmts, []*State{c})
	for _, w := range out {
		w.exit = staying
	}
	return out
}

// defaulted returns the variables for which words have a default. If such a variable is never
// set, it is unset in these words; elsewhere it is unknown.
func defaulted(words []*syntax.Word) map[string]bool {
	out := map[string]bool{}
	for _, w := range words {
		syntax.Walk(w, func(n syntax.Node) bool {
			p, ok := n.(*syntax.ParamExp)
			if ok && p.Param != nil && p.Exp != nil {
				switch p.Exp.Op {
				case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
					syntax.AssignUnset, syntax.AssignUnsetOrNull:
					out[p.Param.Value] = true
				}
			}
			return true
		})
	}
	return out
}

var sequence = regexp.MustCompile(`\{(-?\d+)\.\.(-?\d+)`)

// unsafe reports expansions that would take too long, or would turn an unknown text into
// one that appears to be known.
func (k *Walker) unsafe(env *environ, words []*syntax.Word) bool {
	bad, braces := false, 0
	for _, w := range words {
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst, *syntax.ProcSubst:
				return false
			case *syntax.Lit:
				braces += strings.Count(n.Value, "{")
				for _, m := range sequence.FindAllStringSubmatch(n.Value, -1) {
					from, err1 := strconv.Atoi(m[1])
					to, err2 := strconv.Atoi(m[2])
					bad = bad || err1 != nil || err2 != nil || max(from, to)-min(from, to) > 100
				}
			case *syntax.ParamExp:
				if n.Param == nil || n.Excl || n.Names != 0 {
					bad = true
				} else if n.Length || n.Slice != nil {
					v := env.Get(n.Param.Value)
					bad = bad || HasUnknown(v.Str) || slices.ContainsFunc(v.List, HasUnknown)
				}
			case *syntax.ArithmExp:
				syntax.Walk(n.X, func(n syntax.Node) bool {
					if l, ok := n.(*syntax.Lit); ok {
						bad = bad || HasUnknown(env.Get(l.Value).Str) && isName(l.Value)
					}
					return true
				})
			}
			return true
		})
	}
	return bad || braces > 4
}

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func isName(s string) bool { return name.MatchString(s) }

// source returns the source text of words.
func source(words []*syntax.Word) string {
	var b bytes.Buffer
	for i, w := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		if err := syntax.NewPrinter().Print(&b, w); err != nil {
			return "?"
		}
	}
	return strings.Trim(b.String(), `"${}`)
}

// environ exposes a state to the expansion of words.
type environ struct {
	*State
	mayBeUnset map[string]bool
}

// Get implements expand.Environ.
func (e *environ) Get(name string) expand.Variable {
	text := func(s string) expand.Variable { return expand.Variable{Set: true, Kind: expand.String, Str: s} }
	switch name {
	case "@", "*":
		if !e.named {
			return expand.Variable{Set: true, Kind: expand.Indexed, List: []string{UnknownText("@")}}
		}
		return expand.Variable{Set: true, Kind: expand.Indexed, List: e.args}
	case "#":
		if e.named {
			return text(strconv.Itoa(len(e.args)))
		}
		return text(UnknownText("#"))
	case "IFS":
		return expand.Variable{} // usually it is unset
	case "0", "?", "$", "!", "-", "PPID", "RANDOM", "SECONDS", "HOSTNAME", "UID", "EUID":
		return text(UnknownText(name))
	}
	if n, err := strconv.Atoi(name); err == nil {
		switch {
		case !e.named && !e.mayBeUnset[name]:
			return text(UnknownText(name))
		case e.named && n <= len(e.args):
			return text(e.args[n-1])
		}
		return expand.Variable{}
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok { // ~user: expand asks before it reads the accounts of this machine
		return text("~" + user)
	}
	v, ok := e.vars[name]
	if !ok && !e.mayBeUnset[name] && isName(name) {
		return text(UnknownText(name))
	}
	return v
}

// Set implements expand.WriteEnviron, for ${name:=default}.
func (e *environ) Set(name string, v expand.Variable) error {
	e.set(name, v)
	return nil
}

// Each implements expand.Environ.
func (e *environ) Each(f func(string, expand.Variable) bool) {
	for name, v := range e.vars {
		if !f(name, v) {
			return
		}
	}
}
