// Command path prints the paths of programs that tests need, which it builds where
// they are missing: the control plane's, or those that its arguments name. hack/test
// runs it before the tests, so that the build is seen and its time does not count
// against theirs.
//
//	path [NAME...]
//	path -controller FILE   build osm-gitops there, see program.Controller
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"

	"github.com/osm-gitops/osm-gitops/test/program"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(names []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(names) == 2 && names[0] == "-controller" {
		if err := program.Controller(ctx, names[1]); err != nil {
			fmt.Fprintln(stderr, "path:", err)
			return 1
		}
		return 0
	}
	if len(names) == 0 {
		names = []string{"controlplane"}
	}
	for _, name := range names {
		i := slices.IndexFunc(program.Programs, func(p program.Program) bool { return p.Name == name })
		if i < 0 {
			fmt.Fprintf(stderr, "path: unknown program %q\n", name)
			return 2
		}
		path, err := program.Programs[i].Path(ctx, stderr)
		if err != nil {
			fmt.Fprintln(stderr, "path:", err)
			return 1
		}
		fmt.Fprintln(stdout, path)
	}
	return 0
}
