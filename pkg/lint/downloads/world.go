package downloads

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// world is one way a script may have gone: what its variables hold at a statement.
// Where a condition is not known there are two of them from there on. Its maps are
// never changed, but replaced: a copy of the struct is a world of its own.
type world struct {
	vars   map[string]expand.Variable
	local  map[string]bool
	funcs  map[string]*syntax.Stmt
	args   []string
	named  bool // args are known
	leave  leaving
	status status
	read   bool   // somebody reads what is printed
	out    string // printed so far, if so
	stdin  *string
	// machine is what uname says, once somebody has asked.
	machine string
	repos   []string
	subst   map[*syntax.CmdSubst]string
	// outputs are the downloads by the files that they were written to.
	outputs map[string]*Item
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

func (w *world) clone() *world {
	c := *w
	return &c
}

// maxText bounds a value in bytes; a longer one is not known.
const maxText = 64 << 10 // 64 KiB

func (w *world) set(name string, v expand.Variable) {
	if len(v.Str) > maxText || len(v.List) > 1000 {
		v = expand.Variable{Set: true, Kind: expand.String, Str: hole(name)}
	}
	vars := maps.Clone(w.vars)
	if vars == nil {
		vars = map[string]expand.Variable{}
	}
	vars[name] = v
	w.vars = vars
}

func (w *world) setText(name, value string) {
	if isHole(value) {
		value = hole(name) // a better name than the command's
	}
	w.set(name, expand.Variable{Set: true, Kind: expand.String, Str: value})
}

// restore gives a variable back what it had outside of a function.
func (w *world) restore(name string, outside map[string]expand.Variable) {
	vars := maps.Clone(w.vars)
	delete(vars, name)
	if v, ok := outside[name]; ok {
		vars[name] = v
	}
	w.vars = vars
}

func (w *world) print(text string) {
	if !w.read {
		return
	}
	if len(w.out)+len(text) > maxText {
		w.out = hole("output")
		return
	}
	w.out += text
}

// assume puts a value in place of something unknown that turned out to be it.
func (w *world) assume(what, value string) {
	vars := maps.Clone(w.vars)
	for name, v := range vars {
		v.Str = strings.ReplaceAll(v.Str, what, value)
		vars[name] = v
	}
	w.vars = vars
}

// key is equal for worlds that go on alike.
func (w *world) key() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.vars)) {
		v := w.vars[name]
		fmt.Fprintf(&b, "%q=%q%q%v;", name, v.Str, v.List, v.Set)
	}
	fmt.Fprintf(&b, "%q%v%v%q%s%q%d", w.args, w.leave, w.status, w.out, w.machine, w.repos, len(w.funcs))
	if w.stdin != nil {
		fmt.Fprintf(&b, "%q", *w.stdin)
	}
	return b.String()
}

// maxWorlds bounds how many ways are followed at once.
const maxWorlds = 64

// merged makes one of equal worlds, and where there are too many, one of all that
// leave alike: what differs between them is not known from there on.
func merged(worlds []*world) []*world {
	if len(worlds) < 2 {
		return worlds
	}
	seen := map[string]bool{}
	var out []*world
	for _, w := range worlds {
		if k := w.key(); !seen[k] {
			seen[k] = true
			out = append(out, w)
		}
	}
	if len(out) <= maxWorlds {
		return out
	}
	byLeaving := map[leaving]*world{}
	for _, w := range out {
		to, ok := byLeaving[w.leave]
		if !ok {
			byLeaving[w.leave] = w.clone()
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
func (w *world) blur(other *world) {
	names := map[string]bool{}
	for _, vars := range []map[string]expand.Variable{w.vars, other.vars} {
		for name := range vars {
			names[name] = true
		}
	}
	for name := range names {
		if a, b := w.vars[name], other.vars[name]; a.Set != b.Set || a.Str != b.Str || !slices.Equal(a.List, b.List) {
			w.setText(name, hole(name))
		}
	}
	if w.out != other.out {
		w.out = hole("output")
	}
	w.status, w.stdin = unknown, nil
	w.repos = union(w.repos, other.repos)
	if w.machine != other.machine {
		w.machine = ""
	}
}

// What is not known of a text is marked in it: the name of what would be there
// between two characters that no script has.
const (
	holeBegins = "\uE000"
	holeEnds   = "\uE001"
	holeSpace  = "\uE002" // in a name, so that nothing splits it
)

func hole(name string) string {
	const longest = 60
	name = strings.NewReplacer(holeBegins, "", holeEnds, "", " ", holeSpace, "\t", holeSpace, "\n", holeSpace, "*", "", "?", "", "[", "").Replace(name)
	if r := []rune(name); len(r) > longest {
		name = string(r[:longest]) + "..."
	}
	return holeBegins + name + holeEnds
}

func hasHole(text string) bool { return strings.ContainsAny(text, holeBegins+holeEnds) }

// isHole reports whether nothing of a text is known.
func isHole(text string) bool {
	rest, ok := strings.CutPrefix(text, holeBegins)
	return ok && strings.Index(rest, holeEnds) == len(rest)-len(holeEnds)
}

// shown is a text for people: "${name}" for what is not known.
func shown(text string) string {
	return strings.NewReplacer(holeBegins, "${", holeEnds, "}", holeSpace, " ").Replace(text)
}

// known is what of a text is known.
func known(text string) string {
	var b strings.Builder
	for text != "" {
		before, rest, ok := strings.Cut(text, holeBegins)
		b.WriteString(before)
		if !ok {
			break
		}
		_, text, _ = strings.Cut(rest, holeEnds)
	}
	return b.String()
}
