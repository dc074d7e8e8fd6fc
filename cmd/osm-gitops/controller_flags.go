package main

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// controllerFlags are the flags of the controller: those of contract section
// 11.1 by their names and defaults, then our own.
type controllerFlags struct {
	kubeconfig, workerKubeconfig  string
	namespace                     string
	workerCount                   int
	historyLimit                  int
	historyRetention              time.Duration
	provenanceRetention           time.Duration
	provenanceMax                 int
	auditLog                      string
	containerRuntime              string
	externalCloudProvider         bool
	clusterDNS                    string
	pauseImage, initialTaints     string
	disableDefaultOSPs            bool
	featureGates                  string
	httpProxy, noProxy            string
	insecureRegistries, mirrors   string
	containerdMirrors             []string
	registrySecretName            string
	deviceOwnership               bool
	healthAddress, metricsAddress string
	workerHealth, workerMetrics   string
	webhookHealth, webhookMetrics string
	leaderElect                   bool
	overrideServer                string
	tokenServiceAccountName       string
	kubernetesCAFile, hostCAFile  string
	caBundle                      string
	logDebug                      bool
	logFormat                     string

	downloadMirrors, downloadDigests []string
	ignitionVersion                  string

	nodeToken        string
	nodeTokenTTL     time.Duration
	cacheDir         string
	directoryRoot    string
	allowInsecureGit bool
	allowedCIDRs     string
	push             pushFlags
	admission        admissionFlags
	ui               uiFlags
	rehearsal        rehearsalFlags
	publishSnapshot  bool
	shard            shardFlags

	crossNamespaceList, artifactHostList, argoNamespace string
	allowExternalArtifacts                              bool
	referenceList                                       string

	// What validate makes of them.
	registrySecret, tokenServiceAccount types.NamespacedName
	gitAllowedCIDRs                     []netip.Prefix
	artifactHosts                       []string
	crossNamespaces                     []string
	references                          []types.NamespacedName
	gates                               map[string]bool
	mirrorOf, digestOf                  map[string]string
}

// fluxHost is where Flux's source-controller serves artifacts unless it is told
// otherwise: --storage-adv-addr in config/manager/deployment.yaml of the Go module
// github.com/fluxcd/source-controller v1.9.5, in Flux's own namespace.
const fluxHost = "source-controller.flux-system.svc.cluster.local"

// The values of --node-token.
const (
	nodeTokenBound  = "bound"
	nodeTokenShared = "shared"
)

// The shortest and the longest life that a TokenRequest may ask for:
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/authentication/validation/validation.go
const (
	minNodeTokenTTL = 10 * time.Minute
	maxNodeTokenTTL = 1 << 32 * time.Second
)

// boundTokenTTL is the life of tokens that are bound to one pool; 0 for none.
func (f *controllerFlags) boundTokenTTL() time.Duration {
	if f.nodeToken == nodeTokenShared {
		return 0
	}
	return f.nodeTokenTTL
}

// rotateGate is the feature gate that is on unless the flag says otherwise.
const rotateGate = "RotateKubeletServerCertificate"

// How long records of replaced configurations are kept unless a flag says otherwise.
// The time is that of the provenance of a node that is gone.
const (
	defaultHistoryLimit     = 20
	defaultHistoryRetention = 90 * 24 * time.Hour
	defaultProvenanceMax    = 50_000
)

func newControllerFlags() *controllerFlags { return &controllerFlags{} }

func (f *controllerFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the management cluster; empty: in-cluster, or the KUBECONFIG of the environment")
	fs.StringVar(&f.workerKubeconfig, "worker-cluster-kubeconfig", "", "kubeconfig of the worker cluster, which has the pools, their Secrets and the nodes; empty: the management cluster")
	fs.StringVar(&f.namespace, "namespace", "", "namespace of ProfileSources, profiles, configurations and the leader lease (required)")
	fs.IntVar(&f.workerCount, "worker-count", 10, "number of pools handled at a time")
	fs.StringVar(&f.containerRuntime, "container-runtime", "containerd", "container runtime of the nodes; only containerd")
	fs.BoolVar(&f.externalCloudProvider, "external-cloud-provider", false, "nodes are initialised by a cloud controller manager outside the kubelet")
	fs.StringVar(&f.clusterDNS, "cluster-dns", "10.10.10.10", "comma list of DNS server IPs for the kubelets")
	fs.StringVar(&f.pauseImage, "pause-image", "", "sandbox image for containerd; empty: containerd's own")
	fs.StringVar(&f.initialTaints, "initial-taints", "", "taints that a node registers with, as kubelet's --register-with-taints takes them")
	fs.BoolVar(&f.disableDefaultOSPs, "disable-default-osps", false, "do not offer the built-in profiles: delete their ProfileSource")
	fs.StringVar(&f.featureGates, "node-kubelet-feature-gates", rotateGate+"=true", "comma list of gate=bool for the kubelets")
	fs.StringVar(&f.httpProxy, "node-http-proxy", "", "HTTP proxy of the nodes")
	fs.StringVar(&f.noProxy, "node-no-proxy", ".svc,.cluster.local,localhost,127.0.0.1", "what nodes reach without the proxy")
	fs.StringVar(&f.insecureRegistries, "node-insecure-registries", "", "comma list of registries whose certificate is not verified")
	fs.StringVar(&f.mirrors, "node-registry-mirrors", "", "comma list of mirrors, url or registry=url")
	fs.StringArrayVar(&f.containerdMirrors, "node-containerd-registry-mirrors", nil, "mirror of a registry, registry=url; repeatable")
	fs.StringVar(&f.registrySecretName, "node-registry-credentials-secret", "", "namespace/name of the Secret with credentials of registries")
	fs.BoolVar(&f.deviceOwnership, "device-ownership-from-security-context", false, "containerd's option of that name")
	fs.StringVar(&f.healthAddress, "health-probe-address", "127.0.0.1:8085", "address of /healthz and /readyz; 0 for none")
	fs.StringVar(&f.metricsAddress, "metrics-address", "127.0.0.1:8080", "address of /metrics; 0 for none")
	fs.StringVar(&f.workerHealth, "worker-health-probe-address", "127.0.0.1:8086", "address of /healthz and /readyz about the worker cluster, with --worker-cluster-kubeconfig; 0 for none")
	fs.StringVar(&f.workerMetrics, "worker-metrics-address", "127.0.0.1:8081", "a second address of /metrics, with --worker-cluster-kubeconfig; 0 for none")
	fs.StringVar(&f.webhookHealth, "health-probe-bind-address", "", "a second address of /healthz and /readyz, by the name that the reference's webhook has for it; empty or 0: none")
	fs.StringVar(&f.webhookMetrics, "metrics-bind-address", "", "a second address of /metrics, by the name that the reference's webhook has for it; empty or 0: none")
	fs.BoolVar(&f.leaderElect, "leader-elect", true, "run only while holding the leader lease")
	fs.StringVar(&f.overrideServer, "override-bootstrap-kubelet-apiserver", "", "URL of the API server for nodes, in place of cluster-info's")
	fs.StringVar(&f.tokenServiceAccountName, "bootstrap-token-service-account-name", "", "namespace/name of a ServiceAccount whose token kubelets join with")
	fs.StringVar(&f.kubernetesCAFile, "kubernetes-ca-bundle", "", "PEM file with the CA of the cluster that nodes join; empty: that of its kubeconfig")
	fs.StringVar(&f.hostCAFile, "host-ca-bundle", "", "PEM file with certificates that nodes trust")
	fs.StringVar(&f.caBundle, "ca-bundle", "", "accepted and ignored")
	fs.BoolVar(&f.logDebug, "log-debug", false, "log more")
	fs.StringVar(&f.logFormat, "log-format", "JSON", "JSON or Console")

	fs.StringArrayVar(&f.downloadMirrors, "node-download-mirrors", nil, "publisher=url: nodes download from there instead, such as kubernetes=https://mirror.example.com/k8s; repeatable")
	fs.StringArrayVar(&f.downloadDigests, "node-download-digests", nil, "file=sha256: what a file that nodes download must have, beside its publisher's checksum; repeatable")
	fs.StringVar(&f.ignitionVersion, "ignition-version", render.DefaultIgnitionVersion, "version of the Ignition specification for Flatcar: 3.3.0, 3.4.0, or 2.3.0 for images before Flatcar 3185")
	fs.StringVar(&f.nodeToken, "node-token", nodeTokenBound, "token with which nodes fetch their Secrets: bound is one per pool, which reads nothing else and ends; shared is the one in Secret cloud-init-getter-token, which reads those of all pools")
	fs.DurationVar(&f.nodeTokenTTL, "node-token-ttl", 24*time.Hour, "how long a bound token lives, at least 10m; the API server may shorten it; renewed at half of its life")
	fs.IntVar(&f.historyLimit, "config-history-limit", defaultHistoryLimit, "number of records of replaced configurations kept per pool, beside those that a NodeProvenance names; the oldest go first")
	fs.DurationVar(&f.historyRetention, "config-history-retention", defaultHistoryRetention, "how long the records of a pool that is gone are kept, beside those that a NodeProvenance names")
	fs.DurationVar(&f.provenanceRetention, "provenance-retention", defaultHistoryRetention, "how long the NodeProvenance of a node that is gone is kept")
	fs.IntVar(&f.provenanceMax, "provenance-max", defaultProvenanceMax, "number of NodeProvenances above which those of nodes that are gone are deleted before that time; the oldest go first")
	fs.BoolVar(&f.publishSnapshot, "publish-snapshot", false, "keep what osm-gitops diff needs to know of pools, without credentials, in the ConfigMap osm-gitops-snapshot of --namespace")
	fs.StringVar(&f.auditLog, "audit-log", "", "file to which facts for auditors are appended, one line of JSON each with the hash of the line before, or stdout; empty: nowhere")
	fs.StringVar(&f.cacheDir, "cache-dir", defaultCacheDir(), "folder of the mirrors of repositories; kept between runs it saves fetching everything again")
	fs.StringVar(&f.directoryRoot, "directory-root", "", "folder below which a ProfileSource's directory may be; empty allows none")
	fs.BoolVar(&f.allowInsecureGit, "allow-insecure-git", false, "allow http URLs of repositories: whoever is on the way can put his profile on every node")
	fs.StringVar(&f.allowedCIDRs, "git-allowed-cidrs", "", "comma list of loopback and link-local networks in which repositories may be, such as 127.0.0.0/8")
	f.push.bind(fs)
	f.shard.bind(fs)
	f.admission.bind(fs)
	f.ui.bind(fs)
	f.rehearsal.bind(fs)
	fs.StringVar(&f.crossNamespaceList, "allow-cross-namespace-profiles", "", "comma list of namespaces besides --namespace from which pools may take profiles, * for all: whoever may make a profile there is root on the nodes of such a pool")
	fs.StringVar(&f.referenceList, render.ReferencesFlag, "", "comma list of namespace/name: Secrets and ConfigMaps that the cloudProviderSpec of every pool may refer to, beside those of its own namespace; read for kubelets below 1.29. A user who may write a MachineDeployment anywhere can see their values")
	fs.StringVar(&f.artifactHostList, "artifact-hosts", fluxHost, "comma list of hosts, or host:port, from which artifacts of Flux are downloaded; without a port, on that of the URL's scheme")
	fs.StringVar(&f.argoNamespace, "argocd-namespace", "argocd", "where Argo CD's Applications are whose tracking ids name no namespace")
	fs.BoolVar(&f.allowExternalArtifacts, "allow-external-artifacts", false, "allow ProfileSources to follow ExternalArtifacts, which others than Flux make: name their hosts in --artifact-hosts")
	_ = fs.MarkHidden("ca-bundle")
}

func defaultCacheDir() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "osm-gitops", "mirrors")
	}
	return ""
}

// validate checks all flags, and names every one that is wrong.
func (f *controllerFlags) validate() error {
	var errs []error
	bad := func(flag, format string, args ...any) {
		errs = append(errs, fmt.Errorf("--%s: %w", flag, fmt.Errorf(format, args...)))
	}
	if problems := validation.IsDNS1123Label(f.namespace); f.namespace == "" {
		bad("namespace", "is required: name the namespace of profiles and configurations")
	} else if len(problems) > 0 {
		bad("namespace", "%q is no namespace: %s", f.namespace, strings.Join(problems, "; "))
	}
	if f.workerCount < 1 {
		bad("worker-count", "%d is no number of workers: at least 1", f.workerCount)
	}
	if f.historyLimit < 0 {
		bad("config-history-limit", "%d is no number of records: 0 or more", f.historyLimit)
	}
	if f.historyRetention < 0 {
		bad("config-history-retention", "%s is no time: 0 or more", f.historyRetention)
	}
	if f.provenanceRetention < 0 {
		bad("provenance-retention", "%s is no time: 0 or more", f.provenanceRetention)
	}
	if f.provenanceMax < 0 {
		bad("provenance-max", "%d is no number of objects: 0 or more", f.provenanceMax)
	}
	switch f.nodeToken {
	case nodeTokenShared, nodeTokenBound:
	default:
		bad("node-token", "%q is neither %s nor %s", f.nodeToken, nodeTokenBound, nodeTokenShared)
	}
	if f.nodeTokenTTL < minNodeTokenTTL || f.nodeTokenTTL > maxNodeTokenTTL {
		bad("node-token-ttl", "%s is no life of a token: from %s to %s", f.nodeTokenTTL, minNodeTokenTTL, maxNodeTokenTTL)
	}
	if format := strings.ToLower(f.logFormat); format != "json" && format != "console" {
		bad("log-format", "%q is neither JSON nor Console", f.logFormat)
	}
	if f.cacheDir == "" {
		bad("cache-dir", "is required: there is no home directory to find a default in")
	}
	if f.directoryRoot != "" && !filepath.IsAbs(f.directoryRoot) {
		bad("directory-root", "%q must be absolute", f.directoryRoot)
	}
	var err error
	if f.registrySecret, err = namespacedName(f.registrySecretName); err != nil {
		bad("node-registry-credentials-secret", "%w", err)
	}
	if f.tokenServiceAccount, err = namespacedName(f.tokenServiceAccountName); err != nil {
		bad("bootstrap-token-service-account-name", "%w", err)
	}
	if f.gitAllowedCIDRs, err = parseCIDRs(f.allowedCIDRs); err != nil {
		bad("git-allowed-cidrs", "%w", err)
	}
	if err := checkServer(f.overrideServer); err != nil {
		bad("override-bootstrap-kubelet-apiserver", "%w", err)
	}
	if f.crossNamespaces, err = parseNamespaces(f.crossNamespaceList); err != nil {
		bad("allow-cross-namespace-profiles", "%w", err)
	}
	if f.references, err = parseReferences(f.referenceList); err != nil {
		bad(render.ReferencesFlag, "%w", err)
	}
	if f.artifactHosts, err = parseHosts(f.artifactHostList); err != nil {
		bad("artifact-hosts", "%w", err)
	}
	if f.gates, err = parseGates(f.featureGates); err != nil {
		bad("node-kubelet-feature-gates", "%w", err)
	}
	if f.mirrorOf, err = pairs(f.downloadMirrors); err != nil {
		bad("node-download-mirrors", "%w", err)
	}
	if f.digestOf, err = pairs(f.downloadDigests); err != nil {
		bad("node-download-digests", "%w", err)
	}
	if err := f.nodeSettings().Validate(); err != nil {
		errs = append(errs, err)
	}
	f.push.validate(bad)
	f.shard.validate(bad)
	f.admission.validate(f, bad)
	f.ui.validate(f.admission.certDir, bad)
	f.rehearsal.validate(bad)
	return errors.Join(errs...)
}

func namespacedName(s string) (types.NamespacedName, error) {
	if s == "" {
		return types.NamespacedName{}, nil
	}
	parts := strings.Split(s, "/")
	if len(parts) != 2 || parts[0] == "" || parts[1] == "" {
		return types.NamespacedName{}, fmt.Errorf("%q is not of the form namespace/name", s)
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, nil
}

// checkServer checks a URL to which nodes send their tokens: without https:// they would
// send them for everybody to read.
func checkServer(server string) error {
	if server == "" {
		return nil
	}
	if u, err := url.Parse(server); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("it must be a URL like https://api.example.com:6443, without user and password")
	}
	return nil
}

// parseNamespaces reads a comma list of namespaces, or "*" for all.
func parseNamespaces(list string) ([]string, error) {
	var out []string
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if problems := validation.IsDNS1123Label(s); s != pools.AllNamespaces && len(problems) > 0 {
			return nil, fmt.Errorf("%q is no namespace: %s", s, strings.Join(problems, "; "))
		}
		out = append(out, s)
	}
	return out, nil
}

// parseReferences reads a comma list of namespace/name.
func parseReferences(list string) ([]types.NamespacedName, error) {
	var out []types.NamespacedName
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		name, err := namespacedName(s)
		if err != nil {
			return nil, err
		}
		if problems := append(validation.IsDNS1123Label(name.Namespace), validation.IsDNS1123Subdomain(name.Name)...); len(problems) > 0 {
			return nil, fmt.Errorf("invalid object %q: name one Secret or ConfigMap as namespace/name: %s", s, strings.Join(problems, "; "))
		}
		out = append(out, name)
	}
	return out, nil
}

// profileNamespaces are those whose profiles are watched.
func (f *controllerFlags) profileNamespaces() map[string]cache.Config {
	out := map[string]cache.Config{f.namespace: {}}
	for _, ns := range f.crossNamespaces {
		if ns == pools.AllNamespaces {
			return map[string]cache.Config{cache.AllNamespaces: {}}
		}
		out[ns] = cache.Config{}
	}
	return out
}

// parseHosts reads a comma list of host or host:port.
func parseHosts(list string) ([]string, error) {
	var out []string
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		if u, err := url.Parse("http://" + s); err != nil || u.Host != s || u.Hostname() == "" {
			return nil, fmt.Errorf("%q is no host: write one like source-controller.flux-system.svc.cluster.local or 10.0.0.7:9090", s)
		}
		out = append(out, s)
	}
	return out, nil
}

// parseGates reads a comma list of gate=bool; rotateGate is on where it is not named.
func parseGates(list string) (map[string]bool, error) {
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

// pairs reads the values of a repeatable flag of the form name=value. A value may
// hold a password, so it is not quoted.
func pairs(list []string) (map[string]string, error) {
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

// nodeSettings are the flags that reach nodes, without the files they name.
func (f *controllerFlags) nodeSettings() render.Settings {
	var dns []string
	for _, ip := range strings.Split(f.clusterDNS, ",") {
		dns = append(dns, strings.TrimSpace(ip))
	}
	version := f.ignitionVersion
	if version == render.DefaultIgnitionVersion {
		version = "" // so that no digest depends on whether the default was written
	}
	return render.Settings{
		ClusterDNS:                         dns,
		ContainerRuntime:                   f.containerRuntime,
		DeviceOwnershipFromSecurityContext: f.deviceOwnership,
		DownloadDigests:                    f.digestOf,
		DownloadMirrors:                    f.mirrorOf,
		ExternalCloudProvider:              f.externalCloudProvider,
		IgnitionVersion:                    version,
		InitialTaints:                      f.initialTaints,
		KubeletFeatureGates:                f.gates,
		Namespace:                          f.namespace,
		NodeContainerdRegistryMirrors:      f.containerdMirrors,
		NodeHTTPProxy:                      f.httpProxy,
		NodeInsecureRegistries:             f.insecureRegistries,
		NodeNoProxy:                        f.noProxy,
		NodeRegistryMirrors:                f.mirrors,
		PauseImage:                         f.pauseImage,
	}
}

// settings adds the certificates; cfg is how the worker cluster is reached.
func (f *controllerFlags) settings(cfg *rest.Config) (render.Settings, error) {
	s := f.nodeSettings()
	var err error
	if f.hostCAFile != "" {
		if s.HostCACert, err = readPEM("host-ca-bundle", f.hostCAFile); err != nil {
			return s, err
		}
	}
	if f.kubernetesCAFile != "" {
		s.KubernetesCACert, err = readPEM("kubernetes-ca-bundle", f.kubernetesCAFile)
	} else {
		s.KubernetesCACert, err = f.clusterCA(cfg)
	}
	return s, err
}

// readPEM reads a bundle that holds at least one certificate.
func readPEM(flag, file string) (string, error) {
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	for rest := b; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return "", fmt.Errorf("--%s: %s holds no certificate in PEM", flag, file)
		}
		if block.Type == "CERTIFICATE" {
			return string(b), nil
		}
	}
}

// clusterCA finds the CA that nodes trust for the API server when no flag names
// one (contract: section 11.1).
func (f *controllerFlags) clusterCA(cfg *rest.Config) (string, error) {
	flag, file := "kubeconfig", f.kubeconfig
	if f.workerKubeconfig != "" {
		flag, file = "worker-cluster-kubeconfig", f.workerKubeconfig
	}
	if file != "" {
		config, err := clientcmd.LoadFromFile(file)
		if err != nil {
			return "", fmt.Errorf("--%s: %w", flag, err)
		}
		if len(config.Clusters) != 1 {
			return "", fmt.Errorf("--%s: %s has %d clusters: name the CA with --kubernetes-ca-bundle, or leave one cluster", flag, file, len(config.Clusters))
		}
		for _, c := range config.Clusters {
			if len(c.CertificateAuthorityData) == 0 {
				return "", fmt.Errorf("--%s: %s has no certificate-authority-data: name the CA with --kubernetes-ca-bundle", flag, file)
			}
			return string(c.CertificateAuthorityData), nil
		}
	}
	if len(cfg.CAData) > 0 {
		return string(cfg.CAData), nil
	}
	if cfg.CAFile != "" {
		b, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return "", fmt.Errorf("reading the cluster's CA: %w", err)
		}
		return string(b), nil
	}
	return "", errors.New("no CA of the cluster is known: name it with --kubernetes-ca-bundle")
}

// logger writes what strangers wrote as it is shown elsewhere: --dry-run logs in jobs of a CI.
func (f *controllerFlags) logger(stderr io.Writer) logr.Logger {
	level, console := zapcore.InfoLevel, strings.EqualFold(f.logFormat, "console")
	if f.logDebug {
		level = zapcore.DebugLevel
	}
	output := "json"
	if console {
		output = "text"
	}
	to := zapcore.Lock(zapcore.AddSync(shown(stderr, output)))
	return zap.New(zap.UseDevMode(console), zap.Level(level), zap.StacktraceLevel(zapcore.PanicLevel), zap.WriteTo(to))
}

// contractDashes turns "-flag" into "--flag" for the controller: the flags of the
// contract are known with one dash as well as with two (section 11).
func contractDashes(args []string) []string {
	if len(args) == 0 || args[0] != "controller" {
		return args
	}
	out := []string{args[0]}
	for _, a := range args[1:] {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' {
			a = "-" + a
		}
		out = append(out, a)
	}
	return out
}
