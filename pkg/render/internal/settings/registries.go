package settings

import (
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// The hosts.toml files list for containerd the endpoints to pull from:
// https://github.com/containerd/containerd/blob/main/docs/hosts.md
const (
	hostsTOMLDir         = "/etc/containerd/certs.d/"
	hostsTOMLPermissions = 600

	dockerHub         = "docker.io"
	dockerHubEndpoint = "https://registry-1.docker.io"
	// defaultRegistry is the folder for every registry without one of its own. Flags can also
	// call it "*".
	defaultRegistry = "_default"
)

// endpoint is one address to pull from.
type endpoint struct {
	url string
	// overridePath: the URL's path is complete, containerd appends no /v2.
	overridePath bool
}

// registry is one hosts.toml.
type registry struct {
	name      string // as configured
	endpoints []endpoint
	insecure  bool
}

// mirrorEntry matches an entry of -node-registry-mirrors that names its registry.
var mirrorEntry = regexp.MustCompile(`^([a-zA-Z0-9.-]+)=(.*)`)

// mirror is one entry of a flag with mirrors.
type mirror struct {
	flag, field string
	registry    string
	url         string
	shown       string // the entry of the flag without user and password
}

const (
	repeatableFlag = "-node-containerd-registry-mirrors"
	commaFlag      = "-node-registry-mirrors"
	insecureFlag   = "-node-insecure-registries"
)

// parseMirrors returns the entries of both flags, in the order in which nodes try them.
func (s Settings) parseMirrors() (out []mirror, problems []*invalid.Error) {
	for i, text := range s.NodeContainerdRegistryMirrors {
		m := mirror{flag: repeatableFlag, field: "settings.nodeContainerdRegistryMirrors[" + strconv.Itoa(i) + "]"}
		var ok bool
		m.registry, m.url, ok = strings.Cut(text, "=")
		// It can contain a password, so it is not quoted.
		if !ok || userInfoInName(m.registry, m.url) {
			problems = append(problems, invalid.At(m.field, "%s: write it as registry=url", m.flag))
			continue
		}
		m.shown = m.registry + "=" + maskUserInfoForDisplay(m.url)
		out = append(out, m)
	}
	for _, text := range commaList(s.NodeRegistryMirrors) {
		m := mirror{flag: commaFlag, field: "settings.nodeRegistryMirrors", registry: dockerHub, url: text, shown: maskUserInfoForDisplay(text)}
		if match := mirrorEntry.FindStringSubmatch(text); match != nil {
			m.registry = match[1]
			m.url = match[2]
			m.shown = match[1] + "=" + maskUserInfoForDisplay(match[2])
		}
		if !strings.HasPrefix(m.url, "http") {
			m.url = "https://" + m.url
		}
		if _, err := url.Parse(m.url); err != nil { // not wrapped: it would quote a password
			problems = append(problems, invalid.At(m.field, "%s: mirror of %q: its address is not a URL", m.flag, m.registry))
			continue
		}
		out = append(out, m)
	}
	return out, problems
}

// buildRegistries returns the registries that need a hosts.toml, by path. Their endpoints are in the
// order of the flags, since containerd tries them in the order of the file. If several
// registries have the same path, nodes get the last by name.
func (s Settings) buildRegistries() ([]registry, []*invalid.Error) {
	byName := map[string]*registry{}
	get := func(name string) *registry {
		if byName[name] == nil {
			byName[name] = &registry{name: name}
		}
		return byName[name]
	}
	mirrors, problems := s.parseMirrors()
	for _, m := range mirrors {
		ep, err := parseMirror(m.url)
		if err != nil {
			problems = append(problems, invalid.At(m.field, "%s: mirror of %q: %w", m.flag, m.registry, err))
			continue
		}
		r := get(m.registry)
		same := func(e endpoint) bool { return e.url == ep.url }
		if i := slices.IndexFunc(r.endpoints, same); i >= 0 {
			r.endpoints[i] = ep // a table can occur only once; the later entry counts
			continue
		}
		r.endpoints = append(r.endpoints, ep)
	}
	for _, name := range commaList(s.NodeInsecureRegistries) {
		get(name).insecure = true
	}

	byDir := map[string]*registry{}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		byDir[byName[name].hostsDir()] = byName[name]
	}
	if hub := byDir[dockerHub]; hub == nil {
		byDir[dockerHub] = &registry{name: dockerHub, endpoints: []endpoint{{url: dockerHubEndpoint}}}
	} else if len(hub.endpoints) == 0 {
		hub.endpoints = []endpoint{{url: dockerHubEndpoint}}
	}
	out := make([]registry, 0, len(byDir))
	for _, r := range byDir {
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b registry) int { return strings.Compare(a.path(), b.path()) })
	return out, problems
}

// parseMirror removes the parameter `kubermatic` from a mirror's URL; its value is itself a
// query string. A URL without the parameter is returned unchanged.
func parseMirror(mirror string) (endpoint, error) {
	if !strings.Contains(mirror, "kubermatic") {
		return endpoint{url: mirror}, nil
	}
	u, err := url.Parse(mirror)
	// If the password has a "?" or "#", the parameter is not where a parser finds it.
	if _, userInfo, _, _ := cutUserInfo(mirror); err != nil || strings.ContainsAny(userInfo, "?#") {
		// The parser's message quotes the URL, which can contain a password.
		return endpoint{}, errors.New("its address has the parameter \"kubermatic\" but is not a URL: percent-encode user and password")
	}
	query := u.Query()
	if !query.Has("kubermatic") {
		return endpoint{url: mirror}, nil
	}
	options, err := url.ParseQuery(query.Get("kubermatic"))
	if err != nil {
		return endpoint{}, errors.New("its parameter \"kubermatic\" is not a query string")
	}
	override, _ := strconv.ParseBool(options.Get("override_path")) // an invalid value is false, as in operating-system-manager
	query.Del("kubermatic")
	u.RawQuery = query.Encode()
	return endpoint{url: u.String(), overridePath: override}, nil
}

func commaList(s string) []string {
	var out []string
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// hostsDir returns the registry's folder below hostsTOMLDir.
func (r registry) hostsDir() string {
	if r.name == "*" {
		return defaultRegistry
	}
	host, _, _ := strings.Cut(r.name, "/")
	return host
}

func (r registry) path() string { return hostsTOMLDir + r.hostsDir() + "/hosts.toml" }

// fallbackServer returns the address that containerd uses if no endpoint answers.
func (r registry) fallbackServer() string {
	switch r.hostsDir() {
	case dockerHub:
		return dockerHubEndpoint
	case defaultRegistry:
		return ""
	}
	return r.name
}

// hostsTOML is the file's text.
func (r registry) hostsTOML() string {
	var b strings.Builder
	if server := r.fallbackServer(); server != "" {
		b.WriteString("server = " + tomlString(server) + "\n\n")
	}
	endpoints := r.endpoints
	if len(endpoints) == 0 {
		endpoints = []endpoint{{url: r.fallbackServer()}} // insecure, without a mirror
	}
	for _, e := range endpoints {
		b.WriteString("[host." + tomlString(e.url) + "]\ncapabilities = [\"pull\", \"resolve\"]\n")
		if r.insecure {
			b.WriteString("skip_verify = true\n")
		}
		if e.overridePath {
			b.WriteString("override_path = true\n")
		}
	}
	return b.String()
}

// HostsFiles returns the hosts.toml files of the provisioning stage for s.
func (s Settings) HostsFiles() []osm.File {
	registries, _ := s.buildRegistries() // Validate has reported the problems
	files := make([]osm.File, 0, len(registries))
	for _, r := range registries {
		files = append(files, osm.File{
			Path:        r.path(),
			Permissions: hostsTOMLPermissions,
			Content:     osm.FileContent{Inline: &osm.FileContentInline{Data: r.hostsTOML()}},
		})
	}
	return files
}

// tomlString writes a basic string, https://toml.io/en/v1.0.0#string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			hex := strconv.FormatInt(int64(r), 16)
			b.WriteString(`\u` + strings.Repeat("0", 4-len(hex)) + hex)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
