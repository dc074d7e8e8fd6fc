package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

// personFlags say where a person who asks something reads it: from clusters, with that
// person's own rights, or from a dump.
type personFlags struct {
	kubeconfig, context, workerKubeconfig string
	namespace                             string
	hosts                                 string
	from                                  string
}

func (f *personFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` with the kubeconfig of the cluster; empty: the KUBECONFIG of the environment, ~/.kube/config, or in-cluster")
	fs.StringVar(&f.context, "context", "", "`NAME` of the context in that kubeconfig; empty: its current one")
	fs.StringVar(&f.workerKubeconfig, "worker-cluster-kubeconfig", "", "`FILE` with the kubeconfig of the worker cluster; empty: the same cluster")
	fs.StringVar(&f.namespace, "namespace", "kube-system", "`NAMESPACE` of the controller")
	fs.StringVar(&f.hosts, "git-hosts", "", "what the hosts of repositories are, for links to commits: a comma `LIST` of HOST=KIND with a kind of github, gitlab, gitea, forgejo, bitbucket, bitbucket-server or azure. Without it a ProfileSource's webhook tells, or a guess from the name is said to be one")
	fs.StringVar(&f.from, "from", "", "`FILE` of osm-gitops trace --dump, to read instead of a cluster")
}

// clusters are where to read from.
func (f *personFlags) clusters() (trace.Clusters, error) {
	hosts, err := githost.ParseHosts(f.hosts)
	if err != nil {
		return trace.Clusters{}, misusef("--git-hosts git.example.com=gitlab", "--git-hosts: %w", err)
	}
	if f.from != "" {
		return f.dumped(hosts)
	}
	management, err := personReader("kubeconfig", f.kubeconfig, f.context)
	if err != nil {
		return trace.Clusters{}, err
	}
	c := trace.Clusters{Management: management, Worker: management, Namespace: f.namespace, Hosts: hosts}
	if f.workerKubeconfig != "" {
		if c.Worker, err = personReader("worker-cluster-kubeconfig", f.workerKubeconfig, ""); err != nil {
			return trace.Clusters{}, err
		}
	}
	return c, nil
}

// personReader reads a cluster with the rights of whoever runs the program.
func personReader(flag, kubeconfig, context string) (client.Reader, error) {
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
