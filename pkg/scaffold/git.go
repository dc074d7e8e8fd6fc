package scaffold

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Author returns the author of a commit from the environment and the configuration of Git.
// The error says what to set.
func Author(now time.Time) (object.Signature, error) {
	name, email := os.Getenv("GIT_AUTHOR_NAME"), os.Getenv("GIT_AUTHOR_EMAIL")
	for _, scope := range []config.Scope{config.GlobalScope, config.SystemScope} {
		if name != "" && email != "" {
			break
		}
		c, err := config.LoadConfig(scope)
		if err != nil {
			continue // an invalid file of another owner is no reason to fail
		}
		name, email = cmp.Or(name, c.User.Name), cmp.Or(email, c.User.Email)
	}
	if name == "" || email == "" {
		return object.Signature{}, errors.New("--git: Git has no name and address for the commit: set them with git config --global user.name NAME and user.email ADDRESS")
	}
	return object.Signature{Name: name, Email: email, When: now}, nil
}

// InitAndCommit creates a repository with branch main in a folder, and commits the files to it.
func InitAndCommit(dir string, files map[string][]byte, message string, author object.Signature) (string, error) {
	repo, err := git.PlainInitWithOptions(dir, &git.PlainInitOptions{InitOptions: git.InitOptions{DefaultBranch: plumbing.Main}})
	if err != nil {
		return "", fmt.Errorf("making %s a repository: %w", dir, err)
	}
	tree, err := repo.Worktree()
	if err != nil {
		return "", fmt.Errorf("making %s a repository: %w", dir, err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if _, err := tree.Add(name); err != nil {
			return "", fmt.Errorf("adding %s to the repository: %w", name, err)
		}
	}
	hash, err := tree.Commit(message, &git.CommitOptions{Author: &author})
	if err != nil {
		return "", fmt.Errorf("committing to %s: %w", dir, err)
	}
	return hash.String(), nil
}
