package load

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/offline"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// ClusterAccess has the flags that choose what a command reads: clusters, with the user's
// own permissions, or a dump.
type ClusterAccess struct {
	Kubeconfig, Context, WorkerKubeconfig string
	Namespace                             string
	hosts                                 string
	From                                  string
}

func (f *ClusterAccess) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig `FILE` of the cluster; empty: $KUBECONFIG, ~/.kube/config, or in-cluster")
	fs.StringVar(&f.Context, "context", "", "`NAME` of its context; empty: the current one")
	fs.StringVar(&f.WorkerKubeconfig, "worker-cluster-kubeconfig", "", "kubeconfig `FILE` of the worker cluster; empty: the same cluster")
	fs.StringVar(&f.Namespace, "namespace", "kube-system", "`NAMESPACE` of the controller")
	fs.StringVar(&f.hosts, "git-hosts", "", "kinds of Git hosts, for links: comma `LIST` of HOST=KIND (github, gitlab, gitea, forgejo, bitbucket, bitbucket-server, azure); default from a ProfileSource's webhook, or a marked guess")
	fs.StringVar(&f.From, "from", "", "`FILE` of osm-gitops trace --dump instead of a cluster")
}

// Clusters opens the chosen clusters or the dump.
func (f *ClusterAccess) Clusters() (trace.Clusters, error) {
	hosts, err := githost.ParseHosts(f.hosts)
	if err != nil {
		return trace.Clusters{}, cli.Misusef("--git-hosts git.example.com=gitlab", "--git-hosts: %w", err)
	}
	if f.From != "" {
		return f.dumped(hosts)
	}
	management, err := ClusterReader("kubeconfig", f.Kubeconfig, f.Context)
	if err != nil {
		return trace.Clusters{}, err
	}
	c := trace.Clusters{Management: management, Worker: management, Namespace: f.Namespace, Hosts: hosts}
	if f.WorkerKubeconfig != "" {
		if c.Worker, err = ClusterReader("worker-cluster-kubeconfig", f.WorkerKubeconfig, ""); err != nil {
			return trace.Clusters{}, err
		}
	}
	return c, nil
}

// ClusterReader reads a cluster with the permissions of the current user.
func ClusterReader(flag, kubeconfig, context string) (client.Reader, error) {
	cfg, err := kubeclient.UserConfig(flag, kubeconfig, context)
	if err != nil {
		return nil, err
	}
	scheme, err := kubeclient.NewScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster of --%s: %w", flag, err)
	}
	return c, nil
}

// dumped opens a dump.
func (f *ClusterAccess) dumped(hosts githost.Hosts) (trace.Clusters, error) {
	if f.Kubeconfig != "" || f.Context != "" || f.WorkerKubeconfig != "" {
		return trace.Clusters{}, cli.Misusef("--from FILE alone", "--from reads a file, and --kubeconfig, --context and --worker-cluster-kubeconfig a cluster")
	}
	file, err := os.Open(f.From)
	if err != nil {
		return trace.Clusters{}, fmt.Errorf("--from: %w", err)
	}
	defer file.Close()
	dump, err := lineage.ReadSnapshot(file)
	if err != nil {
		return trace.Clusters{}, fmt.Errorf("--from %s: %w", f.From, err)
	}
	return offline.Clusters(dump, hosts)
}
