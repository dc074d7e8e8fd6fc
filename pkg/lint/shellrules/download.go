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
)

var (
	noTLSCheck   = regexp.MustCompile(`sslverify=(0|false|no)$`)
	aptUnsigned  = regexp.MustCompile(`(?i)^apt::get::allow-?unauthenticated=(true|1|yes)$`)
	interpreters = regexp.MustCompile(`^(python|perl|ruby|node)[0-9.]*$`)
	readsScript  = regexp.MustCompile(`^-[a-z]*s[a-z]*$`)
)

// insecureDownload: whoever is on the way decides what is downloaded.
func insecureDownload(s *script) []found {
	var out []found
	for _, r := range s.requests() {
		if option := r.insecure.given; option != "" {
			out = append(out, found{lint.RuleInsecureDownload, r.insecure.line, fmt.Sprintf("%s %s takes any certificate, so whoever is on the way decides what arrives", r.name, option),
				"leave " + option + " out; for a CA of your own give --cacert FILE, or have the CA in the system's bundle"})
		}
	}
	for _, c := range s.calls {
		if option := insecureOption(c); option != "" {
			out = append(out, found{lint.RuleInsecureDownload, c.line, fmt.Sprintf("%s %s takes any certificate, so whoever is on the way decides what arrives", c.name, option),
				"leave " + option + " out; have the CA in the system's bundle"})
		}
	}
	for _, name := range []string{"GIT_SSL_NO_VERIFY", "PYTHONHTTPSVERIFY", "NODE_TLS_REJECT_UNAUTHORIZED"} {
		if value, ok := s.constants[name]; ok && (value == "0") == (name != "GIT_SSL_NO_VERIFY") {
			out = append(out, found{lint.RuleInsecureDownload, s.assigned(name), name + "=" + value + " takes any certificate, so whoever is on the way decides what arrives", "leave it out"})
		}
	}
	return out
}

// insecureOption is what tells other programs to take any certificate.
func insecureOption(c *call) string {
	for _, w := range c.args {
		lower := strings.ToLower(w.text)
		switch {
		case strings.HasPrefix(c.name, "apt") && (strings.HasSuffix(lower, "::verify-peer=false") || strings.HasSuffix(lower, "::verify-host=false")),
			c.name == "git" && lower == "http.sslverify=false",
			(c.name == "yum" || c.name == "dnf") && noTLSCheck.MatchString(lower),
			strings.HasPrefix(c.name, "pip") && strings.HasPrefix(lower, "--trusted-host"):
			return w.text
		}
	}
	return ""
}

// unsignedPackages: a package manager that takes packages which nobody signed.
func unsignedPackages(s *script) []found {
	var out []found
	for _, c := range s.calls {
		for _, w := range c.args {
			bad := false
			switch c.name {
			case "apt-get", "apt":
				bad = slices.Contains([]string{"--allow-unauthenticated", "--allow-insecure-repositories", "--force-yes"}, w.text) ||
					aptUnsigned.MatchString(w.text)
			case "yum", "dnf", "microdnf", "zypper":
				bad = w.text == "--nogpgcheck" || w.text == "--no-gpg-checks"
			case "rpm":
				bad = w.text == "--nosignature" || w.text == "--nodigest"
			}
			if bad {
				out = append(out, found{lint.RuleUnsignedPackages, c.line, fmt.Sprintf("%s %s installs packages that nobody has signed", c.name, w.text),
					"leave " + w.text + " out and install the key of the repository"})
			}
		}
	}
	return out
}

// runDownload: a script that runs while it arrives.
func runDownload(s *script) []found {
	const fix = "download it to a file, check its SHA-256, then run the file"
	var out []found
	say := func(c *call, way string) {
		out = append(out, found{lint.RuleRunDownload, c.line, way + " runs what has arrived so far, and nobody has checked it", fix})
	}
	fetching := map[*call]bool{}
	fetches := map[syntax.Node]string{}
	for _, r := range s.requests() {
		fetching[r.call] = true
		fetches[r.stmt] = r.name
	}
	isFetch := func(n syntax.Node) (name string) {
		syntax.Walk(n, func(n syntax.Node) bool {
			name = cmp.Or(fetches[n], name)
			return true
		})
		return name
	}
	for _, c := range s.calls {
		if c.pipe != nil && runsStdin(c) {
			for _, part := range c.pipe.calls[:c.place] {
				if i := slices.IndexFunc(part, func(c *call) bool { return fetching[c] }); i >= 0 {
					say(c, part[i].name+" | "+c.name)
				}
			}
		}
		if !slices.Contains([]string{"eval", "source", "."}, c.name) && !isShell(c.name) {
			continue
		}
		for _, w := range c.args {
			if name := isFetch(w.node); name != "" {
				say(c, c.name+" on the output of "+name)
			}
		}
		for _, r := range c.stmt.Redirs {
			if name := isFetch(r.Word); name != "" {
				say(c, c.name+" on the output of "+name)
			}
		}
	}
	return out
}

func isShell(name string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ash"}, name)
}

// runsStdin reports whether a program takes its standard input for a program.
func runsStdin(c *call) bool {
	if !isShell(c.name) && !interpreters.MatchString(c.name) {
		return false
	}
	for _, w := range c.args {
		switch {
		case w.text == "-", w.text == "-s", w.text == "/dev/stdin":
			return true
		case isShell(c.name) && readsScript.MatchString(w.text):
			return true
		case w.text == "-c", w.text == "-e", w.text == "-m", !strings.HasPrefix(w.text, "-"):
			return false
		}
	}
	return true
}

// digests are programs that compute what a file can be compared by, or check a
// signature. MD5 and SHA-1 protect from accidents only.
var digests = []string{"sha224sum", "sha256sum", "sha384sum", "sha512sum", "shasum", "b2sum", "b3sum", "gpg", "gpg2", "gpgv", "cosign", "minisign", "signify", "openssl", "rpm", "rpmkeys"}

// checks are the calls that compare a download with what it should be.
func (s *script) checks() []*call {
	var out []*call
	for _, c := range s.calls {
		if !slices.Contains(digests, c.name) {
			continue
		}
		has := func(texts ...string) bool {
			return slices.ContainsFunc(c.args, func(w word) bool { return slices.Contains(texts, w.text) })
		}
		switch c.name {
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

// checked reports whether a script compares a file with a checksum or a signature.
// Where the file's name is computed, or the names that are checked are, any check will
// do: what a script computes is not for lint to know.
func (s *script) checked(target word, checks []*call) bool {
	for _, c := range checks {
		if target.dynamic || target.text == "" || s.mentions(c, path.Base(target.text)) || !s.names(c) {
			return true
		}
		// echo "SUM  FILE" | sha256sum --check
		if c.pipe != nil {
			for _, part := range c.pipe.calls[:c.place] {
				for _, feeds := range part {
					if s.mentions(feeds, path.Base(target.text)) {
						return true
					}
				}
			}
		}
	}
	return false
}

// names reports whether a check names the files that it is for: one of a list of
// sums, and one of computed names, does not.
func (s *script) names(c *call) bool {
	words := append(s.stdin(c.stmt), c.args...)
	if c.pipe != nil {
		for _, part := range c.pipe.calls[:c.place] {
			for _, feeds := range part {
				words = append(words, feeds.args...)
			}
		}
	}
	for _, w := range words {
		base := strings.ToLower(path.Base(w.text))
		if w.dynamic || strings.Contains(base, "sums") || strings.HasSuffix(base, ".sha256") || strings.HasSuffix(base, ".sha512") || strings.Contains(base, "checksum") {
			return false
		}
	}
	for _, r := range c.stmt.Redirs {
		if r.Op == syntax.RdrIn && r.Word != nil {
			return false
		}
	}
	return true
}

// sumFile is what a download is compared with, and keys, whose publishers give none.
var sumFile = regexp.MustCompile(`(?i)(\.(sha\d+(sum)?|asc|sig|minisig|pem|gpg|key)|sums?(\.txt)?|checksums?[^/]*|/gpg)$`)

// unpacks are programs that take an archive from standard input.
var unpacks = []string{"tar", "gunzip", "unzip", "bsdtar", "cpio", "xz", "zstd", "gzip", "bunzip2", "unxz", "dd", "install"}

// uncheckedDownload: what is downloaded is not compared with what it should be.
func uncheckedDownload(s *script) []found {
	checks := s.checks()
	var out []found
	for _, r := range s.requests() {
		if s.stopped() {
			break
		}
		rule, how := lint.RuleUncheckedDownload, ""
		if i := slices.IndexFunc(r.urls, func(w word) bool { return plainHTTP(w.text) }); i >= 0 {
			rule, how = lint.RuleHTTPDownload, " over http"
		} else if r.personal {
			continue
		}
		for _, target := range r.targets {
			if s.checked(target, checks) || rule == lint.RuleUncheckedDownload && (sumFile.MatchString(target.text) || slices.ContainsFunc(r.urls, func(w word) bool { return sumFile.MatchString(w.text) })) {
				continue
			}
			out = append(out, found{rule, r.line, fmt.Sprintf("%s is downloaded%s and not compared with a checksum", shown(target.text), how), downloadFix(rule)})
			break
		}
		if r.stdout && r.pipe != nil {
			if to := unpacking(r); to != "" {
				out = append(out, found{rule, r.line, fmt.Sprintf("what %s downloads%s goes straight into %s, where no checksum can be compared", r.name, how, to), downloadFix(rule)})
			}
		}
		if rule == lint.RuleHTTPDownload && len(r.targets) == 0 && (r.pipe == nil || unpacking(r) == "") && len(checks) == 0 {
			out = append(out, found{rule, r.line, r.name + " asks over http: whoever is on the way decides what arrives", downloadFix(rule)})
		}
	}
	return append(out, s.httpArguments(checks)...)
}

func downloadFix(rule string) string {
	if rule == lint.RuleHTTPDownload {
		return "use https, and compare what arrived with a SHA-256 that the profile has"
	}
	return `download to a file and compare it: echo "$sha256  $file" | sha256sum --check --status`
}

// unpacking is the program to which a request's output goes that unpacks it.
func unpacking(r *request) string {
	for _, part := range r.pipe.calls[r.place+1:] {
		for _, c := range part {
			if slices.Contains(unpacks, c.name) {
				return c.name
			}
		}
	}
	return ""
}

// httpArguments: a URL without encryption that is handed to a function of the script,
// which downloads it or hands it on.
func (s *script) httpArguments(checks []*call) []found {
	if len(checks) > 0 || len(s.requests()) == 0 {
		return nil
	}
	var out []found
	for _, c := range s.calls {
		if s.functions[c.name] == nil {
			continue
		}
		for _, w := range c.args {
			if plainHTTP(w.text) {
				out = append(out, found{lint.RuleHTTPDownload, c.line, fmt.Sprintf("%s is given a URL without encryption, and nothing compares what arrives with a checksum", c.name), downloadFix(lint.RuleHTTPDownload)})
			}
		}
	}
	return out
}

// unpinnedURL is a URL whose content is another one tomorrow.
var unpinnedURL = regexp.MustCompile(`(?i)^https?://.*(/latest/|/latest$|[/:]latest\.(txt|tar|tgz|zip)|/(stable|latest)(-[0-9.]+)?\.txt$|github\.com/[^/]+/[^/]+/(raw|archive)/(refs/heads/)?(main|master|HEAD)\b)`)

var rawBranch = regexp.MustCompile(`(?i)^https?://raw\.githubusercontent\.com/[^/]+/[^/]+/(refs/heads/)?(main|master|HEAD)/`)

// pinned are the packages whose version decides whether a node works in its cluster.
// Whatever else the distribution has comes as it is.
var pinned = []string{
	"kubelet", "kubeadm", "kubectl", "containerd", "containerd.io", "runc", "docker-ce", "docker.io", "cri-o",
}

// unpinnedDownload: the same profile makes another node tomorrow.
func unpinnedDownload(s *script) []found {
	var out []found
	for _, c := range s.calls {
		if c.name != "curl" && c.name != "wget" && s.functions[c.name] == nil {
			continue
		}
		for _, w := range c.args {
			if (unpinnedURL.MatchString(w.text) || rawBranch.MatchString(w.text)) && (!isHTTP(w.text) || !nearby(w.text)) {
				out = append(out, found{lint.RuleUnpinned, c.line, fmt.Sprintf("%s is whatever its publisher has there today", shown(w.text)), "write the version, and change it in a commit"})
			}
		}
	}
	for _, c := range s.calls {
		manager, packages := s.installed(c)
		for _, w := range packages {
			if slices.Contains(pinned, w.text) {
				example := w.text + "-VERSION"
				if strings.HasPrefix(manager, "apt") {
					example = w.text + "=VERSION"
				}
				out = append(out, found{lint.RuleUnpinned, c.line, fmt.Sprintf("%s installs %s in whatever version the repository has today", c.name, w.text), "write the version: " + example})
			}
		}
	}
	return out
}

var managers = []string{"apt-get", "apt", "aptitude", "yum", "dnf", "microdnf", "tdnf", "zypper"}

// installed are the packages that a package manager is to install, also one that a
// function of the script runs with its own arguments.
func (s *script) installed(c *call) (manager string, packages []word) {
	manager = c.name
	if of := s.functions[c.name]; of != nil {
		manager = s.managerIn(of)
	}
	if !slices.Contains(managers, manager) {
		return "", nil
	}
	i := slices.IndexFunc(c.args, func(w word) bool { return w.text == "install" })
	if i < 0 {
		return "", nil
	}
	return manager, slices.DeleteFunc(slices.Clone(c.args[i+1:]), func(w word) bool { return strings.HasPrefix(w.text, "-") })
}

// managerIn is the package manager that a function hands its arguments to.
func (s *script) managerIn(f *syntax.FuncDecl) string {
	for _, c := range s.calls {
		inside := !f.Body.Pos().After(c.stmt.Pos()) && f.Body.End().After(c.stmt.Pos())
		if inside && slices.Contains(managers, c.name) && slices.ContainsFunc(c.args, func(w word) bool { return w.text == "${@}" }) {
			return c.name
		}
	}
	return ""
}

// shown is an argument for a message. A URL's user-info stays out of it.
func shown(text string) string {
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if i := strings.LastIndexByte(host, '@'); i >= 0 {
			text = scheme + "://" + rest[i+1:]
		}
	}
	const most = 120 // bytes
	if len(text) > most {
		text = text[:most] + "..."
	}
	return fmt.Sprintf("%q", text)
}
