package location

import "testing"

// security.md 5: both forms of an address are the same one.
func TestSSHAddressForms(t *testing.T) {
	for raw, want := range map[string]SSHAddress{
		"ssh://git@host/org/repo.git":         {"git", "host:22", "/org/repo.git"},
		"ssh://host/repo":                     {"git", "host:22", "/repo"},
		"ssh://me@host:2222/~user/repo.git":   {"me", "host:2222", "~user/repo.git"},
		"ssh://git@[2001:db8::1]/r":           {"git", "[2001:db8::1]:22", "/r"},
		"ssh://git@[2001:db8::1]:2222/r/":     {"git", "[2001:db8::1]:2222", "/r"},
		"ssh://git@host/My%20Project/r":       {"git", "host:22", "/My Project/r"},
		"git@github.com:org/repo.git":         {"git", "github.com:22", "org/repo.git"},
		"git@host:/srv/git/repo.git":          {"git", "host:22", "/srv/git/repo.git"},
		"git@[2001:db8::1]:repo.git":          {"git", "[2001:db8::1]:22", "repo.git"},
		"git@ssh.dev.azure.com:v3/o/p%20q/r/": {"git", "ssh.dev.azure.com:22", "v3/o/p%20q/r"},
	} {
		at, err := Parse(raw, false)
		if err != nil || *at.SSH != want {
			t.Errorf("%s: %+v, %v", raw, at.SSH, err)
			continue
		}
		if again, err := Parse(at.Repository, false); err != nil || *again.SSH != want || again.Repository != at.Repository {
			t.Errorf("%s: its own form %q is %+v, %v", raw, at.Repository, again.SSH, err)
		}
	}
}
