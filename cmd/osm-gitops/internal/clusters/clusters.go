package clusters

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/offline"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage/dump"
)

// Flags choose the clusters of a command, which has the user's own permissions in them.
type Flags struct {
	Kubeconfig, Context, WorkerKubeconfig string

	// Command ends the User-Agent, for the audit log of the API server.
	Command string
}

func (f *Flags) Bind(cmd *cobra.Command) {
	f.Command = cmd.Name()
	fs := cmd.Flags()
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the cluster; empty: $KUBECONFIG, ~/.kube/config, or in-cluster")
	fs.StringVar(&f.Context, "context", "", "`NAME` of its context; empty: the current one")
	fs.StringVar(&f.WorkerKubeconfig, "worker-cluster-kubeconfig", "", "kubeconfig `FILE` of the worker cluster; empty: the same cluster")
}

// IsSet reports whether a flag chooses a cluster.
func (f *Flags) IsSet() bool {
	return f.Kubeconfig != "" || f.Context != "" || f.WorkerKubeconfig != ""
}

// Configs returns the configs of the management cluster and the worker cluster, which are one
// pointer if they are one cluster.
func (f *Flags) Configs() (management, worker *rest.Config, err error) {
	if management, err = kubeclient.UserConfig("kubeconfig", f.Kubeconfig, f.Context); err != nil {
		return nil, nil, err
	}
	management.UserAgent = rest.DefaultKubernetesUserAgent() + " (" + f.Command + ")"
	if f.WorkerKubeconfig == "" {
		return management, management, nil
	}
	// --context names a context of --kubeconfig.
	if worker, err = kubeclient.UserConfig("worker-cluster-kubeconfig", f.WorkerKubeconfig, ""); err != nil {
		return nil, nil, err
	}
	worker.UserAgent = management.UserAgent
	return management, worker, nil
}

// Clients returns clients of the management cluster and the worker cluster.
func (f *Flags) Clients() (management, worker client.WithWatch, err error) {
	managementConfig, workerConfig, err := f.Configs()
	if err != nil {
		return nil, nil, err
	}
	scheme, err := kubeclient.NewScheme()
	if err != nil {
		return nil, nil, err
	}
	if management, err = client.NewWithWatch(managementConfig, client.Options{Scheme: scheme}); err != nil {
		return nil, nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if workerConfig == managementConfig {
		return management, management, nil
	}
	if worker, err = client.NewWithWatch(workerConfig, client.Options{Scheme: scheme}); err != nil {
		return nil, nil, fmt.Errorf("connecting to the worker cluster: %w", err)
	}
	return management, worker, nil
}

// DefaultPoolNamespace is the namespace of pools that are named without one.
func (f *Flags) DefaultPoolNamespace() string {
	if f.WorkerKubeconfig != "" {
		return kubeclient.UserNamespace(f.WorkerKubeconfig, "")
	}
	return kubeclient.UserNamespace(f.Kubeconfig, f.Context)
}

// BindNamespace binds --namespace of a command whose objects are those of the controller.
func BindNamespace(fs *pflag.FlagSet, namespace *string) {
	fs.StringVarP(namespace, "namespace", "n", "kube-system", "`NAMESPACE` of the controller")
}

// InspectFlags choose what trace, verify and ui read: clusters, or a dump.
type InspectFlags struct {
	Flags

	From                  string
	namespace, controller string
	isControllerSet       func() bool
	inPool                bool // namespace is that of a pool or machine
	hosts                 string
}

func (f *InspectFlags) Bind(cmd *cobra.Command) {
	f.Flags.Bind(cmd)
	fs := cmd.Flags()
	fs.StringVarP(&f.namespace, "namespace", "n", "", "`NAMESPACE` of the pool or machine; of other objects, that of the controller")
	fs.StringVar(&f.controller, "controller-namespace", "kube-system", "`NAMESPACE` of the controller")
	f.isControllerSet = func() bool { return fs.Changed("controller-namespace") }
	fs.StringVar(&f.hosts, "git-hosts", "", "kinds of Git hosts, for links: comma `LIST` of HOST=KIND (github, gitlab, gitea, forgejo, bitbucket, bitbucket-server, azure); default from a ProfileSource's webhook, or a marked guess")
	fs.StringVar(&f.From, "from", "", "`FILE` of osm-gitops trace --dump instead of a cluster")
}

// ResolveObjectNamespace returns the namespace of an object, which its argument can name. --namespace is
// that of a pool or machine, and that of the controller for what is in no pool.
func (f *InspectFlags) ResolveObjectNamespace(inPool bool, named string) (string, error) {
	f.inPool = inPool
	switch {
	case !inPool:
		return named, nil
	case named != "" && f.namespace != "" && named != f.namespace:
		return "", cli.Misusef("--controller-namespace "+f.namespace+", if that is what you mean", "--namespace is %q, but the argument names namespace %q", f.namespace, named)
	}
	return cmp.Or(named, f.namespace), nil
}

// Open opens the chosen clusters or the dump.
func (f *InspectFlags) Open() (trace.Clusters, error) {
	hosts, err := githost.ParseHosts(f.hosts)
	if err != nil {
		return trace.Clusters{}, cli.Misusef("--git-hosts git.example.com=gitlab", "--git-hosts: %w", err)
	}
	if f.From != "" {
		return f.openDump(hosts)
	}
	namespace := f.controller
	if !f.inPool && f.namespace != "" {
		if f.isControllerSet() && f.controller != f.namespace {
			return trace.Clusters{}, cli.Misusef("--controller-namespace "+f.controller+" alone", "--namespace is %q, and --controller-namespace %q: what is in no pool has only the controller's", f.namespace, f.controller)
		}
		namespace = f.namespace
	}
	if namespace == "" {
		return trace.Clusters{}, cli.Misusef("--controller-namespace kube-system", "--controller-namespace: is empty: name the namespace of the controller")
	}
	management, worker, err := f.Clients()
	if err != nil {
		return trace.Clusters{}, err
	}
	return trace.Clusters{Management: management, Worker: worker, Namespace: namespace, Hosts: hosts}, nil
}

// openDump reads the clusters from the file of --from.
func (f *InspectFlags) openDump(hosts githost.Hosts) (trace.Clusters, error) {
	if f.IsSet() {
		return trace.Clusters{}, cli.Misusef("--from FILE alone", "--from reads a file, and --kubeconfig, --context and --worker-cluster-kubeconfig a cluster")
	}
	file, err := os.Open(f.From)
	if err != nil {
		return trace.Clusters{}, fmt.Errorf("--from: %w", err)
	}
	defer file.Close()
	snapshot, err := dump.Read(file)
	if err != nil {
		return trace.Clusters{}, fmt.Errorf("--from %s: %w", f.From, err)
	}
	return offline.NewClusters(snapshot, hosts)
}
