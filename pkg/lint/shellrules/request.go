package shellrules

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// request is a call of curl or wget.
type request struct {
	*call
	urls     []word
	targets  []word // files that it writes
	stdout   bool   // or its standard output
	options  []option
	insecure option // what makes it take any certificate
	verbose  option // what makes it print headers
	// personal: it shows who asks, or knows the server by a CA of its own. That is a
	// question to a service, no download of what somebody has published.
	personal bool
}

// option is one with its value.
type option struct {
	name  string // "-o" and "--output" alike are "output"
	value word
	given string // as it is written
	line  int
}

// tool says how a program reads its arguments.
type tool struct {
	short  map[byte]string // options of one letter by their long name
	values []string        // long options that take a value
}

// curl(1), release 8.16. Letters that are not here have no value and no meaning for us.
var curl = tool{
	short: map[byte]string{
		'A': "user-agent", 'b': "cookie", 'c': "cookie-jar", 'C': "continue-at", 'd': "data", 'D': "dump-header", 'e': "referer", 'E': "cert",
		'F': "form", 'H': "header", 'I': "head", 'K': "config", 'k': "insecure", 'm': "max-time", 'n': "netrc", 'o': "output", 'O': "remote-name", 'P': "ftp-port",
		'Q': "quote", 'r': "range", 't': "telnet-option", 'T': "upload-file", 'u': "user", 'U': "proxy-user", 'v': "verbose", 'w': "write-out",
		'x': "proxy", 'X': "request", 'y': "speed-time", 'Y': "speed-limit", 'z': "time-cond",
	},
	values: []string{
		"user-agent", "cookie", "cookie-jar", "continue-at", "data", "dump-header", "referer", "cert", "form", "header", "config", "max-time", "output",
		"ftp-port", "quote", "range", "telnet-option", "upload-file", "user", "proxy-user", "write-out", "proxy", "request", "speed-time", "speed-limit",
		"time-cond", "cacert", "capath", "key", "cert-type", "key-type", "pass", "connect-timeout", "retry", "retry-delay", "retry-max-time", "noproxy",
		"oauth2-bearer", "netrc-file", "resolve", "connect-to", "url", "output-dir", "data-raw", "data-binary", "data-urlencode", "json", "ciphers",
		"tls-max", "trace", "trace-ascii", "trace-config", "stderr", "interface", "limit-rate", "max-filesize", "pinnedpubkey", "unix-socket", "aws-sigv4",
		"proxy-header", "proxy-cacert", "preproxy", "socks5", "socks5-hostname", "create-file-mode", "variable",
	},
}

// wget(1), release 1.25.
var wget = tool{
	short: map[byte]string{
		'a': "append-output", 'A': "accept", 'B': "base", 'D': "domains", 'd': "debug", 'e': "execute", 'i': "input-file", 'l': "level", 'o': "output-file",
		'O': "output-document", 'P': "directory-prefix", 'Q': "quota", 'R': "reject", 't': "tries", 'T': "timeout", 'U': "user-agent", 'w': "wait",
	},
	values: []string{
		"append-output", "accept", "base", "domains", "execute", "input-file", "level", "output-file", "output-document", "directory-prefix", "quota",
		"reject", "tries", "timeout", "user-agent", "wait", "header", "user", "password", "http-user", "http-password", "ca-certificate", "ca-directory",
		"certificate", "private-key", "post-data", "post-file", "method", "body-data", "body-file", "proxy-user", "proxy-password", "referer",
		"connect-timeout", "read-timeout", "dns-timeout", "waitretry", "limit-rate", "secure-protocol", "retry-on-http-error", "save-cookies", "load-cookies",
	},
}

// requests are the calls of curl and wget that ask for something.
func (s *script) requests() []*request {
	if s.asked == nil {
		s.asked = s.readRequests()
	}
	return s.asked
}

func (s *script) readRequests() []*request {
	out := []*request{}
	for _, c := range s.calls {
		var r *request
		switch c.name {
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

func (s *script) curl(c *call) *request {
	options, rest := curl.read(c.args)
	r := &request{call: c, options: options, urls: rest}
	name, output := false, false
	for _, o := range options {
		switch o.name {
		case "url":
			r.urls = append(r.urls, o.value)
		case "insecure", "proxy-insecure", "doh-insecure":
			r.insecure = o
		case "verbose", "trace", "trace-ascii":
			r.verbose = o
		case "output":
			output = true
			if o.value.text != "-" && o.value.text != "/dev/null" && o.value.text != "/dev/stdout" {
				r.targets = append(r.targets, o.value)
			} else if o.value.text != "/dev/null" {
				r.stdout = true
			}
		case "remote-name", "remote-name-all":
			name = true
		case "user", "cert", "netrc", "netrc-file", "oauth2-bearer", "cacert", "aws-sigv4", "unix-socket":
			r.personal = true
		case "header":
			r.personal = r.personal || strings.HasPrefix(o.value.text, "@") || authHeader(o.value.text)
		case "request":
			r.personal = r.personal || o.value.text != "GET"
		case "data", "data-raw", "data-binary", "data-urlencode", "json", "form", "upload-file", "head":
			r.personal = true // it tells more than it asks
		}
	}
	if name {
		r.targets = append(r.targets, remoteNames(r.urls)...)
	}
	r.redirected(s, !output && !name)
	return r
}

func (s *script) wget(c *call) *request {
	options, rest := wget.read(c.args)
	r := &request{call: c, options: options, urls: rest}
	output := false
	for _, o := range options {
		switch o.name {
		case "no-check-certificate":
			r.insecure = o
		case "debug":
			r.verbose = o
		case "output-document":
			output = true
			if o.value.text == "-" {
				r.stdout = true
			} else if o.value.text != "/dev/null" {
				r.targets = append(r.targets, o.value)
			}
		case "spider":
			output = true
		case "user", "password", "http-user", "http-password", "ca-certificate", "certificate", "post-data", "post-file", "body-data", "body-file":
			r.personal = true
		case "header":
			r.personal = r.personal || authHeader(o.value.text)
		}
	}
	if !output {
		r.targets = append(r.targets, remoteNames(r.urls)...)
	}
	r.redirected(s, r.stdout)
	return r
}

// redirected follows what goes to standard output.
func (r *request) redirected(s *script, out bool) {
	if r.stdout = r.stdout || out; !r.stdout {
		return
	}
	for _, w := range s.writes(r.stmt) {
		r.stdout = false
		if w.text != "/dev/null" {
			r.targets = append(r.targets, w)
		}
	}
}

func (r *request) has(name string) bool {
	return slices.ContainsFunc(r.options, func(o option) bool { return o.name == name })
}

// read takes arguments apart.
func (t tool) read(args []word) (options []option, rest []word) {
	for i := 0; i < len(args); i++ {
		text := args[i].text
		next := func() word {
			if i+1 < len(args) {
				i++
				return args[i]
			}
			return word{}
		}
		switch {
		case strings.HasPrefix(text, "--") && len(text) > 2:
			name, value, has := strings.Cut(text[2:], "=")
			o := option{name: name, given: "--" + name, line: line(args[i].node), value: word{text: value, dynamic: args[i].dynamic, node: args[i].node}}
			if !has && slices.Contains(t.values, name) {
				o.value = next()
			}
			options = append(options, o)
		case strings.HasPrefix(text, "-") && len(text) > 1:
			for at := 1; at < len(text); at++ {
				name, known := t.short[text[at]]
				if !known {
					continue
				}
				o := option{name: name, given: "-" + text[at:at+1], line: line(args[i].node)}
				if slices.Contains(t.values, name) {
					if o.value = (word{text: text[at+1:], dynamic: args[i].dynamic, node: args[i].node}); o.value.text == "" {
						o.value = next()
					}
					at = len(text)
				}
				options = append(options, o)
			}
		default:
			rest = append(rest, args[i])
		}
	}
	return options, rest
}

// remoteNames are the files that "curl -O" and wget write.
func remoteNames(urls []word) []word {
	var out []word
	for _, u := range urls {
		name, _, _ := strings.Cut(u.text, "?")
		out = append(out, word{text: name[strings.LastIndexByte(name, '/')+1:], dynamic: u.dynamic, node: u.node})
	}
	return out
}

func authHeader(header string) bool {
	name, _, _ := strings.Cut(strings.ToLower(header), ":")
	return slices.Contains([]string{"authorization", "proxy-authorization", "x-auth-token", "x-vault-token", "private-token", "x-api-key", "cookie"}, strings.TrimSpace(name)) ||
		strings.HasPrefix(name, "x-aws-ec2-metadata-token") || name == "metadata-flavor" || name == "metadata"
}

// metadataHosts are the metadata services that have no link-local address: of Alibaba
// Cloud, Azure, AWS over IPv6 and, by name, Google; and this machine by name.
// https://www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
// https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
var metadataHosts = []string{"100.100.100.200", "168.63.129.16", "fd00:ec2::254", "metadata", "metadata.google.internal", "localhost"}

// plainHTTP reports whether a text is a URL without encryption to another machine.
// Loopback and link-local addresses, the metadata services of clouds, are not.
func plainHTTP(text string) bool {
	return isHTTP(text) && !nearby(text)
}

func isHTTP(text string) bool { return len(text) > 7 && strings.EqualFold(text[:7], "http://") }

// nearby reports whether a URL of http is one of the machine itself or of its cloud.
func nearby(text string) bool {
	host, _, _ := strings.Cut(text[7:], "/")
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	if u, err := url.Parse("http://" + host); err == nil {
		host = u.Hostname()
	}
	ip := net.ParseIP(host)
	return slices.Contains(metadataHosts, host) || ip != nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast())
}
