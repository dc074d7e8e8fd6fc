package settings

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// The texts that replace credentials. They are part of every digest: changing one changes the
// digests of all pools.
const (
	// PlaceholderText replaces passwords, user names and keys.
	PlaceholderText = "placeholder"
	// placeholderAuth is base64 of "placeholder:placeholder".
	placeholderAuth = "cGxhY2Vob2xkZXI6cGxhY2Vob2xkZXI="
	// placeholderUserInfo replaces the part before the "@" of a URL.
	placeholderUserInfo = "placeholder:placeholder"
	// placeholderUnescaped replaces the part before the "@" of a proxy whose user and password
	// no URL parser accepts. No parser accepts the placeholder either, so that Warnings of
	// settings without credentials reports such a proxy too.
	placeholderUnescaped = "placeholder:placeholder%"
)

// OtherPlaceholders replaces each placeholder in a text by one of the same form.
var OtherPlaceholders = strings.NewReplacer(PlaceholderText, "place-taker", placeholderAuth, "cGxhY2UtdGFrZXI6cGxhY2UtdGFrZXI=")

// Credentials are those in settings. A field is zero if the value was not a credential: a proxy
// without user-info stays in the settings.
type Credentials struct {
	HTTPProxy                 string                        `json:"httpProxy,omitempty"`
	NoProxy                   string                        `json:"noProxy,omitempty"`
	InsecureRegistries        string                        `json:"insecureRegistries,omitempty"`
	RegistryMirrors           string                        `json:"registryMirrors,omitempty"`
	ContainerdRegistryMirrors []string                      `json:"containerdRegistryMirrors,omitempty"`
	DownloadMirrors           map[string]string             `json:"downloadMirrors,omitempty"`
	RegistryCredentials       map[string]RegistryCredential `json:"registryCredentials,omitempty"`
}

// Empty reports whether there are no credentials.
func (c Credentials) Empty() bool {
	return c.HTTPProxy == "" && c.NoProxy == "" && c.InsecureRegistries == "" && c.RegistryMirrors == "" && len(c.ContainerdRegistryMirrors) == 0 && len(c.DownloadMirrors) == 0 &&
		len(c.RegistryCredentials) == 0
}

// WithoutCredentials returns the settings with a placeholder in place of every credential, and
// the credentials.
func (s Settings) WithoutCredentials() (Settings, Credentials) {
	var c Credentials
	c.HTTPProxy = hideCredential(&s.NodeHTTPProxy, maskProxyUserInfo)
	c.NoProxy = hideCredential(&s.NodeNoProxy, maskProxyList)
	c.InsecureRegistries = hideCredential(&s.NodeInsecureRegistries, maskProxyList)
	c.RegistryMirrors = hideCredential(&s.NodeRegistryMirrors, maskMirrorList)
	mirrors := make([]string, len(s.NodeContainerdRegistryMirrors))
	for i, m := range s.NodeContainerdRegistryMirrors {
		mirrors[i] = maskMirrorPair(m)
	}
	// A value that looks like a placeholder would be lost otherwise.
	if !slices.Equal(mirrors, s.NodeContainerdRegistryMirrors) || slices.ContainsFunc(mirrors, hasPlaceholder) {
		c.ContainerdRegistryMirrors = s.NodeContainerdRegistryMirrors
		s.NodeContainerdRegistryMirrors = mirrors
	}
	for _, name := range slices.Sorted(maps.Keys(s.DownloadMirrors)) {
		mirror := s.DownloadMirrors[name]
		if was := hideCredential(&mirror, maskUserInfo); was != "" {
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
			ReplaceNonEmpty(&credential.Username, PlaceholderText)
			ReplaceNonEmpty(&credential.Password, PlaceholderText)
			ReplaceNonEmpty(&credential.Auth, placeholderAuth)
			ReplaceNonEmpty(&credential.IdentityToken, PlaceholderText)
			hidden[maskUserInfo(name)] = credential
		}
		s.RegistryCredentials = hidden
	}
	return s, c
}

// WithCredentials restores the credentials that WithoutCredentials removed.
func (s Settings) WithCredentials(c Credentials) Settings {
	Restore(&s.NodeHTTPProxy, c.HTTPProxy)
	Restore(&s.NodeNoProxy, c.NoProxy)
	Restore(&s.NodeInsecureRegistries, c.InsecureRegistries)
	Restore(&s.NodeRegistryMirrors, c.RegistryMirrors)
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
	return s
}

// ReplaceNonEmpty replaces a value that is not empty, and returns the previous value.
func ReplaceNonEmpty(value *string, placeholder string) (was string) {
	was = *value
	if was != "" {
		*value = placeholder
	}
	return was
}

// Restore restores a value that ReplaceNonEmpty returned.
func Restore(value *string, was string) {
	if was != "" {
		*value = was
	}
}

// hideCredential replaces a value by its hidden form and returns the previous value if it contains
// a credential, even if that is a placeholder: if the credentials were removed before,
// WithoutCredentials still reports their places.
func hideCredential(value *string, hidden func(string) string) (was string) {
	if h := hidden(*value); h != *value || hasPlaceholder(h) {
		was, *value = *value, h
	}
	return was
}

func hasPlaceholder(s string) bool {
	return strings.Contains(s, placeholderUserInfo+"@") || strings.Contains(s, placeholderUnescaped+"@")
}

// maskProxyList and maskMirrorList replace user-info in the items of a comma-separated list by a
// placeholder.
func maskProxyList(list string) string  { return maskEachItem(list, maskUserInfo) }
func maskMirrorList(list string) string { return maskEachItem(list, maskMirrorItem) }

func maskEachItem(list string, hidden func(string) string) string {
	if !strings.Contains(list, "@") {
		return list
	}
	items := strings.Split(list, ",")
	for i, item := range items {
		for j := userInfoStartIndex(items[:i], item); j < i; j++ {
			items[j] = beginning.FindString(items[j]) + PlaceholderText
		}
		items[i] = hidden(item)
	}
	return strings.Join(items, ",")
}

// beginning matches the text before the user in an item of a comma-separated list.
var beginning = regexp.MustCompile(`^\s*([a-zA-Z0-9.-]+=)?([A-Za-z][A-Za-z0-9+.-]*://)?`)

// userInfoStartIndex returns the index of the first item in which the user-info of item can begin: a
// comma in a password ends an item too, so that the "@" can follow in a later item without a
// user. It returns len(before) if there is none.
func userInfoStartIndex(before []string, item string) int {
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

// maskMirrorItem replaces user-info in an item of -node-registry-mirrors, which can begin with
// "registry=".
func maskMirrorItem(item string) string {
	if match := mirrorEntry.FindStringSubmatchIndex(strings.TrimLeft(item, " \t")); match == nil {
		return maskUserInfo(item)
	}
	return maskMirrorPair(item)
}

// maskMirrorPair replaces user-info in "registry=url".
func maskMirrorPair(item string) string {
	name, mirror, ok := strings.Cut(item, "=")
	if !ok || userInfoInName(name, mirror) {
		return maskUserInfo(item)
	}
	return name + "=" + maskUserInfo(mirror)
}

// userInfoInName reports whether the "=" of "registry=url" can belong to a password: the text
// before it is a URL, or contains a colon and is not a host with a port.
func userInfoInName(name, mirror string) bool {
	host := registry{name: name}.hostsDir()
	return strings.Contains(name, "@") || strings.Contains(mirror, "@") && strings.Contains(host, ":") && !hostName.MatchString(host)
}

// maskUserInfo replaces the user-info of a URL by a placeholder.
func maskUserInfo(s string) string {
	scheme, _, rest, ok := cutUserInfo(s)
	if !ok {
		return s
	}
	return scheme + placeholderUserInfo + rest
}

// maskProxyUserInfo replaces the user-info of a proxy's URL by a placeholder.
func maskProxyUserInfo(s string) string {
	scheme, userInfo, rest, ok := cutUserInfo(s)
	if ok && scheme != "" && !isUserInfo(userInfo) {
		return scheme + placeholderUnescaped + rest
	}
	return maskUserInfo(s)
}

// urlScheme matches the beginning of a URL with a scheme (RFC 3986, section 3.1).
var urlScheme = regexp.MustCompile(`^\s*[A-Za-z][A-Za-z0-9+.-]*://`)

// cutUserInfo splits a URL, with or without a scheme, before its user-info and at the "@" after
// it. That is the last "@": a password that is not escaped can contain any character, including
// "/", "?" and "#".
func cutUserInfo(s string) (scheme, userInfo, rest string, ok bool) {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return "", "", s, false
	}
	scheme = urlScheme.FindString(s)
	return scheme, s[len(scheme):at], s[at:], true
}

// isUserInfo reports whether a parser accepts s as the user-info of a URL.
func isUserInfo(s string) bool {
	u, err := url.Parse("http://" + s + "@host")
	return err == nil && u.Host == "host"
}
