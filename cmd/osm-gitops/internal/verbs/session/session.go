package session

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"mvdan.cc/sh/v3/syntax"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/clusters"
)

// controllerNamespace is the default namespace of ProfileSources and profiles.
const controllerNamespace = "kube-system"

// AccessFlags has the flags that every verb has.
type AccessFlags struct {
	clusters.Flags

	Namespace           string
	ControllerNamespace string
	ShowKubectl         bool
}

func (a *AccessFlags) Bind(cmd *cobra.Command) {
	a.Flags.Bind(cmd)
	fs := cmd.Flags()
	fs.BoolVar(&a.ShowKubectl, "show-kubectl", false, "print the kubectl command that does the same, and change nothing")
	fs.StringVarP(&a.Namespace, "namespace", "n", "", "`NAMESPACE` of the object; empty: that of the context for pools, --controller-namespace for the rest")
	fs.StringVar(&a.ControllerNamespace, "controller-namespace", controllerNamespace, "`NAMESPACE` of the controller")
}

// SourceNamespace is the namespace of ProfileSources and profiles.
func (a *AccessFlags) SourceNamespace() string { return cmp.Or(a.Namespace, a.ControllerNamespace) }

// Session reads and writes the clusters of one command.
type Session struct {
	*AccessFlags

	Management, Worker *Connection
	// DefaultPoolNamespace is the namespace of pools that are named without one.
	DefaultPoolNamespace string
}

// Connection is a cluster.
type Connection struct {
	client.WithWatch

	// ForbiddenLists are the lists that the API server has forbidden.
	ForbiddenLists []error
}

// List records in ForbiddenLists what is forbidden: callers that continue without it report it at the end.
func (c *Connection) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.WithWatch.List(ctx, list, opts...)
	if apierrors.IsForbidden(err) {
		c.ForbiddenLists = append(c.ForbiddenLists, err)
	}
	return err
}

// Open connects to the clusters that the flags name.
func (a *AccessFlags) Open() (*Session, error) {
	management, worker, err := a.Clients()
	if err != nil {
		return nil, err
	}
	s := &Session{AccessFlags: a, Management: &Connection{WithWatch: management}, DefaultPoolNamespace: cmp.Or(a.Namespace, a.DefaultPoolNamespace())}
	if s.Worker = s.Management; worker != management {
		s.Worker = &Connection{WithWatch: worker}
	}
	return s, nil
}

// The clusters of a KubectlCommand. Without --worker-cluster-kubeconfig both are the same.
const (
	InManagementCluster = false
	InWorkerCluster     = true
)

// KubectlCommand returns the kubectl command with these arguments, and with the flags for one of the two
// clusters and for a namespace, quoted for a shell. An empty namespace means none.
func (a *AccessFlags) KubectlCommand(worker bool, namespace string, args ...string) string {
	words := []string{"kubectl"}
	kubeconfig, context := a.Kubeconfig, a.Context
	if worker && a.WorkerKubeconfig != "" {
		kubeconfig, context = a.WorkerKubeconfig, ""
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
