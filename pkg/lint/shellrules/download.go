package shellrules

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules/internal/request"
)

var (
	noTLSCheck   = regexp.MustCompile(`sslverify=(0|false|no)$`)
	aptUnsigned  = regexp.MustCompile(`(?i)^apt::get::allow-?unauthenticated=(true|1|yes)$`)
	interpreters = regexp.MustCompile(`^(python|perl|ruby|node)[0-9.]*$`)
	readsScript  = regexp.MustCompile(`^-[a-z]*s[a-z]*$`)
)

// disabledCertificateChecks finds downloads that an attacker on the network can replace.
func disabledCertificateChecks(s *script) []found {
	var out []found
	for _, r := range s.requests() {
		if option := r.Insecure.Written; option != "" {
			out = append(out, found{lint.RuleInsecureDownload, r.Insecure.Line, fmt.Sprintf("%s %s accepts any certificate, so an attacker on the network can replace the content", r.Name, option),
				"remove " + option + "; for a private CA pass --cacert FILE, or add the CA to the system's bundle"})
		}
	}
	for _, c := range s.Calls {
		if option := insecureOption(c); option != "" {
			out = append(out, found{lint.RuleInsecureDownload, c.Line, fmt.Sprintf("%s %s accepts any certificate, so an attacker on the network can replace the content", c.Name, option),
				"remove " + option + "; add the CA to the system's bundle"})
		}
	}
	for _, name := range []string{"GIT_SSL_NO_VERIFY", "PYTHONHTTPSVERIFY", "NODE_TLS_REJECT_UNAUTHORIZED"} {
		if value, ok := s.Constants[name]; ok && (value == "0") == (name != "GIT_SSL_NO_VERIFY") {
			out = append(out, found{lint.RuleInsecureDownload, s.AssignedAt(name), name + "=" + value + " accepts any certificate, so an attacker on the network can replace the content", "remove it"})
		}
	}
	return out
}

// insecureOption returns the option with which another program accepts any certificate.
func insecureOption(c *shell.Call) string {
	for _, w := range c.Args {
		lower := strings.ToLower(w.Text)
		switch {
		case strings.HasPrefix(c.Name, "apt") && (strings.HasSuffix(lower, "::verify-peer=false") || strings.HasSuffix(lower, "::verify-host=false")),
			c.Name == "git" && lower == "http.sslverify=false",
			(c.Name == "yum" || c.Name == "dnf") && noTLSCheck.MatchString(lower),
			strings.HasPrefix(c.Name, "pip") && strings.HasPrefix(lower, "--trusted-host"):
			return w.Text
		}
	}
	return ""
}

// unsignedPackages finds package managers that accept unsigned packages.
func unsignedPackages(s *script) []found {
	var out []found
	for _, c := range s.Calls {
		for _, w := range c.Args {
			bad := false
			switch c.Name {
			case "apt-get", "apt":
				bad = slices.Contains([]string{"--allow-unauthenticated", "--allow-insecure-repositories", "--force-yes"}, w.Text) ||
					aptUnsigned.MatchString(w.Text)
			case "yum", "dnf", "microdnf", "zypper":
				bad = w.Text == "--nogpgcheck" || w.Text == "--no-gpg-checks"
			case "rpm":
				bad = w.Text == "--nosignature" || w.Text == "--nodigest"
			}
			if bad {
				out = append(out, found{lint.RuleUnsignedPackages, c.Line, fmt.Sprintf("%s %s installs unsigned packages", c.Name, w.Text),
					"remove " + w.Text + " and install the key of the repository"})
			}
		}
	}
	return out
}

// executedDownload finds downloads that a shell executes directly.
func executedDownload(s *script) []found {
	const fix = "download it to a file, check its SHA-256, then run the file"
	var out []found
	report := func(c *shell.Call, method string) {
		out = append(out, found{lint.RuleRunDownload, c.Line, method + " runs an incomplete download that nothing has verified", fix})
	}
	fetching := map[*shell.Call]bool{}
	fetches := map[syntax.Node]string{}
	for _, r := range s.requests() {
		fetching[r.Call] = true
		fetches[r.Stmt] = r.Name
	}
	isFetch := func(n syntax.Node) (name string) {
		syntax.Walk(n, func(n syntax.Node) bool {
			name = cmp.Or(fetches[n], name)
			return true
		})
		return name
	}
	for _, c := range s.Calls {
		if c.Pipe != nil && runsStdin(c) {
			for _, part := range c.Pipe.Calls[:c.PipelineIndex] {
				if i := slices.IndexFunc(part, func(c *shell.Call) bool { return fetching[c] }); i >= 0 {
					report(c, part[i].Name+" | "+c.Name)
				}
			}
		}
		if !slices.Contains([]string{"eval", "source", "."}, c.Name) && !shell.IsShellProgram(c.Name) {
			continue
		}
		for _, w := range c.Args {
			if name := isFetch(w.Node); name != "" {
				report(c, c.Name+" on the output of "+name)
			}
		}
		for _, r := range c.Stmt.Redirs {
			if name := isFetch(r.Word); name != "" {
				report(c, c.Name+" on the output of "+name)
			}
		}
	}
	return out
}

// runsStdin reports whether a program executes its standard input.
func runsStdin(c *shell.Call) bool {
	if !shell.IsShellProgram(c.Name) && !interpreters.MatchString(c.Name) {
		return false
	}
	for _, w := range c.Args {
		switch {
		case w.Text == "-", w.Text == "-s", w.Text == "/dev/stdin":
			return true
		case shell.IsShellProgram(c.Name) && readsScript.MatchString(w.Text):
			return true
		case w.Text == "-c", w.Text == "-e", w.Text == "-m", !strings.HasPrefix(w.Text, "-"):
			return false
		}
	}
	return true
}

// digests lists programs that compute a digest, or verify a signature. MD5 and SHA-1 only
// protect against accidental changes.
var digests = []string{"sha224sum", "sha256sum", "sha384sum", "sha512sum", "shasum", "b2sum", "b3sum", "gpg", "gpg2", "gpgv", "cosign", "minisign", "signify", "openssl", "rpm", "rpmkeys"}

// verificationCalls returns the calls that compare a download with a checksum or verify its signature.
func (s *script) verificationCalls() []*shell.Call {
	var out []*shell.Call
	for _, c := range s.Calls {
		if !slices.Contains(digests, c.Name) {
			continue
		}
		has := func(texts ...string) bool {
			return slices.ContainsFunc(c.Args, func(w shell.Word) bool { return slices.Contains(texts, w.Text) })
		}
		switch c.Name {
		case "gpg", "gpg2":
			if !has("--verify") {
				continue
			}
		case "cosign":
			if !has("verify", "verify-blob", "verify-attestation", "verify-blob-attestation") {
				continue
			}
		case "openssl":
			if !has("dgst", "sha256", "sha512") {
				continue
			}
		case "rpm", "rpmkeys":
			if !has("-K", "--checksig") {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// isVerified reports whether a script compares a file with a checksum or a signature. If the
// script computes the file's name, or the names that are checked, any check is sufficient:
// lint does not know computed values.
func (s *script) isVerified(target shell.Word, checks []*shell.Call) bool {
	for _, c := range checks {
		if target.Dynamic || target.Text == "" || s.Mentions(c, path.Base(target.Text)) || !s.namesFiles(c) {
			return true
		}
		// echo "SUM  FILE" | sha256sum --check
		if slices.ContainsFunc(c.UpstreamCalls(), func(feeds *shell.Call) bool { return s.Mentions(feeds, path.Base(target.Text)) }) {
			return true
		}
	}
	return false
}

// namesFiles reports whether a call that verifies files names them. A check of a list of sums, or
// of computed names, does not.
func (s *script) namesFiles(c *shell.Call) bool {
	words := append(s.InlineStdin(c.Stmt), c.Args...)
	for _, feeds := range c.UpstreamCalls() {
		words = append(words, feeds.Args...)
	}
	for _, w := range words {
		base := strings.ToLower(path.Base(w.Text))
		if w.Dynamic || strings.Contains(base, "sums") || strings.HasSuffix(base, ".sha256") || strings.HasSuffix(base, ".sha512") || strings.Contains(base, "checksum") {
			return false
		}
	}
	for _, r := range c.Stmt.Redirs {
		if r.Op == syntax.RdrIn && r.Word != nil {
			return false
		}
	}
	return true
}

// sumFile matches downloads that need no checksum: lists of sums, signatures, and keys.
var sumFile = regexp.MustCompile(`(?i)(\.(sha\d+(sum)?|asc|sig|minisig|pem|gpg|key)|sums?(\.txt)?|checksums?[^/]*|/gpg)$`)

// unpacks lists programs that read an archive from standard input.
var unpacks = []string{"tar", "gunzip", "unzip", "bsdtar", "cpio", "xz", "zstd", "gzip", "bunzip2", "unxz", "dd", "install"}

// uncheckedDownload finds downloads that are not compared with a checksum or signature.
func uncheckedDownload(s *script) []found {
	checks := s.verificationCalls()
	var out []found
	for _, r := range s.requests() {
		if s.isStopped() {
			break
		}
		rule, how := lint.RuleUncheckedDownload, ""
		if i := slices.IndexFunc(r.URLs, func(w shell.Word) bool { return request.IsRemotePlainHTTP(w.Text) }); i >= 0 {
			rule, how = lint.RuleHTTPDownload, " over http"
		} else if r.Personal {
			continue
		}
		for _, target := range r.Targets {
			if s.isVerified(target, checks) || rule == lint.RuleUncheckedDownload && (sumFile.MatchString(target.Text) || slices.ContainsFunc(r.URLs, func(w shell.Word) bool { return sumFile.MatchString(w.Text) })) {
				continue
			}
			out = append(out, found{rule, r.Line, fmt.Sprintf("%s is downloaded%s and not compared with a checksum", formatArgument(target.Text), how), downloadFix(rule)})
			break
		}
		if r.Stdout && r.Pipe != nil {
			if to := unpackProgram(r); to != "" {
				out = append(out, found{rule, r.Line, fmt.Sprintf("the download of %s%s is piped into %s, so its checksum cannot be compared", r.Name, how, to), downloadFix(rule)})
			}
		}
		if rule == lint.RuleHTTPDownload && len(r.Targets) == 0 && (r.Pipe == nil || unpackProgram(r) == "") && len(checks) == 0 {
			out = append(out, found{rule, r.Line, r.Name + " uses http, so an attacker on the network can replace the content", downloadFix(rule)})
		}
	}
	return append(out, s.httpFunctionArguments(checks)...)
}

func downloadFix(rule string) string {
	if rule == lint.RuleHTTPDownload {
		return "use https, and compare the file with a SHA-256 from the profile"
	}
	return `download to a file and compare it: echo "$sha256  $file" | sha256sum --check --status`
}

// unpackProgram returns the program that unpacks the output of a request.
func unpackProgram(r *request.Request) string {
	for _, part := range r.Pipe.Calls[r.PipelineIndex+1:] {
		for _, c := range part {
			if slices.Contains(unpacks, c.Name) {
				return c.Name
			}
		}
	}
	return ""
}

// httpFunctionArguments finds unencrypted URLs in arguments of a function of the script, which
// downloads them or passes them on.
func (s *script) httpFunctionArguments(checks []*shell.Call) []found {
	if len(checks) > 0 || len(s.requests()) == 0 {
		return nil
	}
	var out []found
	for _, c := range s.Calls {
		if s.Functions[c.Name] == nil {
			continue
		}
		for _, w := range c.Args {
			if request.IsRemotePlainHTTP(w.Text) {
				out = append(out, found{lint.RuleHTTPDownload, c.Line, fmt.Sprintf("%s gets an unencrypted URL, and nothing compares the download with a checksum", c.Name), downloadFix(lint.RuleHTTPDownload)})
			}
		}
	}
	return out
}

// unpinnedURL matches a URL whose content changes with a new release.
var unpinnedURL = regexp.MustCompile(`(?i)^https?://.*(/latest/|/latest$|[/:]latest\.(txt|tar|tgz|zip)|/(stable|latest)(-[0-9.]+)?\.txt$|github\.com/[^/]+/[^/]+/(raw|archive)/(refs/heads/)?(main|master|HEAD)\b)`)

var rawBranch = regexp.MustCompile(`(?i)^https?://raw\.githubusercontent\.com/[^/]+/[^/]+/(refs/heads/)?(main|master|HEAD)/`)

// pinned lists the packages that a node needs to join its cluster. The versions of other
// packages are left to the distribution.
var pinned = []string{
	"kubelet", "kubeadm", "kubectl", "containerd", "containerd.io", "runc", "docker-ce", "docker.io", "cri-o",
}

// unpinnedDownload finds downloads and packages whose content can change without a commit.
func unpinnedDownload(s *script) []found {
	var out []found
	for _, c := range s.Calls {
		if c.Name != "curl" && c.Name != "wget" && s.Functions[c.Name] == nil {
			continue
		}
		for _, w := range c.Args {
			if (unpinnedURL.MatchString(w.Text) || rawBranch.MatchString(w.Text)) && (!request.IsPlainHTTP(w.Text) || !request.IsLocalOrMetadata(w.Text)) {
				out = append(out, found{lint.RuleUnpinned, c.Line, fmt.Sprintf("%s has no version, so its content changes with each release", formatArgument(w.Text)), "write the version, and change it in a commit"})
			}
		}
	}
	for _, c := range s.Calls {
		manager, packages := s.installedPackages(c)
		for _, w := range packages {
			if slices.Contains(pinned, w.Text) {
				example := w.Text + "-VERSION"
				if strings.HasPrefix(manager, "apt") {
					example = w.Text + "=VERSION"
				}
				out = append(out, found{lint.RuleUnpinned, c.Line, fmt.Sprintf("%s installs %s in the current version of the repository, which changes", c.Name, w.Text), "write the version: " + example})
			}
		}
	}
	return out
}

var managers = []string{"apt-get", "apt", "aptitude", "yum", "dnf", "microdnf", "tdnf", "zypper"}

// installedPackages returns the packages that a package manager installs, directly or in a function
// of the script that passes its arguments on.
func (s *script) installedPackages(c *shell.Call) (manager string, packages []shell.Word) {
	manager = c.Name
	if of := s.Functions[c.Name]; of != nil {
		manager = s.managerIn(of)
	}
	if !slices.Contains(managers, manager) {
		return "", nil
	}
	i := slices.IndexFunc(c.Args, func(w shell.Word) bool { return w.Text == "install" })
	if i < 0 {
		return "", nil
	}
	return manager, slices.DeleteFunc(slices.Clone(c.Args[i+1:]), func(w shell.Word) bool { return strings.HasPrefix(w.Text, "-") })
}

// managerIn returns the package manager to which a function passes its arguments.
func (s *script) managerIn(f *syntax.FuncDecl) string {
	for _, c := range s.Calls {
		inside := !f.Body.Pos().After(c.Stmt.Pos()) && f.Body.End().After(c.Stmt.Pos())
		if inside && slices.Contains(managers, c.Name) && slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Text == "${@}" }) {
			return c.Name
		}
	}
	return ""
}

// formatArgument formats an argument for a message, without the user info of a URL.
func formatArgument(text string) string {
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		text = scheme + "://" + rest[strings.LastIndexByte(host, '@')+1:]
	}
	const most = 120 // bytes
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Sprintf("%q", text)
}
