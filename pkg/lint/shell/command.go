package shell

import (
	"path"
	"slices"
	"strings"
)

// IsShellProgram reports whether the program with a name is a shell.
func IsShellProgram(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash"}, name)
}

// wrappers lists programs that run their arguments, with their options that take a value.
var wrappers = map[string][]string{
	"builtin": nil, "chronic": nil, "command": nil, "nohup": nil, "retry": nil, "setsid": nil,
	"env": {"-u", "-C", "-S"}, "exec": {"-a"}, "flock": {"-w", "-E"}, "ionice": {"-c", "-n", "-p"}, "nice": {"-n"},
	"stdbuf": {"-i", "-o", "-e"}, "sudo": {"-u", "-g", "-h", "-p", "-C", "-D", "-r", "-R", "-t", "-T"},
	"systemd-run": {"-p", "-u"}, "time": {"-f", "-o"}, "timeout": {"-k", "-s", "--signal", "--kill-after"},
	"xargs": {"-n", "-P", "-I", "-L", "-d", "-a"},
}

func IsWrapper(name string) bool {
	_, ok := wrappers[name]
	return ok
}

// RemoveWrappers removes wrapper programs from a command, such as "sudo -E timeout 60 curl ...".
func RemoveWrappers(args []string) []string {
	for len(args) > 1 {
		wrapper := path.Base(args[0])
		values, ok := wrappers[wrapper]
		if !ok || wrapper == "command" && strings.HasPrefix(args[1], "-") && args[1] != "-p" { // "command -v curl" runs nothing
			return args
		}
		rest := args[1:]
		for len(rest) > 0 && (strings.HasPrefix(rest[0], "-") && rest[0] != "-" || (wrapper == "env" || wrapper == "sudo") && isAssignment(rest[0])) {
			option := rest[0]
			rest = rest[1:]
			if option == "--" {
				break
			}
			if slices.Contains(values, option) {
				rest = rest[min(1, len(rest)):]
			}
		}
		if wrapper == "timeout" || wrapper == "flock" { // the duration, the file
			rest = rest[min(1, len(rest)):]
		}
		if len(rest) == 0 {
			return args
		}
		args = rest
	}
	return args
}

func isAssignment(arg string) bool {
	name, _, ok := strings.Cut(arg, "=")
	return ok && IsVariableName(name)
}

// InlineScriptIndex returns the index of the script among the arguments of "bash -c SCRIPT", -1 if there is none.
func InlineScriptIndex(args []string) int {
	if !IsShellProgram(path.Base(args[0])) {
		return -1
	}
	for i, a := range args[1:] {
		if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c") && i+2 < len(args) {
			return i + 2
		}
	}
	return -1
}

// Line is a command line of a unit.
type Line struct {
	Number int // in the unit
	Text   string
}

// UnitCommands returns the command lines of a systemd unit, without the prefixes of
// systemd.service(5), "COMMAND LINES".
func UnitCommands(unit string) []Line {
	var out []Line
	lines := strings.Split(unit, "\n")
	for i := 0; i < len(lines); i++ {
		text, at := strings.TrimSpace(lines[i]), i+1
		for strings.HasSuffix(text, `\`) && i+1 < len(lines) {
			i++
			text = strings.TrimSuffix(text, `\`) + " " + strings.TrimSpace(lines[i])
		}
		key, value, ok := strings.Cut(text, "=")
		value = strings.TrimLeft(value, "-@:+!|")
		if ok && strings.HasPrefix(key, "Exec") && value != "" {
			out = append(out, Line{at, strings.ReplaceAll(value, "%%", "%")})
		}
	}
	return out
}
