package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// repoFlags say which repository a command reads, without a checkout.
type repoFlags struct {
	location, revision, path string
	allowInsecure            bool
	allowedCIDRs             string
}

func (f *repoFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.location, "repo", "", "`PATH-or-URL` of a Git repository to take the profile from")
	fs.StringVar(&f.revision, "revision", "", "`REV` of the repository: a branch, a tag, a commit, or something like HEAD~1; default HEAD")
	fs.StringVar(&f.path, "path", "", "`FOLDER` of the profiles in the repository; default its root")
	fs.BoolVar(&f.allowInsecure, "allow-insecure-git", false, "allow an http URL: whoever is on the way can put in his profile")
	fs.StringVar(&f.allowedCIDRs, "git-allowed-cidrs", "", "comma list of loopback and link-local networks in which the repository may be")
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
		} {
			if flag.set {
				return misusef("osm-gitops render --repo PATH-or-URL "+flag.name, "%s without --repo", flag.name)
			}
		}
		return nil
	}
	const hint = "clone it and name the folder: osm-gitops render --repo FOLDER"
	u, err := url.Parse(f.location)
	switch {
	case scpForm.MatchString(f.location) || strings.HasPrefix(f.location, "ssh://"):
		return misusef(hint, "--repo: repositories are not read over ssh")
	case err == nil && f.isURL() && u.User != nil:
		return misusef(hint, "--repo: the URL has a user or a password in it; only repositories that everyone may read are fetched")
	}
	if _, err := parseCIDRs(f.allowedCIDRs); err != nil {
		return misusef("see osm-gitops render --help", "--git-allowed-cidrs: %w", err)
	}
	return nil
}

func (f *repoFlags) isURL() bool { return strings.Contains(f.location, "://") }

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
	if snap, err = mirrors.Fetch(ctx, source.Remote{URL: f.location, Revision: revision, Path: f.path}); err != nil {
		done()
		return nil, nil, err
	}
	return snap, done, nil
}
