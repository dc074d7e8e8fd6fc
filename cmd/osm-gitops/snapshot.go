package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
)

func newSnapshotCommand() *cobra.Command {
	var from load.PoolCluster
	var file string
	cmd := &cobra.Command{
		Use:   "snapshot [-o FILE]",
		Short: "write the data about a cluster's pools that osm-gitops diff needs, without credentials",
		Long: `Write the data that osm-gitops diff needs about a cluster's pools into a file: the facts
of each MachineDeployment that rendering reads, the controller's settings, the requested
and the current profile and version of each pool, and its wave. The cluster is read with
your permissions; Secrets are not read.

The file contains placeholders for credentials, and other ssh keys of the same length: you
can store it in a repository, or use it in a workflow. The same pools give the same file.
A FILE that ends in .gz is compressed.`,
		Example: "  osm-gitops snapshot --kubeconfig prod.yaml -o prod.json.gz\n  osm-gitops diff origin/main --snapshot prod.json.gz",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSnapshot(cmd.Context(), from, file, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	from.Bind(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "-", "`FILE` to write, an existing one is replaced; \"-\" is standard output")
	return cmd
}

func runSnapshot(ctx context.Context, from load.PoolCluster, file string, stdout, stderr io.Writer) error {
	pools, err := from.Read(ctx)
	if err != nil {
		return err
	}
	text, err := pools.Encode(strings.HasSuffix(file, ".gz"))
	if err != nil {
		return err
	}
	if file == "-" {
		_, err = cli.NewEscapingWriter(stdout, "json").Write(text)
		return err
	}
	if err := cli.ReplaceFile(file, text); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "osm-gitops: wrote %d pools to %s\n", len(pools.Pools), file)
	return nil
}
