package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
	"github.com/osm-gitops/osm-gitops/pkg/scaffold"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// scaffoldFlags choose the destination and the content of a repository.
type scaffoldFlags struct {
	to         string
	git, force bool
	host       string
	url        string
	owners     string
	namespace  string
	unset      []string // values that the user still has to set in the files
}

func (f *scaffoldFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.to, "to", "", "`FOLDER` to write the repository to, new or empty")
	f.bindRepository(fs)
}

// bindRepository binds the flags that init shares.
func (f *scaffoldFlags) bindRepository(fs *pflag.FlagSet) {
	fs.BoolVar(&f.git, "git", false, "make the folder a Git repository, and commit to it")
	fs.BoolVar(&f.force, "force", false, "write to a folder that is not empty; no file is overwritten")
	fs.StringVar(&f.host, "ci", scaffold.GitHub, "`HOST` to write CI for: github, gitlab or none")
	fs.StringVar(&f.url, "url", "", "`URL` from which controllers fetch the repository, for the ProfileSource")
	fs.StringVar(&f.owners, "owners", "", "`OWNERS` who must approve changes, such as @example/platform: users, teams or addresses, separated by spaces")
	clusters.BindNamespace(fs, &f.namespace)
}

func (f *scaffoldFlags) check() error {
	if f.host != scaffold.GitHub && f.host != scaffold.GitLab && f.host != scaffold.NoCI {
		return cli.Misusef("--ci github, --ci gitlab or --ci none", "--ci: unknown host %q", f.host)
	}
	if len(validation.IsDNS1123Label(f.namespace)) > 0 {
		return cli.Misusef("--namespace kube-system", "--namespace: %q is not a namespace", f.namespace)
	}
	if strings.ContainsAny(f.owners, "\n\r") {
		return cli.Misusef("--owners @example/platform", "--owners: is more than one line")
	}
	if owner := scaffold.FirstInvalidOwner(f.host, f.owners); owner != "" {
		return cli.Misusef("--owners @example/platform", "--owners: %q is not an owner: the host would ignore the line, and no approval would be required: write @USER, @ORGANIZATION/TEAM or an address, separated by spaces", owner)
	}
	if u, err := url.Parse(f.url); err == nil && u.User != nil {
		if _, secret := u.User.Password(); secret {
			// Not quoted: the message could be logged (security.md 14).
			return cli.Misusef("a Secret, named in spec.git.secretRef", "--url: contains a password, which would be committed")
		}
	}
	if f.to == "" && (f.git || f.force) {
		return cli.Misusef("--to FOLDER", "--git and --force need a folder to write to: set --to")
	}
	return nil
}

// content is the content of a new repository.
type content struct {
	files   map[string][]byte
	readme  string
	message string // commit message
}

// writeRepository writes a repository if a folder is named, and prints the result.
func (f *scaffoldFlags) writeRepository(c content, stderr io.Writer) error {
	if f.to == "" {
		return nil
	}
	version, _ := buildVersion()
	files, err := scaffold.Repository{
		Files: c.files, Readme: c.readme, Host: f.host, URL: f.url, Namespace: f.namespace, Owners: f.owners, Version: version,
	}.All()
	if err != nil {
		return err
	}
	var author object.Signature
	if f.git {
		// Check everything before writing anything.
		full, err := filepath.Abs(f.to)
		if err != nil {
			return err
		}
		if source.FindWorktree(full) != "" {
			return fmt.Errorf("--git: %s is a Git repository already, or in one: leave --git out and commit there", f.to)
		}
		if author, err = scaffold.Author(os.Getenv, time.Now()); err != nil {
			return err
		}
	}
	if err := scaffold.Write(f.to, files, f.force); err != nil {
		if errors.Is(err, scaffold.ErrNotEmpty) {
			return cli.Misusef("name a new folder; --force adds files and overwrites none", "%s: is not empty", f.to)
		}
		return err
	}
	fmt.Fprintf(stderr, "osm-gitops: wrote %d files to %s\n", len(files), f.to)
	f.unset = scaffold.RemainingSettings(files)
	if !f.git {
		return nil
	}
	commit, err := scaffold.InitAndCommit(f.to, files, c.message, author)
	if err == nil {
		fmt.Fprintf(stderr, "osm-gitops: committed %s to branch main of %s\n", commit, f.to)
	}
	return err
}
