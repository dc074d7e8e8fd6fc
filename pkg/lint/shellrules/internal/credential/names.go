package credential

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// credentialName matches the name of a variable, option or header that contains a credential.
var credentialName = regexp.MustCompile(`(?i)^(|.*[_-])(token|password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|client[_-]?secret|credentials?|bearer)$`)

// notCredential lists similar names that do not contain one.
var notCredential = regexp.MustCompile(`(?i)(file|path|dir|name|url|uri|hash|ttl|id)$`)

// IsCredentialName reports whether an option with this name contains a credential.
func IsCredentialName(name string) bool {
	return credentialName.MatchString(name) && !notCredential.MatchString(name)
}

var positional = regexp.MustCompile(`^\$\{\d\}$`)

// Variables returns the variables of a script that contain a credential: either the
// name matches and the assigned value is not empty or a path, or the value contains a
// placeholder.
func Variables(file *syntax.File) map[string]bool {
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

// Is reports whether a constant that is assigned to a name is a credential.
func Is(name, value string) bool {
	if placeholders.matches("="+value) || reference.MatchString(value) || strings.ContainsAny(value, "$`") || hasKnownFormat(value) {
		return false
	}
	switch {
	case passwordName.MatchString(name):
		return !notPassword.MatchString(value)
	case keyName.MatchString(name):
		// Names, such as that of a Secret, consist of words.
		digits := strings.IndexFunc(value, isDigit) >= 0
		letters := strings.IndexFunc(value, func(r rune) bool { return !isDigit(r) }) >= 0
		return digits && letters && keyValue.MatchString(value) && !nameOfWords.MatchString(value)
	}
	return false
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// nameOfWords matches a name of lower-case words and numbers such as "osp-ubuntu-v1.9.0-bootstrap",
// optionally with a namespace before it.
var nameOfWords = regexp.MustCompile(`^[a-z]+\d{0,3}([-./:_](v?\d+|[a-z]+\d{0,3}))*$`)

// hasKnownFormat reports values that FindByFormat already finds.
func hasKnownFormat(text string) bool {
	return slices.ContainsFunc(credentialFormats, func(k credentialFormat) bool { return k.form.matches(text) })
}

// assignment matches a line of a configuration or program that assigns a constant to a name:
// password=x, "password": "x", Environment="PASSWORD=x", --password=x.
var assignment = regexp.MustCompile(`(?im)^[ \t]*(?:(?:export|local|readonly|set|const|var|let|environment[ \t]*=|-e|--env)[ \t]*)?(?:-{0,2})["']?([a-z][a-z0-9_.-]*)["']?[ \t]*[:=][ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s"',;#]+))["']?[ \t]*[,;]?[ \t]*(?:#.*)?$`)

// QuotedOnly reports whether an unquoted value is a name, as in most languages.
type QuotedOnly bool

// FindAssigned finds credentials that a text assigns.
func FindAssigned(text string, quoted QuotedOnly) []Match {
	var out []Match
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
		if value != "" && Is(name, value) {
			out = append(out, Match{name, m[2]})
		}
	}
	return out
}
