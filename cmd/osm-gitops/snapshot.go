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
		Long: `Write what osm-gitops diff needs to know of a cluster's pools into a file: the facts of
each MachineDeployment that rendering reads, the controller's settings, which profile and
version a pool asks for and has, and its wave. It is read with your own rights; Secrets
are not read.

In place of each credential stands a placeholder, and in place of ssh keys others of the
same length: the file may lie in a repository, or go to a workflow. The same pools give
the same file. FILE ending in .gz is compressed.`,
		Example: "  osm-gitops snapshot --kubeconfig prod.yaml -o prod.json.gz\n  osm-gitops diff origin/main --snapshot prod.json.gz",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runSnapshot(cmd.Context(), from, file, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	from.Bind(cmd.Flags(), "; empty: the KUBECONFIG of the environment, ~/.kube/config, or in-cluster")
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
		_, err = cli.Visible(stdout, "json").Write(text)
		return err
	}
	if err := cli.ReplaceFile(file, text); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "osm-gitops: wrote %d pools to %s\n", len(pools.Pools), file)
	return nil
}
