package verbs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/session"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

func newHistoryCommand() *cobra.Command {
	var f session.AccessFlags
	var output string
	cmd := &cobra.Command{
		Use:   "history md/[NAMESPACE/]NAME",
		Short: "list the configurations that a pool had",
		Long: `List the configurations that a pool had, newest first: the version of the profile, its
commit and author, and the time. A deleted pool has one while its records remain.`,
		Example: "  osm-gitops history md/shop/web\n  osm-gitops history md/shop/web -o json",
		Args:    cli.RequireArgumentCount(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := session.ParseRef(cmd, args[0], true, false)
			if err != nil {
				return err
			}
			s, err := f.Open()
			if err != nil {
				return err
			}
			of.Namespace = cmp.Or(of.Namespace, s.DefaultPoolNamespace)
			pool := api.PoolLabel(of.Namespace, of.Name)
			if f.ShowKubectl {
				config := lineage.NamesOf(client.ObjectKey{Namespace: of.Namespace, Name: of.Name}).Config
				_, err := fmt.Fprintf(cli.NewEscapingWriter(cmd.OutOrStdout(), ""), "%s\n%s\n",
					s.KubectlCommand(session.InManagementCluster, s.ControllerNamespace, "get", "operatingsystemconfig", config, "--ignore-not-found", "-o", "yaml"),
					s.KubectlCommand(session.InManagementCluster, s.ControllerNamespace, "get", "controllerrevisions", "-l", api.LabelPool+"="+pool, "-o", "yaml"))
				return err
			}
			history, err := readHistory(cmd.Context(), s, of, pool)
			if err != nil {
				return err
			}
			out := cli.NewEscapingWriter(cmd.OutOrStdout(), output)
			if output != "text" {
				return cli.PrintData(out, output, history)
			}
			return historyListing(history).print(out, printers.NewTablePrinter(printers.PrintOptions{}))
		},
	}
	f.Bind(cmd)
	cli.BindOutput(cmd.Flags(), &output, "text", "json", "yaml")
	return cmd
}

// readHistory reads the configurations of a pool, newest first.
func readHistory(ctx context.Context, s *session.Session, of session.Ref, label string) ([]fleet.Period, error) {
	var o fleet.Objects
	key := client.ObjectKey{Namespace: of.Namespace, Name: of.Name}
	var osc osm.OperatingSystemConfig
	found, err := kubeclient.Find(ctx, s.Management, client.ObjectKey{Namespace: s.ControllerNamespace, Name: lineage.NamesOf(key).Config}, &osc)
	if err != nil {
		return nil, session.AddRemedy(err)
	}
	// Two pools can have the same object names, and then only one of them has the object.
	if found && lineage.PoolOf(&osc) == key.String() {
		o.Configs = []osm.OperatingSystemConfig{osc}
	}
	for _, l := range []struct {
		kind schema.GroupVersionKind
		by   client.MatchingLabels
		into *[]metav1.ObjectMeta
	}{
		{appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), client.MatchingLabels{api.LabelPool: label}, &o.Records},
		{session.ProfileKind.GVK, client.MatchingLabels{api.LabelManagedBy: api.FieldManager}, &o.Profiles},
	} {
		for list, err := range kubeclient.Pages(ctx, s.Management, kubeclient.MetadataList(l.kind), client.InNamespace(s.ControllerNamespace), l.by) {
			if err != nil {
				return nil, session.AddRemedy(err)
			}
			for i := range list.Items {
				*l.into = append(*l.into, list.Items[i].ObjectMeta)
			}
		}
	}
	if all := fleet.NewModel(time.Now(), o).PeriodsOfPool(key.String()); len(all) > 0 {
		return all, nil
	}
	var md cluster.MachineDeployment
	if err := s.Read(ctx, &of, &md); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return nil, fmt.Errorf("%s has no configuration, and no record of one", of)
}

func historyListing(periods []fleet.Period) *listing {
	l := &listing{columns: parseColumns("Version", "Commit", "Author", "From", "Until", "Profile")}
	for _, c := range periods {
		until := "now"
		if !c.Current {
			until = c.Until.UTC().Format(time.RFC3339)
		}
		l.add("", c.Version, "", c, c.Version, shortCommit(c.Commit), c.Author, c.From.UTC().Format(time.RFC3339), until, c.Profile)
	}
	return l
}
