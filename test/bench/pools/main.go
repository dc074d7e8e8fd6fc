package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the flags.
type options struct {
	pools    int
	nodes    int
	token    string        // --node-token of the controller
	idleTime time.Duration // for which a controller without work is watched
	parts    string
	webhooks bool // deploy/webhook.yaml is installed, as by default
	// profiles is the folder for CPU profiles of the API server; empty for none.
	profiles string
}

func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	fs := flag.NewFlagSet("pools", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.IntVar(&o.pools, "pools", 1000, "number of pools")
	fs.IntVar(&o.nodes, "nodes", 20_000, "number of nodes, for the part of that name")
	fs.StringVar(&o.token, "node-token", "bound", "token with which nodes fetch their Secrets, bound or shared")
	fs.DurationVar(&o.idleTime, "rest", time.Minute, "time for which the controller is watched when there is nothing to do")
	fs.StringVar(&o.parts, "parts", "create,one,rotate,rest,restart,standin", "comma list of what to measure, of these, reports and nodes; create is always first")
	fs.BoolVar(&o.webhooks, "webhooks", true, "install the controller's admission webhooks, as deploy/kustomization.yaml does")
	fs.StringVar(&o.profiles, "apiserver-profiles", "", "folder for CPU profiles of the API server, taken while all pools are created and while they rotate")
	if err := fs.Parse(args); err != nil {
		return 2
	}
	missed, err := measure(ctx, o, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "pools: %v\n", err)
		return 1
	}
	if missed > 0 {
		return 1
	}
	return 0
}

// controlPlane has processes of its own for the API server and for etcd, whose CPU is measured.
var controlPlane = cluster.Options{SeparateAPIServer: true, Production: true}

func measure(ctx context.Context, o options, stdout, stderr io.Writer) (missed int, err error) {
	dir, err := os.MkdirTemp("", "osm-gitops-bench-pools-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	c, err := cluster.Run(ctx, filepath.Join(dir, "cluster"), controlPlane, stderr)
	if err != nil {
		return 0, err
	}
	defer c.Stop()
	b := &bench{options: o, dir: dir, cluster: c, progress: stderr}
	defer b.end()
	if err := b.begin(ctx); err != nil {
		return 0, err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"create", b.create}, {"one", b.one}, {"rotate", b.rotate}, {"rest", b.measureIdle}, {"restart", b.restart}, {"reports", b.reports}, {"nodes", b.nodesOf}, {"standin", b.standIn},
	} {
		if !strings.Contains(","+o.parts+",create,", ","+part.name+",") {
			continue
		}
		fmt.Fprintf(stderr, "pools: %s\n", part.name)
		if err := part.run(ctx); err != nil {
			return 0, errors.Join(fmt.Errorf("%s: %w\n%s", part.name, err, b.lastLogErrors()), b.print(stdout))
		}
	}
	return b.missed, b.print(stdout)
}

// table is what is printed.
type table struct {
	rows   [][]string
	missed int
}

// add adds a row. A row without a target has no verdict.
func (t *table) add(what, figure, target string, ok bool) {
	verdict := ""
	if target != "" {
		verdict = "ok"
		if !ok {
			verdict = "missed"
			t.missed++
		}
	}
	t.rows = append(t.rows, []string{what, figure, target, verdict})
}

type direction bool

const (
	atLeast direction = true
	atMost  direction = false
)

// ratio adds a row with a target for a ratio.
func (t *table) ratio(what string, is, target float64, d direction) {
	word, ok := "at most", is <= target
	if d == atLeast {
		word, ok = "at least", is >= target
	}
	t.add(what, fmt.Sprintf("%.2f", is), fmt.Sprintf("%s %.2f", word, target), ok)
}

func (t *table) print(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\tmeasured\ttarget\t")
	for _, row := range t.rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}
