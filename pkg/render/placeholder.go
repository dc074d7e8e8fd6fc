package render

import (
	"encoding/base64"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The texts that stand for credentials in an OperatingSystemConfig. Each is
// valid where it stands if what it replaces is, so that whatever parses the result
// still can, and none depends on the value it replaces in any other way. They are part of every digest: changing one
// changes the digests of all pools.
const (
	// placeholderBootstrapToken has the syntax of a bootstrap token:
	// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
	placeholderBootstrapToken = "000000.0000000000000000"
	// placeholderNodeToken has the form of a JWT: {"alg":"none"}.{"sub":"placeholder"}.
	placeholderNodeToken = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJwbGFjZWhvbGRlciJ9.cGxhY2Vob2xkZXI" //nolint:gosec // no credential
	// placeholderText stands for passwords, user names and keys.
	placeholderText = "placeholder"
	// placeholderAuth is base64 of "placeholder:placeholder".
	placeholderAuth = "cGxhY2Vob2xkZXI6cGxhY2Vob2xkZXI="
	// placeholderCloudConfig is valid as the INI form of most providers, and as YAML.
	placeholderCloudConfig = "# placeholder\n"
	// placeholderUserInfo stands before the "@" of a URL.
	placeholderUserInfo = "placeholder:placeholder"
	// placeholderUnescaped stands before the "@" of a proxy whose user and password no
	// parser of URLs takes, and no parser takes it either: Warnings of settings without
	// credentials tell of such a proxy too.
	placeholderUnescaped = "placeholder:placeholder%"
)

// Credentials are the credentials of a generation other than its tokens. What is
// zero was not a credential: a proxy without user-info stays in the settings.
type Credentials struct {
	HTTPProxy                 string                        `json:"httpProxy,omitempty"`
	NoProxy                   string                        `json:"noProxy,omitempty"`
	InsecureRegistries        string                        `json:"insecureRegistries,omitempty"`
	RegistryMirrors           string                        `json:"registryMirrors,omitempty"`
	ContainerdRegistryMirrors []string                      `json:"containerdRegistryMirrors,omitempty"`
	DownloadMirrors           map[string]string             `json:"downloadMirrors,omitempty"`
	RegistryCredentials       map[string]RegistryCredential `json:"registryCredentials,omitempty"`
	// RHEL holds the credentials among a RHEL pool's subscription values.
	RHEL *RHELCredentials `json:"rhel,omitempty"`
	// OverwriteCloudConfig is set where the pool has one that is not empty.
	OverwriteCloudConfig string `json:"overwriteCloudConfig,omitempty"`
	// CloudConfig is the pool's, where it has one.
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

// Empty reports whether there are none.
func (c Credentials) Empty() bool {
	return c.HTTPProxy == "" && c.NoProxy == "" && c.InsecureRegistries == "" && c.RegistryMirrors == "" && len(c.ContainerdRegistryMirrors) == 0 && len(c.DownloadMirrors) == 0 &&
		len(c.RegistryCredentials) == 0 && c.RHEL == nil && c.OverwriteCloudConfig == "" && c.CloudConfig == ""
}

// Split returns the input with a placeholder in place of every credential and
// token, and the credentials. What is empty stays empty, so that templates take
// the same branches. Of the tokens nothing is returned: they live elsewhere. The
// credentials of an input that has placeholders already are those placeholders,
// so Credentials.Empty says whether there is anything to put back.
func (in Input) Split() (Input, Credentials) {
	out, c := in, Credentials{}
	out.Cluster = in.Cluster.withoutTokens(in.Settings.KubernetesCACert)

	s := &out.Settings
	c.HTTPProxy = hide(&s.NodeHTTPProxy, withoutProxyUser)
	c.NoProxy = hide(&s.NodeNoProxy, proxyList)
	c.InsecureRegistries = hide(&s.NodeInsecureRegistries, proxyList)
	c.RegistryMirrors = hide(&s.NodeRegistryMirrors, mirrorList)
	mirrors := make([]string, len(s.NodeContainerdRegistryMirrors))
	for i, m := range s.NodeContainerdRegistryMirrors {
		mirrors[i] = mirrorFlag(m)
	}
	if !slices.Equal(mirrors, s.NodeContainerdRegistryMirrors) || slices.ContainsFunc(mirrors, hasPlaceholder) {
		c.ContainerdRegistryMirrors = s.NodeContainerdRegistryMirrors
		s.NodeContainerdRegistryMirrors = mirrors
	}
	for _, name := range slices.Sorted(maps.Keys(s.DownloadMirrors)) {
		mirror := s.DownloadMirrors[name]
		if was := hide(&mirror, withoutUserInfo); was != "" {
			if c.DownloadMirrors == nil {
				c.DownloadMirrors, s.DownloadMirrors = map[string]string{}, maps.Clone(s.DownloadMirrors)
			}
			c.DownloadMirrors[name], s.DownloadMirrors[name] = was, mirror
		}
	}
	if len(s.RegistryCredentials) > 0 {
		c.RegistryCredentials = s.RegistryCredentials
		hidden := make(map[string]RegistryCredential, len(s.RegistryCredentials))
		for name, credential := range s.RegistryCredentials {
			fixed(&credential.Username, placeholderText)
			fixed(&credential.Password, placeholderText)
			fixed(&credential.Auth, placeholderAuth)
			fixed(&credential.IdentityToken, placeholderText)
			hidden[withoutUserInfo(name)] = credential
		}
		s.RegistryCredentials = hidden
	}

	p := &out.Pool
	if rhel := p.OperatingSystemSpec.RHEL; rhel != nil {
		hidden := *rhel
		c.RHEL = &RHELCredentials{
			User:             fixed(&hidden.RHELSubscriptionManagerUser, placeholderText),
			Password:         fixed(&hidden.RHELSubscriptionManagerPassword, placeholderText),
			OfflineToken:     fixed(&hidden.RHSMOfflineToken, placeholderText),
			OrganizationName: fixed(&hidden.RHELOrganizationName, placeholderText),
			ActivationKey:    fixed(&hidden.RHELActivationKey, placeholderText),
		}
		p.OperatingSystemSpec.RHEL = &hidden
		if *c.RHEL == (RHELCredentials{}) {
			c.RHEL = nil
		}
	}
	c.CloudConfig = fixed(&p.CloudConfig, placeholderCloudConfig)
	if p.OverwriteCloudConfig != nil {
		hidden := *p.OverwriteCloudConfig
		c.OverwriteCloudConfig = fixed(&hidden, placeholderCloudConfig)
		p.OverwriteCloudConfig = &hidden
	}
	return out, c
}

// WithCredentials puts back what Split took out. With the tokens put back too the
// input is the original.
func (in Input) WithCredentials(c Credentials) Input {
	back := func(to *string, value string) {
		if value != "" {
			*to = value
		}
	}
	s := &in.Settings
	back(&s.NodeHTTPProxy, c.HTTPProxy)
	back(&s.NodeNoProxy, c.NoProxy)
	back(&s.NodeInsecureRegistries, c.InsecureRegistries)
	back(&s.NodeRegistryMirrors, c.RegistryMirrors)
	if len(c.ContainerdRegistryMirrors) > 0 {
		s.NodeContainerdRegistryMirrors = slices.Clone(c.ContainerdRegistryMirrors)
	}
	if len(c.DownloadMirrors) > 0 {
		s.DownloadMirrors = maps.Clone(s.DownloadMirrors)
		maps.Copy(s.DownloadMirrors, c.DownloadMirrors)
	}
	if len(c.RegistryCredentials) > 0 {
		s.RegistryCredentials = maps.Clone(c.RegistryCredentials)
	}
	p := &in.Pool
	back(&p.CloudConfig, c.CloudConfig)
	if c.RHEL != nil && p.OperatingSystemSpec.RHEL != nil {
		rhel := *p.OperatingSystemSpec.RHEL
		back(&rhel.RHELSubscriptionManagerUser, c.RHEL.User)
		back(&rhel.RHELSubscriptionManagerPassword, c.RHEL.Password)
		back(&rhel.RHSMOfflineToken, c.RHEL.OfflineToken)
		back(&rhel.RHELOrganizationName, c.RHEL.OrganizationName)
		back(&rhel.RHELActivationKey, c.RHEL.ActivationKey)
		p.OperatingSystemSpec.RHEL = &rhel
	}
	if c.OverwriteCloudConfig != "" {
		p.OverwriteCloudConfig = &c.OverwriteCloudConfig
	}
	return in
}

// withoutTokens keeps what is no secret: the server, and the Secret's name.
func (c Cluster) withoutTokens(caPEM string) Cluster {
	hadKubeconfig := c.BootstrapKubeconfig != ""
	fixed(&c.APIServerToken, placeholderNodeToken)
	fixed(&c.BootstrapToken, placeholderBootstrapToken)
	if hadKubeconfig {
		c.BootstrapKubeconfig = BootstrapKubeconfig(c.Server, caPEM, placeholderBootstrapToken)
	}
	return c
}

// fixed replaces a value that is not empty, and returns what it was.
func fixed(value *string, placeholder string) (was string) {
	was = *value
	if was != "" {
		*value = placeholder
	}
	return was
}

// hide returns the value if there is something to hide in it, be it a
// placeholder: of an input without credentials Split still says where they belong.
func hide(value *string, hidden func(string) string) (was string) {
	if h := hidden(*value); h != *value || hasPlaceholder(h) {
		was, *value = *value, h
	}
	return was
}

func hasPlaceholder(s string) bool {
	return strings.Contains(s, placeholderUserInfo+"@") || strings.Contains(s, placeholderUnescaped+"@")
}

// proxyList and mirrorList hide user-info in the items of a comma list.
func proxyList(list string) string  { return eachItem(list, withoutUserInfo) }
func mirrorList(list string) string { return eachItem(list, mirrorItem) }

func eachItem(list string, hidden func(string) string) string {
	if !strings.Contains(list, "@") {
		return list
	}
	items := strings.Split(list, ",")
	for i, item := range items {
		for j := begunBefore(items[:i], item); j < i; j++ {
			items[j] = beginning.FindString(items[j]) + placeholderText
		}
		items[i] = hidden(item)
	}
	return strings.Join(items, ",")
}

// beginning is what stands before the user in an item of a comma list.
var beginning = regexp.MustCompile(`^\s*([a-zA-Z0-9.-]+=)?([A-Za-z][A-Za-z0-9+.-]*://)?`)

// begunBefore is the first of the items in which the user-info of item may begin: a comma of
// a password ends an item too, so that no user is before its "@". It is len(before) without one.
func begunBefore(before []string, item string) int {
	userInfo, _, ok := strings.Cut(item, "@")
	if !ok || strings.Contains(userInfo, ":") {
		return len(before)
	}
	for i, earlier := range slices.Backward(before) {
		if strings.Contains(earlier, "@") {
			break
		}
		if strings.Contains(earlier[len(beginning.FindString(earlier)):], ":") {
			return i
		}
	}
	return len(before)
}

// mirrorItem hides user-info in an item of -node-registry-mirrors, which may
// begin with "registry=".
func mirrorItem(item string) string {
	if match := mirrorEntry.FindStringSubmatchIndex(strings.TrimLeft(item, " \t")); match == nil {
		return withoutUserInfo(item)
	}
	return mirrorFlag(item)
}

// mirrorFlag hides user-info in "registry=url".
func mirrorFlag(item string) string {
	name, mirror, ok := strings.Cut(item, "=")
	if !ok || userInfoInName(name, mirror) {
		return withoutUserInfo(item)
	}
	return name + "=" + withoutUserInfo(mirror)
}

// userInfoInName reports whether the "=" of "registry=url" may be one of a password: what
// stands before it is a URL, or has a colon and is no host with a port.
func userInfoInName(name, mirror string) bool {
	host := registry{name: name}.dir()
	return strings.Contains(name, "@") || strings.Contains(mirror, "@") && strings.Contains(host, ":") && !hostName.MatchString(host)
}

// withoutUserInfo replaces the user-info of a URL.
func withoutUserInfo(s string) string {
	scheme, _, rest, ok := cutUserInfo(s)
	if !ok {
		return s
	}
	return scheme + placeholderUserInfo + rest
}

// withoutProxyUser replaces the user-info of a proxy.
func withoutProxyUser(s string) string {
	scheme, userInfo, rest, ok := cutUserInfo(s)
	if ok && scheme != "" && !isUserInfo(userInfo) {
		return scheme + placeholderUnescaped + rest
	}
	return withoutUserInfo(s)
}

// urlScheme is what a URL with a scheme begins with (RFC 3986, section 3.1).
var urlScheme = regexp.MustCompile(`^\s*[A-Za-z][A-Za-z0-9+.-]*://`)

// cutUserInfo cuts a URL, with or without a scheme, before its user-info and at the "@"
// behind it, which is the last one: whoever does not escape a password may have any
// character in it, "/", "?" and "#" too.
func cutUserInfo(s string) (scheme, userInfo, rest string, ok bool) {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return "", "", s, false
	}
	scheme = urlScheme.FindString(s)
	return scheme, s[len(scheme):at], s[at:], true
}

// isUserInfo reports whether s is the user-info of a URL, as a parser takes it.
func isUserInfo(s string) bool {
	u, err := url.Parse("http://" + s + "@host")
	return err == nil && u.Host == "host"
}

// kubeconfig is the one form of client configuration that nodes start with. Its
// fields are in the order of the text.
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

// BootstrapKubeconfig returns the kubeconfig with which a kubelet asks for its
// certificate (contract 8.4): cluster, user and context are called "c", the CA is
// there byte for byte.
func BootstrapKubeconfig(server, caPEM, token string) string {
	var cluster kubeconfigCluster
	cluster.Name = "c"
	cluster.Cluster.Server = server
	cluster.Cluster.CA = base64.StdEncoding.EncodeToString([]byte(caPEM))
	var context kubeconfigContext
	context.Name, context.Context.Cluster, context.Context.User = "c", "c", "c"
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
