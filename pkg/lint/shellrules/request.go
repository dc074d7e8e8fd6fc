package shellrules

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// request is a call of curl or wget.
type request struct {
	*shell.Call
	urls     []shell.Word
	targets  []shell.Word // files to which it writes
	stdout   bool         // it writes to its standard output
	options  []shell.Option
	insecure shell.Option // the option that accepts any certificate
	verbose  shell.Option // the option that prints headers
	// personal: it sends a credential, or verifies the server with its own CA. Such a
	// request calls a service, and is not a download of published content.
	personal bool
}

// requests returns the calls of curl and wget with a URL.
func (s *script) requests() []*request {
	if s.cachedRequests == nil {
		s.cachedRequests = s.readRequests()
	}
	return s.cachedRequests
}

func (s *script) readRequests() []*request {
	out := []*request{}
	for _, c := range s.Calls {
		var r *request
		switch c.Name {
		case "curl":
			r = s.curl(c)
		case "wget":
			r = s.wget(c)
		default:
			continue
		}
		if len(r.urls) > 0 || r.has("config") || r.has("input-file") {
			out = append(out, r)
		}
	}
	return out
}

func (s *script) curl(c *shell.Call) *request {
	options, rest := shell.Curl.Read(c.Args)
	r := &request{Call: c, options: options, urls: rest}
	name, output := false, false
	for _, o := range options {
		switch o.Name {
		case "url":
			r.urls = append(r.urls, o.Value)
		case "insecure", "proxy-insecure", "doh-insecure":
			r.insecure = o
		case "verbose", "trace", "trace-ascii":
			r.verbose = o
		case "output":
			output = true
			if o.Value.Text != "-" && o.Value.Text != "/dev/null" && o.Value.Text != "/dev/stdout" {
				r.targets = append(r.targets, o.Value)
			} else if o.Value.Text != "/dev/null" {
				r.stdout = true
			}
		case "remote-name", "remote-name-all":
			name = true
		case "user", "cert", "netrc", "netrc-file", "oauth2-bearer", "cacert", "aws-sigv4", "unix-socket":
			r.personal = true
		case "header":
			r.personal = r.personal || strings.HasPrefix(o.Value.Text, "@") || authHeader(o.Value.Text)
		case "request":
			r.personal = r.personal || o.Value.Text != "GET"
		case "data", "data-raw", "data-binary", "data-urlencode", "json", "form", "upload-file", "head":
			r.personal = true // it sends data to a service
		}
	}
	if name {
		r.targets = append(r.targets, remoteNames(r.urls)...)
	}
	r.redirected(s, !output && !name)
	return r
}

func (s *script) wget(c *shell.Call) *request {
	options, rest := shell.Wget.Read(c.Args)
	r := &request{Call: c, options: options, urls: rest}
	output := false
	for _, o := range options {
		switch o.Name {
		case "no-check-certificate":
			r.insecure = o
		case "debug":
			r.verbose = o
		case "output-document":
			output = true
			if o.Value.Text == "-" {
				r.stdout = true
			} else if o.Value.Text != "/dev/null" {
				r.targets = append(r.targets, o.Value)
			}
		case "spider":
			output = true
		case "user", "password", "http-user", "http-password", "ca-certificate", "certificate", "post-data", "post-file", "body-data", "body-file":
			r.personal = true
		case "header":
			r.personal = r.personal || authHeader(o.Value.Text)
		}
	}
	if !output {
		r.targets = append(r.targets, remoteNames(r.urls)...)
	}
	r.redirected(s, r.stdout)
	return r
}

// redirected determines the destination of standard output.
func (r *request) redirected(s *script, out bool) {
	if r.stdout = r.stdout || out; !r.stdout {
		return
	}
	for _, w := range s.Writes(r.Stmt) {
		r.stdout = false
		if w.Text != "/dev/null" {
			r.targets = append(r.targets, w)
		}
	}
}

func (r *request) has(name string) bool {
	return slices.ContainsFunc(r.options, func(o shell.Option) bool { return o.Name == name })
}

// remoteNames returns the files that "curl -O" and wget write.
func remoteNames(urls []shell.Word) []shell.Word {
	var out []shell.Word
	for _, u := range urls {
		name, _, _ := strings.Cut(u.Text, "?")
		out = append(out, shell.Word{Text: name[strings.LastIndexByte(name, '/')+1:], Dynamic: u.Dynamic, Node: u.Node})
	}
	return out
}

func authHeader(header string) bool {
	name, _, _ := strings.Cut(strings.ToLower(header), ":")
	return slices.Contains([]string{"authorization", "proxy-authorization", "x-auth-token", "x-vault-token", "private-token", "x-api-key", "cookie"}, strings.TrimSpace(name)) ||
		strings.HasPrefix(name, "x-aws-ec2-metadata-token") || name == "metadata-flavor" || name == "metadata"
}

// metadataHosts lists metadata services without a link-local address: of Alibaba Cloud,
// Azure, AWS over IPv6 and, by name, Google. It includes this machine by name.
// https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
// https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
var metadataHosts = []string{"100.100.100.200", "168.63.129.16", "fd00:ec2::254", "metadata", "metadata.google.internal", "localhost"}

// plainHTTP reports whether a text is an unencrypted URL of another machine. Loopback and
// link-local addresses, and the metadata services of clouds, are not included.
func plainHTTP(text string) bool {
	return isHTTP(text) && !nearby(text)
}

func isHTTP(text string) bool { return len(text) > 7 && strings.EqualFold(text[:7], "http://") }

// nearby reports whether an http URL refers to the machine itself or to its cloud.
func nearby(text string) bool {
	host, _, _ := strings.Cut(text[7:], "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	if u, err := url.Parse("http://" + host); err == nil {
		host = u.Hostname()
	}
	ip := net.ParseIP(host)
	return slices.Contains(metadataHosts, host) || ip != nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast())
}
