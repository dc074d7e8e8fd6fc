package manager

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Options are the validated flags of the controller.
type Options struct {
	// Version and Commit of this program.
	Version, Commit string

	Kubeconfig, WorkerKubeconfig string // "": in-cluster, and no separate worker cluster
	Namespace                    string
	Shard                        shard.Shard
	LeaderElect                  bool
	WorkerCount                  int

	// ProfilesOnly is ProfilesCOSP for a controller in a seed of KKP, which only writes profiles.
	ProfilesOnly string

	// Observe writes only conditions, while another controller serves the cluster.
	Observe bool

	// Settings are the settings of nodes, without the certificates of the two files. Without
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

	CacheDir               string // "" for the default
	DirectoryRoot          string
	AllowInsecureGit       bool
	GitAllowedCIDRs        []netip.Prefix
	DisableDefaultOSPs     bool
	CrossNamespaces        []string // with profiles for pools, in addition to Namespace; "*" is all
	ArtifactHosts          []string
	AllowExternalArtifacts bool
	ArgoNamespace          string

	// Addresses of probes and metrics; "" and "0" disable them. The second ones are for the
	// flags of operating-system-manager's webhook.
	HealthAddress, MetricsAddress             string
	WorkerHealthAddress, WorkerMetricsAddress string
	SecondHealthAddress, SecondMetricsAddress string

	Push Push
	UI   UI

	// Webhook has the values of flags; without an address there is no webhook.
	Webhook             webhook.Options
	DenyUnknownProfiles bool
}

// Push has the addresses for pushes from Git hosts, and for events to Flux.
type Push struct {
	Address, CertFile, KeyFile string // no address disables it
	EventsAddress              string // of Flux's notification-controller
	ClusterName                string // in commit statuses
}

// UI has the flags of the audit page.
type UI struct {
	Address, CertFile, KeyFile string // no address disables it
	Open                       bool   // on loopback without TLS, users are not authenticated
}
