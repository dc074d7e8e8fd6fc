package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/session"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// getFlags are the flags of get.
type getFlags struct {
	session.AccessFlags
	output     string
	everywhere bool
	watch      bool
	noHeaders  bool
	differing  bool
}

func newGetCommand() *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get sources|profiles|pools|nodes|rollouts|windows [NAME...]",
		Short: "list sources, profiles, pools, nodes, rollouts or maintenance windows",
		Long: `List sources, profiles, pools, nodes, rollouts or the maintenance windows of sources.

Sources, profiles and nodes have the columns of kubectl get profilesources,
operatingsystemprofiles and nodeprovenances. A pool is a MachineDeployment with a profile;
its row says what it has, and its state:

  Following  it has the current version     Rejected  a newer version was rejected
  Pinned     it requests a version          Paused    its wave is paused by failures
  Suspended  its configuration is frozen    Waiting   its wave has not begun

-o name prints arguments for the other commands, such as md/shop/web.`,
		Example: "  osm-gitops get pools -A\n  osm-gitops get sources -o wide\n  osm-gitops get nodes --differing\n  osm-gitops get rollouts --watch",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return cli.Misusef(cli.UsageOf(cmd), "say what to list")
			case findKind(args[0]) == nil:
				return cli.Misusef(cli.UsageOf(cmd), "unknown kind %q", args[0])
			case f.differing && findKind(args[0]) != session.NodeKind:
				return cli.Misusef("osm-gitops get nodes --differing", "--differing has no effect on %s", args[0])
			case f.everywhere && f.Namespace != "":
				return cli.Misusef(cli.UsageOf(cmd), "--namespace has no effect on --all-namespaces")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			g := &getter{getFlags: &f, kind: findKind(args[0]), names: args[1:], out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), shown: map[string]string{}}
			return g.run(cmd.Context())
		},
	}
	f.Bind(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&f.everywhere, "all-namespaces", "A", false, "list all namespaces")
	cli.BindOutput(fs, &f.output, "text", "wide", "json", "yaml", "name")
	fs.BoolVarP(&f.watch, "watch", "w", false, "then print what changes, until you stop it")
	fs.BoolVar(&f.noHeaders, "no-headers", false, "print no headers")
	fs.BoolVar(&f.differing, "differing", false, "list the nodes that report other files or units than those of their configuration, or have stopped reporting")
	return cmd
}

func findKind(word string) *session.Kind {
	for _, k := range listedKinds() {
		if k.IsNamed(word) {
			return k
		}
	}
	return nil
}

// listing is a table.
type listing struct {
	columns []metav1.TableColumnDefinition
	rows    []row
}

// row is a row of a listing. Its object has the metadata.
type row struct {
	metav1.TableRow

	item     any    // for -o json and -o yaml
	argument string // for -o name
}

// add adds a row for an object. Cells of type date hold times.
func (l *listing) add(namespace, name, argument string, item any, cells ...any) {
	for i, c := range cells {
		if at, ok := c.(time.Time); ok {
			cells[i] = "<unknown>"
			if !at.IsZero() {
				cells[i] = duration.HumanDuration(time.Since(at))
			}
		}
	}
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	l.rows = append(l.rows, row{metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: meta}}, item, argument})
}

// print prints the table.
func (l *listing) print(out io.Writer, to printers.ResourcePrinter) error {
	table := metav1.Table{ColumnDefinitions: l.columns}
	for _, r := range l.rows {
		table.Rows = append(table.Rows, r.TableRow)
	}
	return to.PrintObj(&table, out)
}

// parseColumns returns the columns of a table. The prefix "+" marks those of -o wide, and "@" those
// with a time.
func parseColumns(names ...string) (out []metav1.TableColumnDefinition) {
	for _, name := range names {
		c := metav1.TableColumnDefinition{Type: "string"}
		if rest, wide := strings.CutPrefix(name, "+"); wide {
			c.Priority, name = 1, rest
		}
		if rest, date := strings.CutPrefix(name, "@"); date {
			c.Type, name = "date", rest
		}
		c.Name = name
		out = append(out, c)
	}
	return out
}

// getter runs get once.
type getter struct {
	*getFlags

	kind  *session.Kind
	names []string
	out   io.Writer
	errs  io.Writer
	shown map[string]string // what was printed last, by row
}

func (g *getter) run(ctx context.Context) error {
	s, err := g.Open()
	if err != nil {
		return err
	}
	namespace := s.SourceNamespace()
	if g.kind == session.PoolKind {
		namespace = s.DefaultPoolNamespace
	}
	if g.everywhere || g.kind.ClusterScoped {
		namespace = ""
	}
	if g.ShowKubectl {
		_, err := fmt.Fprintln(cli.NewEscapingWriter(g.out, ""), g.kubectlGet(namespace))
		return err
	}
	var changes <-chan error
	if g.watch { // before the list, so that no change is between the two
		changes = watch(ctx, s, g.kind, namespace)
	}
	text := cli.NewEscapingWriter(g.out, map[string]string{"json": "json", "yaml": "yaml"}[g.output])
	tabs := printers.GetNewTabWriter(text)
	table := printers.NewTablePrinter(printers.PrintOptions{NoHeaders: g.noHeaders, WithNamespace: g.everywhere && !g.kind.ClusterScoped, Wide: g.output == "wide"})
	lists := rate.NewLimiter(rate.Every(listPause), 1)
	for first := true; ; first = false {
		if lists.Wait(ctx) != nil { // interrupted
			return nil //nolint:nilerr // interrupting the command is how a watch ends
		}
		l, err := g.list(ctx, s, namespace)
		if err != nil {
			if g.watch && ctx.Err() != nil {
				return nil //nolint:nilerr // interrupting the command is how a watch ends
			}
			return session.AddRemedy(err)
		}
		if err := g.filterNamedAndChangedRows(l, first); err != nil {
			return err
		}
		if first && len(l.rows) == 0 {
			// Not to the standard output, which a script reads.
			fmt.Fprintf(g.errs, "No %s found%s.\n", g.kind.Plural, namespaceSuffix(namespace))
		}
		if err := g.print(l, text, func() error { return errors.Join(l.print(tabs, table), tabs.Flush()) }); err != nil {
			return err
		}
		if first {
			err := reportForbiddenLists(s, g.errs)
			if !g.watch {
				return err
			}
			if err != nil {
				cli.Warn(g.errs, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-changes:
			if err != nil {
				return session.AddRemedy(err)
			}
		}
	}
}

func namespaceSuffix(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace + " (-A lists all)"
}

// reportForbiddenLists warns about lists for which the user has no permission, and returns an error if
// there are any.
func reportForbiddenLists(s *session.Session, errs io.Writer) error {
	forbidden := s.Management.ForbiddenLists
	// Without a worker cluster both are one connection, whose errors would be reported twice.
	if s.Worker != s.Management {
		forbidden = append(forbidden, s.Worker.ForbiddenLists...)
	}
	for _, err := range forbidden {
		cli.Warn(errs, session.AddRemedy(err))
	}
	if len(forbidden) > 0 {
		return errors.New("the answer is incomplete: see the warnings")
	}
	return nil
}

func (g *getter) kubectlGet(namespace string) string {
	args := []string{"get", g.kind.Resource}
	if g.kind != session.RolloutKind { // whose names are those of profiles
		args = append(args, g.names...)
	}
	if namespace == "" && !g.kind.ClusterScoped {
		args = append(args, "-A")
	}
	if g.differing {
		args = append(args, "--field-selector", differingNodes)
	}
	if g.output != "text" {
		args = append(args, "-o", g.output)
	}
	if g.watch {
		args = append(args, "--watch")
	}
	return g.KubectlCommand(g.kind.InWorkerCluster, namespace, args...)
}

func (g *getter) list(ctx context.Context, s *session.Session, namespace string) (*listing, error) {
	switch g.kind {
	case session.PoolKind:
		return poolRows(ctx, s, namespace)
	case session.RolloutKind:
		return rolloutRows(ctx, s, namespace)
	case session.WindowKind:
		return windowRows(ctx, s, namespace)
	}
	if g.differing {
		return differingRows(ctx, g.kind, s)
	}
	return serverRows(ctx, g.kind, s, namespace, "", g.output == "json" || g.output == "yaml")
}

// differingNodes selects NodeProvenances whose condition Matches is False.
const differingNodes = "status.match.state!=,status.match.state!=" + string(api.MatchStateMatches) + ",status.match.state!=" + string(api.MatchStateNotSupported)

// differingRows lists the existing nodes that do not match their configuration.
func differingRows(ctx context.Context, k *session.Kind, s *session.Session) (*listing, error) {
	l, err := serverRows(ctx, k, s, "", differingNodes, true)
	if err != nil {
		return nil, err
	}
	l.rows = slices.DeleteFunc(l.rows, func(r row) bool {
		obj, _ := r.item.(map[string]any)
		_, removed, _ := unstructured.NestedString(obj, "status", "removed")
		return removed
	})
	return l, nil
}

// filterNamedAndChangedRows removes the rows that were not requested, and those that have not changed since
// they were printed; a later age is not a change.
func (g *getter) filterNamedAndChangedRows(l *listing, first bool) error {
	var all []string
	missing := slices.Clone(g.names)
	l.rows = slices.DeleteFunc(l.rows, func(r row) bool {
		meta, _ := r.Object.Object.(metav1.Object)
		name := meta.GetName()
		all = append(all, name)
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		if len(g.names) > 0 && !slices.Contains(g.names, name) {
			return true
		}
		var cells strings.Builder
		for c, cell := range r.Cells {
			if c < len(l.columns) && l.columns[c].Type != "date" {
				fmt.Fprintf(&cells, "%v\x00", cell)
			}
		}
		key := r.argument + "\x00" + meta.GetNamespace()
		if g.kind == session.WindowKind {
			key += fmt.Sprintf("\x00%v", r.Cells[1]) // of a source with several
		}
		was, known := g.shown[key]
		g.shown[key] = cells.String()
		return known && was == cells.String()
	})
	if first && len(missing) > 0 {
		return session.NewUnknownNameError(fmt.Sprintf("%s %q", strings.TrimSuffix(g.kind.Plural, "s"), missing[0]), missing[0], slices.Compact(slices.Sorted(slices.Values(all))))
	}
	return nil
}

func (g *getter) print(l *listing, out io.Writer, table func() error) error {
	items := make([]any, len(l.rows))
	for i, r := range l.rows {
		items[i] = r.item
		if g.output == "name" {
			if _, err := fmt.Fprintln(out, r.argument); err != nil {
				return err
			}
		}
	}
	switch g.output {
	case "name":
		return nil
	case "json", "yaml":
		return cli.PrintData(out, g.output, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	return table()
}

// pageSize is the number of objects per list request.
const pageSize = 500

// serverRows lets the API server print a kind, with the columns of its definition.
func serverRows(ctx context.Context, k *session.Kind, s *session.Session, namespace, fields string, fullObjects bool) (*listing, error) {
	cfg, worker, err := s.Configs()
	if err != nil {
		return nil, err
	}
	if k.InWorkerCluster {
		cfg = worker
	}
	transport, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	web, err := apiutil.RESTClientForGVK(k.GVK, true, true, cfg, serializer.NewCodecFactory(s.Management.Scheme()), transport)
	if err != nil {
		return nil, err
	}
	include := "Metadata"
	if fullObjects {
		include = "Object"
	}
	l := &listing{}
	for token := ""; ; {
		raw, err := web.Get().NamespaceIfScoped(namespace, namespace != "").Resource(k.Resource).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
			Param("fieldSelector", fields).Param("includeObject", include).Param("limit", fmt.Sprint(pageSize)).Param("continue", token).Do(ctx).Raw()
		if err != nil {
			return nil, err
		}
		var page metav1.Table
		if err := json.Unmarshal(raw, &page); err != nil {
			return nil, fmt.Errorf("decoding the table of %s: %w", k.Resource, err)
		}
		for _, r := range page.Rows {
			obj := &unstructured.Unstructured{}
			if err := json.Unmarshal(r.Object.Raw, &obj.Object); err != nil {
				return nil, fmt.Errorf("decoding an object of %s: %w", k.Resource, err)
			}
			obj.SetManagedFields(nil)
			r.Object = runtime.RawExtension{Object: obj}
			l.rows = append(l.rows, row{r, obj.Object, k.ArgumentPrefix + strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")})
		}
		l.columns = page.ColumnDefinitions
		if token = page.Continue; token == "" {
			return l, nil
		}
	}
}

// poolRow is a pool as -o json prints it.
type poolRow struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Profile   string       `json:"profile"`
	Version   string       `json:"version,omitempty"`
	Commit    string       `json:"commit,omitempty"`
	Author    string       `json:"author,omitempty"`
	Pin       string       `json:"pin,omitempty"`
	State     fleet.State  `json:"state"`
	Message   string       `json:"message,omitempty"`
	Since     time.Time    `json:"since,omitzero"`
	Nodes     fleet.Counts `json:"nodes"`
}

// poolRows lists pools as the audit page shows them.
func poolRows(ctx context.Context, s *session.Session, namespace string) (*listing, error) {
	s.Management.ForbiddenLists, s.Worker.ForbiddenLists = nil, nil
	reader := &fleet.Reader{Management: s.Management, Worker: s.Worker, Namespace: s.ControllerNamespace, PageSize: pageSize}
	if namespace != "" {
		reader.Worker = client.NewNamespacedClient(s.Worker, namespace)
	}
	objects, err := reader.Read(ctx)
	if err != nil {
		return nil, err
	}
	model := fleet.NewModel(time.Now(), objects)
	l := &listing{columns: parseColumns("Name", "Profile", "Version", "Commit", "State", "Nodes", "Behind", "@Since", "+Author", "+Pin", "+Message")}
	slices.SortFunc(objects.Pools, func(a, b metav1.ObjectMeta) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	for i := range objects.Pools {
		p := model.Pools[objects.Pools[i].Namespace+"/"+objects.Pools[i].Name]
		row := poolRow{Namespace: p.Namespace, Name: p.Name, Profile: p.Profile, Pin: p.Pin, State: p.State, Message: p.Why, Nodes: p.Counts()}
		if periods := model.PeriodsOfPool(p.Key()); len(periods) > 0 && periods[0].Current {
			now := periods[0]
			row.Version = now.Version
			row.Commit = now.Commit
			row.Author = now.Author
			row.Since = now.From
		}
		l.add(row.Namespace, row.Name, "md/"+row.Namespace+"/"+row.Name, row,
			row.Name, row.Profile, row.Version, shortCommit(row.Commit), string(row.State), row.Nodes.Total, row.Nodes.Behind, row.Since, row.Author, row.Pin, row.Message)
	}
	return l, nil
}

// shortCommit is a commit in a table.
func shortCommit(commit string) string {
	const digits = 12 // as in columns of kinds
	return commit[:min(len(commit), digits)]
}

// rolloutRow is a rollout as -o json prints it.
type rolloutRow struct {
	Namespace string `json:"namespace"`
	Source    string `json:"source"`

	*api.RolloutStatus `json:",inline"`
}

// rolloutRows lists the rollouts in the status of ProfileSources.
func rolloutRows(ctx context.Context, s *session.Session, namespace string) (*listing, error) {
	l := &listing{columns: parseColumns("Profile", "Version", "From", "Wave", "Pools", "State", "@Since", "Source", "+Message")}
	for list, err := range kubeclient.Pages(ctx, s.Management, &api.ProfileSourceList{}, client.InNamespace(namespace)) {
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			ps := &list.Items[i]
			for j := range ps.Status.Rollouts {
				r := &ps.Status.Rollouts[j]
				from := ""
				if r.From != nil {
					from = r.From.Version
				}
				state := r.Reason
				if r.Held {
					state = "Held: " + state
				}
				l.add(ps.Namespace, r.Profile, r.Profile+"@"+r.Version, rolloutRow{ps.Namespace, ps.Name, r},
					r.Profile, r.Version, from, r.Wave, fmt.Sprintf("%d/%d", r.Pools.Adopted, r.Pools.Total), state, r.Since.Time, ps.Name, r.Message)
			}
		}
	}
	return l, nil
}

// listedKinds are the kinds that get lists.
func listedKinds() []*session.Kind {
	return []*session.Kind{session.SourceKind, session.ProfileKind, session.PoolKind, session.NodeKind, session.RolloutKind, session.WindowKind}
}
