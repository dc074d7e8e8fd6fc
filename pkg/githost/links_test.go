package githost

import (
	"net/url"
	"strings"
	"testing"
)

const (
	linked = "3f2a9c1d5e6f70819203a4b5c6d7e8f901234567"
	file   = "profiles/osp ubuntu.yaml"
)

func TestLinks(t *testing.T) {
	hosts, err := ParseHosts("git.example.com=gitlab, code.example.com=forgejo,2001:db8::1=gitlab,bb.example.com=bitbucket-server")
	if err != nil {
		t.Fatal(err)
	}
	const (
		blob = "https://github.com/acme/osps/blob/" + linked + "/profiles/osp%20ubuntu.yaml"
		az   = "https://dev.azure.com/acme/My%20Project/_git/osps"
		bb   = "https://bb.example.com/projects/OPS/repos/osps"
	)
	for repository, want := range map[string]struct {
		commit, file string
		guessed      bool
	}{
		"https://github.com/acme/osps.git":       {commit: "https://github.com/acme/osps/commit/" + linked, file: blob},
		"git@github.com:acme/osps.git":           {commit: "https://github.com/acme/osps/commit/" + linked, file: blob},
		"ssh://git@github.com:22/acme/osps":      {commit: "https://github.com/acme/osps/commit/" + linked, file: blob},
		"https://gitlab.com/a/b/c.git":           {commit: "https://gitlab.com/a/b/c/-/commit/" + linked, file: "https://gitlab.com/a/b/c/-/blob/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"https://git.example.com:8443/a/b":       {commit: "https://git.example.com:8443/a/b/-/commit/" + linked, file: "https://git.example.com:8443/a/b/-/blob/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"ssh://git@git.example.com:2222/a/b.git": {commit: "https://git.example.com/a/b/-/commit/" + linked, file: "https://git.example.com/a/b/-/blob/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"https://codeberg.org/acme/osps":         {commit: "https://codeberg.org/acme/osps/commit/" + linked, file: "https://codeberg.org/acme/osps/src/commit/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"git@code.example.com:acme/osps.git":     {commit: "https://code.example.com/acme/osps/commit/" + linked, file: "https://code.example.com/acme/osps/src/commit/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"git@bitbucket.org:acme/osps.git":        {commit: "https://bitbucket.org/acme/osps/commits/" + linked, file: "https://bitbucket.org/acme/osps/src/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"https://bb.example.com/scm/OPS/osps.git": {
			commit: bb + "/commits/" + linked, file: bb + "/browse/profiles/osp%20ubuntu.yaml?at=" + linked,
		},
		"ssh://git@bb.example.com:7999/OPS/osps.git": {commit: bb + "/commits/" + linked, file: bb + "/browse/profiles/osp%20ubuntu.yaml?at=" + linked},
		"ssh://git@bb.example.com:7999/~ada/osps.git": {
			commit: "https://bb.example.com/users/ada/repos/osps/commits/" + linked, file: "https://bb.example.com/users/ada/repos/osps/browse/profiles/osp%20ubuntu.yaml?at=" + linked,
		},
		"https://bb.example.com/context/scm/OPS/osps.git": {
			commit: "https://bb.example.com/context/projects/OPS/repos/osps/commits/" + linked, file: "https://bb.example.com/context/projects/OPS/repos/osps/browse/profiles/osp%20ubuntu.yaml?at=" + linked,
		},
		"https://acme@dev.azure.com/acme/My%20Project/_git/osps":     {commit: az + "/commit/" + linked, file: az + "?path=%2Fprofiles%2Fosp+ubuntu.yaml&version=GC" + linked},
		"git@ssh.dev.azure.com:v3/acme/My%20Project/osps":            {commit: az + "/commit/" + linked, file: az + "?path=%2Fprofiles%2Fosp+ubuntu.yaml&version=GC" + linked},
		"https://acme.visualstudio.com/Project/_git/osps":            {commit: "https://acme.visualstudio.com/Project/_git/osps/commit/" + linked, file: "https://acme.visualstudio.com/Project/_git/osps?path=%2Fprofiles%2Fosp+ubuntu.yaml&version=GC" + linked},
		"acme@vs-ssh.visualstudio.com:v3/acme/My%20Project/osps":     {commit: az + "/commit/" + linked, file: az + "?path=%2Fprofiles%2Fosp+ubuntu.yaml&version=GC" + linked},
		"https://tfs.example.com/tfs/Collection/Project/_git/osps":   {commit: "https://tfs.example.com/tfs/Collection/Project/_git/osps/commit/" + linked, file: "https://tfs.example.com/tfs/Collection/Project/_git/osps?path=%2Fprofiles%2Fosp+ubuntu.yaml&version=GC" + linked, guessed: true},
		"https://gitlab.internal.example.com/a/b":                    {commit: "https://gitlab.internal.example.com/a/b/-/commit/" + linked, file: "https://gitlab.internal.example.com/a/b/-/blob/" + linked + "/profiles/osp%20ubuntu.yaml", guessed: true},
		"https://github.acme.example.com/a/b.git":                    {commit: "https://github.acme.example.com/a/b/commit/" + linked, file: "https://github.acme.example.com/a/b/blob/" + linked + "/profiles/osp%20ubuntu.yaml", guessed: true},
		"ssh://git@[2001:db8::1]:2222/a/gitlab.git":                  {commit: "https://[2001:db8::1]/a/gitlab/-/commit/" + linked, file: "https://[2001:db8::1]/a/gitlab/-/blob/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"https://unknown.example.com/a/b":                            {},
		"\":~":                                                       {},
		"https://gitlab.<b>example.com/a/b":                          {},
		"https://dev.azure.com/acme/nothing":                         {},
		"https://bb.example.com/one/two/three":                       {},
		"/srv/git/osps.git":                                          {},
		"":                                                           {},
		"https://git.example.com/a/\"><script>alert(1)</script>?x#y": {commit: "https://git.example.com/a/%22%3E%3Cscript%3Ealert%281%29%3C/script%3E/-/commit/" + linked, file: "https://git.example.com/a/%22%3E%3Cscript%3Ealert%281%29%3C/script%3E/-/blob/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"javascript://git.example.com/%0aalert(1)":                   {commit: "https://git.example.com/%0Aalert%281%29/-/commit/" + linked, file: "https://git.example.com/%0Aalert%281%29/-/blob/" + linked + "/profiles/osp%20ubuntu.yaml"},
		"https://user:secret@git.example.com/a/b.git":                {commit: "https://git.example.com/a/b/-/commit/" + linked, file: "https://git.example.com/a/b/-/blob/" + linked + "/profiles/osp%20ubuntu.yaml"},
	} {
		l := LinksOf(repository, hosts)
		if got := l.CommitURL(linked); got != want.commit || l.Guessed != want.guessed {
			t.Errorf("%s:\n got %s (guessed %v)\nwant %s", repository, got, l.Guessed, want.commit)
		}
		if got := l.FileURL(linked, file); got != want.file {
			t.Errorf("%s: file\n got %s\nwant %s", repository, got, want.file)
		}
	}
}

// The commit can be part of a revision; anything other than a commit has no link.
func TestLinkOfRevision(t *testing.T) {
	l := LinksOf("https://github.com/acme/osps", nil)
	for commit, linkedTo := range map[string]string{
		linked: linked, "main@sha1:" + linked: linked, "sha1:" + linked: linked, strings.Repeat("a", 64): strings.Repeat("a", 64),
		"": "", "main": "", "latest@sha256:" + strings.Repeat("a", 64): "", "../../evil": "", linked[:12]: "",
	} {
		want := ""
		if linkedTo != "" {
			want = "https://github.com/acme/osps/commit/" + linkedTo
		}
		if got := l.CommitURL(commit); got != want {
			t.Errorf("%q: got %q, want %q", commit, got, want)
		}
	}
	if got := l.FileURL(linked, ""); got != "" {
		t.Errorf("no file: %q", got)
	}
}

func TestLine(t *testing.T) {
	hosts := Hosts{"git.example.com": BitbucketServer}
	for repository, want := range map[string]string{
		"https://github.com/a/b":              "https://github.com/a/b/blob/" + linked + "/x.yaml#L7",
		"https://gitlab.com/a/b":              "https://gitlab.com/a/b/-/blob/" + linked + "/x.yaml#L7",
		"https://codeberg.org/a/b":            "https://codeberg.org/a/b/src/commit/" + linked + "/x.yaml#L7",
		"https://bitbucket.org/a/b":           "https://bitbucket.org/a/b/src/" + linked + "/x.yaml#lines-7",
		"https://git.example.com/scm/a/b.git": "https://git.example.com/projects/a/repos/b/browse/x.yaml?at=" + linked + "#7",
		"https://dev.azure.com/o/p/_git/r":    "https://dev.azure.com/o/p/_git/r?path=%2Fx.yaml&version=GC" + linked + "&line=7&lineEnd=8&lineStartColumn=1&lineEndColumn=1",
		"https://forge.example.com/a/b":       "",
	} {
		l := LinksOf(repository, hosts)
		if got := l.LineURL(linked, "x.yaml", 7); got != want {
			t.Errorf("%s:\n got %s\nwant %s", repository, got, want)
		}
		if got := l.LineURL(linked, "x.yaml", 0); got != l.FileURL(linked, "x.yaml") {
			t.Errorf("%s without a line: got %s", repository, got)
		}
	}
}

func TestParseHosts(t *testing.T) {
	for _, list := range []string{"git.example.com", "=gitlab", "git.example.com=svn"} {
		if _, err := ParseHosts(list); err == nil || !strings.Contains(err.Error(), "HOST=KIND") {
			t.Errorf("%q: %v", list, err)
		}
	}
	if hosts, err := ParseHosts(" , Git.Example.com = gitea "); err != nil || hosts["git.example.com"] != Gitea {
		t.Errorf("got %v (err %v)", hosts, err)
	}
}

func TestProvider(t *testing.T) {
	for provider, want := range map[string]Kind{"github": GitHub, "gitlab": GitLab, "gitea": Gitea, "bitbucket": BitbucketServer, "generic": ""} {
		if got := ProviderKind(provider, "https://git.example.com/a/b"); got != want {
			t.Errorf("%s: got %q, want %q", provider, got, want)
		}
	}
	if got := ProviderKind("bitbucket", "git@bitbucket.org:a/b.git"); got != Bitbucket {
		t.Errorf("bitbucket.org: got %q", got)
	}
}

// security.md 28: for any address, a link is an https or http URL of its host without
// user-info.
func FuzzLinks(f *testing.F) {
	for _, s := range []string{"https://github.com/a/b.git", "git@ssh.dev.azure.com:v3/a/b/c", "javascript://gitlab.com/x", "https://bb/scm/~a/b", "\":~", "ssh://git@[::1]:22/a/b"} {
		f.Add(s, "a/b.yaml")
	}
	f.Fuzz(func(t *testing.T, repository, path string) {
		for _, kind := range Kinds() {
			l := LinksOf(repository, Hosts{Host(repository): kind})
			for _, link := range []string{l.CommitURL(linked), l.LineURL(linked, path, 7)} {
				if link == "" {
					continue
				}
				u, err := url.Parse(link)
				if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || strings.ContainsAny(link, " \"<>\x1b\n") {
					t.Errorf("%q gives %q (err %v)", repository, link, err)
				}
			}
		}
	})
}

func TestRepository(t *testing.T) {
	for address, want := range map[string]Repository{
		"https://github.com/octo/hello.git":      {"https", "github.com", "octo/hello"},
		"https://Git.Example.com:8443/a/b/":      {"https", "git.example.com:8443", "a/b"},
		"http://git.example.com/a/b":             {"http", "git.example.com", "a/b"},
		"ssh://git@git.example.com:2222/a/b.git": {"https", "git.example.com", "a/b"},
		"git@git.example.com:a/b.git":            {"https", "git.example.com", "a/b"},
	} {
		if got, ok := ParseRepository(address); !ok || got != want {
			t.Errorf("%s is %+v", address, got)
		}
	}
	for _, address := range []string{"", "a/b", "https://github.com", "https:///a/b", "%zz://x/y"} {
		if got, ok := ParseRepository(address); ok {
			t.Errorf("%q is %+v", address, got)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"https://github.com/Octo/Hello.git", "git@github.com:octo/hello", true},
		{"http://localhost:3000/a/b.git", "ssh://git@localhost:2222/a/b.git", true},
		{"https://github.com/octo/hello", "https://github.com/octo/hello2", false},
		{"https://github.com/octo/hello", "https://gitlab.com/octo/hello", false},
		{"", "", false},
	} {
		if got := IsSameRepository(c.a, c.b); got != c.want {
			t.Errorf("%s and %s are the same: %v", c.a, c.b, got)
		}
	}
}
