package profiles_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules"
)

// rule says what a script must not do, in words for its author; empty when all is
// well.
type rule func(content string) string

// rules apply to every script of every profile, in addition to those of lint: they are stricter, or
// need knowledge of our profiles.
var rules = map[string]rule{
	"fails":        fails,
	"does not say": doesNotSay,
	"encrypts":     encrypts,
	"strict":       strict,
	"knows its CA": knowsItsCA,
}

// TestRules: every script follows every rule, and those of lint, which are applied here to scripts
// with real settings and credentials.
func TestRules(t *testing.T) {
	var out report
	for _, s := range scripts(t) {
		subject := lint.Text{File: s.what.path, Mode: 0o700, Kind: lint.KindShell, Interpreter: "bash", Content: []byte(s.what.content)}
		for _, f := range shellrules.CheckText(t.Context(), subject) {
			if f.Rule == lint.RuleLiteralCredential {
				continue // the settings' own: TestProfiles of pkg/lint renders with placeholders
			}
			out.add(fmt.Sprintf("%s:%d: %s [%s]", s.what.path, f.Line, f.Message, f.Rule), s.in)
		}
		for _, rule := range rules {
			if problem := rule(s.what.content); problem != "" {
				out.add(s.what.path+": "+problem, s.in)
			}
		}
	}
	out.fail(t)
}

// TestRulesFind: each rule reports its mistake and accepts the correct form.
func TestRulesFind(t *testing.T) {
	const good = "#!/bin/bash\n# curl -k would be wrong here, and so would be set -x\nset -euo pipefail\nif ! command -v curl >/dev/null; then\n  apt-get install ca-certificates curl\nfi\n" +
		"curl --fail --silent \\\n  --cacert ca.crt --header @header --output part https://api/api/v1/secrets/x\ncurl -fsS http://127.0.0.1:10248/healthz | grep -q ok\n" +
		"get() {\n  curl --fail --output \"$2\" --config - <<<\"url = \\\"$1\\\"\"\n}\n"
	bad := map[string][]string{
		"fails":        {"curl --silent https://x", "x=$(curl -s https://x)", "if curl --silent \\\n  --output x https://x; then", "sudo curl -LO https://x", "curl https://x | grep -f patterns"},
		"does not say": {"set -x", "set -euxo pipefail", "set -o xtrace", "curl --fail -v https://x", "curl --fail --verbose https://x", "bash -x /opt/bin/setup"},
		"encrypts":     {"curl --fail http://example.com/x", "url=http://mirror/x"},
		"knows its CA": {"curl --fail https://api/api/v1/namespaces/x/secrets/y", "curl --fail \\\n  \"$server/api/v1/namespaces/x\""},
	}
	for name, rule := range rules {
		if problem := rule(good); problem != "" {
			t.Errorf("rule %q finds in a good script: %s", name, problem)
		}
		if name == "strict" {
			continue
		}
		if len(bad[name]) == 0 {
			t.Errorf("rule %q has no bad sample", name)
		}
		for _, line := range bad[name] {
			if rule("#!/bin/bash\nset -euo pipefail\n"+line+"\n") == "" {
				t.Errorf("rule %q finds nothing in %q", name, line)
			}
		}
	}
	for _, content := range []string{"#!/bin/bash\necho\n", "#!/bin/bash\nset -e\n", "#!/bin/bash\n# set -euo pipefail\n"} {
		if strict(content) == "" {
			t.Errorf("rule \"strict\" finds nothing in %q", content)
		}
	}
}

// commands are the lines of a script that a shell acts on, continued lines joined.
func commands(content string) []string {
	var out []string
	for line := range strings.SplitSeq(strings.ReplaceAll(content, "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

// requests are the calls of curl in a script, each up to the end of that command.
func requests(content string) []string {
	var out []string
	for _, line := range commands(content) {
		for _, at := range curlCall.FindAllStringIndex(line, -1) {
			call := line[at[0]:]
			if end := endOfCommand.FindStringIndex(call); end != nil {
				call = call[:end[0]]
			}
			out = append(out, call)
		}
	}
	return out
}

var (
	// A call has an argument; "install curl" and "command -v curl" have none.
	curlCall     = regexp.MustCompile(`\bcurl\s+[-"'$h]`)
	endOfCommand = regexp.MustCompile(`\s(\||\|\||&&)\s|;|\)\s*$`)

	failing    = regexp.MustCompile(`\s(-[a-zA-Z]*f[a-zA-Z]*|--fail|--fail-with-body)(\s|$)`)
	talkative  = regexp.MustCompile(`\s(-[a-zA-Z]*v[a-zA-Z]*|--verbose|--trace\S*)(\s|$)`)
	tracing    = regexp.MustCompile(`\bset\s+-[a-z]*x|\bset\s.*-o\s+xtrace|\b(ba)?sh\s+-[a-z]*x`)
	plainHTTP  = regexp.MustCompile(`http://[^\s"'\\;)]+`)
	localHTTP  = regexp.MustCompile(`^http://(127\.0\.0\.1|\[::1\]|localhost|169\.254\.169\.254)[:/]|^http://([^/@]*@)?proxy\.example\.com:3128`)
	strictMode = regexp.MustCompile(`(?m)^set -e?uo pipefail$`)
)

// fails: an error page must not be accepted as data.
func fails(content string) string {
	for _, call := range requests(content) {
		if !failing.MatchString(call) {
			return fmt.Sprintf("%q takes an error page for data: use --fail", call)
		}
	}
	return ""
}

// doesNotSay: nothing is traced into the journal.
func doesNotSay(content string) string {
	for _, line := range commands(content) {
		if found := tracing.FindString(line); found != "" {
			return fmt.Sprintf("%q traces into the journal", found)
		}
	}
	for _, call := range requests(content) {
		if talkative.MatchString(call) {
			return fmt.Sprintf("%q prints headers into the journal", call)
		}
	}
	return ""
}

// encrypts: nothing is fetched by plain HTTP, but from the machine itself, from a
// cloud's metadata service, and from what the settings name as proxy.
func encrypts(content string) string {
	for _, line := range commands(content) {
		for _, url := range plainHTTP.FindAllString(line, -1) {
			if !localHTTP.MatchString(url) {
				return fmt.Sprintf("%q is fetched by plain HTTP", url)
			}
		}
	}
	return ""
}

// strict: a script ends at an unset variable and at a failed pipe.
func strict(content string) string {
	if !strictMode.MatchString(content) {
		return "is without a line \"set -euo pipefail\" or \"set -uo pipefail\""
	}
	return ""
}

// knowsItsCA: the API server is asked with the cluster's CA, never with the
// system's.
func knowsItsCA(content string) string {
	for _, call := range requests(content) {
		if strings.Contains(call, "/api/v1/") && !strings.Contains(call, "--cacert ") {
			return fmt.Sprintf("%q asks the API server without its CA", call)
		}
	}
	return ""
}
