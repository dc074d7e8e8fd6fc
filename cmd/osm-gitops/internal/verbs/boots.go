package verbs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/session"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet/bootcounts"
)

// bootsFlags are the flags of boots.
type bootsFlags struct {
	session.AccessFlags
	pool, version, commit string
	output                string
}

func newBootsCommand() *cobra.Command {
	var f bootsFlags
	cmd := &cobra.Command{
		Use:   "boots [--pool NAMESPACE/NAME] [--version VERSION] [--commit COMMIT]",
		Short: "show which versions boot, and where the others fail",
		Long: `Show for each version of a profile how many machines joined, boot, report a failing
script, or have no Node after 30 minutes, and the seconds from their creation to their
Node (median and 95th percentile); then the machines that fail, with file and line.

With --pool it also shows the last version whose machines joined, the first whose machines
did not, and the commits between. "osm-gitops trace machine/NAME" shows the log of one.`,
		Example: "  osm-gitops boots\n  osm-gitops boots --pool shop/web -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if namespace, name, ok := strings.Cut(f.pool, "/"); f.pool != "" && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")) {
				return cli.Misusef(cli.UsageOf(cmd), "--pool %q is not NAMESPACE/NAME", f.pool)
			}
			return cli.RequireArgumentCount(0, 0)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.Bind(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.pool, "pool", "", "only machines of the pool `NAMESPACE/NAME`")
	fs.StringVar(&f.version, "version", "", "only this `VERSION`")
	fs.StringVar(&f.commit, "commit", "", "only versions of this `COMMIT`, or the beginning of its id")
	cli.BindOutput(fs, &f.output, "text", "json", "yaml")
	return cmd
}

// bootsReport is what boots prints.
type bootsReport struct {
	Versions []*bootcounts.Version `json:"versions"`
	// Regression is only for one pool.
	Regression *bootcounts.Regression `json:"break,omitempty"`
}

// run prints how the versions of profiles boot, restricted by the flags, or with --show-kubectl the
// commands that read the same objects. Its error says if lists were forbidden, so that
// numbers are too low.
func (f *bootsFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	s, err := f.Open()
	if err != nil {
		return err
	}
	out := cli.NewEscapingWriter(stdout, f.output)
	if f.ShowKubectl {
		_, err := fmt.Fprintf(out, "%s\n%s\n%s\n",
			s.KubectlCommand(session.InWorkerCluster, "", "get", "nodeprovenances", "-o", "yaml"),
			s.KubectlCommand(session.InWorkerCluster, "", "get", "machines,machinesets", "-A", "-o", "yaml"),
			s.KubectlCommand(session.InWorkerCluster, api.NamespaceCloudInitSettings, "get", "bootreports", "-o", "yaml"))
		return err
	}
	reader := &fleet.Reader{Management: s.Management, Worker: s.Worker, Namespace: s.ControllerNamespace, PageSize: pageSize}
	objects, err := reader.Read(ctx)
	if err != nil {
		return session.AddRemedy(err)
	}
	unjoined, err := bootcounts.ListUnjoined(ctx, s.Worker, pageSize)
	if err != nil {
		return session.AddRemedy(err)
	}
	model := fleet.NewModel(time.Now(), objects)
	if f.pool != "" && model.Pools[f.pool] == nil {
		return fmt.Errorf("there is no pool %s, and no record of one", f.pool)
	}
	report := bootsReport{Versions: bootcounts.Count(model, unjoined, func(pool string) bool { return f.pool == "" || pool == f.pool })}
	if f.pool != "" {
		report.Regression = bootcounts.FindRegression(model, f.pool, report.Versions)
	}
	report.Versions = slices.DeleteFunc(report.Versions, func(b *bootcounts.Version) bool {
		return (f.version != "" && b.Version != f.version) || !strings.HasPrefix(b.Commit, f.commit)
	})
	if f.output != "text" {
		err = cli.PrintData(out, f.output, report)
	} else {
		err = report.print(out)
	}
	if err != nil {
		return err
	}
	return reportForbiddenLists(s, stderr)
}

func (r *bootsReport) print(out io.Writer) error {
	versions := &listing{columns: parseColumns("Profile", "Version", "Commit", "Joined", "Booting", "Failing", "Failed", "P50", "P95")}
	failing := &listing{columns: parseColumns("Pool", "Machine", "Version", "Stage", "Attempt", "Cause", "@Age")}
	for _, b := range r.Versions {
		p50, p95 := "", ""
		if b.Joined > 0 {
			p50, p95 = fmt.Sprintf("%.0fs", b.P50Seconds), fmt.Sprintf("%.0fs", b.P95Seconds)
		}
		versions.add("", b.Version, "", b, b.Profile, b.Version, shortCommit(b.Commit), b.Joined, b.Booting, b.Failing, b.Failed, p50, p95)
		for _, m := range b.Causes {
			stage := ""
			attempt := ""
			cause := "not reported"
			if m.Boot != nil {
				stage = string(m.Boot.Stage)
				attempt = fmt.Sprint(m.Boot.Attempt)
				cause = m.Boot.Cause.String()
			}
			failing.add("", m.Machine, "", m, m.Pool, m.Machine, b.Version, stage, attempt, cause, m.Created)
		}
	}
	if len(r.Versions) == 0 {
		_, err := fmt.Fprintln(out, "No machines found.")
		return err
	}
	if err := versions.print(out, printers.NewTablePrinter(printers.PrintOptions{})); err != nil {
		return err
	}
	if len(failing.rows) > 0 {
		fmt.Fprintln(out)
		if err := failing.print(out, printers.NewTablePrinter(printers.PrintOptions{})); err != nil {
			return err
		}
	}
	if b := r.Regression; b != nil {
		joined := "no version"
		if b.Joined != "" {
			joined = b.Joined
		}
		fmt.Fprintf(out, "\nlast joined   %s\nfirst failed  %s\n", joined, b.Failed)
		for _, c := range b.Commits {
			fmt.Fprintf(out, "  %s %s %s (%s)\n", shortCommit(c.Commit), c.Version, c.Subject, c.Author)
		}
	}
	return nil
}
