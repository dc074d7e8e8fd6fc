package location

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/dial"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// SSHAddress is the address of a repository over ssh.
type SSHAddress struct {
	User string // never a secret: a password is rejected
	Host string // name or address, with the port
	Path string // as the server's command receives it, between single quotes
}

const defaultSSHPort = "22"

// The characters allowed in an address over ssh. None of them has a meaning for a shell
// between single quotes, nor for git as an option, because a path begins with neither a
// dash nor a blank.
var (
	sshUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	sshPath = regexp.MustCompile(`^[A-Za-z0-9._~/+,=:@%][A-Za-z0-9._~/+,=:@% -]*$`)

	// scpForm is user@host:path. The user is required, because host:path is also the
	// syntax of remote helpers and Windows drives.
	scpForm = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9._-]*)@([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):([A-Za-z0-9._~/][A-Za-z0-9._~+,=@%/-]*)$`)
)

// IsSSH reports whether an address is a URL of ssh, which can be invalid, or user@host:path.
func IsSSH(raw string) bool { return strings.HasPrefix(raw, "ssh://") || scpForm.MatchString(raw) }

// parseSSH parses an address over ssh in either form; nil means that it is neither.
// canonical is the same for every spelling of the address.
func parseSSH(raw string) (address *SSHAddress, canonical string, err error) {
	if m := scpForm.FindStringSubmatch(raw); m != nil {
		path := strings.TrimRight(m[3], "/")
		if path == "" {
			return nil, "", fault.New(fault.ErrInvalid, "the address names no repository; write it as user@host:path")
		}
		host := strings.Trim(m[2], "[]")
		return &SSHAddress{User: m[1], Host: net.JoinHostPort(host, defaultSSHPort), Path: path}, m[1] + "@" + m[2] + ":" + path, nil
	}
	if !IsSSH(raw) {
		return nil, "", nil
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, "", fault.New(fault.ErrInvalid, "the URL cannot be parsed; write it as ssh://git@host/path")
	}
	user := "git" // as in Flux; the user of this process is meaningless there
	if u.User != nil {
		if _, has := u.User.Password(); has {
			return nil, "", fault.New(fault.ErrInvalid, "the URL contains a password; put credentials into a Secret")
		}
		user = u.User.Username()
	}
	path := strings.TrimRight(u.Path, "/")
	if strings.HasPrefix(path, "/~") { // as in git: a user's folder on the server
		path = path[1:]
	}
	host := u.Hostname()
	switch {
	case !sshUser.MatchString(user):
		return nil, "", fault.New(fault.ErrInvalid, "the URL's user has characters other than letters, digits, dot, dash and underscore")
	case !dial.IsHost(host):
		return nil, "", fault.New(fault.ErrInvalid, "the URL names no host; write it as ssh://git@host/path")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#"):
		return nil, "", fault.New(fault.ErrInvalid, "the URL has a query or a fragment, which a repository's URL must not have")
	case path == "":
		return nil, "", fault.New(fault.ErrInvalid, "the URL names no repository; write it as ssh://git@host/path")
	case !sshPath.MatchString(path):
		return nil, "", fault.New(fault.ErrInvalid, "the URL's path has quotes or other characters that have a meaning for a shell on the server")
	}
	port := cmp.Or(u.Port(), defaultSSHPort)
	clean := url.URL{Scheme: "ssh", User: url.User(user), Host: u.Host, Path: strings.TrimRight(u.Path, "/"), RawPath: strings.TrimRight(u.RawPath, "/")}
	return &SSHAddress{User: user, Host: net.JoinHostPort(host, port), Path: path}, clean.String(), nil
}
