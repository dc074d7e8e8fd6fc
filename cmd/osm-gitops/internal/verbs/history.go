package verbs

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

func newHistoryCommand() *cobra.Command {
	var f access
	var output string
	cmd := &cobra.Command{
		Use:   "history md/[NAMESPACE/]NAME",
		Short: "list the configurations that a pool had",
		Long: `List the configurations that a pool had, newest first: the version of the profile, its
commit and author, and the time. A deleted pool has one while its records remain.`,
		Example: "  osm-gitops history md/shop/web\n  osm-gitops history md/shop/web -o json",
		Args: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" && output != "yaml" {
				return cli.Misusef("-o text, -o json or -o yaml", "unknown output %q", output)
			}
			return arguments(1, 1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, err := parseRef(cmd, args[0], true, false)
			if err != nil {
				return err
			}
			s, err := f.open("history")
			if err != nil {
				return err
			}
			if of.namespace == "" {
				of.namespace = s.poolNamespace
			}
			pool := api.PoolLabel(of.namespace, of.name)
			if f.showKubectl {
				config := lineage.NamesOf(client.ObjectKey{Namespace: of.namespace, Name: of.name}).Config
				_, err := fmt.Fprintf(cli.Visible(cmd.OutOrStdout(), ""), "%s\n%s\n",
					s.kubectl(false, s.controller, "get", "operatingsystemconfig", config, "--ignore-not-found", "-o", "yaml"),
					s.kubectl(false, s.controller, "get", "controllerrevisions", "-l", api.LabelPool+"="+pool, "-o", "yaml"))
				return err
			}
			past, err := s.history(cmd.Context(), of, pool)
			if err != nil {
				return err
			}
			out := cli.Visible(cmd.OutOrStdout(), output)
			if output != "text" {
				return printData(out, output, past)
			}
			return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(historyTable(past), out)
		},
	}
	f.bind(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "text", "what to print: text, json or yaml")
	return cmd
}

// history reads the configurations of a pool, newest first.
func (s *session) history(ctx context.Context, of ref, label string) ([]ui.Configuration, error) {
	var o ui.Objects
	key := client.ObjectKey{Namespace: of.namespace, Name: of.name}
	var osc osm.OperatingSystemConfig
	found, err := kubeclient.Find(ctx, s.management, client.ObjectKey{Namespace: s.controller, Name: lineage.NamesOf(key).Config}, &osc)
	if err != nil {
		return nil, explain(err)
	}
	// Two pools can have the same object names, and then only one of them has the object.
	if found && lineage.PoolOf(&osc) == key.String() {
		o.Configs = []osm.OperatingSystemConfig{osc}
	}
	for _, l := range []struct {
		list *metav1.PartialObjectMetadataList
		by   client.MatchingLabels
		into *[]metav1.ObjectMeta
	}{
		{kubeclient.MetadataList(appsv1.SchemeGroupVersion.WithKind("ControllerRevision")), client.MatchingLabels{api.LabelPool: label}, &o.Records},
		{kubeclient.MetadataList(profileKind.gvk), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}, &o.Profiles},
	} {
		err := kubeclient.EachPage(ctx, s.management, l.list, func() {
			for i := range l.list.Items {
				*l.into = append(*l.into, l.list.Items[i].ObjectMeta)
			}
		}, client.InNamespace(s.controller), l.by)
		if err != nil {
			return nil, explain(err)
		}
	}
	if all := ui.NewModel(time.Now(), o).Configurations(key.String()); len(all) > 0 {
		return all, nil
	}
	var md cluster.MachineDeployment
	if err := s.read(ctx, &of, &md); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	return nil, fmt.Errorf("%s has no configuration, and no record of one", of)
}

func historyTable(past []ui.Configuration) *metav1.Table {
	l := &listing{table: metav1.Table{ColumnDefinitions: columns("Version", "Commit", "Author", "From", "Until", "Profile")}}
	for _, c := range past {
		until := "now"
		if !c.Current {
			until = c.Until.UTC().Format(time.RFC3339)
		}
		l.add("", c.Version, "", c, c.Version, short(c.Commit), c.Author, c.From.UTC().Format(time.RFC3339), until, c.Profile)
	}
	return &l.table
}
