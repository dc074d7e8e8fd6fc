package request

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// Request is a call of curl or wget.
type Request struct {
	*shell.Call
	URLs     []shell.Word
	Targets  []shell.Word // files to which it writes
	Stdout   bool         // it writes to its standard output
	Insecure shell.Option // the option that accepts any certificate
	Verbose  shell.Option // the option that prints headers
	// Personal: it sends a credential, or verifies the server with its own CA. Such a
	// request calls a service, and is not a download of published content.
	Personal bool

	options []shell.Option
}

// FindAll returns the calls of curl and wget with a URL.
func FindAll(s *shell.Commands) []*Request {
	out := []*Request{}
	for _, c := range s.Calls {
		var r *Request
		switch c.Name {
		case "curl":
			r = parseCurl(s, c)
		case "wget":
			r = parseWget(s, c)
		default:
			continue
		}
		if len(r.URLs) > 0 || r.has("config") || r.has("input-file") {
			out = append(out, r)
		}
	}
	return out
}

func parseCurl(s *shell.Commands, c *shell.Call) *Request {
	options, rest := shell.Curl.ParseArguments(c.Args)
	r := &Request{Call: c, options: options, URLs: rest}
	name, output := false, false
	for _, o := range options {
		switch o.Name {
		case "url":
			r.URLs = append(r.URLs, o.Value)
		case "insecure", "proxy-insecure", "doh-insecure":
			r.Insecure = o
		case "verbose", "trace", "trace-ascii":
			r.Verbose = o
		case "output":
			output = true
			if o.Value.Text != "-" && o.Value.Text != "/dev/null" && o.Value.Text != "/dev/stdout" {
				r.Targets = append(r.Targets, o.Value)
			} else if o.Value.Text != "/dev/null" {
				r.Stdout = true
			}
		case "remote-name", "remote-name-all":
			name = true
		case "user", "cert", "netrc", "netrc-file", "oauth2-bearer", "cacert", "aws-sigv4", "unix-socket":
			r.Personal = true
		case "header":
			r.Personal = r.Personal || strings.HasPrefix(o.Value.Text, "@") || IsAuthOrMetadataHeader(o.Value.Text)
		case "request":
			r.Personal = r.Personal || o.Value.Text != "GET"
		case "data", "data-raw", "data-binary", "data-urlencode", "json", "form", "upload-file", "head":
			r.Personal = true // it sends data to a service
		}
	}
	if name {
		r.Targets = append(r.Targets, remoteNames(r.URLs)...)
	}
	r.resolveStdoutTarget(s, !output && !name)
	return r
}

func parseWget(s *shell.Commands, c *shell.Call) *Request {
	options, rest := shell.Wget.ParseArguments(c.Args)
	r := &Request{Call: c, options: options, URLs: rest}
	output := false
	for _, o := range options {
		switch o.Name {
		case "no-check-certificate":
			r.Insecure = o
		case "debug":
			r.Verbose = o
		case "output-document":
			output = true
			if o.Value.Text == "-" {
				r.Stdout = true
			} else if o.Value.Text != "/dev/null" {
				r.Targets = append(r.Targets, o.Value)
			}
		case "spider":
			output = true
		case "user", "password", "http-user", "http-password", "ca-certificate", "certificate", "post-data", "post-file", "body-data", "body-file":
			r.Personal = true
		case "header":
			r.Personal = r.Personal || IsAuthOrMetadataHeader(o.Value.Text)
		}
	}
	if !output {
		r.Targets = append(r.Targets, remoteNames(r.URLs)...)
	}
	r.resolveStdoutTarget(s, r.Stdout)
	return r
}

// resolveStdoutTarget determines the destination of standard output.
func (r *Request) resolveStdoutTarget(s *shell.Commands, out bool) {
	if r.Stdout = r.Stdout || out; !r.Stdout {
		return
	}
	for _, w := range s.OutputFiles(r.Stmt) {
		r.Stdout = false
		if w.Text != "/dev/null" {
			r.Targets = append(r.Targets, w)
		}
	}
}

func (r *Request) has(name string) bool {
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

// IsAuthOrMetadataHeader reports whether a header contains a credential, or asks the metadata service of a
// cloud.
func IsAuthOrMetadataHeader(header string) bool {
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

// IsRemotePlainHTTP reports whether a text is an unencrypted URL of another machine. Loopback and
// link-local addresses, and the metadata services of clouds, are not included.
func IsRemotePlainHTTP(text string) bool {
	return IsPlainHTTP(text) && !IsLocalOrMetadata(text)
}

// IsPlainHTTP reports whether a text is an unencrypted URL.
func IsPlainHTTP(text string) bool { return len(text) > 7 && strings.EqualFold(text[:7], "http://") }

// IsLocalOrMetadata reports whether an http URL refers to the machine itself or to the metadata
// service of its cloud.
func IsLocalOrMetadata(text string) bool {
	host, _, _ := strings.Cut(text[7:], "/")
	host = host[strings.LastIndexByte(host, '@')+1:]
	if u, err := url.Parse("http://" + host); err == nil {
		host = u.Hostname()
	}
	ip := net.ParseIP(host)
	return slices.Contains(metadataHosts, host) || ip != nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast())
}
