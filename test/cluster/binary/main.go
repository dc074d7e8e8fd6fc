// Command binary prints the path of the control plane's program, which it builds
// where it is missing. The Makefile runs it before the tests, so that the build
// is seen and its time does not count against theirs.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	path, err := cluster.Binary(ctx, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "binary:", err)
		os.Exit(1) //nolint:gocritic // nothing is left for stop to do
	}
	fmt.Println(path)
}
