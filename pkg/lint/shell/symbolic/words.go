package symbolic

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/execution"
)

// expanded contains the expansion of words in one state.
type expanded struct {
	*execution.State
	fields []string
}

// words expands words as the arguments of a command. It returns the fields for each state
// that the command substitutions result in.
func (k *Walker) words(w *execution.State, words []*syntax.Word) []expanded {
	return k.expandInEachState(w, words, func(c *expand.Config) ([]string, error) { return expand.Fields(c, words...) })
}

// expandText expands a word as the value of a variable, into a single field.
func (k *Walker) expandText(w *execution.State, word *syntax.Word) []expanded {
	if word == nil {
		return []expanded{{w, []string{""}}}
	}
	return k.expandInEachState(w, []*syntax.Word{word}, asSingleField(func(c *expand.Config) (string, error) { return expand.Literal(c, word) }))
}

// expandHereDocument expands a here-document; the parser returns a nil word for an empty one.
func (k *Walker) expandHereDocument(w *execution.State, word *syntax.Word) []expanded {
	if word == nil {
		return []expanded{{w, []string{""}}}
	}
	return k.expandInEachState(w, []*syntax.Word{word}, asSingleField(func(c *expand.Config) (string, error) { return expand.Document(c, word) }))
}

// pattern expands a pattern of case or [[.
func (k *Walker) pattern(w *execution.State, word *syntax.Word) []expanded {
	return k.expandInEachState(w, []*syntax.Word{word}, asSingleField(func(c *expand.Config) (string, error) { return expand.Pattern(c, word) }))
}

// asSingleField converts an expansion to a text into one to a list with a single field.
func asSingleField(f func(*expand.Config) (string, error)) func(*expand.Config) ([]string, error) {
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

// expandInEachState runs the command substitutions of words, which can lead to several states, then
// expands the words in each of them by calling with. If the expansion is unsafe (see
// Environment.IsExpansionCostlyOrInexact) or fails, the result is one UnknownText; a field that is too long becomes
// UnknownText. Process substitutions run in a copy of the state, and their output is unknown.
func (k *Walker) expandInEachState(w *execution.State, words []*syntax.Word, with func(*expand.Config) ([]string, error)) []expanded {
	states := []*execution.State{w}
	for _, cs := range commandSubstitutions(words) {
		states = execution.FlatMap(states, func(w *execution.State) []*execution.State { return k.runSubstitution(w, cs) })
	}
	var out []expanded
	for _, w := range states {
		env := &execution.Environment{State: w, MayBeUnset: shell.VariablesWithDefault(words)}
		fields, err := []string(nil), error(nil)
		if env.IsExpansionCostlyOrInexact(words) {
			fields = []string{shell.UnknownText(sourceText(words))}
		} else if fields, err = withoutPanic(with)(&expand.Config{
			Env: env,
			CmdSubst: func(to io.Writer, cs *syntax.CmdSubst) error {
				_, err := io.WriteString(to, w.SubstitutionOutputs[cs])
				return err
			},
			ProcSubst: func(ps *syntax.ProcSubst) (string, error) {
				k.exec(ps.Stmts, []*execution.State{w.Clone()}) // for its findings: it runs in a shell of its own
				return shell.UnknownText("process substitution"), nil
			},
		}); err != nil {
			fields = []string{shell.UnknownText(sourceText(words))}
		}
		for i, f := range fields {
			// Repeated expansion can result in a text of any size.
			if len(f) > execution.MaxText {
				fields[i] = shell.UnknownText(sourceText(words))
			}
		}
		w.SubstitutionOutputs = nil
		out = append(out, expanded{w, fields})
	}
	return out
}

// commandSubstitutions returns the command substitutions of words, except those nested in others.
func commandSubstitutions(words []*syntax.Word) []*syntax.CmdSubst {
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

// runSubstitution follows a command substitution. Each resulting state has one of the possible
// outputs.
func (k *Walker) runSubstitution(w *execution.State, cs *syntax.CmdSubst) []*execution.State {
	var out []*execution.State
	for _, inside := range k.runSubshell(w, cs.Stmts) {
		c := w.Clone()
		c.CopySubshellResult(inside)
		c.SubstitutionOutputs = maps.Clone(w.SubstitutionOutputs)
		if c.SubstitutionOutputs == nil {
			c.SubstitutionOutputs = map[*syntax.CmdSubst]string{}
		}
		c.SubstitutionOutputs[cs] = inside.Output
		out = append(out, c)
	}
	return execution.Merge(out)
}

// runSubshell follows statements that do not change the outer state, and captures their output.
func (k *Walker) runSubshell(w *execution.State, stmts []*syntax.Stmt) []*execution.State {
	c := w.Clone()
	c.Output = ""
	c.OutputIsRead = true
	c.Status = execution.Unknown
	out := k.exec(stmts, []*execution.State{c})
	for _, w := range out {
		w.Exit = execution.Staying
	}
	return out
}

func sourceText(words []*syntax.Word) string {
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
