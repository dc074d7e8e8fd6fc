package settings

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// Warning is about a setting that nodes receive unchanged although it can hardly have the
// intended effect.
type Warning struct {
	// Setting is the flag, such as "-node-http-proxy".
	Setting string `json:"setting"`
	// Field is its path in the file for --cluster, such as "settings.nodeHTTPProxy".
	Field string `json:"field"`
	// Value is the doubtful part of the setting, without user and password.
	Value string `json:"value"`
	// Problem says what is wrong with it.
	Problem string `json:"problem"`
	// Remedy says what to write instead.
	Remedy string `json:"remedy"`
}

// String reads `-node-http-proxy "http://(not shown)@proxy:3128": problem: remedy`.
func (w Warning) String() string {
	return fmt.Sprintf("%s %q: %s: %s", w.Setting, w.Value, w.Problem, w.Remedy)
}

// Warnings reports settings that Validate accepts and that can hardly have the intended effect,
// in the order of the flags. If the settings have placeholders in place of credentials, it
// reports nothing about a mirror's user and password.
func (s Settings) Warnings() []Warning {
	var out []Warning
	warn := func(flag, field, value, problem, remedy string) {
		out = append(out, Warning{flag, field, redact.ShortenWithCount(value, invalid.MaxNameBytes), problem, remedy})
	}
	if problem, remedy := doubtfulProxy(s.NodeHTTPProxy); problem != "" {
		warn("-node-http-proxy", "settings.nodeHTTPProxy", maskUserInfoForDisplay(s.NodeHTTPProxy), problem, remedy)
	}

	mirrors, _ := s.parseMirrors()
	hosts := map[string]sharedHost{}
	for _, m := range mirrors {
		hosts[m.registry] = sharedHost{m.flag, m.field}
		if problem, remedy := doubtfulRegistry(m.registry); problem != "" {
			warn(m.flag, m.field, m.shown, problem, remedy)
		} else if problem, remedy := doubtfulMirror(m.url); problem != "" {
			warn(m.flag, m.field, m.shown, problem, remedy)
		}
	}
	for _, name := range commaList(s.NodeInsecureRegistries) {
		const field = "settings.nodeInsecureRegistries"
		if _, named := hosts[name]; !named {
			hosts[name] = sharedHost{insecureFlag, field}
		}
		if problem, remedy := doubtfulRegistry(name); problem != "" {
			warn(insecureFlag, field, maskUserInfoForDisplay(name), problem, remedy)
		}
	}
	winner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		winner[registry{name: name}.hostsDir()] = name
	}
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		if last := winner[registry{name: name}.hostsDir()]; last != name {
			warn(hosts[name].flag, hosts[name].field, maskUserInfoForDisplay(name), fmt.Sprintf("containerd knows hosts only, and nodes get what the flags say of registry %q, which has the same host", maskUserInfoForDisplay(last)),
				"name one of them in all flags, best the host alone")
		}
	}

	winner = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.RegistryCredentials)) {
		winner[hostIfURL(name)] = name
	}
	for _, name := range slices.Sorted(maps.Keys(s.RegistryCredentials)) {
		if last := winner[hostIfURL(name)]; last != name {
			warn("-node-registry-credentials-secret", "settings.registryCredentials", maskUserInfoForDisplay(name), fmt.Sprintf("nodes get the credentials of %q, which is the same registry for containerd", maskUserInfoForDisplay(last)),
				"remove all but one of them from the Secret")
		}
	}
	return out
}

// sharedHost is the flag that names a registry.
type sharedHost struct{ flag, field string }

// maskUserInfoForDisplay replaces user-info by "(not shown)" for display.
func maskUserInfoForDisplay(s string) string {
	scheme, _, rest, ok := cutUserInfo(s)
	if !ok {
		return s
	}
	return scheme + "(not shown)" + rest
}

const escapeUserInfo = `percent-encode what is not a letter, a digit or one of - . _ ~ in user and password, such as %25 for "%" and %23 for "#"`

func doubtfulProxy(s string) (problem, remedy string) {
	scheme, userInfo, _, ok := cutUserInfo(s)
	_, err := url.Parse(s)
	switch {
	case ok && !isUserInfo(userInfo):
		return "its user and password are not percent-encoded: programs read it in different ways, and those in Go, such as containerd and the kubelet, cannot use it", escapeUserInfo
	case strings.TrimSpace(s) != s:
		return "blanks or line ends are around it, which some programs take for a part of it", "leave them out"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "it has control characters", "leave them out"
	case scheme == "" && !urlScheme.MatchString(s):
		return "", "" // "proxy:3128" is common, and no URL
	case err != nil:
		return "it is not a URL", "write it as http://host:port"
	}
	return "", ""
}

func doubtfulMirror(s string) (problem, remedy string) {
	const asURL = "write it as registry=https://host, or leave it out"
	if _, userInfo, _, ok := cutUserInfo(s); ok && !isUserInfo(userInfo) && !hostAndPath.MatchString(userInfo) {
		return "its user and password are not percent-encoded, so that containerd cannot read it", escapeUserInfo
	}
	if address, ok := strings.CutPrefix(s, "https://"); ok && urlScheme.MatchString(address) {
		return "its address begins with neither http nor https in small letters, so that nodes get one with https:// before it", asURL
	}
	if !urlScheme.MatchString(s) {
		s = "https://" + s // as containerd does
	}
	u, err := url.Parse(s)
	if err != nil || !hostName.MatchString(u.Host) {
		return "its address has no host that containerd could ask", asURL
	}
	return "", ""
}

// hostName matches a host with or without a port: a name, an IPv4 address, or an IPv6 address
// in brackets. The names of some internal hosts contain underscores.
var hostName = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// hostAndPath matches the text before an "@" in the path of a URL. A port counts only after a
// name with a dot: "user:1/2" can be a user with a password.
var hostAndPath = regexp.MustCompile(`^([A-Za-z0-9_-]+|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?)/`)

func doubtfulRegistry(name string) (problem, remedy string) {
	switch {
	case name == "":
		return "it names no registry, and containerd never reads what is written for it", "write it as registry=https://host, or leave it out"
	case strings.Contains(name, "://"):
		return "its registry is a URL, and containerd looks for hosts: it never reads what is written for it", "write the host alone, without https://"
	case name == "*" || hostName.MatchString(registry{name: name}.hostsDir()):
		return "", ""
	}
	return "its registry is not a host, and containerd never reads what is written for it", "write the registry as host or host:port"
}
