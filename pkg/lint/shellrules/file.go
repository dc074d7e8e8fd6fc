package shellrules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// writableMode finds a file that every user of the node can change.
func writableMode(file string, mode uint32) []found {
	if mode&0o002 == 0 {
		return nil
	}
	return []found{{lint.RuleWorldWritable, 0, fmt.Sprintf("%s has mode %03o: every user of the node can change it", file, mode), fmt.Sprintf("write permissions: %03o", mode&^0o022)}}
}

// findWorldWritable finds scripts that make a file writable for every user.
func findWorldWritable(s *script) []found {
	var out []found
	for _, c := range s.Calls {
		mode := ""
		switch c.Name {
		case "chmod":
			if i := slices.IndexFunc(c.Args, func(w shell.Word) bool { return !strings.HasPrefix(w.Text, "-") || symbolic.MatchString(w.Text) }); i >= 0 {
				mode = c.Args[i].Text
			}
		case "install", "mkdir":
			mode = modeOption(c.Args)
		case "umask":
			if len(c.Args) > 0 && isWorldWritableUmask(c.Args[0].Text) {
				out = append(out, found{lint.RuleWorldWritable, c.Line, "with umask " + c.Args[0].Text + " every user of the node can change the files that follow", "write umask 022, or 077 for files with a credential"})
			}
			continue
		}
		if isWorldWritableMode(mode) {
			out = append(out, found{lint.RuleWorldWritable, c.Line, fmt.Sprintf("%s sets mode %s: every user of the node can change the file", c.Name, mode), "write a mode without write permission for others, such as 755 or 644"})
		}
	}
	return out
}

func modeOption(args []shell.Word) string {
	for i, w := range args {
		switch {
		case (w.Text == "-m" || w.Text == "--mode") && i+1 < len(args):
			return args[i+1].Text
		case strings.HasPrefix(w.Text, "--mode="):
			return strings.TrimPrefix(w.Text, "--mode=")
		case shortMode.MatchString(w.Text):
			return w.Text[2:]
		}
	}
	return ""
}

var (
	shortMode = regexp.MustCompile(`^-m[0-7]+$`)
	grants    = regexp.MustCompile(`^([ugoa]*)[+=]([rwxXst]*)$`)
)

var symbolic = regexp.MustCompile(`^[ugoa]*([-+=][rwxXst]*)+(,[ugoa]*([-+=][rwxXst]*)+)*$`)

// isWorldWritableMode reports whether a mode gives write permission to others. The sticky bit, as on
// /tmp, prevents users from changing the files of others.
func isWorldWritableMode(mode string) bool {
	if n, err := strconv.ParseUint(mode, 8, 32); err == nil {
		return n&0o002 != 0 && n&0o1000 == 0
	}
	for clause := range strings.SplitSeq(mode, ",") {
		if m := grants.FindStringSubmatch(clause); m != nil &&
			strings.ContainsAny(m[1], "oa") && strings.Contains(m[2], "w") && !strings.Contains(m[2], "t") {
			return true
		}
	}
	return false
}

// isWorldWritableUmask reports whether files created with a umask are writable for others.
func isWorldWritableUmask(mask string) bool {
	n, err := strconv.ParseUint(mask, 8, 32)
	return err == nil && n&0o002 == 0
}

// noPassword matches a sudo rule with which a user becomes root without a password.
var noPassword = regexp.MustCompile(`(?m)^[^#\n]*\bNOPASSWD\s*:`)

// checkSudoersFile checks a configuration file of sudo.
func checkSudoersFile(file, content string) []found {
	if file = path.Clean(file); file != "/etc/sudoers" && !strings.HasPrefix(file, "/etc/sudoers.d/") {
		return nil
	}
	at := noPassword.FindStringIndex(content)
	if at == nil {
		return nil
	}
	return []found{{lint.RulePasswordlessSudo, lineAt(content, at[1]-1), "sudo does not require a password: anyone with access to the account is root", "remove it, or list in a suppression who needs it and why"}}
}

// sudoScript finds scripts that write such a file.
func sudoScript(s *script) []found {
	var out []found
	for _, w := range s.writtenFiles() {
		if noPassword.MatchString(w.content) {
			out = append(out, found{lint.RulePasswordlessSudo, w.line, "the script lets an account use sudo without a password: anyone with access to it is root", "remove it, or list in a suppression who needs it and why"})
		}
	}
	return out
}

var authorizedKeys = regexp.MustCompile(`(^|/)authorized_keys2?$|/\.ssh/authorized_keys\.d/|^/etc/ssh/authorized_keys`)

// findAuthorizedKeysFile finds a profile that sets authorized SSH keys.
func findAuthorizedKeysFile(file string) []found {
	if !authorizedKeys.MatchString(path.Clean(file)) {
		return nil
	}
	return []found{{lint.RuleAuthorizedKeys, 0, "the profile sets the SSH keys of every node that uses it", keysFix}}
}

const keysFix = "set SSH keys in the MachineDeployment (spec.template.spec.providerSpec.value.sshPublicKeys), where each pool has its own and you can revoke them"

// findAuthorizedKeysWrites finds scripts that write such a file.
func findAuthorizedKeysWrites(s *script) []found {
	var out []found
	for _, w := range s.writtenFiles() {
		if authorizedKeys.MatchString(w.file) {
			out = append(out, found{lint.RuleAuthorizedKeys, w.line, "the script sets the SSH keys of the node", keysFix})
		}
	}
	return out
}

// output is a text that a script writes to a file.
type output struct {
	file, content string
	line          int
}

// writtenFiles returns the texts that a script writes with redirections, tee, install and cp.
func (s *script) writtenFiles() []output {
	var out []output
	syntax.Walk(s.File, func(n syntax.Node) bool {
		stmt, ok := n.(*syntax.Stmt)
		if !ok {
			return true
		}
		for _, w := range s.OutputFiles(stmt) {
			out = append(out, output{file: w.Text, content: s.statementText(stmt), line: shell.LineOf(stmt)})
		}
		return true
	})
	for _, c := range s.Calls {
		switch c.Name {
		case "tee", "install", "cp", "mv", "ln":
			content := s.statementText(c.Stmt)
			for _, feeds := range c.UpstreamCalls() {
				content += s.statementText(feeds.Stmt)
			}
			for i, w := range c.Args {
				if c.Name == "tee" || i == len(c.Args)-1 {
					out = append(out, output{file: w.Text, content: content, line: c.Line})
				}
			}
		}
	}
	return out
}

// statementText returns the text in a statement's command and here-documents.
func (s *script) statementText(stmt *syntax.Stmt) string {
	var b strings.Builder
	for _, w := range s.InlineStdin(stmt) {
		b.WriteString(w.Text + "\n")
	}
	if expr, ok := stmt.Cmd.(*syntax.CallExpr); ok {
		for _, a := range expr.Args {
			b.WriteString(s.Word(a).Text + " ")
		}
	}
	return b.String()
}

var (
	yumUnsigned = regexp.MustCompile(`(?mi)^\s*(repo_)?gpgcheck\s*=\s*(0|no|false|off)\s*$`)
	aptTrusted  = regexp.MustCompile(`(?m)^\s*deb(-src)?\s+\[[^\]]*\btrusted=yes\b`)
	insecureINI = regexp.MustCompile(`(?mi)^\s*sslverify\s*=\s*(0|no|false|off)\s*$|Acquire::https?(::[^\s:]+)?::Verify-(Peer|Host)\s+"?(false|0|no)`)
)

// unverifiedRepositories finds package repositories that are used without checking signatures or
// certificates, in files and in here-documents of scripts.
func unverifiedRepositories(content string) []found {
	var out []found
	// A search for words costs less than one of the expressions, and few texts have them.
	lower := strings.ToLower(content)
	if !slices.ContainsFunc([]string{"gpgcheck", "trusted=yes", "sslverify", "::verify-"}, func(word string) bool { return strings.Contains(lower, word) }) {
		return nil
	}
	for _, m := range yumUnsigned.FindAllStringSubmatchIndex(content, -1) {
		if m[2] >= 0 {
			continue // repo_gpgcheck: Docker and others sign packages, not their list
		}
		out = append(out, found{lint.RuleUnsignedPackages, lineAt(content, m[1]-1), "the package manager installs packages of the repository without checking their signatures", "write gpgcheck=1 and gpgkey="})
	}
	if at := aptTrusted.FindStringIndex(content); at != nil {
		out = append(out, found{lint.RuleUnsignedPackages, lineAt(content, at[1]-1), "the package manager installs packages of the repository without checking their signatures", "write signed-by=KEYRING in place of trusted=yes"})
	}
	if at := insecureINI.FindStringIndex(content); at != nil {
		out = append(out, found{lint.RuleInsecureDownload, lineAt(content, at[1]-1), "the package manager accepts any certificate, so an attacker on the network can replace the content", "remove it; add the CA to the system's bundle"})
	}
	return out
}
