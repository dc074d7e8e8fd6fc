package shell

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// World is one way a script may have gone: what its variables hold at a statement.
// Where a condition is not known there are two of them from there on. Its maps are
// never changed, but replaced: a copy of the struct is a world of its own.
type World struct {
	// Stdin is what the next command reads from its standard input, nil if that is not known.
	Stdin *string
	// Uname is what uname -m says, once a script has asked: "x86_64" or "aarch64".
	Uname string
	// Facts are what the programs of the machine have done.
	Facts Facts

	vars   map[string]expand.Variable
	local  map[string]bool
	funcs  map[string]*syntax.Stmt
	args   []string
	named  bool // args are known
	leave  leaving
	status status
	read   bool   // something reads what is printed
	out    string // printed so far, if so
	subst  map[*syntax.CmdSubst]string
}

// Facts are what programs have done in a world. They are never changed, but replaced.
type Facts interface {
	// Key is equal for facts after which scripts go on alike.
	Key() string
	// Join are the facts of two worlds that become one.
	Join(other Facts) Facts
}

// leaving is what a world is about to leave.
type leaving int

const (
	staying leaving = iota
	leavingLoop
	leavingFunction
	leavingScript
)

// status is how the last command ended.
type status int

const (
	unknown status = iota
	succeeded
	failed
)

// Clone is a world that goes on by itself.
func (w *World) Clone() *World {
	c := *w
	return &c
}

// inherit takes over from a subshell what it did to the machine, and how it ended.
func (w *World) inherit(inside *World) {
	w.status, w.Uname, w.Facts = inside.status, inside.Uname, inside.Facts
}

// after are the worlds after a subshell, which has printed something.
func (w *World) after(inside []*World) []*World {
	return each(inside, func(i *World) []*World {
		o := w.Clone()
		o.Print(i.out)
		o.inherit(i)
		return []*World{o}
	})
}

// maxText bounds a value in bytes; a longer one is not known.
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

// restore gives a variable back what it had outside of a function.
func (w *World) restore(name string, outside map[string]expand.Variable) {
	vars := maps.Clone(w.vars)
	delete(vars, name)
	if v, ok := outside[name]; ok {
		vars[name] = v
	}
	w.vars = vars
}

// Print writes to standard output, if anything reads that.
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

// assume puts a value in place of something unknown that turned out to be it.
func (w *World) assume(what, value string) {
	vars := maps.Clone(w.vars)
	for name, v := range vars {
		v.Str = strings.ReplaceAll(v.Str, what, value)
		vars[name] = v
	}
	w.vars = vars
}

// key is equal for worlds that go on alike.
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

// maxWorlds bounds how many ways are followed at once.
const maxWorlds = 64

// merged makes one of equal worlds, and where there are too many, one of all that
// leave alike: what differs between them is not known from there on.
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

// blur forgets what differs from another world.
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
