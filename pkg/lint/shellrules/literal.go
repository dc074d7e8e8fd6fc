package shellrules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

var (
	// passwordName matches a name whose value is always a password.
	passwordName = regexp.MustCompile(`(?i)^(|.*[_.-])(password|passwd|passphrase)$`)
	// keyName matches a name whose value is a token or key, or the name of one.
	keyName = regexp.MustCompile(`(?i)^(|.*[_.-])(token|secret|(api|access|auth|secret|account|shared)[_-]?key)$`)
	// keyValue matches values in Base64, hexadecimal and similar encodings that are too long
	// to guess.
	keyValue = regexp.MustCompile(`^[A-Za-z0-9+/_.~=:-]{12,}$`)
	// reference matches values that refer to a credential: a path, a variable, a URL, a form
	// field, or a password source of openssl (openssl-passphrase-options(1)).
	reference = regexp.MustCompile(`(?i)^([/.~$%@&*<{\[(|>!]|[a-z][a-z0-9+.-]*://|(file|env|fd|stdin|secretref|vault|awskms|pkcs11):|xxx|\.\.\.)`)
	// notPassword matches words that select a kind of password, and the sources of accounts
	// in nsswitch.conf(5).
	notPassword = regexp.MustCompile(`(?i)^(yes|no|true|false|on|off|none|null|nil|any|prompt|prompted|required|optional|default|disabled|enabled|locked|unset|placeholder|files|compat|systemd|sss|db|\d{1,2}|\W*)$`)
)

// isCredential reports whether a constant that is assigned to a name is a credential.
func isCredential(name, value string) bool {
	if placeholders.matches("="+value) || reference.MatchString(value) || strings.ContainsAny(value, "$`") || isPlaceholderWord(value) {
		return false
	}
	switch {
	case passwordName.MatchString(name):
		return !notPassword.MatchString(value)
	case keyName.MatchString(name):
		// Names, such as that of a Secret, consist of words.
		digits, letters := strings.IndexFunc(value, isDigit) >= 0, strings.IndexFunc(value, func(r rune) bool { return !isDigit(r) }) >= 0
		return digits && letters && keyValue.MatchString(value) && !nameOfWords.MatchString(value)
	}
	return false
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// nameOfWords matches a name of lower-case words and numbers such as "osp-ubuntu-v1.9.0-bootstrap",
// optionally with a namespace before it.
var nameOfWords = regexp.MustCompile(`^[a-z]+\d{0,3}([-./:_](v?\d+|[a-z]+\d{0,3}))*$`)

// isPlaceholderWord reports values that literalCredential already finds.
func isPlaceholderWord(text string) bool {
	return slices.ContainsFunc(credentialFormats, func(k credentialFormat) bool { return k.form.matches(text) })
}

// assignment matches a line of a configuration or program that assigns a constant to a name:
// password=x, "password": "x", Environment="PASSWORD=x", --password=x.
var assignment = regexp.MustCompile(`(?im)^[ \t]*(?:(?:export|local|readonly|set|const|var|let|environment[ \t]*=|-e|--env)[ \t]*)?(?:-{0,2})["']?([a-z][a-z0-9_.-]*)["']?[ \t]*[:=][ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"',;#]+))["']?[ \t]*[,;]?[ \t]*(?:#.*)?$`)

// quotedOnly reports whether an unquoted value is a name, as in most languages.
type quotedOnly bool

// assigned finds credentials that a text assigns. The number of its first line is first.
func assigned(text string, first int, quoted quotedOnly) []found {
	var out []found
	for _, m := range assignment.FindAllStringSubmatchIndex(text, -1) {
		name, value := text[m[2]:m[3]], ""
		for i := 4; i <= 8; i += 2 {
			if m[i] >= 0 && (i < 8 || !bool(quoted)) {
				value = text[m[i]:m[i+1]]
			}
		}
		// Environment="PASSWORD=x"
		if inner, rest, ok := strings.Cut(value, "="); ok && strings.EqualFold(name, "environment") {
			name, value = inner, rest
		}
		if value != "" && isCredential(name, value) {
			out = append(out, assignedCredential(name, first+lineAt(text, m[2])-1))
		}
	}
	return out
}

// assignedCredential reports the name of the variable, and never its value (security.md 15).
func assignedCredential(name string, line int) found {
	return found{lint.RuleLiteralCredential, line, fmt.Sprintf("the profile contains the value of %s, and anyone with read access to the repository can read it, now and in its history", shown(name)), literalFix}
}

// literals finds credentials in a script that are assigned to a variable, passed to a
// program, or part of a text that it writes.
func literals(s *script) []found {
	var out []found
	texts := func(w *syntax.Word) {
		text, at := s.Word(w), shell.LineOf(w)
		if !text.Dynamic || strings.Contains(text.Text, "\n") {
			out = append(out, assigned(text.Text, at, false)...)
		}
	}
	syntax.Walk(s.File, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name == nil || n.Value == nil {
				break
			}
			if w := s.Word(n.Value); !w.Dynamic && w.Text != "" && isCredential(n.Name.Value, w.Text) {
				out = append(out, assignedCredential(n.Name.Value, shell.LineOf(n)))
			}
		case *syntax.CallExpr:
			for _, w := range n.Args {
				texts(w)
			}
		case *syntax.Redirect:
			if n.Hdoc != nil {
				texts(n.Hdoc)
			} else if n.Op == syntax.WordHdoc {
				texts(n.Word)
			}
		}
		return !s.stopped()
	})
	return append(out, accounts(s)...)
}

// accounts finds passwords for chpasswd(8), which reads "name:password" for each account.
func accounts(s *script) []found {
	var out []found
	for _, c := range s.Calls {
		if c.Name != "chpasswd" || slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Text == "-e" || w.Text == "--encrypted" }) {
			continue
		}
		fed := s.Stdin(c.Stmt)
		for _, feeds := range c.Feeding() {
			fed = append(fed, feeds.Args...)
		}
		for _, w := range fed {
			if account, password, ok := strings.Cut(w.Text, ":"); ok && !w.Dynamic && isCredential("password", strings.TrimSpace(password)) {
				out = append(out, found{lint.RuleLiteralCredential, c.Line, fmt.Sprintf("the profile contains the password of account %s, and anyone with read access to the repository can read it, now and in its history", shown(account)), literalFix})
			}
		}
	}
	return out
}
