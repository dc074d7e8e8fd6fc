package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"mvdan.cc/sh/v3/syntax"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// controllerNamespace is the default namespace of ProfileSources and profiles.
const controllerNamespace = "kube-system"

// access has the flags that every verb has.
type access struct {
	kubeconfig, context, workerKubeconfig string
	namespace                             string
	controller                            string
	showKubectl                           bool
}

func (a *access) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&a.showKubectl, "show-kubectl", false, "print the kubectl command that does the same, and change nothing")
	fs.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the cluster; empty: $KUBECONFIG, ~/.kube/config, or in-cluster")
	fs.StringVar(&a.context, "context", "", "`NAME` of its context; empty: the current one")
	fs.StringVar(&a.workerKubeconfig, "worker-cluster-kubeconfig", "", "kubeconfig `FILE` of the worker cluster; empty: the same cluster")
	fs.StringVarP(&a.namespace, "namespace", "n", "", "`NAMESPACE` of the object; empty: that of the context for pools, --controller-namespace for the rest")
	fs.StringVar(&a.controller, "controller-namespace", controllerNamespace, "`NAMESPACE` of the controller")
}

// sourceNamespace is the namespace of ProfileSources and profiles.
func (a *access) sourceNamespace() string { return cmp.Or(a.namespace, a.controller) }

// session reads and writes the clusters of one command.
type session struct {
	*access

	management, worker *connection
	// poolNamespace is the namespace of pools that are named without one.
	poolNamespace string
}

// connection is a cluster.
type connection struct {
	client.WithWatch

	config *rest.Config
	http   *http.Client
	// denied are the lists that the API server has forbidden.
	denied []error
}

// List remembers what is forbidden: callers that go on without it report it at the end.
func (c *connection) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.WithWatch.List(ctx, list, opts...)
	if apierrors.IsForbidden(err) {
		c.denied = append(c.denied, err)
	}
	return err
}

// open connects to the clusters that the flags name. The verb ends the User-Agent, for the
// audit log of the API server.
func (a *access) open(verb string) (*session, error) {
	management, err := connect("kubeconfig", a.kubeconfig, a.context, verb)
	if err != nil {
		return nil, err
	}
	s := &session{access: a, management: management, worker: management}
	pools, context := a.kubeconfig, a.context
	if a.workerKubeconfig != "" {
		if s.worker, err = connect("worker-cluster-kubeconfig", a.workerKubeconfig, "", verb); err != nil {
			return nil, err
		}
		// --context names a context of --kubeconfig.
		pools, context = a.workerKubeconfig, ""
	}
	s.poolNamespace = cmp.Or(a.namespace, kubeclient.UserNamespace(pools, context))
	return s, nil
}

func connect(flag, kubeconfig, context, verb string) (*connection, error) {
	cfg, err := kubeclient.UserConfig(flag, kubeconfig, context)
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = rest.DefaultKubernetesUserAgent() + " (" + verb + ")"
	scheme, err := kubeclient.NewScheme()
	if err != nil {
		return nil, err
	}
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme, HTTPClient: web})
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &connection{WithWatch: c, config: cfg, http: web}, nil
}

// explain adds to an error of the API server what to do.
func explain(err error) error {
	var unreachable *url.Error
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: an administrator can give you this permission", err)
	case apimeta.IsNoMatchError(err):
		return fmt.Errorf("the cluster does not have this kind: %w: install osm-gitops, or name another cluster with --context or --kubeconfig", err)
	case errors.As(err, &unreachable) && !errors.Is(err, context.Canceled):
		return fmt.Errorf("the API server does not answer: %w: name another cluster with --context, --kubeconfig or $KUBECONFIG", unreachable)
	}
	return err
}

// kubectl is a kubectl command for the same cluster.
func (a *access) kubectl(worker bool, namespace string, args ...string) string {
	words := []string{"kubectl"}
	kubeconfig, context := a.kubeconfig, a.context
	if worker && a.workerKubeconfig != "" {
		kubeconfig, context = a.workerKubeconfig, ""
	}
	for _, f := range [][2]string{{"--kubeconfig", kubeconfig}, {"--context", context}, {"-n", namespace}} {
		if f[1] != "" {
			words = append(words, f[0], f[1])
		}
	}
	words = append(words, args...)
	for i, word := range words {
		if quoted, err := syntax.Quote(word, syntax.LangPOSIX); err == nil { // or it has a NUL byte, as no argument
			words[i] = quoted
		}
	}
	return strings.Join(words, " ")
}

// ref names an object of an argument.
type ref struct {
	pool            bool // a MachineDeployment, otherwise a ProfileSource
	namespace, name string
}

func (r ref) String() string {
	if r.pool {
		return "MachineDeployment " + r.namespace + "/" + r.name
	}
	return "ProfileSource " + r.namespace + "/" + r.name
}

// parseRef reads KIND/NAME or KIND/NAMESPACE/NAME. The namespace can be empty.
func parseRef(cmd *cobra.Command, text string, pools, sources bool) (ref, error) {
	kind, rest, _ := strings.Cut(text, "/")
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".") // of the API
	r := ref{pool: poolKind.has(kind)}
	if (!pools || !r.pool) && (!sources || !sourceKind.has(kind)) {
		return r, cli.Misusef(usage(cmd), "%q is not an argument of %s", text, cmd.Name())
	}
	r.name = rest
	if namespace, name, ok := strings.Cut(rest, "/"); ok {
		r.namespace, r.name = namespace, name
		// An empty variable in a script must not select the default namespace: reject md//web.
		if namespace == "" {
			r.name = ""
		}
	}
	if flag, _ := cmd.Flags().GetString("namespace"); flag != "" && r.namespace != "" && r.namespace != flag {
		return r, cli.Misusef(usage(cmd), "--namespace is %q, but %q names another namespace", flag, text)
	}
	if r.name == "" || strings.Contains(r.name, "/") {
		return r, cli.Misusef(usage(cmd), "%q is not KIND/NAME or KIND/NAMESPACE/NAME", text)
	}
	return r, nil
}

// usage is the hint for misuse of a verb.
func usage(cmd *cobra.Command) string { return "osm-gitops " + cmd.Use }

// arguments checks the number of arguments.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return cli.Misusef(usage(cmd), "an argument is missing")
		case len(args) > most:
			return cli.Misusef(usage(cmd), "unexpected argument %q", args[most])
		}
		return nil
	}
}
