package manager

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Options are the flags of the controller, validated.
type Options struct {
	// Version and Commit are those of this program.
	Version, Commit string

	Kubeconfig, WorkerKubeconfig string // "" is in-cluster, and no worker cluster apart
	Namespace                    string
	Shard                        shard.Shard
	LeaderElect                  bool
	WorkerCount                  int

	// Observe writes nothing but conditions, beside another controller.
	Observe bool

	// Settings are what nodes get, without the certificates of the two files. Without
	// KubernetesCAFile nodes trust the CA of the worker cluster's kubeconfig.
	Settings                     render.Settings
	HostCAFile, KubernetesCAFile string
	RegistrySecret               types.NamespacedName
	OverrideServer               string
	TokenServiceAccount          types.NamespacedName
	NodeTokenTTL                 time.Duration // 0 for the token that all pools share
	CloudProviderReferences      []types.NamespacedName

	HistoryLimit        int
	HistoryRetention    time.Duration
	ProvenanceRetention time.Duration
	ProvenanceMax       int
	PublishSnapshot     bool
	AuditLog            string

	CacheDir               string
	DirectoryRoot          string
	AllowInsecureGit       bool
	GitAllowedCIDRs        []netip.Prefix
	DisableDefaultOSPs     bool
	CrossNamespaces        []string // with profiles for pools, beside Namespace; "*" is all
	ArtifactHosts          []string
	AllowExternalArtifacts bool
	ArgoNamespace          string

	// Addresses of probes and metrics; "" and "0" are none. The second ones are for the
	// flags of the reference's webhook.
	HealthAddress, MetricsAddress             string
	WorkerHealthAddress, WorkerMetricsAddress string
	SecondHealthAddress, SecondMetricsAddress string

	Push Push
	UI   UI

	// Webhook has the address, the files and names of the flags; no address is no webhook.
	Webhook             webhook.Options
	DenyUnknownProfiles bool
}

// Push is what comes from Git hosts, and goes to them and to Flux.
type Push struct {
	Address, CertFile, KeyFile string // no address: nothing listens
	EventsAddress              string // of Flux's notification-controller
	ClusterName                string // in commit statuses
}

// UI is the audit page.
type UI struct {
	Address, CertFile, KeyFile string // no address: there is none
	Open                       bool   // on loopback, without TLS: nobody is asked for a token
}
