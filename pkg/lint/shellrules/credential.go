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

// placeholders find the texts that rendering puts in place of credentials, see
// design 3.3: where one of them is, a node has the real one. The word alone stands for
// passwords and is taken for one only as a whole value.
var placeholders = regexp.MustCompile(`eyJhbGciOiJub25lIn0\.eyJzdWIiOiJwbGFjZWhvbGRlciJ9\.cGxhY2Vob2xkZXI|\b000000\.0000000000000000\b|cGxhY2Vob2xkZXI6cGxhY2Vob2xkZXI=|placeholder:placeholder@|(?m:[:=][ \t]*["']?placeholder["']?,?[ \t]*$)`)

// known find credentials by forms that nothing else has. A finding names the form and
// never the text.
var known = []knownForm{
	{"a private key", regexp.MustCompile(`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`)},
	{"an access key of AWS", regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{16}\b`)},
	{"a token of GitHub", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{36,}\b|\bgithub_pat_[A-Za-z0-9_]{40,}\b`)},
	{"a token of GitLab", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{"a token of Slack", regexp.MustCompile(`\bxox[abprs]-[A-Za-z0-9-]{20,}`)},
	{"a JSON web token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}`)},
	{"a URL with a password", regexp.MustCompile(`\bhttps?://[^/\s"'$@{}:]+:[^/\s"'$@{}]+@[A-Za-z0-9]`)},
}

// knownForm is the form of a kind of credential.
type knownForm struct {
	what string
	form *regexp.Regexp
}

// literalFix is what to do about a credential in a profile.
const literalFix = "revoke it; give it to nodes by the settings, the pool or a Secret, and never by the profile"

// kubeconfigKeys hold credentials in a kubeconfig.
var kubeconfigKeys = regexp.MustCompile(`(?m)^\s*-?\s*(token|password|client-key-data):\s*["']?[^\s"'{$]`)

// literalCredential: a credential that stands in the profile itself.
func literalCredential(content string) []found {
	var out []found
	for _, k := range known {
		for _, at := range k.form.FindAllStringIndex(content, -1) {
			if placeholders.MatchString(content[at[0]:at[1]]) {
				continue
			}
			out = append(out, found{lint.RuleLiteralCredential, lineAt(content, at[0]), "the profile holds " + k.what + ", so everyone who may read the repository has it, now and in its history", literalFix})
		}
	}
	return out
}

// readableCredential: a file that holds a credential and that others than its owner
// may read.
func readableCredential(mode uint32, content string) []found {
	if mode&0o044 == 0 {
		return nil
	}
	at := placeholders.FindStringIndex(content)
	for _, k := range known {
		if at == nil {
			at = k.form.FindStringIndex(content)
		}
	}
	if at == nil && strings.Contains(content, "kind: Config") {
		at = kubeconfigKeys.FindStringIndex(content)
	}
	if at == nil {
		return nil
	}
	return []found{{lint.RuleReadableCredential, lineAt(content, at[0]), fmt.Sprintf("the file holds a credential, and its mode %03o lets every user of the node read it", mode),
		"write permissions: 600, or 700 for a script"}}
}

// unitCredential: what stands in a unit can be asked of systemd by every user.
func unitCredential(content string) []found {
	at := placeholders.FindStringIndex(content)
	if at == nil {
		return nil
	}
	return []found{{lint.RuleReadableCredential, lineAt(content, at[0]), "the unit holds a credential, and every user may ask systemd for the text of a unit, whatever the mode of its file",
		"write the credential to a file of mode 600 and name that with EnvironmentFile= or LoadCredential="}}
}

func lineAt(content string, offset int) int { return 1 + strings.Count(content[:offset], "\n") }

// credentialName is a variable, an option or a header that holds a credential.
var credentialName = regexp.MustCompile(`(?i)^(|.*[_-])(token|password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|client[_-]?secret|credentials?|bearer)$`)

// notCredential are names like that which hold none.
var notCredential = regexp.MustCompile(`(?i)(file|path|dir|name|url|uri|hash|ttl|id)$`)

var (
	positional = regexp.MustCompile(`^\$\{\d\}$`)
	variable   = regexp.MustCompile(`\$\{(\w+)\}`)
	userInfo   = regexp.MustCompile(`^https?://[^/@]*:[^/@]+@`)

	tracingShebang = regexp.MustCompile(`\s-[a-zA-Z]*x`)
)

// credentialVariables are the variables of a script that hold a credential: by their
// name where something is assigned that is not plainly a path or empty, or by a
// placeholder in their value.
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
		if byName || placeholders.MatchString("="+w.Text) {
			out[a.Name.Value] = true
		}
		return true
	})
	return out
}

// credentialIn says what credential is in an argument, "" of none.
func (s *script) credentialIn(w shell.Word) string {
	if placeholders.MatchString("="+w.Text) && !strings.Contains(w.Text, "\n") {
		return "a credential of the pool"
	}
	for _, m := range variable.FindAllStringSubmatch(w.Text, -1) {
		if s.secrets[m[1]] {
			return "$" + m[1]
		}
	}
	return ""
}

// builtins are no processes: nobody sees their arguments.
var builtins = []string{
	"echo", "printf", "[", "test", "export", "local", "declare", "readonly", "typeset", "read", "set", "unset", "shift", "return", "exit", "eval", "source", ".",
	":", "true", "false", "cd", "trap", "umask", "let", "mapfile", "readarray", "exec", "wait", "kill", "hash", "type", "pwd",
}

// credentialArgument: every user of the node may read the arguments of every process,
// proc(5).
func credentialArgument(s *script) []found {
	const fix = "hand it over in a file of mode 600: curl --header @FILE or --config FILE, else by standard input"
	var out []found
	for _, c := range s.Calls {
		if c.Name == "" || slices.Contains(builtins, c.Name) || s.Functions[c.Name] != nil {
			continue
		}
		if what := s.shownCredential(c); what != "" {
			out = append(out, found{lint.RuleCredentialArgument, c.Line, fmt.Sprintf("%s has %s among its arguments, which every user of the node may read", c.Name, what), fix})
		}
	}
	return out
}

// shownCredential says which argument of a program is a credential.
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

// requestCredential is shownCredential for what curl and wget call otherwise.
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
			return "the value of " + o.Given
		}
	}
	for _, w := range rest {
		if userInfo.MatchString(w.Text) {
			return "the password of a URL"
		}
	}
	return ""
}

// handles reports whether a call has to do with a credential.
func (s *script) handles(c *shell.Call) bool {
	if s.shownCredential(c) != "" {
		return true
	}
	for _, w := range append(s.Stdin(c.Stmt), c.Args...) {
		if s.credentialIn(w) != "" || placeholders.MatchString(w.Text) {
			return true
		}
	}
	return false
}

// trace: what a shell prints of each command ends in the journal, which is kept, sent
// on and read by more people than the file of the credential.
func trace(s *script) []found {
	const fix = "leave it out, or stop it with \"set +x\" before the credential is read"
	var out []found
	for _, r := range s.requests() {
		if r.verbose.Given != "" && r.personal {
			out = append(out, found{lint.RuleTrace, r.verbose.Line, fmt.Sprintf("%s %s prints the headers of the request, the credential among them", r.Name, r.verbose.Given), "leave " + r.verbose.Given + " out"})
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

// credentialLines are the lines on which a script handles a credential: it gives one to
// a command, or sets a variable to one.
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

// firstBetween is the first line in a range, 0 of none.
func firstBetween(lines []int, from, to int) int {
	for _, at := range lines {
		if at >= from && at < to {
			return at
		}
	}
	return 0
}
