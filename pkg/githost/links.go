package githost

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Kind is the software of a repository's host, which determines its addresses.
type Kind string

// Supported kinds. Forgejo has Gitea's addresses.
const (
	GitHub          Kind = "github"
	GitLab          Kind = "gitlab"
	Gitea           Kind = "gitea"
	Bitbucket       Kind = "bitbucket"        // bitbucket.org
	BitbucketServer Kind = "bitbucket-server" // Bitbucket Data Center
	Azure           Kind = "azure"            // Azure DevOps
)

// Kinds returns all kinds of Git hosts.
func Kinds() []Kind { return []Kind{GitHub, GitLab, Gitea, Bitbucket, BitbucketServer, Azure} }

// Hosts maps names of hosts without a port to their kinds.
type Hosts map[string]Kind

// ParseHosts reads a comma list of "host=kind"; forgejo is another name for gitea.
func ParseHosts(list string) (Hosts, error) {
	hosts := Hosts{}
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		host, kind, ok := strings.Cut(item, "=")
		host, kind = strings.ToLower(strings.TrimSpace(host)), strings.TrimSpace(kind)
		if kind == "forgejo" {
			kind = string(Gitea)
		}
		if !ok || host == "" || !slices.Contains(Kinds(), Kind(kind)) {
			return nil, fmt.Errorf("%q is not HOST=KIND with a kind of github, gitlab, gitea, forgejo, bitbucket, bitbucket-server or azure", item)
		}
		hosts[host] = Kind(kind)
	}
	return hosts, nil
}

// publicHost returns the kind of a public host.
func publicHost(host string) Kind {
	switch {
	case host == "github.com":
		return GitHub
	case host == "gitlab.com":
		return GitLab
	case host == "gitea.com" || host == "codeberg.org":
		return Gitea
	case host == "bitbucket.org":
		return Bitbucket
	case slices.Contains([]string{"dev.azure.com", "ssh.dev.azure.com", "vs-ssh.visualstudio.com"}, host), strings.HasSuffix(host, ".visualstudio.com"):
		return Azure
	}
	return ""
}

// guessKind derives the kind from a part of a host's name, such as gitlab.example.com.
func guessKind(r Repository) Kind {
	if strings.Contains("/"+r.Path, "/_git/") {
		return Azure
	}
	for _, g := range []struct {
		part string
		kind Kind
	}{{"github", GitHub}, {"gitlab", GitLab}, {"gitea", Gitea}, {"forgejo", Gitea}, {"bitbucket", BitbucketServer}, {"stash", BitbucketServer}} {
		if strings.Contains(r.Hostname(), g.part) {
			return g.kind
		}
	}
	return ""
}

// ProviderKind returns the kind for a ProfileSource's spec.webhook.provider; "" if the provider
// does not determine it.
func ProviderKind(provider, repositoryURL string) Kind {
	switch provider {
	case "github":
		return GitHub
	case "gitlab":
		return GitLab
	case "gitea":
		return Gitea
	case "bitbucket":
		if r, ok := ParseRepository(repositoryURL); ok && publicHost(r.Hostname()) != Bitbucket {
			return BitbucketServer
		}
		return Bitbucket
	}
	return ""
}

// Host returns the name of a repository's host, as in Hosts; "" for an invalid address.
func Host(repositoryURL string) string {
	r, _ := ParseRepository(repositoryURL)
	return r.Hostname()
}

// Links are addresses of the web interface of a repository's host.
type Links struct {
	kind   Kind
	origin string // "https://host"
	path   string
	// Guessed says that the kind of host was guessed from its name.
	Guessed bool
}

// LinksOf returns the links for a repository with an https, ssh or scp address. They are
// empty if the kind of its host is unknown.
func LinksOf(repositoryURL string, hosts Hosts) Links {
	r, ok := ParseRepository(repositoryURL)
	if !ok {
		return Links{}
	}
	l := Links{kind: hosts[r.Hostname()], path: r.Path, origin: r.Scheme + "://" + r.Host}
	if l.kind == "" {
		l.kind = publicHost(r.Hostname())
	}
	if l.kind == "" {
		l.kind = guessKind(r)
		l.Guessed = l.kind != ""
	}
	switch l.kind {
	case "":
		return Links{}
	case Azure:
		return l.withAzureAddress(r)
	case BitbucketServer:
		return l.withBitbucketAddress()
	}
	return l
}

// withAzureAddress rewrites SSH addresses. A browser can open https ones:
//
//	https://dev.azure.com/org/project/_git/repo
//	git@ssh.dev.azure.com:v3/org/project/repo
//	https://org.visualstudio.com/project/_git/repo, the old form of the first
//	org@vs-ssh.visualstudio.com:v3/org/project/repo
//
// https://learn.microsoft.com/azure/devops/repos/git/use-ssh-keys-to-authenticate
func (l Links) withAzureAddress(r Repository) Links {
	parts := strings.Split(r.Path, "/")
	if len(parts) == 4 && parts[0] == "v3" {
		l.origin, l.path = "https://dev.azure.com", parts[1]+"/"+parts[2]+"/_git/"+parts[3]
	}
	if !strings.Contains("/"+l.path, "/_git/") {
		return Links{}
	}
	return l
}

// withBitbucketAddress rewrites the addresses for clones, https://host/scm/project/repo.git and
// ssh://git@host:7999/project/repo.git. The project of a user begins with "~".
func (l Links) withBitbucketAddress() Links {
	parts := strings.Split(l.path, "/")
	if n := len(parts); n > 2 && parts[n-3] == "scm" { // the path can begin with a context path
		l.origin += strings.TrimSuffix("/"+strings.Join(parts[:n-3], "/"), "/")
		parts = parts[n-2:]
	}
	if len(parts) != 2 {
		return Links{}
	}
	owner, isUser := strings.CutPrefix(parts[0], "~")
	l.path = "projects/" + owner + "/repos/" + parts[1]
	if isUser {
		l.path = "users/" + owner + "/repos/" + parts[1]
	}
	return l
}

// commitID matches the id of a commit, in Git's two formats, at the end of a revision such
// as "main@sha1:<40 hex>".
var commitID = regexp.MustCompile(`(?:^|@sha1:|^sha1:)([0-9a-f]{40}|[0-9a-f]{64})$`)

// CommitURL returns the page of a commit. The addresses are those of GitLens and GitWebLinks, two
// extensions for editors: https://github.com/gitkraken/vscode-gitlens/tree/main/src/git/remotes
// https://github.com/reduckted/GitWebLinks/tree/main/shared/handlers
func (l Links) CommitURL(commit string) string {
	m := commitID.FindStringSubmatch(commit)
	if m == nil {
		return ""
	}
	switch l.kind {
	case GitHub, Gitea, Azure:
		return l.page("/commit/" + m[1])
	case GitLab: // https://docs.gitlab.com/development/routing/#project-routes
		return l.page("/-/commit/" + m[1])
	case Bitbucket, BitbucketServer:
		return l.page("/commits/" + m[1])
	}
	return ""
}

// FileURL returns the page of a file at a commit.
func (l Links) FileURL(commit, path string) string {
	m := commitID.FindStringSubmatch(commit)
	if m == nil || path == "" {
		return ""
	}
	file := (&url.URL{Path: path}).EscapedPath()
	switch l.kind {
	case GitHub:
		return l.page("/blob/" + m[1] + "/" + file)
	case GitLab:
		return l.page("/-/blob/" + m[1] + "/" + file)
	case Gitea:
		return l.page("/src/commit/" + m[1] + "/" + file)
	case Bitbucket:
		return l.page("/src/" + m[1] + "/" + file)
	case BitbucketServer:
		return l.page("/browse/" + file + "?at=" + m[1])
	case Azure:
		return l.page("?path=" + url.QueryEscape("/"+path) + "&version=GC" + m[1])
	}
	return ""
}

// LineURL returns the page of a file at a commit, with a line selected. The forms are those of
// GitWebLinks.
func (l Links) LineURL(commit, path string, line int) string {
	file := l.FileURL(commit, path)
	if file == "" || line < 1 {
		return file
	}
	switch l.kind {
	case Bitbucket:
		return fmt.Sprintf("%s#lines-%d", file, line)
	case BitbucketServer:
		return fmt.Sprintf("%s#%d", file, line)
	case Azure:
		return fmt.Sprintf("%s&line=%d&lineEnd=%d&lineStartColumn=1&lineEndColumn=1", file, line, line+1)
	}
	return fmt.Sprintf("%s#L%d", file, line)
}

// page appends to the repository's address. The path is escaped, so the result is a valid
// link for any address (security.md 28).
func (l Links) page(suffix string) string {
	return l.origin + (&url.URL{Path: "/" + l.path}).EscapedPath() + suffix
}
