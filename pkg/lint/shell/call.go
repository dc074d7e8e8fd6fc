package shell

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// wideFormat matches a printf format whose output would be very large.
var wideFormat = regexp.MustCompile(`%[-+ 0#]*([0-9*]{3,}|\*|[0-9]*\.([0-9]{3,}|\*))`)

// call follows a simple command.
func (k *Walker) call(c *syntax.CallExpr, w *State) []*State {
	outside := w.vars
	worlds := []*State{w}
	for _, a := range c.Assigns {
		worlds = each(worlds, func(w *State) []*State { return k.assign(w, a) })
	}
	if len(c.Args) == 0 {
		return worlds
	}
	var out []*State
	for _, w := range worlds {
		for _, e := range k.words(w, c.Args) {
			// A command whose words expand to nothing runs nothing.
			if len(e.fields) == 0 {
				out = append(out, e.State)
				continue
			}
			after := k.run(e.Clone(), e.fields)
			for _, w := range after {
				for _, a := range c.Assigns { // of this command alone
					w.restore(a.Name.Value, outside)
				}
			}
			out = append(out, after...)
		}
	}
	return merged(out)
}

// run follows a command by its arguments.
func (k *Walker) run(w *State, args []string) []*State {
	if body := w.funcs[args[0]]; body != nil {
		return k.function(w, body, args[1:])
	}
	if out, ok := k.builtin(w, args); ok {
		return out
	}
	args = Unwrap(args)
	if _, alone := wrappers[args[0]]; alone && len(args) == 1 { // exec, with redirections
		return []*State{w}
	}
	if path.Base(args[0]) == "eval" {
		return k.Command(w, strings.Join(args[1:], " "))
	}
	if i := Inline(args); i > 0 {
		return k.Command(w, args[i])
	}
	name := scriptOf(args)
	if s := k.Machine.Script(name); s != nil {
		return k.runScript(w, s, args)
	}
	if out, ok := k.printed(w, path.Base(args[0]), args[1:]); ok {
		return out
	}
	w.Print(UnknownText(strings.Join(args, " ")))
	k.Machine.Program(w, args)
	return []*State{w}
}

// scriptOf is the path of the script that a command runs, if it runs one.
func scriptOf(args []string) string {
	switch path.Base(args[0]) {
	case "sh", "bash", "dash", ".", "source":
		i := slices.IndexFunc(args[1:], func(a string) bool { return !strings.HasPrefix(a, "-") })
		if i < 0 {
			return ""
		}
		return args[1+i]
	}
	return args[0]
}

// function follows a call of a function.
func (k *Walker) function(w *State, body *syntax.Stmt, args []string) []*State {
	// The line remains that of the call.
	k.calls++
	defer func() { k.calls-- }()
	outside, local, before, named := w.vars, w.local, w.args, w.named
	w.local, w.args, w.named = nil, args, true
	out := k.stmt(body, w)
	for _, w := range out {
		for name := range w.local {
			w.restore(name, outside)
		}
		w.local, w.args, w.named = local, before, named
		if w.exit == leavingFunction || w.exit == leavingLoop {
			w.exit = staying
		}
	}
	return merged(out)
}

// Command follows a script that is an argument, or a command line.
func (k *Walker) Command(w *State, text string) []*State {
	if HasUnknown(text) {
		// Unknown parts can be quoted in any way: replace them by a variable of their name.
		text = strings.NewReplacer(unknownBegins, "${", unknownEnds, "}").Replace(text)
	}
	parsed, err := Parse(text)
	if err != nil {
		k.Machine.Unresolved(Shown(text), fmt.Sprintf("it cannot be parsed as a script: %v", err))
		return []*State{w}
	}
	k.calls++ // its lines are not those of the file
	defer func() { k.calls-- }()
	out := k.exec(parsed.Stmts, []*State{w})
	for _, w := range out {
		w.exit = staying
	}
	return out
}

// runScript follows a script that another one runs.
func (k *Walker) runScript(w *State, s *Script, args []string) []*State {
	s.Called = true
	sourced := args[0] == "." || args[0] == "source"
	for len(args) > 0 && args[0] != s.Path {
		args = args[1:]
	}
	args = args[min(1, len(args)):]
	// A script in its own process cannot change the caller's variables.
	inside := &State{vars: w.vars, args: args, named: true, Uname: w.Uname, Effects: w.Effects, Stdin: w.Stdin, read: w.read}
	if sourced {
		inside = w.Clone()
	}
	key := fmt.Sprintf("%s\x00%s\x00%v\x00%s", s.Stage, s.Path, sourced, inside.key())
	// The same script in the same state was followed already. If its output is read, it has to be
	// followed again.
	if !sourced && !w.read && k.done[key] || k.depth > maxDepth {
		return []*State{w}
	}
	if k.done == nil {
		k.done = map[string]bool{}
	}
	k.done[key] = true
	stage, path, line, calls := k.Stage, k.Path, k.Line, k.calls
	k.At(s.Stage, s.Path, 0)
	out := k.exec(s.File.Stmts, []*State{inside})
	k.At(stage, path, line)
	k.calls = calls
	if sourced {
		return out
	}
	// Only its output and its effects reach the caller.
	var after []*State
	for _, o := range merged(out) {
		c := w.Clone()
		c.Print(o.out)
		c.Effects = o.Effects
		after = append(after, c)
	}
	return merged(after)
}

// builtin follows what the shell itself does, and what only prints.
func (k *Walker) builtin(w *State, args []string) ([]*State, bool) {
	switch args[0] {
	case "echo":
		rest := args[1:]
		end := "\n"
		for len(rest) > 0 && (rest[0] == "-n" || rest[0] == "-e" || rest[0] == "-ne" || rest[0] == "-en") {
			if strings.Contains(rest[0], "n") {
				end = ""
			}
			rest = rest[1:]
		}
		w.Print(strings.Join(rest, " ") + end)
		w.status = succeeded
	case "printf":
		k.printf(w, args[1:])
	case "cat":
		k.cat(w, args[1:])
	case "tee":
		text := ""
		if w.Stdin != nil {
			text = *w.Stdin
		}
		for _, a := range args[1:] {
			k.Machine.Write(w, a, text)
		}
		w.Print(text)
	case "true", ":":
		w.status = succeeded
	case "false":
		w.status = failed
	case "exit":
		w.exit = leavingScript
	case "return":
		w.exit = leavingFunction
		if len(args) > 1 {
			w.status = failed
			if args[1] == "0" {
				w.status = succeeded
			}
		}
	case "break", "continue":
		w.exit = leavingLoop
	case "shift":
		n := 1
		if len(args) > 1 {
			n, _ = strconv.Atoi(args[1]) // 0 if it is not a number
		}
		w.args = w.args[min(max(n, 0), len(w.args)):]
	case "set":
		if len(args) > 1 && args[1] == "--" {
			w.args, w.named = args[2:], true
		}
	case "trap", "umask", "wait", "cd", "pushd", "popd", "shopt", "hash", "sleep", "type", "ulimit":
	case "unset":
		for _, name := range args[1:] {
			w.set(name, expand.Variable{})
		}
	case "read", "mapfile", "readarray", "getopts":
		for _, name := range args[1:] {
			if isName(name) {
				w.setText(name, UnknownText(name))
			}
		}
	case "[", "test":
		rest := args[1:]
		if args[0] == "[" {
			rest = rest[:max(len(rest)-1, 0)]
		}
		return bracket(w, rest), true
	default:
		return nil, false
	}
	return []*State{w}, true
}

func (k *Walker) printf(w *State, args []string) {
	if len(args) > 1 && args[0] == "-v" {
		w.setText(args[1], UnknownText(args[1]))
		return
	}
	if len(args) == 0 || HasUnknown(args[0]) || wideFormat.MatchString(args[0]) {
		w.Print(UnknownText("printf"))
		return
	}
	rest := args[1:]
	for {
		text, n, err := expand.Format(nil, args[0], rest)
		if err != nil {
			w.Print(UnknownText("printf"))
			return
		}
		w.Print(text)
		if rest = rest[min(n, len(rest)):]; len(rest) == 0 || n == 0 {
			return
		}
	}
}

func (k *Walker) cat(w *State, args []string) {
	var names []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			names = append(names, a)
		}
	}
	if len(names) == 0 {
		if w.Stdin != nil {
			w.Print(*w.Stdin)
		} else {
			w.Print(UnknownText("standard input"))
		}
	}
	for _, name := range names {
		if text, ok := k.Machine.File(name); ok {
			w.Print(text)
		} else {
			w.Print(UnknownText("cat " + name))
		}
	}
}

// Architectures lists the architectures of nodes, as uname names them and as Go, Debian
// and most publishers do.
var Architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// printed returns the known outputs of some programs: one state for each possible output.
func (k *Walker) printed(w *State, base string, args []string) ([]*State, bool) {
	line, codename := strings.Join(args, " "), k.OSRelease["VERSION_CODENAME"]
	switch {
	case base == "uname" && (line == "-m" || line == "-p" || line == "-i" || line == "--machine"), base == "arch" && line == "":
		return eachMachine(w, func(uname, _ string) string { return uname }), true
	case base == "dpkg" && line == "--print-architecture":
		return eachMachine(w, func(_, arch string) string { return arch }), true
	case base == "uname" && (line == "" || line == "-s"):
		w.Print("Linux\n")
		return []*State{w}, true
	case codename != "" && (base == "lsb_release" && strings.Contains(line, "c") ||
		strings.Contains(line, "VERSION_CODENAME") && strings.Contains(line, "/etc/os-release")):
		w.Print(codename + "\n")
		return []*State{w}, true
	case base == "." || base == "source":
		if line == "/etc/os-release" {
			for name, value := range k.OSRelease {
				w.setText(name, value)
			}
		}
		return []*State{w}, true
	case base == "basename" && len(args) == 1:
		w.Print(path.Base(args[0]) + "\n")
		return []*State{w}, true
	case base == "dirname" && len(args) == 1:
		w.Print(path.Dir(args[0]) + "\n")
		return []*State{w}, true
	}
	return nil, false
}

// eachMachine returns one state for each architecture, unless the architecture is known.
func eachMachine(w *State, print func(uname, arch string) string) []*State {
	var out []*State
	for _, uname := range []string{"x86_64", "aarch64"} {
		if w.Uname != "" && w.Uname != uname {
			continue
		}
		c := w.Clone()
		c.Uname, c.status = uname, succeeded
		c.Print(print(uname, Architectures[uname]) + "\n")
		out = append(out, c)
	}
	return out
}
