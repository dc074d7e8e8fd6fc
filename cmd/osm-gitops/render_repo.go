package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// repoFlags say which repository a command reads, without a checkout.
type repoFlags struct {
	location, revision, path string
	allowInsecure            bool
	allowedCIDRs             string
	identity, knownHosts     string // files, over ssh
}

func (f *repoFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.location, "repo", "", "`PATH-or-URL` of a Git repository to take the profile from")
	fs.StringVar(&f.revision, "revision", "", "`REV` of the repository: a branch, a tag, a commit, or something like HEAD~1; default HEAD")
	fs.StringVar(&f.path, "path", "", "`FOLDER` of the profiles in the repository; default its root")
	fs.BoolVar(&f.allowInsecure, "allow-insecure-git", false, "allow an http URL: whoever is on the way can put in his profile")
	fs.StringVar(&f.allowedCIDRs, "git-allowed-cidrs", "", "comma list of loopback and link-local networks in which the repository may be")
	fs.StringVar(&f.identity, "identity", "", "`FILE` with the private key for a repository over ssh, not encrypted")
	fs.StringVar(&f.knownHosts, "known-hosts", "", "`FILE` with the servers that the key may be shown to, as ssh has it; default ~/.ssh/known_hosts")
}

// scpForm is how ssh takes a repository, user@host:path.
var scpForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*@[A-Za-z0-9._-]+:`)

// check refuses what cannot be read by this command.
func (f *repoFlags) check() error {
	if f.location == "" {
		for _, flag := range []struct {
			name string
			set  bool
		}{
			{"--revision", f.revision != ""}, {"--path", f.path != ""},
			{"--allow-insecure-git", f.allowInsecure}, {"--git-allowed-cidrs", f.allowedCIDRs != ""},
			{"--identity", f.identity != ""}, {"--known-hosts", f.knownHosts != ""},
		} {
			if flag.set {
				return misusef("osm-gitops render --repo PATH-or-URL "+flag.name, "%s without --repo", flag.name)
			}
		}
		return nil
	}
	return f.checkLocation("osm-gitops render")
}

// checkOptional is check for a command that has a repository without --repo, too: how to
// reach one may be said for that.
func (f *repoFlags) checkOptional() error {
	const command = "osm-gitops verify"
	if f.location != "" {
		return f.checkLocation(command)
	}
	for name, value := range map[string]string{"--revision": f.revision, "--path": f.path, "--identity": f.identity, "--known-hosts": f.knownHosts} {
		if value != "" {
			return misusef(command+" --repo PATH-or-URL "+name, "%s without --repo", name)
		}
	}
	return f.checkCIDRs(command)
}

func (f *repoFlags) checkCIDRs(command string) error {
	if _, err := parseCIDRs(f.allowedCIDRs); err != nil {
		return misusef("see "+command+" --help", "--git-allowed-cidrs: %w", err)
	}
	return nil
}

// checkLocation refuses a repository that a command cannot read.
func (f *repoFlags) checkLocation(command string) error {
	hint := "clone it and name the folder: " + command + " --repo FOLDER"
	u, err := url.Parse(f.location)
	switch {
	case f.overSSH() && f.identity == "":
		return misusef(command+" --repo URL --identity ~/.ssh/id_ed25519; or "+hint, "--repo: a repository over ssh needs --identity, the file of a private key")
	case !f.overSSH() && (f.identity != "" || f.knownHosts != ""):
		return misusef("write the repository as ssh://git@host/path, or leave them out", "--identity and --known-hosts are for repositories over ssh")
	case err == nil && !f.overSSH() && f.isURL() && u.User != nil:
		return misusef(hint, "--repo: the URL has a user or a password in it; only repositories that everyone may read are fetched")
	}
	return f.checkCIDRs(command)
}

func (f *repoFlags) overSSH() bool {
	return scpForm.MatchString(f.location) || strings.HasPrefix(f.location, "ssh://")
}

func (f *repoFlags) isURL() bool { return f.overSSH() || strings.Contains(f.location, "://") }

// auth reads the files that ssh needs; nil is for other ways.
func (f *repoFlags) auth() (source.Auth, error) {
	if !f.overSSH() {
		return nil, nil
	}
	known := f.knownHosts
	if known == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("finding ~/.ssh/known_hosts, which --known-hosts may name another file for: %w", err)
		}
		known = filepath.Join(home, ".ssh", "known_hosts")
	}
	identity, err := readInput(f.identity, nil)
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	hosts, err := readInput(known, nil)
	if err != nil {
		return nil, fmt.Errorf("--known-hosts: %w", err)
	}
	key, err := source.ParseSSHKey(source.SSHSecret{Identity: identity, KnownHosts: hosts})
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.identity, known, err)
	}
	return key, nil
}

// read reads the snapshot at the revision. The caller calls done when it needs no
// more of it.
func (f *repoFlags) read(ctx context.Context) (snap *source.Snapshot, done func(), err error) {
	if !f.isURL() {
		snap, err = source.Repository{Dir: f.location, Revision: f.revision, Path: f.path}.Read(ctx)
		return snap, func() {}, err
	}
	cidrs, err := parseCIDRs(f.allowedCIDRs)
	if err != nil {
		return nil, nil, err
	}
	auth, err := f.auth()
	if err != nil {
		return nil, nil, err
	}
	// A mirror belongs to one process, and this one ends soon.
	dir, err := os.MkdirTemp("", "osm-gitops-render-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder to fetch into: %w", err)
	}
	done = func() { _ = os.RemoveAll(dir) }
	mirrors := &source.Mirrors{Dir: dir, AllowedCIDRs: cidrs, AllowInsecure: f.allowInsecure}
	revision := f.revision
	if revision == "" {
		revision = "HEAD"
	}
	if snap, err = mirrors.Fetch(ctx, source.Remote{URL: f.location, Revision: revision, Path: f.path, Auth: auth}); err != nil {
		done()
		return nil, nil, err
	}
	return snap, done, nil
}

// at says which revision a snapshot is of, for messages.
func (f *repoFlags) at(snap *source.Snapshot) string {
	return fmt.Sprintf("%s at commit %s", f.location, snap.Head)
}

// place is the repository for a command that reads it at several revisions; nil where
// none is given.
func (f *repoFlags) place() (*verify.Place, error) {
	switch {
	case f.location == "":
		return nil, nil
	case !f.isURL():
		return &verify.Place{Local: source.Repository{Dir: f.location, Revision: f.revision, Path: f.path}}, nil
	}
	auth, err := f.auth()
	if err != nil {
		return nil, err
	}
	return &verify.Place{Remote: source.Remote{URL: f.location, Revision: f.revision, Path: f.path, Auth: auth}}, nil
}
