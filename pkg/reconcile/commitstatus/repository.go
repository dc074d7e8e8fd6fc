package commitstatus

import (
	"net/url"
	"regexp"
	"strings"
)

// repository is the address of a repository without what may differ between two
// addresses of the same one: user, port, ".git".
type repository struct {
	scheme string // of the URL; https for every form of ssh
	host   string // with its port, if the scheme is http or https
	path   string // "group/name", without ".git"
}

// hostForm is what a host may look like, with a port or none: a name, whose letters may be
// of any script, or an address. net/url allows more, such as quotes and angle brackets,
// which must not get into a link (security.md 28).
var hostForm = regexp.MustCompile(`^(?:[\pL\pM\pN._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?$`)

// parseRepository reads an https, http or ssh URL, or the scp form user@host:path.
func parseRepository(address string) (repository, bool) {
	if !strings.Contains(address, "://") {
		host, path, ok := strings.Cut(address, ":")
		if !ok {
			return repository{}, false
		}
		address = "ssh://" + host + "/" + strings.TrimLeft(path, "/")
	}
	u, err := url.Parse(address)
	if err != nil || !hostForm.MatchString(u.Host) {
		return repository{}, false
	}
	r := repository{scheme: u.Scheme, host: strings.ToLower(u.Host), path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")}
	if r.scheme != "http" && r.scheme != "https" {
		r.scheme, r.host = "https", strings.TrimSuffix(r.host, ":"+u.Port())
	}
	return r, r.path != ""
}

// Same reports whether two addresses, of whatever form, are of one repository: the
// same host and path, a port and ".git" aside. Hosts do not tell upper case from
// lower in either.
func Same(a, b string) bool {
	x, ok := parseRepository(a)
	y, ok2 := parseRepository(b)
	return ok && ok2 && x.hostname() == y.hostname() && strings.EqualFold(x.path, y.path)
}

func (r repository) hostname() string { return (&url.URL{Host: r.host}).Hostname() }
