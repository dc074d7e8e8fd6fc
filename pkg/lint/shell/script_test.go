package shell

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// A variable is constant only if the script sets it once, to text.
func TestConstants(t *testing.T) {
	for script, want := range map[string]map[string]string{
		"a=x":                         {"a": "x"},
		"a=x; b='y z'":                {"a": "x", "b": "y z"},
		"a=x; a=y":                    {},
		"a=x; a+=y":                   {},
		"a=x; a=":                     {},
		"a=x; a=(y)":                  {},
		"a=x; a[0]=y":                 {},
		"a=x; a=$(date)":              {},
		"a=$(date)":                   {},
		"a=x; read a":                 {},
		"a=x; printf -v a %s y":       {},
		"a=x; mapfile a":              {},
		"a=x; echo a":                 {"a": "x"},
		"a=x; for a in y; do :; done": {},
	} {
		file, err := Parse(script)
		if err != nil {
			t.Fatal(err)
		}
		if got := constantVariables(file); !maps.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}

// A word is the argument that a program gets: without quotes and the backslashes that the shell
// removes, and with names for computed parts.
func TestWord(t *testing.T) {
	for script, want := range map[string]Word{
		`x a`:                {Text: `a`},
		`x \a`:               {Text: `a`},
		`x \\`:               {Text: `\`},
		`x "\a\\"`:           {Text: `\a\`},
		`x '\a'`:             {Text: `\a`},
		`x "\$\a\""`:         {Text: `$\a"`},
		`x a"b"'c'`:          {Text: `abc`},
		`x $'a\tb'`:          {Text: "a\tb"},
		`v=y; x a$v`:         {Text: `ay`},
		`v=y; x "$v/${v}"`:   {Text: `y/y`},
		`v=y; x "${v%y}"`:    {Text: `${v}`, Dynamic: true},
		`x a$w`:              {Text: `a${w}`, Dynamic: true},
		`x "a$(date)"`:       {Text: `a$(...)`, Dynamic: true},
		`x $((1+1))`:         {Text: `$(...)`, Dynamic: true},
		`x "$@"`:             {Text: `${@}`, Dynamic: true},
		`x ~/a`:              {Text: `~/a`},
		`x ~root/a`:          {Text: `~root/a`},
		`sudo -u me x a`:     {Text: `a`},
		`timeout -k 1 5 x a`: {Text: `a`},
		`env A=b x a`:        {Text: `a`},
	} {
		file, err := Parse(script)
		if err != nil {
			t.Fatal(err)
		}
		calls := CommandsOf(file).Calls
		last := calls[0]
		for _, c := range calls {
			if c.Name == "x" {
				last = c
			}
		}
		if len(last.Args) != 1 || last.Args[0].Text != want.Text || last.Args[0].Dynamic != want.Dynamic {
			t.Errorf("%s: got %+v, want %+v", script, last.Args, want)
		}
	}
}

// A wrapper without a command remains.
func TestUnwrap(t *testing.T) {
	for args, want := range map[string]string{
		"sudo -n":               "sudo -n",
		"sudo -u":               "sudo -u",
		"env A=b":               "env A=b",
		"timeout 5":             "timeout 5",
		"command":               "command",
		"command -v x":          "command -v x",
		"command -p x":          "x",
		"sudo -E timeout 5 x a": "x a",
		"sudo -- -x":            "-x",
	} {
		if got := strings.Join(RemoveWrappers(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: got %s, want %s", args, got, want)
		}
	}
}

// A here-document is what a program reads: only some backslashes are taken from it, and none if
// its end is quoted.
func TestDocument(t *testing.T) {
	for script, want := range map[string]string{
		"x <<E\n\\$a \\\" \\\\\nE\n": "$a \\\" \\\n",
		"x <<'E'\n\\$a $b\nE\n":      "\\$a $b\n",
		"v=y\nx <<E\n$v ${w}\nE\n":   "y ${w}\n",
		"x <<<\"a b\"":               "a b",
		"x <<E\nE\n":                 "",
	} {
		file, err := Parse(script)
		if err != nil {
			t.Fatal(err)
		}
		s := CommandsOf(file)
		got := ""
		for _, w := range s.InlineStdin(s.Calls[len(s.Calls)-1].Stmt) {
			got += w.Text
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", script, got, want)
		}
	}
}

// The command lines of a unit are the values of its Exec keys, with continuation lines joined.
func TestUnitCommands(t *testing.T) {
	const unit = "[Service]\nEnvironment=A=b\nExecStartPre=-/bin/a \\\n  b\n# ExecStart=/bin/no\nExecStart=+/bin/c 50%%\nExecStart=\n"
	got := UnitCommands(unit)
	if want := []Line{{3, "/bin/a  b"}, {6, "/bin/c 50%"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
