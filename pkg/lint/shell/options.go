package shell

import (
	"slices"
	"strings"
)

// Option is an option with its value.
type Option struct {
	Name    string // "-o" and "--output" alike are "output"
	Value   Word
	Written string // as written in the script
	Line    int
}

// Tool describes the options of a program.
type Tool struct {
	short  map[byte]string // options of one letter by their long name
	values []string        // long options that take a value
}

// Curl is curl(1), release 8.16. Short options that are missing here take no value and are not used.
var Curl = Tool{
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
		"proxy-header", "proxy-cacert", "proxy-cert", "proxy-key", "data-ascii", "expand-url", "max-redirs", "proto", "proto-redir", "proto-default", "tls13-ciphers",
		"dns-servers", "doh-url", "keepalive-time", "local-port", "parallel-max", "preproxy", "socks5", "socks5-hostname", "create-file-mode", "variable",
	},
}

// Wget is wget(1), release 1.25.
var Wget = Tool{
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

// ParseArguments parses the arguments of a program.
func (t Tool) ParseArguments(args []Word) (options []Option, rest []Word) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		value := func(inline string) Word {
			if inline != "" || i+1 >= len(args) {
				return Word{Text: inline, Dynamic: arg.Dynamic, Node: arg.Node}
			}
			i++
			return args[i]
		}
		switch {
		case strings.HasPrefix(arg.Text, "--") && len(arg.Text) > 2:
			name, text, has := strings.Cut(arg.Text[2:], "=")
			o := Option{Name: name, Written: "--" + name, Line: arg.line(), Value: Word{Text: text, Dynamic: arg.Dynamic, Node: arg.Node}}
			if !has && slices.Contains(t.values, name) {
				o.Value = value("")
			}
			options = append(options, o)
		case strings.HasPrefix(arg.Text, "-") && len(arg.Text) > 1:
			// Short options can be joined, with the value of the last one after it.
			for at := 1; at < len(arg.Text) && !strings.HasPrefix(arg.Text[at:], unknownBegins); at++ {
				name, known := t.short[arg.Text[at]]
				if !known {
					continue
				}
				o := Option{Name: name, Written: "-" + arg.Text[at:at+1], Line: arg.line()}
				if slices.Contains(t.values, name) {
					o.Value = value(arg.Text[at+1:])
					at = len(arg.Text)
				}
				options = append(options, o)
			}
		default:
			rest = append(rest, arg)
		}
	}
	return options, rest
}
