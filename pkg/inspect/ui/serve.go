package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/utils/clock"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// Server serves the pages. Set its exported fields once, before it serves.
type Server struct {
	// Snapshots provides the model of most pages.
	Snapshots *Snapshots
	// Trails reads the details for the pages of one node and one commit.
	Trails Tracer
	// Verifier verifies a node on request; nil disables it.
	Verifier Verifier
	// Hosts are the kinds of repository hosts, for links to commits.
	Hosts githost.Hosts
	Clock clock.PassiveClock
	// Authorizer admits users. Nil admits everyone who can reach the address, which must then be on
	// loopback.
	Authorizer *Authorizer
	// Version of the program, for the footer.
	Version string

	verifying verifying
}

// securityHeaders are part of every response: they forbid external content, scripts, and
// framing or reading by other pages.
var securityHeaders = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
	"Cache-Control":                "no-store",
	"Vary":                         "Accept, Authorization",
}

// ServeHTTP answers GET and HEAD. With "Accept: application/json" the response is JSON with
// the same content.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for k, v := range securityHeaders {
		w.Header().Set(k, v)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		s.fail(w, r, http.StatusMethodNotAllowed, "Pages are read-only.")
		return
	}
	viewer, ok := s.admitted(w, r)
	if !ok || asset(w, r) {
		return
	}
	v, err := s.view(r, viewer)
	var missing *missingError
	switch {
	case errors.As(err, &missing):
		s.fail(w, r, http.StatusNotFound, missing.text)
	case err != nil && r.Context().Err() != nil:
		// the client disconnected
	case err != nil:
		ctrllog.FromContext(r.Context()).Error(err, "making a page", "path", r.URL.Path)
		s.fail(w, r, http.StatusServiceUnavailable, "The cluster could not be read: "+text(err.Error()))
	default:
		s.write(w, r, http.StatusOK, v)
	}
}

// admitted decides whether a request is allowed, and for which viewer; otherwise it writes
// the response. On loopback the viewer is nil and everything is shown.
func (s *Server) admitted(w http.ResponseWriter, r *http.Request) (*Viewer, bool) {
	if s.Authorizer == nil {
		if local(r.Host) {
			return nil, true
		}
		s.fail(w, r, http.StatusMisdirectedRequest, "Use a name of this machine itself, such as localhost, for this address.")
		return nil, false
	}
	status, viewer, err := s.Authorizer.Admit(r.Context(), r)
	switch {
	case err != nil:
		ctrllog.FromContext(r.Context()).Error(err, "authenticating the viewer")
		w.Header().Set("Retry-After", "10")
		s.fail(w, r, http.StatusServiceUnavailable, "The API server did not answer the authentication request. Try again.")
	case status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="osm-gitops: any user name, and a token of the cluster as password", charset="UTF-8"`)
		s.fail(w, r, status, "A token of the cluster for audience "+Audience+" is necessary, as bearer token, or as password with any user name. Create one with kubectl create token NAME --audience="+Audience+".")
	case status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "10")
		s.fail(w, r, status, "Too many unknown tokens at once. Try again.")
	case status == http.StatusForbidden:
		s.fail(w, r, status, "Your user has no permission to get "+RightPath+": ask for a ClusterRole with that nonResourceURL.")
	default:
		return viewer, true
	}
	return nil, false
}

// missingError says that a page does not exist.
type missingError struct{ text string }

func (e *missingError) Error() string { return e.text }

// shown is a page to write: a view with its title and layout.
type shown struct {
	title string
	name  string // name of its template
	view  any
}

// view builds the page of a path for a viewer.
func (s *Server) view(r *http.Request, viewer *Viewer) (shown, error) {
	all, err := s.Snapshots.Get(r.Context())
	if err != nil {
		return shown{}, err
	}
	seen, err := viewer.see(r.Context(), all)
	if err != nil {
		return shown{}, err
	}
	f := seen.model
	path, query := r.URL.Path, r.URL.Query()
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		page = 1
	}
	filter := Filter{Query: clean(query.Get("q")), State: clean(query.Get("state"))}
	kind, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case path == "/":
		return shown{"Fleet", "fleet", ViewFleet(f, filter, page)}, nil
	case path == "/changes":
		return shown{"Changes", "changes", ViewChanges(f, filter, page)}, nil
	case path == "/nodes":
		return shown{"Nodes", "nodes", ViewNodes(f, filter, page)}, nil
	case path == "/profiles":
		return shown{"Profiles", "profiles", ViewProfiles(f, page)}, nil
	case path == "/rollouts":
		return shown{"Rollouts", "rollouts", ViewRollouts(f, page)}, nil
	case path == "/sources":
		return shown{"Sources", "sources", ViewSources(f, page)}, nil
	case kind == "profiles" && rest != "":
		if v, ok := ViewProfile(f, rest, page); ok {
			return shown{"Profile " + rest, "profile", v}, nil
		}
		return shown{}, &missingError{"Profile " + clean(rest) + " not found."}
	case path == "/search":
		v := ViewSearch(f, query.Get("q"), page)
		return shown{"Search", "search", v}, nil
	case kind == "pools" && strings.Count(rest, "/") == 1:
		if v, ok := ViewPool(f, rest, page); ok {
			return shown{"Pool " + rest, "pool", v}, nil
		}
		return shown{}, &missingError{"Pool " + clean(rest) + " not found, and no node of it is known."}
	case kind == "commits" && rest != "":
		return s.commit(r.Context(), f, rest, query.Get("pool"), page)
	case kind == "nodes" && isName(rest):
		if record := query.Get("record"); record != "" {
			if !isName(record) {
				return shown{}, &missingError{"NodeProvenance " + clean(record) + " not found."}
			}
			return s.record(r.Context(), seen, rest, record)
		}
		return s.node(r.Context(), seen, rest, query.Has("verify") && meant(r))
	}
	return shown{}, &missingError{"Page " + clean(path) + " not found."}
}

// isName reports whether an object can have a name. The client rejects any other name,
// which is not a failure of the cluster.
func isName(s string) bool { return s != "" && len(content.IsPathSegmentName(s)) == 0 }

// meant reports whether the user requested a page from one of ours or typed its address: a
// page of another site must not trigger fetching repositories. The browser reports the
// origin; another port of this machine is another site.
func meant(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "none" || site == "same-origin"
}

func (s *Server) commit(ctx context.Context, f *Model, id, pool string, page int) (shown, error) {
	full := f.Resolve(id)
	v, ok := ViewCommit(f, full, pool, page)
	if !ok {
		return shown{}, &missingError{"No version of a profile and no pool belongs to commit " + clean(id) + "."}
	}
	links := githost.LinksOf(v.Repository, s.hosts(f))
	if v.Link = links.Commit(full); v.Link != "" {
		v.LinkGuessed = links.Guessed
	}
	if err := s.compare(ctx, &v); err != nil {
		return shown{}, err
	}
	return shown{"Commit " + short(full), "commit", v}, nil
}

// hosts returns the kinds of repository hosts from flags and from the webhooks of
// ProfileSources.
func (s *Server) hosts(f *Model) githost.Hosts {
	out := githost.Hosts{}
	for i := range f.sources {
		git, hook := f.sources[i].Spec.Git, f.sources[i].Spec.Webhook
		if git == nil || hook == nil {
			continue
		}
		if kind := githost.Provider(hook.Provider, git.URL); kind != "" {
			out[githost.Host(git.URL)] = kind
		}
	}
	maps.Copy(out, s.Hosts)
	return out
}

func (s *Server) node(ctx context.Context, seen sight, name string, verify bool) (shown, error) {
	trail, err := s.Trails.Node(ctx, name)
	var missing *trace.NotFoundError
	// A node of a pool that the viewer cannot see must look like one that does not exist.
	if errors.As(err, &missing) || err == nil && !seen.sees(namespaceOf(trail.Pool)) {
		return shown{}, &missingError{"Node " + clean(name) + " is unknown."}
	}
	if err != nil {
		return shown{}, err
	}
	v := ViewNode(seen.model.At, name, trail)
	v.CanVerify = s.Verifier != nil
	if s.Verifier != nil {
		v.Verification = s.verification(ctx, name, trail, verify)
	}
	return shown{"Node " + v.Name, "node", v}, nil
}

// record returns the page of one of several nodes with the same name, by its
// NodeProvenance.
func (s *Server) record(ctx context.Context, seen sight, name, record string) (shown, error) {
	trail, err := s.Trails.Provenance(ctx, record)
	var missing *trace.NotFoundError
	if errors.As(err, &missing) || err == nil && (trail.Node == nil || trail.Node.Name != name || !seen.sees(namespaceOf(trail.Pool))) {
		return shown{}, &missingError{"NodeProvenance " + clean(record) + " of a node " + clean(name) + " not found."}
	}
	if err != nil {
		return shown{}, err
	}
	v := ViewNode(seen.model.At, name, trail)
	return shown{"Node " + v.Name, "node", v}, nil
}

// Failure is the page of an error.
type Failure struct {
	About
	Status  int    `json:"status"`  // status of HTTP
	Message string `json:"message"` // what is wrong, and what to do
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	s.write(w, r, status, shown{http.StatusText(status), "failure", Failure{About{"Error", s.Clock.Now()}, status, message}})
}

// write writes a page in the requested format.
func (s *Server) write(w http.ResponseWriter, r *http.Request, status int, v shown) {
	var b bytes.Buffer
	if wantsJSON(r.Header.Get("Accept")) {
		w.Header().Set("Content-Type", "application/json")
		e := json.NewEncoder(runnerlog.JSON(&b)) // also escapes HTML markup
		e.SetIndent("", "  ")
		if err := e.Encode(v.view); err != nil {
			ctrllog.FromContext(r.Context()).Error(err, "encoding a page", "path", r.URL.Path)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
	} else {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := s.html(&b, r, v); err != nil {
			ctrllog.FromContext(r.Context()).Error(err, "laying out a page", "path", r.URL.Path)
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes()) // the client may have disconnected
	}
}

// wantsJSON reports whether JSON is the first accepted type, which no browser requests by
// itself.
func wantsJSON(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		kind, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "application/json":
			return true
		case "text/html", "application/xhtml+xml":
			return false
		}
	}
	return false
}
