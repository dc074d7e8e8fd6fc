package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fluxcd/pkg/gittestserver"
)

// person is an author of commits; all are fictitious.
type person struct{ name, email string }

var (
	nadia  = person{"Nadia Osei", "nadia@example.com"}
	tomasz = person{"Tomasz Lind", "tomasz@example.com"}
	priya  = person{"Priya Raman", "priya@example.com"}
)

// repository is a work tree and the server that it is pushed to.
type repository struct {
	url    string
	tree   string // path of the work tree
	server *gittestserver.GitServer
}

// commit is what git log says of one.
type commit struct {
	hash, author, subject string
}

// short is a commit's name as people write it.
func short(hash string) string { return hash[:min(7, len(hash))] }

// serve makes an empty repository and serves it by HTTP on loopback.
func serve(ctx context.Context, dir string) (*repository, error) {
	log.SetOutput(io.Discard) // the server logs each request
	const name = "osps.git"
	server := gittestserver.NewGitServer(filepath.Join(dir, "served"))
	bare := filepath.Join(server.Root(), name)
	tree := filepath.Join(dir, "work")
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", bare},
		{"init", "--quiet", "--initial-branch=main", tree},
	} {
		if _, err := output(ctx, dir, gitEnv(nadia), "git", args...); err != nil {
			return nil, err
		}
	}
	if err := server.StartHTTP(); err != nil {
		return nil, fmt.Errorf("starting the Git server: %w", err)
	}
	r := &repository{url: server.HTTPAddress() + "/" + name, tree: tree, server: server}
	// With these, a user of KEEP=1 can commit and push with whatever configuration they have.
	for _, args := range [][]string{
		{"remote", "add", "origin", r.url},
		{"config", "branch.main.remote", "origin"},
		{"config", "branch.main.merge", "refs/heads/main"},
		{"config", "push.default", "upstream"},
		{"config", "http.proxy", ""},
		{"config", "user.name", "You"},
		{"config", "user.email", "you@example.com"},
		{"config", "commit.gpgSign", "false"},
	} {
		if _, err := r.git(ctx, nadia, args...); err != nil {
			server.StopHTTP()
			return nil, err
		}
	}
	return r, nil
}

// git runs git in the work tree, without the user's configuration.
func (r *repository) git(ctx context.Context, who person, args ...string) (string, error) {
	return output(ctx, r.tree, gitEnv(who), "git", args...)
}

func gitEnv(who person) []string {
	return []string{
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"http_proxy=", "HTTP_PROXY=", "all_proxy=", "ALL_PROXY=",
		"GIT_AUTHOR_NAME=" + who.name, "GIT_AUTHOR_EMAIL=" + who.email,
		"GIT_COMMITTER_NAME=" + who.name, "GIT_COMMITTER_EMAIL=" + who.email,
	}
}

// copy takes a file over from another folder, under the same path.
func (r *repository) copy(from, path string) error {
	b, err := os.ReadFile(filepath.Join(from, path))
	if err != nil {
		return err
	}
	to := filepath.Join(r.tree, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// edit replaces texts in a file, each of which must occur exactly once: old, new, ...
func (r *repository) edit(path string, pairs ...string) error {
	file := filepath.Join(r.tree, path)
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(b)
	for i := 0; i < len(pairs); i += 2 {
		if n := strings.Count(text, pairs[i]); n != 1 {
			return fmt.Errorf("editing %s: %q occurs %d times, not once", path, pairs[i], n)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// lineOf returns the number of the first line with a text.
func (r *repository) lineOf(path, text string) (int, error) {
	b, err := os.ReadFile(filepath.Join(r.tree, path))
	if err != nil {
		return 0, err
	}
	before, _, ok := strings.Cut(string(b), text)
	if !ok {
		return 0, fmt.Errorf("%s holds no %q", path, text)
	}
	return 1 + strings.Count(before, "\n"), nil
}

// commit commits all changes.
func (r *repository) commit(ctx context.Context, who person, subject string) (commit, error) {
	if _, err := r.git(ctx, who, "add", "--all"); err != nil {
		return commit{}, err
	}
	if _, err := r.git(ctx, who, "commit", "--quiet", "--message", subject); err != nil {
		return commit{}, err
	}
	hash, err := r.git(ctx, who, "rev-parse", "HEAD")
	return commit{hash, who.name, subject}, err
}

// push pushes, and returns when that was done.
func (r *repository) push(ctx context.Context, who person) (time.Time, error) {
	_, err := r.git(ctx, who, "push", "--quiet", "origin", "main")
	return time.Now(), err
}

// changedLines are the lines that a commit took away and added.
func (r *repository) changedLines(ctx context.Context, c commit) (string, error) {
	diff, err := r.git(ctx, nadia, "show", "--format=", "--unified=0", c.hash)
	if err != nil {
		return "", err
	}
	var lines []string
	for line := range strings.SplitSeq(diff, "\n") {
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "+++") {
			continue
		}
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			lines = append(lines, line[:1]+" "+strings.TrimSpace(line[1:]))
		}
	}
	return strings.Join(lines, "\n"), nil
}
