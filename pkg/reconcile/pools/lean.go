package pools

import (
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// configPath is where the API server serves OperatingSystemConfigs, below a namespace.
var configPath = "/apis/" + osm.GroupVersion.String() + "/namespaces/"

// poolPath is where it serves MachineDeployments of all namespaces.
var poolPath = "/apis/" + cluster.GroupVersion.String() + "/machinedeployments"

// Where spec is, as the number of braces and brackets around it: in an object, in an
// event of a watch ({"type":…,"object":{…}}), in a list ({"items":[{…}]}).
const (
	depthOfObject = 1
	depthOfEvent  = 2
	depthOfList   = 3
)

// Lean returns a configuration whose clients get lists and watches of
// OperatingSystemConfigs, and answers to their creation, without spec; reading one by
// name gives all of it. Nobody needs the spec of a cached one (TrimConfig drops it), it
// is most of the object, and client-go reads it six times on the way to the cache: that
// took a fifth of the controller's CPU. With it go managed fields, which are half of the rest, and
// those of watched MachineDeployments; what comes as protobuf is slimmed, see slim.
func Lean(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return lean{next} })
	return cfg
}

type lean struct{ http.RoundTripper }

// RoundTrip passes everything but the spec of configurations.
func (l lean) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(req)
	if err != nil || resp.Header.Get("Content-Encoding") != "" {
		return resp, err
	}
	slim(req, resp)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		return resp, nil
	}
	watch := req.URL.Query().Get("watch") != ""
	rest, ok := strings.CutPrefix(req.URL.Path, configPath)
	_, kind, _ := strings.Cut(rest, "/")
	switch config := ok && kind == "operatingsystemconfigs"; {
	case config && req.Method == http.MethodPost:
		resp.Body = &specless{from: resp.Body, at: depthOfObject}
	case config && watch:
		resp.Body = &specless{from: resp.Body, at: depthOfEvent}
	case config:
		resp.Body = &specless{from: resp.Body, at: depthOfList}
	case watch && req.URL.Path == poolPath:
		resp.Body = &specless{from: resp.Body, at: depthOfEvent, keepSpec: true}
	default:
		return resp, nil
	}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	return resp, nil
}

// WrappedRoundTripper lets client-go find the transport below, whose connections it closes.
func (l lean) WrappedRoundTripper() http.RoundTripper { return l.RoundTripper }

// specless leaves the member spec out of every object that stands at a depth of a
// stream of JSON values, and managedFields out of its metadata. What is no JSON it
// passes on, for the reader to complain.
type specless struct {
	from     io.ReadCloser
	at       int
	keepSpec bool

	in, buf, out []byte // what was read, what of it is passed on, and what of that is not given yet
	failed       error

	depth            int
	inString, escape bool
	object           bool   // what stands at the depth is one, no array
	meta             bool   // the member read last is its metadata
	metaObject       bool   // which is one, no array
	naming           bool   // a member's name comes next, or is being read
	name             []byte // as far as it was read
	members          [2]int // that were passed on, of the object and of its metadata
	dropping         bool
}

func (s *specless) Close() error { return s.from.Close() }

// Read gives whole what was received so far: an event is not held back.
func (s *specless) Read(p []byte) (int, error) {
	if s.in == nil {
		s.in = make([]byte, 32<<10) // 32 KiB, two frames of HTTP/2
	}
	for len(s.out) == 0 && s.failed == nil {
		n, err := s.from.Read(s.in)
		s.buf, s.failed = s.pass(s.buf[:0], s.in[:n]), err
		if err != nil {
			s.buf = append(s.buf, s.name...)
		}
		s.out = s.buf
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	if len(s.out) == 0 {
		return n, s.failed
	}
	return n, nil
}

// pass appends to out what of in is passed on.
func (s *specless) pass(out, in []byte) []byte {
	for i := 0; i < len(in); i++ {
		if s.inString && !s.naming && !s.escape {
			from := i
			for i < len(in) && in[i] != '"' && in[i] != '\\' {
				i++
			}
			if !s.dropping {
				out = append(out, in[from:i]...)
			}
			if i == len(in) {
				break
			}
		}
		c := in[i]
		switch {
		case s.inString:
			s.inString = s.escape || c != '"'
			s.escape = !s.escape && c == '\\'
			if !s.naming {
				break
			}
			s.name = append(s.name, c)
			if !s.inString {
				out = s.named(out)
			}
			continue
		case c == '"':
			s.inString = true
			if s.naming {
				s.name = append(s.name, c)
				continue
			}
		case c == '{' || c == '[':
			s.depth++
			s.opened(c == '{')
		case c == '}' || c == ']':
			if s.level() >= 0 {
				s.naming, s.dropping = false, false
			}
			s.depth--
		case c == ',' && s.level() >= 0:
			s.naming, s.dropping = true, false
			continue // it is passed on with the name
		}
		if !s.dropping {
			out = append(out, c)
		}
	}
	return out
}

// level says whose members come: 0 is the object, 1 its metadata, less than 0 neither.
func (s *specless) level() int {
	switch {
	case s.depth == s.at && s.object:
		return 0
	case s.depth == s.at+1 && s.metaObject:
		return 1
	}
	return -1
}

// opened is told of what begins.
func (s *specless) opened(object bool) {
	switch s.depth {
	case s.at:
		s.object, s.meta = object, false
	case s.at + 1:
		s.metaObject = s.meta && object
	}
	level := s.level()
	s.naming = level >= 0
	if s.naming {
		s.members[level] = 0
	}
}

// named ends a name: what it names is dropped, or follows.
func (s *specless) named(out []byte) []byte {
	level, name := s.level(), string(s.name)
	s.naming, s.dropping = false, level == 0 && name == `"spec"` && !s.keepSpec || level == 1 && name == `"managedFields"`
	if level == 0 {
		s.meta = name == `"metadata"`
	}
	if !s.dropping {
		if s.members[level] > 0 {
			out = append(out, ',')
		}
		s.members[level]++
		out = append(out, s.name...)
	}
	s.name = s.name[:0]
	return out
}
