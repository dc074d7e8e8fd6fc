// Command binary prints the path of the control plane's program, which it builds
// where it is missing. The Makefile runs it before the tests, so that the build
// is seen and its time does not count against theirs.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func main() {
	os.Exit(run(os.Stdout, os.Stderr))
}

func run(stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := cluster.Binary(ctx, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "binary:", err)
		return 1
	}
	fmt.Fprintln(stdout, path)
	return 0
}
