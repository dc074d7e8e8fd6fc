package downloads

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// call follows a simple command.
func (k *walker) call(c *syntax.CallExpr, w *world) []*world {
	outside := w.vars
	worlds := []*world{w}
	for _, a := range c.Assigns {
		var next []*world
		for _, w := range worlds {
			next = append(next, k.assign(w, a)...)
		}
		worlds = next
	}
	if len(c.Args) == 0 {
		return worlds
	}
	var out []*world
	for _, w := range worlds {
		for _, e := range k.words(w, c.Args) {
			if len(e.fields) == 0 {
				out = append(out, e.world)
				continue
			}
			after := k.run(e.clone(), e.fields)
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
func (k *walker) run(w *world, args []string) []*world {
	if body := w.funcs[args[0]]; body != nil {
		return k.function(w, body, args[1:])
	}
	if out, ok := k.builtin(w, args); ok {
		return out
	}
	if args = unwrapped(args); len(args) == 0 {
		return []*world{w}
	}
	if text, ok := commandText(args); ok {
		return k.inline(w, text)
	}
	if s := k.script(args); s != nil {
		return k.runScript(w, s, args)
	}
	if isHole(args[0]) {
		k.urls(w, args, "an argument of a command that is not known")
		return []*world{w}
	}
	return k.program(w, args)
}

// function follows a call of a function.
func (k *walker) function(w *world, body *syntax.Stmt, args []string) []*world {
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
		if w.leave == leavingFunction || w.leave == leavingLoop {
			w.leave = staying
		}
	}
	return merged(out)
}

// unwrapped takes away what runs another command: "sudo -E timeout 60 curl ...".
func unwrapped(args []string) []string {
	withValue := map[string][]string{
		"sudo": {"-u", "-g", "-h", "-p", "-C", "-D"}, "env": {"-u", "-C", "-S"}, "timeout": {"-k", "-s", "--signal", "--kill-after"},
		"nice": {"-n"}, "ionice": {"-c", "-n", "-p"}, "exec": {"-a"}, "flock": {"-w", "-E"}, "xargs": {"-n", "-P", "-I", "-L", "-d", "-a"},
		"command": nil, "nohup": nil, "setsid": nil, "stdbuf": {"-i", "-o", "-e"}, "builtin": nil, "systemd-run": {"-p", "-u"},
	}
	for len(args) > 0 {
		values, ok := withValue[path.Base(args[0])]
		if !ok || len(args) > 1 && path.Base(args[0]) == "command" && strings.HasPrefix(args[1], "-") && args[1] != "-p" {
			return args
		}
		wrapper := path.Base(args[0])
		args = args[1:]
		for len(args) > 0 && strings.HasPrefix(args[0], "-") {
			if slices.Contains(values, args[0]) && len(args) > 1 {
				args = args[1:]
			}
			args = args[1:]
		}
		switch wrapper {
		case "env", "sudo":
			for len(args) > 0 && strings.Contains(args[0], "=") && isName(args[0][:strings.Index(args[0], "=")]) {
				args = args[1:]
			}
		case "timeout", "flock":
			args = args[min(1, len(args)):]
		}
	}
	return args
}

// commandText is the script in "bash -c SCRIPT" and eval.
func commandText(args []string) (string, bool) {
	switch path.Base(args[0]) {
	case "eval":
		return strings.Join(args[1:], " "), true
	case "sh", "bash", "dash":
		for i, a := range args[1:] {
			if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c") && i+2 < len(args) {
				return args[i+2], true
			}
		}
	}
	return "", false
}

// inline follows a script that is an argument.
func (k *walker) inline(w *world, text string) []*world {
	if hasHole(text) {
		// What is unknown may be quoted in any way: its name stands for it as a variable.
		text = strings.NewReplacer(holeBegins, "${", holeEnds, "}").Replace(text)
	}
	parsed, err := parse(text)
	if err != nil {
		k.unresolved(shown(text), fmt.Sprintf("it cannot be read as a script: %v", err))
		return []*world{w}
	}
	k.calls++ // its lines are not those of the file
	defer func() { k.calls-- }()
	out := k.exec(parsed.Stmts, []*world{w})
	for _, w := range out {
		w.leave = staying
	}
	return out
}

// script is the one that a command runs, nil if it runs none of this node.
func (k *walker) script(args []string) *script {
	name := args[0]
	switch path.Base(name) {
	case "sh", "bash", "dash", ".", "source":
		name = ""
		for _, a := range args[1:] {
			if !strings.HasPrefix(a, "-") {
				name = a
				break
			}
		}
	}
	var found *script
	for _, s := range k.scripts {
		if s.file.Path == name && (found == nil || s.stage == k.stage) {
			found = s
		}
	}
	return found
}

// runScript follows a script that another one runs.
func (k *walker) runScript(w *world, s *script, args []string) []*world {
	s.reached = true
	sourced := args[0] == "." || args[0] == "source"
	for len(args) > 0 && args[0] != s.file.Path {
		args = args[1:]
	}
	args = args[min(1, len(args)):]
	inside := &world{vars: w.vars, args: args, named: true, machine: w.machine, repos: w.repos, outputs: w.outputs, stdin: w.stdin, read: w.read}
	if sourced {
		inside = w.clone()
	}
	key := fmt.Sprintf("%s\x00%s\x00%v\x00%s", s.stage, s.file.Path, sourced, inside.key())
	if !sourced && !w.read && k.done[key] || k.depth > maxDepth {
		return []*world{w}
	}
	k.done[key] = true
	at, calls, stage := k.at, k.calls, k.stage
	k.at, k.calls, k.stage = Place{Stage: s.stage, File: s.file.Path}, 0, s.stage
	out := k.exec(s.parsed.Stmts, []*world{inside})
	k.at, k.calls, k.stage = at, calls, stage
	if sourced {
		return out
	}
	var after []*world
	for _, o := range merged(out) {
		c := w.clone()
		c.print(o.out)
		c.repos = union(c.repos, o.repos)
		after = append(after, c)
	}
	return merged(after)
}

// builtin follows what the shell itself does, and what only prints.
func (k *walker) builtin(w *world, args []string) ([]*world, bool) {
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
		w.print(strings.Join(rest, " ") + end)
		w.status = succeeded
	case "printf":
		k.printf(w, args[1:])
	case "cat":
		k.cat(w, args[1:])
	case "tee":
		text := ""
		if w.stdin != nil {
			text = *w.stdin
		}
		for _, a := range args[1:] {
			k.repositories(w, a, text)
		}
		w.print(text)
	case "true", ":":
		w.status = succeeded
	case "false":
		w.status = failed
	case "exit":
		w.leave = leavingScript
	case "return":
		w.leave = leavingFunction
		if len(args) > 1 {
			w.status = failed
			if args[1] == "0" {
				w.status = succeeded
			}
		}
	case "break", "continue":
		w.leave = leavingLoop
	case "shift":
		n := 1
		if len(args) > 1 {
			n, _ = strconv.Atoi(args[1]) // 0 where that is no number
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
				w.setText(name, hole(name))
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
	return []*world{w}, true
}

func (k *walker) printf(w *world, args []string) {
	if len(args) > 1 && args[0] == "-v" {
		w.setText(args[1], hole(args[1]))
		return
	}
	if len(args) == 0 || hasHole(args[0]) || wideFormat.MatchString(args[0]) {
		w.print(hole("printf"))
		return
	}
	rest := args[1:]
	for {
		text, n, err := expand.Format(nil, args[0], rest)
		if err != nil {
			w.print(hole("printf"))
			return
		}
		w.print(text)
		if rest = rest[min(n, len(rest)):]; len(rest) == 0 || n == 0 {
			return
		}
	}
}

func (k *walker) cat(w *world, args []string) {
	var names []string
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			names = append(names, a)
		}
	}
	if len(names) == 0 {
		if w.stdin != nil {
			w.print(*w.stdin)
		} else {
			w.print(hole("standard input"))
		}
	}
	for _, name := range names {
		if f := k.node.file(k.stage, name); f != nil {
			w.print(f.Content)
		} else {
			w.print(hole("cat " + name))
		}
	}
}
