package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The repository: one commit in five edits a profile, the others edit source files next to the
// profiles.
const (
	commits  = 50_000
	profiles = 1_000
	sources  = 3_000
	firstDay = 1_500_000_000 // seconds; one commit every ten minutes from here on
)

//go:embed repository.go
var generator []byte

// generated returns the bare repository. It is created if it does not exist or if its recipe, this
// file, has changed.
func generated(ctx context.Context, progress io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(generator)
	dir := filepath.Join(cache, "osm-gitops", "speed", hex.EncodeToString(sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fmt.Fprintf(progress, "git: making a repository of %d commits in %s\n", commits, dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), "making-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made)
	if err := git(ctx, made, nil, "init", "--quiet", "--bare", "--initial-branch=main", "."); err != nil {
		return "", err
	}
	if err := importCommits(ctx, made, "", 0, commits); err != nil {
		return "", err
	}
	if err := git(ctx, made, nil, "gc", "--quiet"); err != nil { // as on servers
		return "", err
	}
	if err := os.Rename(made, dir); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return dir, nil
}

// importCommits appends commits number from to to of the history to main.
func importCommits(ctx context.Context, dir, parent string, from, to int) error {
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriter(w)
		for i := from; i < to; i++ {
			writeCommit(out, i, parent)
			parent = ""
		}
		w.CloseWithError(out.Flush())
	}()
	defer r.Close()
	return git(ctx, dir, r, "fast-import", "--quiet", "--date-format=raw")
}

// writeCommit writes commit i. The first one makes every file.
func writeCommit(w io.Writer, i int, parent string) {
	message := fmt.Sprintf("change %d\n\nIt was reviewed by a colleague.\n", i)
	fmt.Fprintf(w, "commit refs/heads/main\nauthor Ada %[1]d <ada@example.com> %[2]d +0000\ncommitter Ben <ben@example.com> %[2]d +0000\ndata %[3]d\n%[4]s\n",
		i%40, firstDay+i*600, len(message), message)
	if parent != "" {
		fmt.Fprintf(w, "from %s\n", parent)
	}
	switch {
	case i == 0:
		for n := range profiles {
			writeProfile(w, n, 0)
		}
		for n := range sources {
			writeSource(w, n, 0)
		}
	case i%5 == 0:
		writeProfile(w, i/5*7%profiles, i)
	default:
		writeSource(w, i*13%sources, i)
	}
}

func writeProfile(w io.Writer, n, i int) {
	writeFile(w, profilePath(n), fmt.Sprintf(`apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-%[1]d
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.%[2]d.0
  supportedCloudProviders:
  - name: aws
  - name: openstack
  bootstrapConfig:
    files:
    - path: /opt/bin/setup
      permissions: 755
      content:
        inline:
          encoding: b64
          data: |
            #!/bin/bash
            set -euo pipefail
            echo setting up %[1]d for the %[2]dth time
%[3]s  provisioningConfig: {}
`, n, i, lines(n, i)))
}

func profilePath(n int) string { return fmt.Sprintf("profiles/team-%d/osp-%d.yaml", n%20, n) }

func writeSource(w io.Writer, n, i int) {
	writeFile(w, fmt.Sprintf("services/%d/pkg%d/file%d.go", n%30, n%7, n), fmt.Sprintf("package p\n\nconst revision = %d\n%s", i, lines(n, i)))
}

// lines returns forty lines; an edit changes one of them.
func lines(n, i int) string {
	var b strings.Builder
	for line := range 40 {
		seed := n*1000 + line
		if line == i%40 {
			seed = i
		}
		fmt.Fprintf(&b, "            # %x\n", sha256.Sum256(fmt.Append(nil, seed)))
	}
	return b.String()
}

func writeFile(w io.Writer, path, content string) {
	fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
}

// git runs the git command without the user's configuration.
func git(ctx context.Context, dir string, stdin io.Reader, args ...string) error {
	cmd := gitCommand(ctx, args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

func gitCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	return cmd
}
