package render

import (
	"encoding/base64"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/settings"
)

// The texts that replace credentials in an OperatingSystemConfig. Each is valid if the replaced
// value is, so that the result can still be parsed, and does not depend on that value in any
// other way. They are part of every digest: changing one changes the digests of all pools.
const (
	// placeholderBootstrapToken has the syntax of a bootstrap token:
	// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
	placeholderBootstrapToken = "000000.0000000000000000"
	// placeholderNodeToken has the form of a JWT: {"alg":"none"}.{"sub":"placeholder"}.
	placeholderNodeToken = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJwbGFjZWhvbGRlciJ9.cGxhY2Vob2xkZXI" //nolint:gosec // no credential
	// placeholderCloudConfig is valid as the INI form of most providers, and as YAML.
	placeholderCloudConfig = "# placeholder\n"
)

// Credentials are the credentials of a generation except its tokens. A field is zero if the
// value was not a credential: a proxy without user-info stays in the settings.
type Credentials struct {
	settings.Credentials
	// RHEL has the credentials among a RHEL pool's subscription values.
	RHEL *RHELCredentials `json:"rhel,omitempty"`
	// OverwriteCloudConfig is set if the pool has one that is not empty.
	OverwriteCloudConfig string `json:"overwriteCloudConfig,omitempty"`
	// CloudConfig is that of the pool, if it has one.
	CloudConfig string `json:"cloudConfig,omitempty"`
}

// RHELCredentials are the values with which a RHEL node registers.
type RHELCredentials struct {
	User             string `json:"user,omitempty"`
	Password         string `json:"password,omitempty"`
	OfflineToken     string `json:"offlineToken,omitempty"`
	OrganizationName string `json:"organizationName,omitempty"`
	ActivationKey    string `json:"activationKey,omitempty"`
}

// Empty reports whether there are no credentials.
func (c Credentials) Empty() bool {
	return c.Credentials.Empty() && c.RHEL == nil && c.OverwriteCloudConfig == "" && c.CloudConfig == ""
}

// ReplaceSecrets returns the input with a placeholder in place of every credential and token, and the
// credentials. Empty values stay empty, so that templates take the same branches. It returns no
// tokens: they are stored elsewhere. If the input already contains placeholders, they are the
// credentials, so Credentials.Empty reports whether there is a value to restore.
func (in Input) ReplaceSecrets() (Input, Credentials) {
	out, c := in.splitCredentialsExceptTokens()
	out.Cluster = in.Cluster.withPlaceholderTokens(in.Settings.KubernetesCACert)
	return out, c
}

// Credentials returns the credentials that ReplaceSecrets removes.
func (in Input) Credentials() Credentials {
	_, c := in.splitCredentialsExceptTokens()
	return c
}

// splitCredentialsExceptTokens is ReplaceSecrets with the tokens of the cluster left in place. What is
// digested and recorded contains neither them nor the kubeconfig, which is encoded as YAML.
func (in Input) splitCredentialsExceptTokens() (Input, Credentials) {
	out, c := in, Credentials{}
	out.Settings, c.Credentials = in.Settings.WithoutCredentials()
	p := &out.Pool
	if rhel := p.OperatingSystemSpec.RHEL; rhel != nil {
		hidden := *rhel
		c.RHEL = &RHELCredentials{
			User:             settings.ReplaceNonEmpty(&hidden.RHELSubscriptionManagerUser, settings.PlaceholderText),
			Password:         settings.ReplaceNonEmpty(&hidden.RHELSubscriptionManagerPassword, settings.PlaceholderText),
			OfflineToken:     settings.ReplaceNonEmpty(&hidden.RHSMOfflineToken, settings.PlaceholderText),
			OrganizationName: settings.ReplaceNonEmpty(&hidden.RHELOrganizationName, settings.PlaceholderText),
			ActivationKey:    settings.ReplaceNonEmpty(&hidden.RHELActivationKey, settings.PlaceholderText),
		}
		p.OperatingSystemSpec.RHEL = &hidden
		if *c.RHEL == (RHELCredentials{}) {
			c.RHEL = nil
		}
	}
	c.CloudConfig = settings.ReplaceNonEmpty(&p.CloudConfig, placeholderCloudConfig)
	if p.OverwriteCloudConfig != nil {
		hidden := *p.OverwriteCloudConfig
		c.OverwriteCloudConfig = settings.ReplaceNonEmpty(&hidden, placeholderCloudConfig)
		p.OverwriteCloudConfig = &hidden
	}
	return out, c
}

// WithCredentials restores the credentials that ReplaceSecrets removed. If the tokens are restored
// too, the result is the original input.
func (in Input) WithCredentials(c Credentials) Input {
	in.Settings = in.Settings.WithCredentials(c.Credentials)
	p := &in.Pool
	settings.Restore(&p.CloudConfig, c.CloudConfig)
	if c.RHEL != nil && p.OperatingSystemSpec.RHEL != nil {
		rhel := *p.OperatingSystemSpec.RHEL
		settings.Restore(&rhel.RHELSubscriptionManagerUser, c.RHEL.User)
		settings.Restore(&rhel.RHELSubscriptionManagerPassword, c.RHEL.Password)
		settings.Restore(&rhel.RHSMOfflineToken, c.RHEL.OfflineToken)
		settings.Restore(&rhel.RHELOrganizationName, c.RHEL.OrganizationName)
		settings.Restore(&rhel.RHELActivationKey, c.RHEL.ActivationKey)
		p.OperatingSystemSpec.RHEL = &rhel
	}
	if c.OverwriteCloudConfig != "" {
		p.OverwriteCloudConfig = &c.OverwriteCloudConfig
	}
	return in
}

// withPlaceholderTokens returns the cluster with placeholders for its tokens, also in the
// kubeconfig.
func (c Cluster) withPlaceholderTokens(caPEM string) Cluster {
	hadKubeconfig := c.BootstrapKubeconfig != ""
	settings.ReplaceNonEmpty(&c.APIServerToken, placeholderNodeToken)
	settings.ReplaceNonEmpty(&c.BootstrapToken, placeholderBootstrapToken)
	if hadKubeconfig {
		c.BootstrapKubeconfig = BootstrapKubeconfig(c.Server, caPEM, placeholderBootstrapToken)
	}
	return c
}

// kubeconfig is the only form of client configuration that nodes start with. Its fields are in
// the order of the text.
type kubeconfig struct {
	APIVersion     string              `yaml:"apiVersion"`
	Clusters       []kubeconfigCluster `yaml:"clusters"`
	Contexts       []kubeconfigContext `yaml:"contexts"`
	CurrentContext string              `yaml:"current-context"`
	Kind           string              `yaml:"kind"`
	Users          []kubeconfigUser    `yaml:"users"`
}

type kubeconfigCluster struct {
	Cluster struct {
		CA     string `yaml:"certificate-authority-data,omitempty"`
		Server string `yaml:"server"`
	} `yaml:"cluster"`
	Name string `yaml:"name"`
}

type kubeconfigContext struct {
	Context struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
	} `yaml:"context"`
	Name string `yaml:"name"`
}

type kubeconfigUser struct {
	Name string `yaml:"name"`
	User struct {
		Token string `yaml:"token,omitempty"`
	} `yaml:"user"`
}

// BootstrapKubeconfig returns the kubeconfig with which a kubelet requests its certificate: cluster,
// user and context have the name "c", and the CA is included byte for byte.
func BootstrapKubeconfig(server, caPEM, token string) string {
	var cluster kubeconfigCluster
	cluster.Name = "c"
	cluster.Cluster.Server = server
	cluster.Cluster.CA = base64.StdEncoding.EncodeToString([]byte(caPEM))
	var context kubeconfigContext
	context.Name = "c"
	context.Context.Cluster = "c"
	context.Context.User = "c"
	var user kubeconfigUser
	user.Name, user.User.Token = "c", token
	var b strings.Builder
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(kubeconfig{
		APIVersion: "v1", Kind: "Config", CurrentContext: "c",
		Clusters: []kubeconfigCluster{cluster}, Contexts: []kubeconfigContext{context}, Users: []kubeconfigUser{user},
	}); err != nil {
		return "" // strings always encode
	}
	return b.String()
}

func (in Input) bootstrapKubeconfig() string {
	if in.Cluster.BootstrapKubeconfig != "" {
		return in.Cluster.BootstrapKubeconfig
	}
	return BootstrapKubeconfig(in.Cluster.Server, in.Settings.KubernetesCACert, in.Cluster.BootstrapToken)
}
