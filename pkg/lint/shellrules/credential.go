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
)

// placeholders matches the texts that rendering writes in place of credentials (design 3.3):
// on a node, the real credential is in the same position. The plain word is the placeholder
// of passwords, and matches only as a complete value.
var placeholders = newPattern(`eyJhbGciOiJub25lIn0\.eyJzdWIiOiJwbGFjZWhvbGRlciJ9\.cGxhY2Vob2xkZXI|\b000000\.0000000000000000\b|cGxhY2Vob2xkZXI6cGxhY2Vob2xkZXI=|placeholder:placeholder@|(?m:[:=][ \t]*["']?placeholder["']?,?[ \t]*$)`,
	"cGxhY2Vob2xkZXI", "000000.0000000000000000", "placeholder")

// credentialFormats matches credentials by formats that are unique to them. A finding names the format
// and never contains the text.
var credentialFormats = []credentialFormat{
	{"a private key", newPattern(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`, "PRIVATE KEY")},
	{"an access key of AWS", newPattern(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`, "AKIA", "ASIA")},
	{"a token of GitHub", newPattern(`\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{40,}\b`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")},
	{"a token of GitLab", newPattern(`\bglpat-[A-Za-z0-9_-]{20,}`, "glpat-")},
	{"a token of Slack", newPattern(`\bxox[abprs]-[A-Za-z0-9-]{20,}`, "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-")},
	{"a JSON web token", newPattern(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}`, "eyJ")},
	{"a URL with a password", newPattern(`\bhttps?://[^/\s"'$@{}:]+:[^/\s"'$@{}]+@[A-Za-z0-9]`, "://")},
}

// credentialFormat is the format of one kind of credential.
type credentialFormat struct {
	what string
	form pattern
}

// literalFix is the remedy for a credential in a profile.
const literalFix = "revoke it; pass credentials to nodes in the settings, the pool or a Secret, not in the profile"

// kubeconfigKeys match the keys of credentials in a kubeconfig.
var kubeconfigKeys = regexp.MustCompile(`(?m)^\s*-?\s*(token|password|client-key-data):\s*["']?[^\s"'{$]`)

// literalCredential finds credentials that are written in the profile.
func literalCredential(content string) []found {
	var out []found
	for _, k := range credentialFormats {
		for _, at := range k.form.all(content) {
			if placeholders.matches(content[at[0]:at[1]]) {
				continue
			}
			out = append(out, found{lint.RuleLiteralCredential, lineAt(content, at[0]), "the profile contains " + k.what + ", and anyone with read access to the repository can read it, now and in its history", literalFix})
		}
	}
	return out
}

// readableCredential finds a file with a credential that users other than its owner can
// read.
func readableCredential(mode uint32, content string) []found {
	if mode&0o044 == 0 {
		return nil
	}
	at := placeholders.first(content)
	for _, k := range credentialFormats {
		if at == nil {
			at = k.form.first(content)
		}
	}
	if at == nil && strings.Contains(content, "kind: Config") {
		at = kubeconfigKeys.FindStringIndex(content)
	}
	if at == nil {
		return nil
	}
	return []found{{lint.RuleReadableCredential, lineAt(content, at[0]), fmt.Sprintf("the file contains a credential, and its mode %03o lets every user of the node read it", mode),
		"write permissions: 600, or 700 for a script"}}
}

// unitCredential finds credentials in a unit, whose text every user can read through systemd.
func unitCredential(content string) []found {
	at := placeholders.first(content)
	if at == nil {
		return nil
	}
	return []found{{lint.RuleReadableCredential, lineAt(content, at[0]), "the unit contains a credential, and every user can read the text of a unit through systemd, regardless of the mode of its file",
		"write the credential to a file of mode 600 and refer to it with EnvironmentFile= or LoadCredential="}}
}

func lineAt(content string, offset int) int { return 1 + strings.Count(content[:offset], "\n") }

// credentialName matches the name of a variable, option or header that contains a credential.
var credentialName = regexp.MustCompile(`(?i)^(|.*[_-])(token|password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|client[_-]?secret|credentials?|bearer)$`)

// notCredential lists similar names that do not contain one.
var notCredential = regexp.MustCompile(`(?i)(file|path|dir|name|url|uri|hash|ttl|id)$`)

var (
	positional = regexp.MustCompile(`^\$\{\d\}$`)
	variable   = regexp.MustCompile(`\$\{(\w+)\}`)
	userInfo   = regexp.MustCompile(`^https?://[^/@]*:[^/@]+@`)

	tracingShebang = regexp.MustCompile(`\s-[a-zA-Z]*x`)
)

// credentialVariables returns the variables of a script that contain a credential: either the
// name matches and the assigned value is not empty or a path, or the value contains a
// placeholder.
func credentialVariables(file *syntax.File) map[string]bool {
	out := map[string]bool{}
	plain := &shell.Commands{}
	syntax.Walk(file, func(n syntax.Node) bool {
		a, ok := n.(*syntax.Assign)
		if !ok || a.Name == nil || a.Value == nil {
			return true
		}
		w := plain.Word(a.Value)
		byName := credentialName.MatchString(a.Name.Value) && w.Text != "" && !strings.HasPrefix(w.Text, "/") && !positional.MatchString(w.Text)
		if byName || placeholders.matches("="+w.Text) {
			out[a.Name.Value] = true
		}
		return true
	})
	return out
}

// credentialIn describes the credential in an argument, "" if there is none.
func (s *script) credentialIn(w shell.Word) string {
	if placeholders.matches("="+w.Text) && !strings.Contains(w.Text, "\n") {
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
		if what := s.shownCredential(c); what != "" {
			out = append(out, found{lint.RuleCredentialArgument, c.Line, fmt.Sprintf("%s has %s among its arguments, which every user of the node can read", c.Name, what), fix})
		}
	}
	return out
}

// shownCredential describes the credential among the arguments of a program.
func (s *script) shownCredential(c *shell.Call) string {
	if c.Name == "curl" || c.Name == "wget" {
		if what := s.requestCredential(c); what != "" {
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
		if !credentialName.MatchString(name) || notCredential.MatchString(name) {
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

// requestCredential is shownCredential for options that are specific to curl and wget.
func (s *script) requestCredential(c *shell.Call) string {
	tool := shell.Curl
	if c.Name == "wget" {
		tool = shell.Wget
	}
	options, rest := tool.Read(c.Args)
	for _, o := range options {
		switch {
		case o.Name == "header" && authHeader(o.Value.Text) && !strings.HasPrefix(strings.ToLower(o.Value.Text), "metadata"):
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

// handles reports whether a call uses a credential.
func (s *script) handles(c *shell.Call) bool {
	if s.shownCredential(c) != "" {
		return true
	}
	for _, w := range append(s.Stdin(c.Stmt), c.Args...) {
		if s.credentialIn(w) != "" || placeholders.matches(w.Text) {
			return true
		}
	}
	return false
}

// trace finds scripts that print a credential: a trace of each command is written to the
// journal, which is stored, forwarded and readable by more users than the credential's file.
func trace(s *script) []found {
	const fix = "remove it, or disable it with \"set +x\" before the credential is read"
	var out []found
	for _, r := range s.requests() {
		if r.verbose.Written != "" && r.personal {
			out = append(out, found{lint.RuleTrace, r.verbose.Line, fmt.Sprintf("%s %s prints the headers of the request, including the credential", r.Name, r.verbose.Written), "remove " + r.verbose.Written})
		}
	}
	handled := s.credentialLines()
	start := 0 // line on which tracing began
	if tracingShebang.MatchString(s.shebang) {
		start = 1
	}
	for _, e := range s.setOptions() {
		if e.name != "xtrace" {
			continue
		}
		if e.on && start == 0 {
			start = e.line
		} else if !e.on && start > 0 {
			if at := firstBetween(handled, start, e.line); at > 0 {
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
		if s.handles(c) {
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
