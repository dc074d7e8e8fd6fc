package shell

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// State is the result of one path through a script: the values of its variables at a statement.
// An unknown condition creates two of them. Its maps are immutable and are replaced on
// change, so a copy of the struct is an independent state.
type World struct {
	// Stdin is the standard input of the next command, nil if it is unknown.
	Stdin *string
	// Uname is the assumed output of uname -m after a script has run it: "x86_64" or "aarch64".
	Uname string
	// Facts record the effects of the machine's programs.
	Facts Facts

	vars   map[string]expand.Variable
	local  map[string]bool
	funcs  map[string]*syntax.Stmt
	args   []string
	named  bool // args are known
	leave  leaving
	status status
	read   bool   // a command reads the output
	out    string // output so far, if a command reads it
	subst  map[*syntax.CmdSubst]string
}

// Facts record what programs have done in a state. They are immutable and are replaced on change.
type Facts interface {
	// Key is equal for facts with the same effect on the rest of a script.
	Key() string
	// Join merges the facts of two states.
	Join(other Facts) Facts
}

// leaving is the construct that a state is about to leave.
type leaving int

const (
	staying leaving = iota
	leavingLoop
	leavingFunction
	leavingScript
)

// status is the result of the last command.
type status int

const (
	unknown status = iota
	succeeded
	failed
)

// Clone returns an independent copy.
func (w *World) Clone() *World {
	c := *w
	return &c
}

// inherit copies the facts and the exit status of a subshell.
func (w *World) inherit(inside *World) {
	w.status, w.Uname, w.Facts = inside.status, inside.Uname, inside.Facts
}

// after returns the states after a subshell that has printed something.
func (w *World) after(inside []*World) []*World {
	return each(inside, func(i *World) []*World {
		o := w.Clone()
		o.Print(i.out)
		o.inherit(i)
		return []*World{o}
	})
}

// maxText limits a value in bytes; a longer one is unknown.
const maxText = 64 << 10 // 64 KiB

func (w *World) set(name string, v expand.Variable) {
	if len(v.Str) > maxText || len(v.List) > 1000 {
		v = expand.Variable{Set: true, Kind: expand.String, Str: Hole(name)}
	}
	vars := maps.Clone(w.vars)
	if vars == nil {
		vars = map[string]expand.Variable{}
	}
	vars[name] = v
	w.vars = vars
}

func (w *World) setText(name, value string) {
	if IsHole(value) {
		value = Hole(name) // a better name than the command's
	}
	w.set(name, expand.Variable{Set: true, Kind: expand.String, Str: value})
}

// restore resets a variable to its value outside of a function.
func (w *World) restore(name string, outside map[string]expand.Variable) {
	vars := maps.Clone(w.vars)
	delete(vars, name)
	if v, ok := outside[name]; ok {
		vars[name] = v
	}
	w.vars = vars
}

// Print writes to standard output, if a command reads it.
func (w *World) Print(text string) {
	if !w.read {
		return
	}
	if len(w.out)+len(text) > maxText {
		w.out = Hole("output")
		return
	}
	w.out += text
}

// assume replaces an unknown text by the value that it was found to have.
func (w *World) assume(what, value string) {
	vars := maps.Clone(w.vars)
	for name, v := range vars {
		v.Str = strings.ReplaceAll(v.Str, what, value)
		vars[name] = v
	}
	w.vars = vars
}

// key is equal for states that behave the same from here on.
func (w *World) key() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.vars)) {
		v := w.vars[name]
		fmt.Fprintf(&b, "%q=%q%q%v;", name, v.Str, v.List, v.Set)
	}
	fmt.Fprintf(&b, "%q%v%v%q%s%d", w.args, w.leave, w.status, w.out, w.Uname, len(w.funcs))
	if w.Facts != nil {
		b.WriteString(w.Facts.Key())
	}
	if w.Stdin != nil {
		fmt.Fprintf(&b, "%q", *w.Stdin)
	}
	return b.String()
}

// maxWorlds limits the number of paths that are followed at once.
const maxWorlds = 64

// merged removes duplicate states. If there are too many, it merges all that leave the same
// construct: variables that differ between them become unknown.
func merged(worlds []*World) []*World {
	if len(worlds) < 2 {
		return worlds
	}
	seen := map[string]bool{}
	var out []*World
	for _, w := range worlds {
		if k := w.key(); !seen[k] {
			seen[k] = true
			out = append(out, w)
		}
	}
	if len(out) <= maxWorlds {
		return out
	}
	byLeaving := map[leaving]*World{}
	for _, w := range out {
		to, ok := byLeaving[w.leave]
		if !ok {
			byLeaving[w.leave] = w.Clone()
			continue
		}
		to.blur(w)
	}
	out = nil
	for _, l := range []leaving{staying, leavingLoop, leavingFunction, leavingScript} {
		if w := byLeaving[l]; w != nil {
			out = append(out, w)
		}
	}
	return out
}

// blur marks everything that differs from another state as unknown.
func (w *World) blur(other *World) {
	names := map[string]bool{}
	for _, vars := range []map[string]expand.Variable{w.vars, other.vars} {
		for name := range vars {
			names[name] = true
		}
	}
	for name := range names {
		if a, b := w.vars[name], other.vars[name]; a.Set != b.Set || a.Str != b.Str || !slices.Equal(a.List, b.List) {
			w.setText(name, Hole(name))
		}
	}
	if w.out != other.out {
		w.out = Hole("output")
	}
	w.status, w.Stdin = unknown, nil
	if w.Facts != nil {
		w.Facts = w.Facts.Join(other.Facts)
	}
	if w.Uname != other.Uname {
		w.Uname = ""
	}
}
