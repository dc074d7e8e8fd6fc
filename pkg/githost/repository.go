package githost

import (
	"net/url"
	"regexp"
	"strings"
)

// Repository is the address of a repository without what may differ between two
// addresses of the same one: user, port, ".git".
type Repository struct {
	Scheme string // of the URL; https for every form of ssh
	Host   string // with its port, if the scheme is http or https
	Path   string // "group/name", without ".git"
}

// hostForm is what a host may look like, with a port or none: a name, whose letters may be
// of any script, or an address. net/url allows more, such as quotes and angle brackets,
// which must not get into a link (security.md 28).
var hostForm = regexp.MustCompile(`^(?:[\pL\pM\pN._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?$`)

// ParseRepository reads an https, http or ssh URL, or the scp form user@host:path.
func ParseRepository(address string) (Repository, bool) {
	if !strings.Contains(address, "://") {
		host, path, ok := strings.Cut(address, ":")
		if !ok {
			return Repository{}, false
		}
		address = "ssh://" + host + "/" + strings.TrimLeft(path, "/")
	}
	u, err := url.Parse(address)
	if err != nil || !hostForm.MatchString(u.Host) {
		return Repository{}, false
	}
	r := Repository{Scheme: u.Scheme, Host: strings.ToLower(u.Host), Path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")}
	if r.Scheme != "http" && r.Scheme != "https" {
		r.Scheme, r.Host = "https", strings.TrimSuffix(r.Host, ":"+u.Port())
	}
	return r, r.Path != ""
}

// Same reports whether two addresses, of whatever form, are of one repository: the
// same host and path, a port and ".git" aside. Hosts do not tell upper case from
// lower in either.
func Same(a, b string) bool {
	x, ok := ParseRepository(a)
	y, ok2 := ParseRepository(b)
	return ok && ok2 && x.Hostname() == y.Hostname() && strings.EqualFold(x.Path, y.Path)
}

// Hostname is the host without its port.
func (r Repository) Hostname() string { return (&url.URL{Host: r.Host}).Hostname() }
