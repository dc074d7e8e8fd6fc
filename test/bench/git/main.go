package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	os.Exit(program(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func program(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if len(args) == 5 && args[0] == "follow" {
		err = following(ctx, args[1], repositoryAccess{args[2], args[3], args[4]}, stdin, stdout)
	} else {
		var missed int
		if missed, err = measure(ctx, stdout, stderr); err == nil && missed > 0 {
			return 1
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "git: %v\n", err)
		return 1
	}
	return 0
}

// table is what is printed.
type table struct {
	rows   [][]string
	missed int
}

func (t *table) add(what string, c cost, ratio, target string, ok bool) {
	verdict := "ok"
	if !ok {
		verdict = "missed"
		t.missed++
	}
	if target == "" {
		verdict = ""
	}
	t.rows = append(t.rows, []string{what, short(c.Wall), short(c.CPU), ratio, target, verdict})
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\twall\tCPU\tratio\ttarget\t")
	for _, row := range t.rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

func short(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

func measure(ctx context.Context, stdout, stderr io.Writer) (missed int, err error) {
	repository, err := generated(ctx, stderr)
	if err != nil {
		return 0, fmt.Errorf("making the repository: %w", err)
	}
	dir, err := os.MkdirTemp("", "osm-gitops-bench-git-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, served: filepath.Join(dir, "served", "repo.git"), next: commits}
	// A copy, which commits are added to.
	if err := git(ctx, dir, nil, "clone", "--quiet", "--bare", "--local", repository, b.served); err != nil {
		return 0, err
	}
	if b.server, err = serve(filepath.Dir(b.served)); err != nil {
		return 0, err
	}
	defer b.server.Close()
	b.url = b.server.URL + "/repo.git"
	for _, part := range []func(context.Context) error{b.first, b.unchanged, b.unchangedOverSSH, b.onePush, b.manySources, b.manyPushes} {
		if err := part(ctx); err != nil {
			return 0, err
		}
	}
	return b.missed, b.print(stdout)
}
