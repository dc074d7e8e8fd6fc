package shellrules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules/internal/credential"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules/internal/request"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules/internal/setoption"
)

// literalFix is the remedy for a credential in a profile.
const literalFix = "revoke it; pass credentials to nodes in the settings, the pool or a Secret, not in the profile"

// findCredentialsByFormat finds credentials that are written in the profile.
func findCredentialsByFormat(content string) []found {
	var out []found
	for _, m := range credential.FindByFormat(content) {
		out = append(out, found{lint.RuleLiteralCredential, lineAt(content, m.Offset), "the profile contains " + m.What + ", and anyone with read access to the repository can read it, now and in its history", literalFix})
	}
	return out
}

// readableCredential finds a file with a credential that users other than its owner can
// read.
func readableCredential(mode uint32, content string) []found {
	if mode&0o044 == 0 {
		return nil
	}
	at := credential.FirstOffset(content)
	if at < 0 {
		return nil
	}
	return []found{{lint.RuleReadableCredential, lineAt(content, at), fmt.Sprintf("the file contains a credential, and its mode %03o lets every user of the node read it", mode),
		"write permissions: 600, or 700 for a script"}}
}

// unitCredential finds credentials in a unit, whose text every user can read through systemd.
func unitCredential(content string) []found {
	at := credential.FirstPlaceholder(content)
	if at < 0 {
		return nil
	}
	return []found{{lint.RuleReadableCredential, lineAt(content, at), "the unit contains a credential, and every user can read the text of a unit through systemd, regardless of the mode of its file",
		"write the credential to a file of mode 600 and refer to it with EnvironmentFile= or LoadCredential="}}
}

func lineAt(content string, offset int) int { return 1 + strings.Count(content[:offset], "\n") }

var (
	variable = regexp.MustCompile(`\$\{(\w+)\}`)
	userInfo = regexp.MustCompile(`^https?://[^/@]*:[^/@]+@`)

	tracingShebang = regexp.MustCompile(`\s-[a-zA-Z]*x`)
)

// credentialIn describes the credential in an argument, "" if there is none.
func (s *script) credentialIn(w shell.Word) string {
	if credential.HasPlaceholder("="+w.Text) && !strings.Contains(w.Text, "\n") {
		return "a credential of the pool"
	}
	for _, m := range variable.FindAllStringSubmatch(w.Text, -1) {
		if s.secrets[m[1]] {
			return "$" + m[1]
		}
	}
	return ""
}

// builtins run inside the shell, so their arguments are not visible in /proc.
var builtins = []string{
	"echo", "printf", "[", "test", "export", "local", "declare", "readonly", "typeset", "read", "set", "unset", "shift", "return", "exit", "eval", "source", ".",
	":", "true", "false", "cd", "trap", "umask", "let", "mapfile", "readarray", "exec", "wait", "kill", "hash", "type", "pwd",
}

// credentialArgument finds credentials in arguments: every user of the node can read the
// arguments of every process, proc(5).
func credentialArgument(s *script) []found {
	const fix = "pass it in a file of mode 600: curl --header @FILE or --config FILE, or on standard input"
	var out []found
	for _, c := range s.Calls {
		if c.Name == "" || slices.Contains(builtins, c.Name) || s.Functions[c.Name] != nil {
			continue
		}
		if what := s.describeShownCredential(c); what != "" {
			out = append(out, found{lint.RuleCredentialArgument, c.Line, fmt.Sprintf("%s has %s among its arguments, which every user of the node can read", c.Name, what), fix})
		}
	}
	return out
}

// describeShownCredential describes the credential among the arguments of a program.
func (s *script) describeShownCredential(c *shell.Call) string {
	if c.Name == "curl" || c.Name == "wget" {
		if what := s.describeCredentialInRequest(c); what != "" {
			return what
		}
	}
	for i, w := range c.Args {
		if what := s.credentialIn(w); what != "" {
			return what
		}
		if !strings.HasPrefix(w.Text, "--") {
			continue
		}
		name, value, has := strings.Cut(strings.TrimPrefix(w.Text, "--"), "=")
		if !credential.IsCredentialName(name) {
			continue
		}
		if !has && i+1 < len(c.Args) {
			value = c.Args[i+1].Text
		}
		if value != "" && !strings.HasPrefix(value, "-") && !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "@") {
			return "the value of --" + name
		}
	}
	return ""
}

// describeCredentialInRequest is describeShownCredential for options that are specific to curl and
// wget.
func (s *script) describeCredentialInRequest(c *shell.Call) string {
	tool := shell.Curl
	if c.Name == "wget" {
		tool = shell.Wget
	}
	options, rest := tool.ParseArguments(c.Args)
	for _, o := range options {
		switch {
		case o.Name == "header" && request.IsAuthOrMetadataHeader(o.Value.Text) && !strings.HasPrefix(strings.ToLower(o.Value.Text), "metadata"):
			name, _, _ := strings.Cut(o.Value.Text, ":")
			return "the header " + name
		case (o.Name == "user" || o.Name == "proxy-user") && strings.Contains(o.Value.Text, ":") && c.Name == "curl",
			o.Name == "oauth2-bearer", o.Name == "http-password", o.Name == "proxy-password":
			return "the value of " + o.Written
		}
	}
	for _, w := range rest {
		if userInfo.MatchString(w.Text) {
			return "the password of a URL"
		}
	}
	return ""
}

// usesCredential reports whether a call uses a credential.
func (s *script) usesCredential(c *shell.Call) bool {
	if s.describeShownCredential(c) != "" {
		return true
	}
	for _, w := range append(s.InlineStdin(c.Stmt), c.Args...) {
		if s.credentialIn(w) != "" || credential.HasPlaceholder(w.Text) {
			return true
		}
	}
	return false
}

// printedCredentials finds scripts that print a credential: a trace of each command is written to the
// journal, which is stored, forwarded and readable by more users than the credential's file.
func printedCredentials(s *script) []found {
	const fix = "remove it, or disable it with \"set +x\" before the credential is read"
	var out []found
	for _, r := range s.requests() {
		if r.Verbose.Written != "" && r.Personal {
			out = append(out, found{lint.RuleTrace, r.Verbose.Line, fmt.Sprintf("%s %s prints the headers of the request, including the credential", r.Name, r.Verbose.Written), "remove " + r.Verbose.Written})
		}
	}
	handled := s.credentialLines()
	start := 0 // line on which tracing began
	if tracingShebang.MatchString(s.shebang) {
		start = 1
	}
	for _, e := range setoption.Calls(s.Commands) {
		if e.Name != "xtrace" {
			continue
		}
		if e.On && start == 0 {
			start = e.Line
		} else if !e.On && start > 0 {
			if at := firstBetween(handled, start, e.Line); at > 0 {
				out = append(out, found{lint.RuleTrace, start, fmt.Sprintf("prints every command into the journal, and line %d of the script handles a credential", at), fix})
			}
			start = 0
		}
	}
	if start > 0 {
		if at := firstBetween(handled, start, 1<<30); at > 0 {
			out = append(out, found{lint.RuleTrace, start, "prints every command into the journal, and the script handles a credential", fix})
		}
	}
	return out
}

// credentialLines returns the lines on which a script passes a credential to a command, or
// stores one in a variable.
func (s *script) credentialLines() []int {
	var out []int
	for _, c := range s.Calls {
		if s.usesCredential(c) {
			out = append(out, c.Line)
		}
	}
	assigned := map[string]int{}
	syntax.Walk(s.File, func(n syntax.Node) bool {
		if a, ok := n.(*syntax.Assign); ok && a.Name != nil && s.secrets[a.Name.Value] {
			assigned[a.Name.Value] = shell.LineOf(a)
		}
		return true
	})
	out = slices.AppendSeq(out, maps.Values(assigned))
	slices.Sort(out)
	return out
}

// firstBetween returns the first line in a range, 0 if there is none.
func firstBetween(lines []int, from, to int) int {
	for _, at := range lines {
		if at >= from && at < to {
			return at
		}
	}
	return 0
}
