package shellrules

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules/internal/credential"
)

// findAssignedCredentials finds credentials that a text assigns. The number of its first line is first.
func findAssignedCredentials(text string, first int, quoted credential.QuotedOnly) []found {
	var out []found
	for _, a := range credential.FindAssigned(text, quoted) {
		out = append(out, assignedCredential(a.What, first+lineAt(text, a.Offset)-1))
	}
	return out
}

// assignedCredential reports the name of the variable, and never its value (security.md 15).
func assignedCredential(name string, line int) found {
	return found{lint.RuleLiteralCredential, line, fmt.Sprintf("the profile contains the value of %s, and anyone with read access to the repository can read it, now and in its history", formatArgument(name)), literalFix}
}

// scriptCredentials finds credentials in a script that are assigned to a variable, passed to a
// program, or part of a text that it writes.
func scriptCredentials(s *script) []found {
	var out []found
	texts := func(w *syntax.Word) {
		text, at := s.Word(w), shell.LineOf(w)
		if !text.Dynamic || strings.Contains(text.Text, "\n") {
			out = append(out, findAssignedCredentials(text.Text, at, false)...)
		}
	}
	syntax.Walk(s.File, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name == nil || n.Value == nil {
				break
			}
			if w := s.Word(n.Value); !w.Dynamic && w.Text != "" && credential.Is(n.Name.Value, w.Text) {
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
		return !s.isStopped()
	})
	return append(out, chpasswdPasswords(s)...)
}

// chpasswdPasswords finds passwords for chpasswd(8), which reads "name:password" for each account.
func chpasswdPasswords(s *script) []found {
	var out []found
	for _, c := range s.Calls {
		if c.Name != "chpasswd" || slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Text == "-e" || w.Text == "--encrypted" }) {
			continue
		}
		fed := s.InlineStdin(c.Stmt)
		for _, feeds := range c.UpstreamCalls() {
			fed = append(fed, feeds.Args...)
		}
		for _, w := range fed {
			if account, password, ok := strings.Cut(w.Text, ":"); ok && !w.Dynamic && credential.Is("password", strings.TrimSpace(password)) {
				out = append(out, found{lint.RuleLiteralCredential, c.Line, fmt.Sprintf("the profile contains the password of account %s, and anyone with read access to the repository can read it, now and in its history", formatArgument(account)), literalFix})
			}
		}
	}
	return out
}
