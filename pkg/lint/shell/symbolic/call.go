package symbolic

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/execution"
)

// wideFormat matches a printf format whose output would be very large.
var wideFormat = regexp.MustCompile(`%[-+ 0#]*([0-9*]{3,}|\*|[0-9]*\.([0-9]{3,}|\*))`)

// call follows a simple command.
func (k *Walker) call(c *syntax.CallExpr, w *execution.State) []*execution.State {
	outside := w.Variables
	worlds := []*execution.State{w}
	for _, a := range c.Assigns {
		worlds = execution.FlatMap(worlds, func(w *execution.State) []*execution.State { return k.assign(w, a) })
	}
	if len(c.Args) == 0 {
		return worlds
	}
	var out []*execution.State
	for _, w := range worlds {
		for _, e := range k.words(w, c.Args) {
			// A command whose words expand to nothing runs nothing.
			if len(e.fields) == 0 {
				out = append(out, e.State)
				continue
			}
			after := k.runCommand(e.Clone(), e.fields)
			for _, w := range after {
				for _, a := range c.Assigns { // of this command alone
					w.RestoreVariable(a.Name.Value, outside)
				}
			}
			out = append(out, after...)
		}
	}
	return execution.Merge(out)
}

// runCommand follows a command by its arguments.
func (k *Walker) runCommand(w *execution.State, args []string) []*execution.State {
	if body := w.Functions[args[0]]; body != nil {
		return k.callFunction(w, body, args[1:])
	}
	if out, ok := k.runBuiltin(w, args); ok {
		return out
	}
	args = shell.RemoveWrappers(args)
	if len(args) == 1 && shell.IsWrapper(args[0]) { // exec, with redirections
		return []*execution.State{w}
	}
	if path.Base(args[0]) == "eval" {
		return k.RunScript(w, strings.Join(args[1:], " "))
	}
	if i := shell.InlineScriptIndex(args); i > 0 {
		return k.RunScript(w, args[i])
	}
	name := scriptPath(args)
	if s := k.Machine.Script(name); s != nil {
		return k.runScript(w, s, args)
	}
	if out, ok := k.printKnownOutput(w, path.Base(args[0]), args[1:]); ok {
		return out
	}
	w.Print(shell.UnknownText(strings.Join(args, " ")))
	k.Machine.RunProgram(w, args)
	return []*execution.State{w}
}

// scriptPath is the path of the script that a command runs, if it runs one.
func scriptPath(args []string) string {
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

// callFunction follows a call of a function.
func (k *Walker) callFunction(w *execution.State, body *syntax.Stmt, args []string) []*execution.State {
	// The line remains that of the call.
	k.calls++
	defer func() { k.calls-- }()
	outside := w.Variables
	local := w.LocalNames
	before := w.Arguments
	named := w.ArgumentsKnown
	w.LocalNames = nil
	w.Arguments = args
	w.ArgumentsKnown = true
	out := k.stmt(body, w)
	for _, w := range out {
		for name := range w.LocalNames {
			w.RestoreVariable(name, outside)
		}
		w.LocalNames = local
		w.Arguments = before
		w.ArgumentsKnown = named
		if w.Exit == execution.LeavingFunction || w.Exit == execution.LeavingLoop {
			w.Exit = execution.Staying
		}
	}
	return execution.Merge(out)
}

// RunScript follows a script that is an argument, or a command line.
func (k *Walker) RunScript(w *execution.State, text string) []*execution.State {
	if shell.HasUnknown(text) {
		text = shell.UnknownAsVariables(text) // they can be quoted in any way
	}
	parsed, err := shell.Parse(text)
	if err != nil {
		k.Machine.ReportUnresolved(shell.DisplayText(text), fmt.Sprintf("it cannot be parsed as a script: %v", err))
		return []*execution.State{w}
	}
	k.calls++ // its lines are not those of the file
	defer func() { k.calls-- }()
	out := k.exec(parsed.Stmts, []*execution.State{w})
	for _, w := range out {
		w.Exit = execution.Staying
	}
	return out
}

// runScript follows a script that another one runs.
func (k *Walker) runScript(w *execution.State, s *Script, args []string) []*execution.State {
	s.Called = true
	sourced := args[0] == "." || args[0] == "source"
	for len(args) > 0 && args[0] != s.Path {
		args = args[1:]
	}
	args = args[min(1, len(args)):]
	// A script in its own process cannot change the caller's variables.
	inside := &execution.State{Variables: w.Variables, Arguments: args, ArgumentsKnown: true, Uname: w.Uname, Effects: w.Effects, Stdin: w.Stdin, OutputIsRead: w.OutputIsRead}
	if sourced {
		inside = w.Clone()
	}
	key := fmt.Sprintf("%s\x00%s\x00%v\x00%s", s.Stage, s.Path, sourced, inside.Key())
	// The same script in the same state was followed already. If its output is read, it has to be
	// followed again.
	if !sourced && !w.OutputIsRead && k.done[key] || k.depth > maxDepth {
		return []*execution.State{w}
	}
	if k.done == nil {
		k.done = map[string]bool{}
	}
	k.done[key] = true
	stage := k.Stage
	path := k.Path
	line := k.Line
	calls := k.calls
	k.At(s.Stage, s.Path, 0)
	out := k.exec(s.File.Stmts, []*execution.State{inside})
	k.At(stage, path, line)
	k.calls = calls
	if sourced {
		return out
	}
	// Only its output and its effects reach the caller.
	var after []*execution.State
	for _, o := range execution.Merge(out) {
		c := w.Clone()
		c.Print(o.Output)
		c.Effects = o.Effects
		after = append(after, c)
	}
	return execution.Merge(after)
}

// runBuiltin follows what the shell itself does, and what only prints.
func (k *Walker) runBuiltin(w *execution.State, args []string) ([]*execution.State, bool) {
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
		w.Status = execution.Succeeded
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
		w.Status = execution.Succeeded
	case "false":
		w.Status = execution.Failed
	case "exit":
		w.Exit = execution.LeavingScript
	case "return":
		w.Exit = execution.LeavingFunction
		if len(args) > 1 {
			w.Status = execution.Failed
			if args[1] == "0" {
				w.Status = execution.Succeeded
			}
		}
	case "break", "continue":
		w.Exit = execution.LeavingLoop
	case "shift":
		n := 1
		if len(args) > 1 {
			n, _ = strconv.Atoi(args[1]) // 0 if it is not a number
		}
		w.Arguments = w.Arguments[min(max(n, 0), len(w.Arguments)):]
	case "set":
		if len(args) > 1 && args[1] == "--" {
			w.Arguments, w.ArgumentsKnown = args[2:], true
		}
	case "trap", "umask", "wait", "cd", "pushd", "popd", "shopt", "hash", "sleep", "type", "ulimit":
	case "unset":
		for _, name := range args[1:] {
			w.SetVariable(name, expand.Variable{})
		}
	case "read", "mapfile", "readarray", "getopts":
		for _, name := range args[1:] {
			if shell.IsVariableName(name) {
				w.SetText(name, shell.UnknownText(name))
			}
		}
	case "[", "test":
		rest := args[1:]
		if args[0] == "[" {
			rest = rest[:max(len(rest)-1, 0)]
		}
		return execution.EvaluateTest(w, rest), true
	default:
		return nil, false
	}
	return []*execution.State{w}, true
}

func (k *Walker) printf(w *execution.State, args []string) {
	if len(args) > 1 && args[0] == "-v" {
		w.SetText(args[1], shell.UnknownText(args[1]))
		return
	}
	if len(args) == 0 || shell.HasUnknown(args[0]) || wideFormat.MatchString(args[0]) {
		w.Print(shell.UnknownText("printf"))
		return
	}
	rest := args[1:]
	for {
		// Not nil: all calls with nil share one buffer, also those of other goroutines.
		text, n, err := expand.Format(&expand.Config{}, args[0], rest)
		if err != nil {
			w.Print(shell.UnknownText("printf"))
			return
		}
		w.Print(text)
		if rest = rest[min(n, len(rest)):]; len(rest) == 0 || n == 0 {
			return
		}
	}
}

func (k *Walker) cat(w *execution.State, args []string) {
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
			w.Print(shell.UnknownText("standard input"))
		}
	}
	for _, name := range names {
		if text, ok := k.Machine.File(name); ok {
			w.Print(text)
		} else {
			w.Print(shell.UnknownText("cat " + name))
		}
	}
}

// Architectures lists the architectures of nodes, as uname names them and as Go, Debian
// and most publishers do.
var Architectures = map[string]string{"x86_64": "amd64", "aarch64": "arm64"}

// printKnownOutput prints the known output of some programs: it returns one state for each possible
// output.
func (k *Walker) printKnownOutput(w *execution.State, base string, args []string) ([]*execution.State, bool) {
	line, codename := strings.Join(args, " "), k.OSRelease["VERSION_CODENAME"]
	switch {
	case base == "uname" && (line == "-m" || line == "-p" || line == "-i" || line == "--machine"), base == "arch" && line == "":
		return printPerArchitecture(w, func(uname, _ string) string { return uname }), true
	case base == "dpkg" && line == "--print-architecture":
		return printPerArchitecture(w, func(_, arch string) string { return arch }), true
	case base == "uname" && (line == "" || line == "-s"):
		w.Print("Linux\n")
		return []*execution.State{w}, true
	case codename != "" && (base == "lsb_release" && strings.Contains(line, "c") ||
		strings.Contains(line, "VERSION_CODENAME") && strings.Contains(line, "/etc/os-release")):
		w.Print(codename + "\n")
		return []*execution.State{w}, true
	case base == "." || base == "source":
		if line == "/etc/os-release" {
			for name, value := range k.OSRelease {
				w.SetText(name, value)
			}
		}
		return []*execution.State{w}, true
	case base == "basename" && len(args) == 1:
		w.Print(path.Base(args[0]) + "\n")
		return []*execution.State{w}, true
	case base == "dirname" && len(args) == 1:
		w.Print(path.Dir(args[0]) + "\n")
		return []*execution.State{w}, true
	}
	return nil, false
}

// printPerArchitecture prints a text that depends on the architecture: it returns one state for
// each, unless the architecture is known.
func printPerArchitecture(w *execution.State, print func(uname, arch string) string) []*execution.State {
	var out []*execution.State
	for _, uname := range []string{"x86_64", "aarch64"} {
		if w.Uname != "" && w.Uname != uname {
			continue
		}
		c := w.Clone()
		c.Uname, c.Status = uname, execution.Succeeded
		c.Print(print(uname, Architectures[uname]) + "\n")
		out = append(out, c)
	}
	return out
}
