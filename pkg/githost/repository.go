package githost

import (
	"net/url"
	"regexp"
	"strings"
)

// Repository is the address of a repository without the parts that can differ between two
// addresses of the same one: user, port, ".git".
type Repository struct {
	Scheme string // of the URL; https for every form of ssh
	Host   string // with its port, if the scheme is http or https
	Path   string // "group/name", without ".git"
}

// hostForm matches a host with an optional port: a name with letters of any script, or an
// address. net/url accepts more, such as quotes and angle brackets, which must not get into
// a link (security.md 28).
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

// IsSameRepository reports whether two addresses, of any form, belong to one repository: the same host
// and path, ignoring port, ".git" and case. Git hosts ignore case in both.
func IsSameRepository(a, b string) bool {
	x, ok := ParseRepository(a)
	y, ok2 := ParseRepository(b)
	return ok && ok2 && x.Hostname() == y.Hostname() && strings.EqualFold(x.Path, y.Path)
}

// Hostname is the host without its port.
func (r Repository) Hostname() string { return (&url.URL{Host: r.Host}).Hostname() }
