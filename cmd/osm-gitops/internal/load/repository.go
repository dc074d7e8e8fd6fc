package load

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// RepoFlags choose a repository that a command reads without a checkout.
type RepoFlags struct {
	Location, Revision, Path string
	AllowInsecure            bool
	AllowedCIDRs             string
	identity, knownHosts     string // files, over ssh
}

func (f *RepoFlags) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.Location, "repo", "", "`PATH-or-URL` of a Git repository with the profile")
	fs.StringVar(&f.Revision, "revision", "", "`REV` of the repository: branch, tag, commit, or HEAD~1; default HEAD")
	fs.StringVar(&f.Path, "path", "", "`FOLDER` of the profiles in the repository; default its root")
	fs.BoolVar(&f.AllowInsecure, "allow-insecure-git", false, "allow http: an attacker on the network can replace the profile")
	fs.StringVar(&f.AllowedCIDRs, "git-allowed-cidrs", "", "comma list of allowed loopback and link-local networks of the repository")
	fs.StringVar(&f.identity, "identity", "", "`FILE` with the unencrypted private key for ssh")
	fs.StringVar(&f.knownHosts, "known-hosts", "", "`FILE` with trusted ssh servers; default ~/.ssh/known_hosts")
}

// CheckForRender rejects repositories that this command cannot read.
func (f *RepoFlags) CheckForRender() error {
	if f.Location == "" {
		for _, flag := range []struct {
			name string
			set  bool
		}{
			{"--revision", f.Revision != ""}, {"--path", f.Path != ""},
			{"--allow-insecure-git", f.AllowInsecure}, {"--git-allowed-cidrs", f.AllowedCIDRs != ""},
			{"--identity", f.identity != ""}, {"--known-hosts", f.knownHosts != ""},
		} {
			if flag.set {
				return cli.Misusef("osm-gitops render --repo PATH-or-URL "+flag.name, "%s without --repo", flag.name)
			}
		}
		return nil
	}
	return f.CheckLocation("osm-gitops render")
}

// CheckOptional is Check for a command that can use a repository without --repo: the other
// flags then configure access to that one.
func (f *RepoFlags) CheckOptional() error {
	const command = "osm-gitops verify"
	if f.Location != "" {
		return f.CheckLocation(command)
	}
	for name, value := range map[string]string{"--revision": f.Revision, "--path": f.Path, "--identity": f.identity, "--known-hosts": f.knownHosts} {
		if value != "" {
			return cli.Misusef(command+" --repo PATH-or-URL "+name, "%s without --repo", name)
		}
	}
	return f.checkCIDRs(command)
}

func (f *RepoFlags) checkCIDRs(command string) error {
	if _, err := ParseCIDRs(f.AllowedCIDRs); err != nil {
		return cli.Misusef("see "+command+" --help", "--git-allowed-cidrs: %w", err)
	}
	return nil
}

// CheckLocation rejects a repository that a command cannot read.
func (f *RepoFlags) CheckLocation(command string) error {
	hint := "clone it and name the folder: " + command + " --repo FOLDER"
	u, err := url.Parse(f.Location)
	ssh := source.IsSSH(f.Location)
	switch {
	case ssh && f.identity == "":
		return cli.Misusef(command+" --repo URL --identity ~/.ssh/id_ed25519; or "+hint, "--repo: a repository over ssh needs --identity, the file of a private key")
	case !ssh && (f.identity != "" || f.knownHosts != ""):
		return cli.Misusef("write the repository as ssh://git@host/path, or leave them out", "--identity and --known-hosts are for repositories over ssh")
	case err == nil && !ssh && f.isURL() && u.User != nil:
		return cli.Misusef(hint, "--repo: the URL contains a user or a password: name a public repository, without them")
	}
	return f.checkCIDRs(command)
}

func (f *RepoFlags) isURL() bool {
	return source.IsSSH(f.Location) || strings.Contains(f.Location, "://")
}

// readSSHAuth reads the files for SSH; nil for other transports.
func (f *RepoFlags) readSSHAuth() (source.Auth, error) {
	if !source.IsSSH(f.Location) {
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
	identity, err := File(f.identity, nil)
	if err != nil {
		return nil, fmt.Errorf("--identity: %w", err)
	}
	hosts, err := File(known, nil)
	if err != nil {
		return nil, fmt.Errorf("--known-hosts: %w", err)
	}
	key, err := source.ParseSSHKey(source.SSHSecret{Identity: identity, KnownHosts: hosts})
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", f.identity, known, err)
	}
	return key, nil
}

// Read returns the snapshot at the revision. The caller calls done when it no longer needs
// it.
func (f *RepoFlags) Read(ctx context.Context) (snap *source.Snapshot, done func(), err error) {
	if !f.isURL() {
		snap, err = source.Repository{Dir: f.Location, Revision: f.Revision, Path: f.Path}.Read(ctx)
		return snap, func() {}, err
	}
	auth, err := f.readSSHAuth()
	if err != nil {
		return nil, nil, err
	}
	mirrors, done, err := TemporaryMirrors(f.AllowedCIDRs, f.AllowInsecure)
	if err != nil {
		return nil, nil, err
	}
	if snap, err = mirrors.Fetch(ctx, source.Remote{URL: f.Location, Revision: cmp.Or(f.Revision, "HEAD"), Path: f.Path, Auth: auth}); err != nil {
		done()
		return nil, nil, err
	}
	return snap, done, nil
}

// TemporaryMirrors fetches repositories into a folder that done removes. A mirror belongs to one
// process, and this process is short.
func TemporaryMirrors(allowedCIDRs string, allowInsecure bool) (mirrors *source.Mirrors, done func(), err error) {
	mirrors = &source.Mirrors{AllowInsecure: allowInsecure}
	if mirrors.AllowedCIDRs, err = ParseCIDRs(allowedCIDRs); err != nil {
		return nil, nil, err
	}
	if mirrors.Dir, err = os.MkdirTemp("", "osm-gitops-"); err != nil {
		return nil, nil, fmt.Errorf("making a folder to fetch into: %w", err)
	}
	return mirrors, func() { _ = os.RemoveAll(mirrors.Dir) }, nil
}

// DescribeRevision describes the revision of a snapshot, for messages.
func (f *RepoFlags) DescribeRevision(snap *source.Snapshot) string {
	return fmt.Sprintf("%s at commit %s", f.Location, snap.Head)
}

// Repository returns the repository for commands that read several revisions; nil if none is
// named.
func (f *RepoFlags) Repository() (*verify.Repository, error) {
	switch {
	case f.Location == "":
		return nil, nil
	case !f.isURL():
		return &verify.Repository{Local: source.Repository{Dir: f.Location, Revision: f.Revision, Path: f.Path}}, nil
	}
	auth, err := f.readSSHAuth()
	if err != nil {
		return nil, err
	}
	return &verify.Repository{Remote: source.Remote{URL: f.Location, Revision: f.Revision, Path: f.Path, Auth: auth}}, nil
}

// ParseCIDRs reads a comma list of networks.
func ParseCIDRs(list string) ([]netip.Prefix, error) {
	return ParseList(list, func(s string) (netip.Prefix, error) {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return p, fmt.Errorf("%q is not a network: use the form 10.0.0.0/8", s)
		}
		return p, nil
	})
}

// ParseList reads the items of a comma list, without empty ones.
func ParseList[T any](list string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for s := range strings.SplitSeq(list, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		item, err := parse(s)
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}
