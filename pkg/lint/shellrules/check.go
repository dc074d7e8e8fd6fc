package shellrules

import (
	"context"
	"errors"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// found is a finding whose position in the profile is not determined yet.
type found struct {
	rule         string
	line         int // of the text; 0 is the whole text
	message, fix string
}

// Check is a lint.TextCheck: it finds parts of a text that a reviewer would object to. It
// is stateless and safe for concurrent use.
func Check(ctx context.Context, t lint.Text) []lint.Finding {
	var out []lint.Finding
	for _, f := range CheckText(ctx, t) {
		finding := t.Finding(f.Rule, f.Severity, f.Line, f.Message)
		finding.Fix = f.Fix
		out = append(out, finding)
	}
	return out
}

// CheckText applies the rules about paths, modes, lines and scripts to a text alone, which need not be
// part of a profile. Lines are those of the text. Findings are sorted by line; after the context has
// ended, some can be missing.
func CheckText(ctx context.Context, t lint.Text) []lint.Finding {
	content := string(t.Content)
	all := findCredentialsByFormat(content)
	if strings.HasPrefix(t.File, "/") {
		all = append(all, writableMode(t.File, t.Mode)...)
		all = append(all, readableCredential(t.Mode, content)...)
		all = append(all, findAuthorizedKeysFile(t.File)...)
		all = append(all, checkSudoersFile(t.File, content)...)
	}
	switch t.Kind {
	case lint.KindUnit:
		all = append(all, unitCredential(content)...)
		all = append(all, findAssignedCredentials(content, 1, false)...)
		all = append(all, unitScripts(ctx, content)...)
	case lint.KindShell:
		all = append(all, shellScript(ctx, t)...)
		all = append(all, unverifiedRepositories(content)...)
	case lint.KindOther:
		all = append(all, unverifiedRepositories(content)...)
		all = append(all, findAssignedCredentials(content, 1, false)...)
	case lint.KindScript: // scripts of other languages are not parsed
		all = append(all, findAssignedCredentials(content, 1, true)...)
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.line - b.line })
	var out []lint.Finding
	seen := map[found]bool{}
	for _, f := range all {
		if !seen[f] {
			seen[f] = true
			out = append(out, lint.Finding{Rule: f.rule, Severity: lint.SeverityOf(f.rule), Line: f.line, Message: f.message, Fix: f.fix})
		}
	}
	return out
}

// scriptRules check a parsed script (script.go): its commands, the variables with credentials, and
// its requests. To add a rule, append its function here, describe it in ../rules.go, and add scripts
// that it finds and does not find to testdata/samples.txt.
var scriptRules = []func(*script) []found{
	disabledCertificateChecks, unsignedPackages, executedDownload, uncheckedDownload, unpinnedDownload,
	credentialArgument, printedCredentials, missingStrictMode, unsafeEval, findWorldWritable, sudoScript, findAuthorizedKeysWrites, scriptCredentials,
}

func shellScript(ctx context.Context, t lint.Text) []found {
	s, err := parseScript(string(t.Content), t.Interpreter, !strings.HasPrefix(t.File, "/"))
	if err != nil {
		at, message := 0, err.Error()
		if wrong, ok := errors.AsType[syntax.ParseError](err); ok {
			at, message = int(wrong.Pos.Line()), wrong.Text
		} else if language, ok := errors.AsType[syntax.LangError](err); ok {
			at, message = int(language.Pos.Line()), language.Error()
		}
		return []found{{lint.RuleShellSyntax, at, "the script has a syntax error: " + message, "fix it; \"bash -n FILE\" prints more"}}
	}
	s.done = ctx.Done()
	return s.runRules()
}

// runRules returns the findings of all script rules.
func (s *script) runRules() []found {
	var out []found
	for _, rule := range scriptRules {
		if s.isStopped() {
			break
		}
		out = append(out, rule(s)...)
	}
	return out
}

// unitScripts checks the commands of a unit, and the scripts that they pass to a shell:
// ExecStart=/bin/sh -c '...'.
func unitScripts(ctx context.Context, content string) []found {
	var out []found
	for _, line := range shell.UnitCommands(content) {
		s, err := parseScript(line.Text, "sh", true)
		if err != nil {
			continue // systemd's quoting differs from that of a shell
		}
		s.done = ctx.Done()
		for _, f := range checkWithInlineScripts(s) {
			f.line = line.Number
			out = append(out, f)
		}
	}
	return out
}

// checkWithInlineScripts checks a command line, and the script that it passes to a shell.
func checkWithInlineScripts(s *script) []found {
	out := s.runRules()
	for _, c := range s.Calls {
		text := c.InlineScript()
		if text == "" {
			continue
		}
		if inner, err := parseScript(text, "bash", true); err == nil {
			inner.done = s.done
			out = append(out, inner.runRules()...)
		}
	}
	return out
}
