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
type State struct {
	// Stdin is the standard input of the next command, nil if it is unknown.
	Stdin *string
	// Uname is the assumed output of uname -m after a script has run it: "x86_64" or "aarch64".
	Uname string
	// Effects record the effects of the machine's programs.
	Effects Effects

	vars   map[string]expand.Variable
	local  map[string]bool
	funcs  map[string]*syntax.Stmt
	args   []string
	named  bool // args are known
	exit   leaving
	status status
	read   bool   // a command reads the output
	out    string // output so far, if a command reads it
	subst  map[*syntax.CmdSubst]string
}

// Effects record what programs have done in a state. They are immutable and are replaced on change.
type Effects interface {
	// Key is equal for facts with the same effect on the rest of a script.
	Key() string
	// Join merges the facts of two states.
	Join(other Effects) Effects
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
func (w *State) Clone() *State {
	c := *w
	return &c
}

// inherit copies the facts and the exit status of a subshell.
func (w *State) inherit(inside *State) {
	w.status, w.Uname, w.Effects = inside.status, inside.Uname, inside.Effects
}

// after returns the states after a subshell that has printed something.
func (w *State) after(inside []*State) []*State {
	return each(inside, func(i *State) []*State {
		o := w.Clone()
		o.Print(i.out)
		o.inherit(i)
		return []*State{o}
	})
}

// maxText limits a value in bytes; a longer one is unknown.
const maxText = 64 << 10 // 64 KiB

func (w *State) set(name string, v expand.Variable) {
	if len(v.Str) > maxText || len(v.List) > 1000 {
		v = expand.Variable{Set: true, Kind: expand.String, Str: UnknownText(name)}
	}
	// States share their variables until one of them changes.
	vars := maps.Clone(w.vars)
	if vars == nil {
		vars = map[string]expand.Variable{}
	}
	vars[name] = v
	w.vars = vars
}

func (w *State) setText(name, value string) {
	if IsUnknown(value) {
		value = UnknownText(name) // a better name than the command's
	}
	w.set(name, expand.Variable{Set: true, Kind: expand.String, Str: value})
}

// restore resets a variable to its value outside of a function.
func (w *State) restore(name string, outside map[string]expand.Variable) {
	vars := maps.Clone(w.vars)
	delete(vars, name)
	if v, ok := outside[name]; ok {
		vars[name] = v
	}
	w.vars = vars
}

// Print writes to standard output, if a command reads it.
func (w *State) Print(text string) {
	if !w.read {
		return
	}
	if len(w.out)+len(text) > maxText {
		w.out = UnknownText("output")
		return
	}
	w.out += text
}

// assume replaces an unknown text in all variables by the value that it was found to have.
func (w *State) assume(unknown, value string) {
	vars := maps.Clone(w.vars) // other states share it
	for name, v := range vars {
		v.Str = strings.ReplaceAll(v.Str, unknown, value)
		vars[name] = v
	}
	w.vars = vars
}

// key is equal for states that behave the same from here on.
func (w *State) key() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.vars)) {
		v := w.vars[name]
		fmt.Fprintf(&b, "%q=%q%q%v;", name, v.Str, v.List, v.Set)
	}
	fmt.Fprintf(&b, "%q%v%v%q%s%d", w.args, w.exit, w.status, w.out, w.Uname, len(w.funcs))
	if w.Effects != nil {
		b.WriteString(w.Effects.Key())
	}
	if w.Stdin != nil {
		fmt.Fprintf(&b, "%q", *w.Stdin)
	}
	return b.String()
}

// maxStates limits the number of paths that are followed at once.
const maxStates = 64

// merged removes duplicate states. If there are too many, it merges all that leave the same
// construct: variables that differ between them become unknown.
func merged(worlds []*State) []*State {
	if len(worlds) < 2 {
		return worlds
	}
	seen := map[string]bool{}
	var out []*State
	for _, w := range worlds {
		if k := w.key(); !seen[k] {
			seen[k] = true
			out = append(out, w)
		}
	}
	if len(out) <= maxStates {
		return out
	}
	byLeaving := map[leaving]*State{}
	for _, w := range out {
		to, ok := byLeaving[w.exit]
		if !ok {
			byLeaving[w.exit] = w.Clone()
			continue
		}
		to.blur(w)
	}
	out = nil
	// The order is fixed, so that findings do not depend on the order of a map.
	for _, l := range []leaving{staying, leavingLoop, leavingFunction, leavingScript} {
		if w := byLeaving[l]; w != nil {
			out = append(out, w)
		}
	}
	return out
}

// blur marks everything that differs from another state as unknown.
func (w *State) blur(other *State) {
	names := map[string]bool{}
	for _, vars := range []map[string]expand.Variable{w.vars, other.vars} {
		for name := range vars {
			names[name] = true
		}
	}
	for name := range names {
		if a, b := w.vars[name], other.vars[name]; a.Set != b.Set || a.Str != b.Str || !slices.Equal(a.List, b.List) {
			w.setText(name, UnknownText(name))
		}
	}
	if w.out != other.out {
		w.out = UnknownText("output")
	}
	w.status, w.Stdin = unknown, nil
	if w.Effects != nil {
		w.Effects = w.Effects.Join(other.Effects)
	}
	if w.Uname != other.Uname {
		w.Uname = ""
	}
}
