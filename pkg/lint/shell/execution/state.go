package execution

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
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

	// Variables are those that the script has set. LocalNames are those of the running function.
	Variables  map[string]expand.Variable
	LocalNames map[string]bool
	Functions  map[string]*syntax.Stmt
	// Arguments are those of the script or function, if ArgumentsKnown.
	Arguments      []string
	ArgumentsKnown bool
	Exit           Leaving
	Status         Status
	// Output is the standard output so far, if OutputIsRead: if a command reads it.
	Output       string
	OutputIsRead bool
	// SubstitutionOutputs are the outputs of the command substitutions in the words that are expanded
	// next.
	SubstitutionOutputs map[*syntax.CmdSubst]string

	variablesKey string // the part of Key that Variables determine, "" if it is not known yet
}

// Effects record what programs have done in a state. They are immutable and are replaced on change.
type Effects interface {
	// Key is equal for facts with the same effect on the rest of a script.
	Key() string
	// Join merges the facts of two states.
	Join(other Effects) Effects
}

// Leaving is the construct that a state is about to leave.
type Leaving int

const (
	Staying Leaving = iota
	LeavingLoop
	LeavingFunction
	LeavingScript
)

// Status is the result of the last command.
type Status int

const (
	Unknown Status = iota
	Succeeded
	Failed
)

// Clone returns an independent copy.
func (w *State) Clone() *State {
	c := *w
	return &c
}

// CopySubshellResult copies the facts and the exit status of a subshell.
func (w *State) CopySubshellResult(inside *State) {
	w.Status = inside.Status
	w.Uname = inside.Uname
	w.Effects = inside.Effects
}

// AfterSubshell returns the states after a subshell that has printed something.
func (w *State) AfterSubshell(inside []*State) []*State {
	return FlatMap(inside, func(i *State) []*State {
		o := w.Clone()
		o.Print(i.Output)
		o.CopySubshellResult(i)
		return []*State{o}
	})
}

// MaxText limits a value in bytes; a longer one is unknown.
const MaxText = 64 << 10 // 64 KiB

// SetVariable sets a variable. A value that is too large becomes unknown.
func (w *State) SetVariable(name string, v expand.Variable) {
	if len(v.Str) > MaxText || len(v.List) > 1000 {
		v = expand.Variable{Set: true, Kind: expand.String, Str: shell.UnknownText(name)}
	}
	// States share their variables until one of them changes.
	vars := maps.Clone(w.Variables)
	if vars == nil {
		vars = map[string]expand.Variable{}
	}
	vars[name] = v
	w.Variables, w.variablesKey = vars, ""
}

// SetText sets a variable to a text.
func (w *State) SetText(name, value string) {
	if shell.IsUnknown(value) {
		value = shell.UnknownText(name) // a better name than the command's
	}
	w.SetVariable(name, expand.Variable{Set: true, Kind: expand.String, Str: value})
}

// DeclareLocal makes a variable local to the running function.
func (w *State) DeclareLocal(name string) { w.LocalNames = copyWith(w.LocalNames, name, true) }

// DefineFunction adds a function.
func (w *State) DefineFunction(name string, body *syntax.Stmt) {
	w.Functions = copyWith(w.Functions, name, body)
}

// copyWith returns a copy of a map with one more entry.
func copyWith[V any](m map[string]V, key string, value V) map[string]V {
	out := make(map[string]V, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	out[key] = value
	return out
}

// MarkUnknown marks variables as unknown.
func (w *State) MarkUnknown(names map[string]bool) {
	for name := range names {
		w.SetText(name, shell.UnknownText(name))
	}
}

// RestoreVariable resets a variable to its value outside of a function.
func (w *State) RestoreVariable(name string, outside map[string]expand.Variable) {
	vars := maps.Clone(w.Variables)
	delete(vars, name)
	if v, ok := outside[name]; ok {
		vars[name] = v
	}
	w.Variables, w.variablesKey = vars, ""
}

// Print writes to standard output, if a command reads it.
func (w *State) Print(text string) {
	if !w.OutputIsRead {
		return
	}
	if len(w.Output)+len(text) > MaxText {
		w.Output = shell.UnknownText("output")
		return
	}
	w.Output += text
}

// ReplaceUnknownInVariables replaces an unknown text in all variables by the value that it was found to have.
func (w *State) ReplaceUnknownInVariables(unknown, value string) {
	vars := maps.Clone(w.Variables) // other states share it
	for name, v := range vars {
		v.Str = strings.ReplaceAll(v.Str, unknown, value)
		vars[name] = v
	}
	w.Variables, w.variablesKey = vars, ""
}

// Key is equal for states that behave the same from here on. Long scripts need it so often that its
// parts are delimited by their lengths: quoting them took half of the time.
func (w *State) Key() string {
	if w.variablesKey == "" {
		w.variablesKey = keyOf(w.Variables)
	}
	b := append(make([]byte, 0, len(w.variablesKey)+128), w.variablesKey...)
	b = appendList(b, w.Arguments)
	for _, n := range []int{int(w.Exit), int(w.Status), len(w.Functions)} {
		b = append(strconv.AppendInt(b, int64(n), 10), ',')
	}
	b = appendText(b, w.Output)
	b = appendText(b, w.Uname)
	if w.Effects != nil {
		b = appendText(b, w.Effects.Key())
	}
	if w.Stdin != nil {
		b = appendText(b, *w.Stdin)
	}
	return string(b)
}

// keyOf is equal for equal variables. Most commands change none, so that states keep it.
func keyOf(variables map[string]expand.Variable) string {
	var b []byte
	names := slices.AppendSeq(make([]string, 0, len(variables)), maps.Keys(variables))
	slices.Sort(names)
	for _, name := range names {
		v := variables[name]
		b = appendText(b, name)
		b = appendText(b, v.Str)
		b = appendList(b, v.List)
		b = strconv.AppendBool(b, v.Set)
	}
	return string(append(b, ';'))
}

func appendText(b []byte, text string) []byte {
	return append(append(strconv.AppendInt(b, int64(len(text)), 10), ':'), text...)
}

func appendList(b []byte, list []string) []byte {
	b = append(strconv.AppendInt(b, int64(len(list)), 10), '[')
	for _, text := range list {
		b = appendText(b, text)
	}
	return b
}

// maxStates limits the number of paths that are followed at once.
const maxStates = 64

// Merge removes duplicate states. If there are too many, it merges all that leave the same
// construct: variables that differ between them become unknown.
func Merge(worlds []*State) []*State {
	if len(worlds) < 2 {
		return worlds
	}
	seen := map[string]bool{}
	var out []*State
	for _, w := range worlds {
		if k := w.Key(); !seen[k] {
			seen[k] = true
			out = append(out, w)
		}
	}
	if len(out) <= maxStates {
		return out
	}
	byLeaving := map[Leaving]*State{}
	for _, w := range out {
		to, ok := byLeaving[w.Exit]
		if !ok {
			byLeaving[w.Exit] = w.Clone()
			continue
		}
		to.markDifferencesUnknown(w)
	}
	out = nil
	// The order is fixed, so that findings do not depend on the order of a map.
	for _, l := range []Leaving{Staying, LeavingLoop, LeavingFunction, LeavingScript} {
		if w := byLeaving[l]; w != nil {
			out = append(out, w)
		}
	}
	return out
}

// markDifferencesUnknown marks everything that differs from another state as unknown.
func (w *State) markDifferencesUnknown(other *State) {
	names := map[string]bool{}
	for _, vars := range []map[string]expand.Variable{w.Variables, other.Variables} {
		for name := range vars {
			names[name] = true
		}
	}
	for name := range names {
		if a, b := w.Variables[name], other.Variables[name]; a.Set != b.Set || a.Str != b.Str || !slices.Equal(a.List, b.List) {
			w.SetText(name, shell.UnknownText(name))
		}
	}
	if w.Output != other.Output {
		w.Output = shell.UnknownText("output")
	}
	w.Status, w.Stdin = Unknown, nil
	if w.Effects != nil {
		w.Effects = w.Effects.Join(other.Effects)
	}
	if w.Uname != other.Uname {
		w.Uname = ""
	}
}

// FlatMap applies f to every state and returns the resulting states.
func FlatMap(worlds []*State, becomes func(*State) []*State) []*State {
	var out []*State
	for _, w := range worlds {
		out = append(out, becomes(w)...)
	}
	return out
}

// SplitByExitStatus separates the states in which the last command succeeded from those in which it
// failed; a state with an unknown result is copied to both.
func SplitByExitStatus(worlds []*State) (yes, no, gone []*State) {
	for _, w := range worlds {
		switch {
		case w.Exit != Staying:
			gone = append(gone, w)
		case w.Status == Succeeded:
			yes = append(yes, w)
		case w.Status == Failed:
			no = append(no, w)
		default:
			other := w.Clone()
			w.Status, other.Status = Succeeded, Failed
			yes, no = append(yes, w), append(no, other)
		}
	}
	return yes, no, gone
}

// EndLoop returns the states after a loop, in which break no longer has an effect.
func EndLoop(worlds []*State) []*State {
	for _, w := range worlds {
		if w.Exit == LeavingLoop {
			w.Exit = Staying
		}
	}
	return worlds
}
