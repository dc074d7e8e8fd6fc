package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/load"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui"
	"github.com/osm-gitops/osm-gitops/pkg/manager"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/receiver"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// controllerFlags are the flags of the controller: those of operating-system-manager with
// their names and defaults, then our own.
type controllerFlags struct {
	manager.Options // set by flags, partly after validate has parsed them

	clusterDNS              string
	featureGates            string
	registrySecretName      string
	tokenServiceAccountName string
	caBundle                string
	logDebug                bool
	logFormat               string
	ignored                 *pflag.FlagSet // accepted flags without effect
	downloadMirrors         []string
	downloadDigests         []string
	nodeToken               string
	nodeTokenTTL            time.Duration
	allowedCIDRs            string
	crossNamespaceList      string
	artifactHostList        string
	referenceList           string
	selector                string

	webhookService string
	webhookHosts   string
	dryRun         bool
	output         string
}

// fluxHost is the default host of Flux's source-controller: --storage-adv-addr in
// config/manager/deployment.yaml of the Go module github.com/fluxcd/source-controller
// v1.9.5, in Flux's own namespace.
const fluxHost = "source-controller.flux-system.svc.cluster.local"

// Values of --node-token.
const (
	nodeTokenBound  = "bound"
	nodeTokenShared = "shared"
)

// Limits of the lifetime that a TokenRequest can ask for:
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/authentication/validation/validation.go
const (
	minNodeTokenTTL = 10 * time.Minute
	maxNodeTokenTTL = 1 << 32 * time.Second
)

// rotateGate is a feature gate that is enabled by default.
const rotateGate = "RotateKubeletServerCertificate"

// Defaults for the retention of replaced configurations and of the NodeProvenances of
// deleted nodes.
const (
	defaultHistoryLimit     = 20
	defaultHistoryRetention = 90 * 24 * time.Hour
	defaultProvenanceMax    = 50_000
)

func newControllerFlags() *controllerFlags { return &controllerFlags{} }

func (f *controllerFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster; empty: in-cluster, or $KUBECONFIG")
	fs.StringVar(&f.WorkerKubeconfig, "worker-cluster-kubeconfig", "", "kubeconfig of the worker cluster, with pools, their Secrets and nodes; empty: the management cluster")
	fs.StringVar(&f.Namespace, "namespace", "", "namespace of ProfileSources, profiles, configurations and the leader lease (required)")
	fs.IntVar(&f.WorkerCount, "worker-count", 10, "number of pools handled at a time")
	fs.StringVar(&f.Settings.ContainerRuntime, "container-runtime", "containerd", "container runtime of the nodes; only containerd")
	fs.BoolVar(&f.Settings.ExternalCloudProvider, "external-cloud-provider", false, "an external cloud controller manager initializes nodes")
	fs.StringVar(&f.clusterDNS, "cluster-dns", "10.10.10.10", "comma list of DNS server IPs for the kubelets")
	fs.StringVar(&f.Settings.PauseImage, "pause-image", "", "sandbox image for containerd; empty: containerd's own")
	fs.StringVar(&f.Settings.InitialTaints, "initial-taints", "", "taints with which nodes register, as for kubelet's --register-with-taints")
	fs.BoolVar(&f.DisableDefaultOSPs, "disable-default-osps", false, "do not offer the built-in profiles, and delete their ProfileSource")
	fs.StringVar(&f.featureGates, "node-kubelet-feature-gates", rotateGate+"=true", "comma list of gate=bool for the kubelets")
	fs.StringVar(&f.Settings.NodeHTTPProxy, "node-http-proxy", "", "HTTP proxy of the nodes")
	fs.StringVar(&f.Settings.NodeNoProxy, "node-no-proxy", ".svc,.cluster.local,localhost,127.0.0.1", "destinations that nodes reach without the proxy")
	fs.StringVar(&f.Settings.NodeInsecureRegistries, "node-insecure-registries", "", "comma list of registries whose certificate is not verified")
	fs.StringVar(&f.Settings.NodeRegistryMirrors, "node-registry-mirrors", "", "comma list of mirrors, url or registry=url")
	fs.StringArrayVar(&f.Settings.NodeContainerdRegistryMirrors, "node-containerd-registry-mirrors", nil, "mirror of a registry, registry=url; repeatable")
	fs.StringVar(&f.registrySecretName, "node-registry-credentials-secret", "", "namespace/name of the Secret with registry credentials")
	fs.BoolVar(&f.Settings.DeviceOwnershipFromSecurityContext, "device-ownership-from-security-context", false, "containerd's option of that name")
	fs.StringVar(&f.HealthAddress, "health-probe-address", "127.0.0.1:8085", "address of /healthz and /readyz; 0 for none")
	fs.StringVar(&f.MetricsAddress, "metrics-address", "127.0.0.1:8080", "address of /metrics; 0 for none")
	fs.StringVar(&f.WorkerHealthAddress, "worker-health-probe-address", "127.0.0.1:8086", "address of /healthz and /readyz about the worker cluster, with --worker-cluster-kubeconfig; 0 for none")
	fs.StringVar(&f.WorkerMetricsAddress, "worker-metrics-address", "127.0.0.1:8081", "a second address of /metrics, with --worker-cluster-kubeconfig; 0 for none")
	fs.StringVar(&f.SecondHealthAddress, "health-probe-bind-address", "", "a second address of /healthz and /readyz, named as in operating-system-manager; empty or 0: none")
	fs.StringVar(&f.SecondMetricsAddress, "metrics-bind-address", "", "a second address of /metrics, named as in operating-system-manager; empty or 0: none")
	fs.BoolVar(&f.LeaderElect, "leader-elect", true, "run only while holding the leader lease")
	fs.StringVar(&f.OverrideServer, "override-bootstrap-kubelet-apiserver", "", "URL of the API server for nodes, in place of cluster-info's")
	fs.StringVar(&f.tokenServiceAccountName, "bootstrap-token-service-account-name", "", "namespace/name of a ServiceAccount with whose token kubelets join")
	fs.StringVar(&f.KubernetesCAFile, "kubernetes-ca-bundle", "", "PEM file with the CA of the cluster that nodes join; empty: the CA in its kubeconfig")
	fs.StringVar(&f.HostCAFile, "host-ca-bundle", "", "PEM file with certificates that nodes trust")
	fs.StringVar(&f.caBundle, "ca-bundle", "", "accepted and ignored")
	fs.BoolVar(&f.logDebug, "log-debug", false, "log more")
	fs.StringVar(&f.logFormat, "log-format", "JSON", "JSON or Console")

	fs.StringArrayVar(&f.downloadMirrors, "node-download-mirrors", nil, "publisher=url: mirror from which nodes download, such as kubernetes=https://mirror.example.com/k8s; repeatable")
	fs.StringArrayVar(&f.downloadDigests, "node-download-digests", nil, "file=sha256: required digest of a download of nodes, in addition to its publisher's checksum; repeatable")
	fs.StringVar(&f.Settings.IgnitionVersion, "ignition-version", render.DefaultIgnitionVersion, "Ignition version for Flatcar: 3.3.0, 3.4.0, or 2.3.0 for images before Flatcar 3185")
	fs.StringVar(&f.nodeToken, "node-token", nodeTokenBound, "token with which nodes fetch their Secrets: bound: one for each pool, which expires and reads only that pool's Secrets; shared: that of Secret cloud-init-getter-token, which reads those of all pools")
	fs.DurationVar(&f.nodeTokenTTL, "node-token-ttl", 24*time.Hour, "lifetime of a bound token, at least 10m; the API server can shorten it; renewed after half of it")
	fs.IntVar(&f.HistoryLimit, "config-history-limit", defaultHistoryLimit, "records of replaced configurations to retain for each pool, in addition to those that a NodeProvenance names; the oldest are deleted first")
	fs.DurationVar(&f.HistoryRetention, "config-history-retention", defaultHistoryRetention, "how long to retain the records of a deleted pool, except those that a NodeProvenance names")
	fs.DurationVar(&f.ProvenanceRetention, "provenance-retention", defaultHistoryRetention, "how long to retain the NodeProvenance of a deleted node")
	fs.IntVar(&f.ProvenanceMax, "provenance-max", defaultProvenanceMax, "number of NodeProvenances above which those of deleted nodes are deleted earlier; the oldest first")
	fs.BoolVar(&f.PublishSnapshot, "publish-snapshot", false, "publish data about pools for osm-gitops diff, without credentials, in ConfigMap osm-gitops-snapshot of --namespace")
	fs.StringVar(&f.AuditLog, "audit-log", "", "audit log file, or stdout: one line of JSON for each entry, with the hash of the previous line; empty: none")
	fs.StringVar(&f.CacheDir, "cache-dir", "", "folder of the mirrors of repositories; retain it between runs; empty: ~/.cache/osm-gitops/mirrors or, if that cannot be created, a private folder in /dev/shm")
	fs.StringVar(&f.DirectoryRoot, "directory-root", "", "folder that must contain the directory of a ProfileSource; empty: no directory is allowed")
	fs.BoolVar(&f.AllowInsecureGit, "allow-insecure-git", false, "allow http URLs of repositories: an attacker on the network can replace the profile of every node")
	fs.StringVar(&f.allowedCIDRs, "git-allowed-cidrs", "", "comma list of loopback and link-local networks that can contain repositories, such as 127.0.0.0/8")
	f.bindHooksAndEvents(fs)
	fs.StringVar(&f.selector, "watch-label-selector", "", "label selector of the ProfileSources and MachineDeployments of this controller, if several share a cluster; empty: all")
	f.bindWebhook(fs)
	f.bindUI(fs)
	f.bindDryRun(fs)
	fs.StringVar(&f.crossNamespaceList, "allow-cross-namespace-profiles", "", "comma list of further namespaces with profiles for pools, * for all: users who can create profiles there are root on nodes of such pools")
	fs.StringVar(&f.referenceList, render.ReferencesFlag, "", "comma list of namespace/name: Secrets and ConfigMaps in other namespaces for the cloudProviderSpec of every pool; for kubelets below 1.29. Users who can write a MachineDeployment anywhere can read their values")
	fs.StringVar(&f.artifactHostList, "artifact-hosts", fluxHost, "comma list of hosts, or host:port, from which artifacts of Flux are downloaded; default port: that of the URL's scheme")
	fs.StringVar(&f.ArgoNamespace, "argocd-namespace", "argocd", "namespace of Argo CD's Applications if a tracking id names none")
	fs.BoolVar(&f.AllowExternalArtifacts, "allow-external-artifacts", false, "allow ProfileSources to follow ExternalArtifacts, which controllers other than Flux create: name their hosts in --artifact-hosts")
	_ = fs.MarkHidden("ca-bundle")
}

// badFlag reports an invalid flag.
type badFlag func(flag, format string, args ...any)

// parseAndValidate checks all flags, reports every invalid one, and sets the fields that follow
// from them.
func (f *controllerFlags) parseAndValidate() error {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %w", flag, fmt.Errorf(format, args...)))
	}
	if problems := validation.IsDNS1123Label(f.Namespace); f.Namespace == "" {
		bad("namespace", "is required: name the namespace of profiles and configurations")
	} else if len(problems) > 0 {
		bad("namespace", "%q is not a namespace: %s", f.Namespace, strings.Join(problems, "; "))
	}
	if f.WorkerCount < 1 {
		bad("worker-count", "%d is too small: set at least 1", f.WorkerCount)
	}
	for _, limit := range []struct {
		flag       string
		value      any
		isNegative bool
	}{
		{"config-history-limit", f.HistoryLimit, f.HistoryLimit < 0},
		{"config-history-retention", f.HistoryRetention, f.HistoryRetention < 0},
		{"provenance-retention", f.ProvenanceRetention, f.ProvenanceRetention < 0},
		{"provenance-max", f.ProvenanceMax, f.ProvenanceMax < 0},
	} {
		if limit.isNegative {
			bad(limit.flag, "%v is negative: set 0 or more", limit.value)
		}
	}
	if f.nodeToken != nodeTokenShared && f.nodeToken != nodeTokenBound {
		bad("node-token", "%q is neither %s nor %s", f.nodeToken, nodeTokenBound, nodeTokenShared)
	}
	if f.nodeTokenTTL < minNodeTokenTTL || f.nodeTokenTTL > maxNodeTokenTTL {
		bad("node-token-ttl", "%s is out of range: set a lifetime from %s to %s", f.nodeTokenTTL, minNodeTokenTTL, maxNodeTokenTTL)
	}
	if format := strings.ToLower(f.logFormat); format != "json" && format != "console" {
		bad("log-format", "%q is neither JSON nor Console", f.logFormat)
	}
	if f.DirectoryRoot != "" && !filepath.IsAbs(f.DirectoryRoot) {
		bad("directory-root", "%q must be absolute", f.DirectoryRoot)
	}
	var err error
	if f.RegistrySecret, err = parseNamespacedName(f.registrySecretName); err != nil {
		bad("node-registry-credentials-secret", "%w", err)
	}
	if f.TokenServiceAccount, err = parseNamespacedName(f.tokenServiceAccountName); err != nil {
		bad("bootstrap-token-service-account-name", "%w", err)
	}
	if f.GitAllowedCIDRs, err = load.ParseCIDRs(f.allowedCIDRs); err != nil {
		bad("git-allowed-cidrs", "%w", err)
	}
	if err := checkServerURL(f.OverrideServer); err != nil {
		bad("override-bootstrap-kubelet-apiserver", "%w", err)
	}
	if f.CrossNamespaces, err = load.ParseList(f.crossNamespaceList, parseNamespace); err != nil {
		bad("allow-cross-namespace-profiles", "%w", err)
	}
	if f.CloudProviderReferences, err = load.ParseList(f.referenceList, parseReference); err != nil {
		bad(render.ReferencesFlag, "%w", err)
	}
	if f.ArtifactHosts, err = load.ParseList(f.artifactHostList, parseHost); err != nil {
		bad("artifact-hosts", "%w", err)
	}
	if f.Settings.KubeletFeatureGates, err = parseFeatureGates(f.featureGates); err != nil {
		bad("node-kubelet-feature-gates", "%w", err)
	}
	if f.Settings.DownloadMirrors, err = parsePairs(f.downloadMirrors); err != nil {
		bad("node-download-mirrors", "%w", err)
	}
	if f.Settings.DownloadDigests, err = parsePairs(f.downloadDigests); err != nil {
		bad("node-download-digests", "%w", err)
	}
	if f.Shard, err = shard.Parse(f.selector); err != nil {
		bad("watch-label-selector", "%w", err)
	}
	if f.nodeToken == nodeTokenBound {
		f.NodeTokenTTL = f.nodeTokenTTL
	}
	f.completeSettings()
	if err := f.Settings.Validate(); err != nil {
		errs = append(errs, err)
	}
	f.parseAndValidateHooks(bad)
	f.parseAndValidateWebhook(bad)
	f.parseAndValidateUI(bad)
	f.validateDryRun(bad)
	return errors.Join(errs...)
}

func parseNamespacedName(s string) (types.NamespacedName, error) {
	if s == "" {
		return types.NamespacedName{}, nil
	}
	parts := strings.Split(s, "/")
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
		return types.NamespacedName{}, fmt.Errorf("%q is not of the form namespace/name", s)
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, nil
}

// checkServerURL checks a URL to which nodes send their tokens, which need https://.
func checkServerURL(server string) error {
	if server == "" {
		return nil
	}
	if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("it must be a URL like https://api.example.com:6443, without user and password")
	}
	return nil
}

// parseNamespace reads a namespace, or "*" for all.
func parseNamespace(s string) (string, error) {
	if problems := validation.IsDNS1123Label(s); s != desired.AllNamespaces && len(problems) > 0 {
		return "", fmt.Errorf("%q is not a namespace: %s", s, strings.Join(problems, "; "))
	}
	return s, nil
}

// parseReference reads the namespace/name of a Secret or ConfigMap.
func parseReference(s string) (types.NamespacedName, error) {
	name, err := parseNamespacedName(s)
	if err != nil {
		return name, err
	}
	if problems := append(validation.IsDNS1123Label(name.Namespace), validation.IsDNS1123Subdomain(name.Name)...); len(problems) > 0 {
		return name, fmt.Errorf("invalid object %q: name one Secret or ConfigMap as namespace/name: %s", s, strings.Join(problems, "; "))
	}
	return name, nil
}

// parseHost reads a host or host:port.
func parseHost(s string) (string, error) {
	if u, err := url.Parse("http://" + s); err != nil || u.Host != s || u.Hostname() == "" {
		return "", fmt.Errorf("%q is not a host: write one such as source-controller.flux-system.svc.cluster.local or 10.0.0.7:9090", s)
	}
	return s, nil
}

// parseHostWithoutPort reads a host name or an address.
func parseHostWithoutPort(s string) (string, error) {
	s = strings.ToLower(s)
	if net.ParseIP(s) == nil && len(validation.IsDNS1123Subdomain(s)) > 0 {
		return "", fmt.Errorf("%q is neither a name nor an IP: write them without https:// and port", s)
	}
	return s, nil
}

// parseFeatureGates reads a comma list of gate=bool. rotateGate is enabled unless the list
// disables it.
func parseFeatureGates(list string) (map[string]bool, error) {
	out := map[string]bool{rotateGate: true}
	for _, item := range strings.Split(list, ",") {
		name, value, ok := strings.Cut(item, "=")
		on, err := strconv.ParseBool(value)
		if !ok || name == "" || err != nil {
			return nil, fmt.Errorf("%q is not of the form gate=true or gate=false", item)
		}
		out[name] = on
	}
	return out, nil
}

// parsePairs reads the values of a repeatable flag of the form name=value. Errors do not quote a
// value, which may contain a password.
func parsePairs(list []string) (map[string]string, error) {
	var out map[string]string
	for _, item := range list {
		name, value, ok := strings.Cut(item, "=")
		if !ok || name == "" || value == "" || strings.Contains(name, "://") {
			return nil, errors.New("a value is not of the form name=value")
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%q is given twice", name)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out, nil
}

// completeSettings sets the settings of nodes that are no flags of this form. Those of the files that
// flags name are read later.
func (f *controllerFlags) completeSettings() {
	f.Settings.Namespace, f.Settings.ClusterDNS = f.Namespace, nil
	for _, ip := range strings.Split(f.clusterDNS, ",") {
		f.Settings.ClusterDNS = append(f.Settings.ClusterDNS, strings.TrimSpace(ip))
	}
	if f.Settings.IgnitionVersion == render.DefaultIgnitionVersion {
		f.Settings.IgnitionVersion = "" // the default gives the same digests whether or not the flag is set
	}
}

// clusterNames are valid names for the context of a commit status, by which branch
// protection requires it.
var clusterNames = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// bindHooksAndEvents binds the flags for pushes from Git hosts, commit statuses and Flux events.
func (f *controllerFlags) bindHooksAndEvents(fs *pflag.FlagSet) {
	fs.StringVar(&f.Push.Address, "hooks-address", "", "address for pushes from Git hosts, such as :9292, at the path "+receiver.Path+"; empty or 0: none")
	fs.StringVar(&f.Push.CertFile, "hooks-cert-file", "", "PEM file with the certificate of --hooks-address, read again when it changes; empty: plain http, for use behind a proxy with TLS")
	fs.StringVar(&f.Push.KeyFile, "hooks-key-file", "", "PEM file with the key of --hooks-cert-file")
	fs.StringVar(&f.Push.EventsAddress, "events-addr", "", "URL of Flux's notification-controller, such as http://notification-controller.flux-system.svc.cluster.local./; empty: events are sent to the API server only")
	fs.StringVar(&f.Push.ClusterName, "cluster-name", "", "name of this cluster in the commit statuses that Git hosts show")
}

func (f *controllerFlags) parseAndValidateHooks(bad badFlag) {
	p := &f.Push
	p.Address = emptyIfZero(p.Address)
	if _, _, err := net.SplitHostPort(p.Address); err != nil && p.Address != "" {
		bad("hooks-address", "%q is not an address: write host:port, or :port for every address of this machine", p.Address)
	}
	if (p.CertFile == "") != (p.KeyFile == "") {
		bad("hooks-cert-file", "--hooks-cert-file and --hooks-key-file belong together: set both or neither")
	}
	if p.CertFile != "" && p.Address == "" {
		bad("hooks-cert-file", "has no effect without --hooks-address")
	}
	if p.EventsAddress != "" {
		u, err := url.Parse(p.EventsAddress)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
			bad("events-addr", "it must be an http or https URL without user and password")
		}
	}
	if p.ClusterName != "" && !clusterNames.MatchString(p.ClusterName) {
		bad("cluster-name", "%q: at most 63 letters, digits, '.', '_' and '-', with a letter or digit at both ends", p.ClusterName)
	}
}

// bindWebhook binds the flags of the admission webhooks.
func (f *controllerFlags) bindWebhook(fs *pflag.FlagSet) {
	fs.StringVar(&f.Webhook.Address, "webhook-address", ":9443", "address of the admission webhooks, with TLS; empty or 0: none")
	fs.StringVar(&f.Webhook.CertDir, "cert-dir", "", "folder with tls.crt and tls.key for --webhook-address, read again when they change, as cert-manager mounts them; empty: the controller creates and renews certificates itself")
	fs.StringVar(&f.Webhook.ClientCAFile, "webhook-client-ca-file", "", "PEM file with the CA of the API server's client certificate; empty: every client of --webhook-address is answered")
	fs.StringVar(&f.webhookService, "webhook-service", "", "namespace/name of the Service that the API server calls; empty: "+api.WebhookServiceName+" in --namespace")
	fs.StringVar(&f.webhookHosts, "webhook-hosts", "", "comma list of further names and IPs that API servers call, for webhook configurations with a url")
	fs.BoolVar(&f.DenyUnknownProfiles, "admission-deny-unknown-profiles", false, "reject MachineDeployments whose profile does not exist or does not fit, instead of a warning")
}

func (f *controllerFlags) parseAndValidateWebhook(bad badFlag) {
	w := &f.Webhook
	w.Address = emptyIfZero(w.Address)
	var err error
	if w.Service, err = parseNamespacedName(f.webhookService); err != nil {
		bad("webhook-service", "%w", err)
	}
	if w.Hosts, err = load.ParseList(f.webhookHosts, parseHostWithoutPort); err != nil {
		bad("webhook-hosts", "%w", err)
	}
	if w.Address == "" {
		for flag, set := range map[string]bool{"cert-dir": w.CertDir != "", "webhook-client-ca-file": w.ClientCAFile != "", "admission-deny-unknown-profiles": f.DenyUnknownProfiles} {
			if set {
				bad(flag, "has no effect without --webhook-address")
			}
		}
		return
	}
	_, port, err := webhook.SplitAddress(w.Address)
	if err != nil {
		bad("webhook-address", "%w", err)
		return
	}
	if _, hooks, err := net.SplitHostPort(f.Push.Address); err == nil && hooks == fmt.Sprint(port) {
		bad("webhook-address", "port %d is also that of --hooks-address: choose another", port)
	}
}

// bindUI binds the flags of the audit page.
func (f *controllerFlags) bindUI(fs *pflag.FlagSet) {
	fs.StringVar(&f.UI.Address, "ui-address", "", "address of the audit page: a port, such as 8087, is on loopback, for kubectl port-forward, without authentication; any other host:port needs TLS; empty or 0: none. With TLS, users need a token of the worker cluster and permission to get the nonResourceURL "+ui.RightPath)
	fs.StringVar(&f.UI.CertFile, "ui-tls-cert", "", "PEM file with the certificate of --ui-address, read again when it changes; empty: tls.crt and tls.key of --cert-dir, if that is set")
	fs.StringVar(&f.UI.KeyFile, "ui-tls-key", "", "PEM file with the key of --ui-tls-cert")
}

func (f *controllerFlags) parseAndValidateUI(bad badFlag) {
	u := &f.UI
	u.Address = emptyIfZero(u.Address)
	if (u.CertFile == "") != (u.KeyFile == "") {
		bad("ui-tls-cert", "--ui-tls-cert and --ui-tls-key belong together: set both or neither")
	}
	if u.Address == "" {
		if u.CertFile != "" {
			bad("ui-tls-cert", "has no effect without --ui-address")
		}
		return
	}
	listen, loopback, err := ui.SplitAddress(u.Address)
	if err != nil {
		bad("ui-address", "%w", err)
		return
	}
	if u.CertFile == "" && !loopback {
		if f.Webhook.CertDir == "" {
			bad("ui-address", "%q is not on loopback, and needs TLS, since users send tokens to it: set --ui-tls-cert and --ui-tls-key, or --cert-dir", u.Address)
			return
		}
		u.CertFile = filepath.Join(f.Webhook.CertDir, "tls.crt")
		u.KeyFile = filepath.Join(f.Webhook.CertDir, "tls.key")
	}
	u.Address = listen
	u.Open = u.CertFile == ""
}

// bindDryRun binds the flags that only report what the controller would do.
func (f *controllerFlags) bindDryRun(fs *pflag.FlagSet) {
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be done after reading the cluster and the repositories, and exit; nothing is written")
	fs.StringVar(&f.ProfilesOnly, "profiles-only", "", manager.ProfilesCOSP+": in a seed of KKP, write the current version of each profile as CustomOperatingSystemProfile, and nothing else: no pools, no webhooks, no built-in profiles")
	fs.BoolVar(&f.Observe, "observe", false, "while another controller serves the cluster, report on ProfileSources what would be done, in condition "+api.ObservedCondition+", and write nothing more")
	cli.BindOutput(fs, &f.output, "text", "json", "yaml")
	fs.Lookup("output").Usage = "what --dry-run prints: text, json, yaml"
}

func (f *controllerFlags) validateDryRun(bad badFlag) {
	if f.dryRun && f.Observe {
		bad("observe", "runs until it is stopped and --dry-run exits: set only one of them")
	}
	f.validateProfilesOnly(bad)
}

// validateProfilesOnly rejects other modes, and flags about clusters with pools that would have no
// effect.
func (f *controllerFlags) validateProfilesOnly(bad badFlag) {
	switch f.ProfilesOnly {
	case "":
		return
	case manager.ProfilesCOSP:
	default:
		bad("profiles-only", "%q is not %s", f.ProfilesOnly, manager.ProfilesCOSP)
		return
	}
	others := map[string]bool{
		"dry-run": f.dryRun, "observe": f.Observe, "worker-cluster-kubeconfig": f.WorkerKubeconfig != "",
		"publish-snapshot": f.PublishSnapshot, "ui-address": f.UI.Address != "",
	}
	for _, flag := range slices.Sorted(maps.Keys(others)) {
		if others[flag] {
			bad(flag, "is about a cluster with pools, which --profiles-only=%s leaves alone: remove one of them", f.ProfilesOnly)
		}
	}
}

// emptyIfZero returns an address, or "" for "0".
func emptyIfZero(address string) string {
	if address == "0" {
		return ""
	}
	return address
}
