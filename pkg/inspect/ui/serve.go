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
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/comparison"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/view"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// Tracer traces nodes to their commit, and reads what a commit changed.
type Tracer interface {
	comparison.Inputs
	Node(ctx context.Context, name string) (*trace.Result, error)
	Provenance(ctx context.Context, name string) (*trace.Result, error)
}

// Server serves the pages. Set its exported fields once, before it serves.
type Server struct {
	// Snapshots provides the model of most pages.
	Snapshots *fleet.Snapshots
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

	verifying verificationCache
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
	viewer, ok := s.admitViewer(w, r)
	if !ok || serveAsset(w, r) {
		return
	}
	v, err := s.buildPage(r, viewer)
	var missing *missingError
	switch {
	case errors.As(err, &missing):
		s.fail(w, r, http.StatusNotFound, missing.text)
	case err != nil && r.Context().Err() != nil:
		// the client disconnected
	case err != nil:
		ctrllog.FromContext(r.Context()).Error(err, "making a page", "path", r.URL.Path)
		s.fail(w, r, http.StatusServiceUnavailable, "The cluster could not be read: "+redact.PrintableText(err.Error(), redact.MaxMessage))
	default:
		s.writePage(w, r, http.StatusOK, v)
	}
}

// admitViewer decides whether a request is allowed, and for which viewer; otherwise it writes
// the response. On loopback the viewer is nil and everything is shown.
func (s *Server) admitViewer(w http.ResponseWriter, r *http.Request) (*Viewer, bool) {
	if s.Authorizer == nil {
		if isLoopbackHost(r.Host) {
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

// pageView is a page to write: a view with its title and layout.
type pageView struct {
	title string
	name  string // name of its template
	view  any
}

// buildPage builds the page of a path for a viewer.
func (s *Server) buildPage(r *http.Request, viewer *Viewer) (pageView, error) {
	all, err := s.Snapshots.Get(r.Context())
	if err != nil {
		return pageView{}, err
	}
	seen, err := viewer.filterModel(r.Context(), all)
	if err != nil {
		return pageView{}, err
	}
	f := seen.model
	path, query := r.URL.Path, r.URL.Query()
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		page = 1
	}
	filter := view.Filter{Query: redact.PrintableLine(query.Get("q")), State: redact.PrintableLine(query.Get("state"))}
	kind, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch {
	case path == "/":
		return pageView{"Fleet", "fleet", view.NewFleet(f, filter, page)}, nil
	case path == "/changes":
		return pageView{"Changes", "changes", view.NewChanges(f, filter, page)}, nil
	case path == "/nodes":
		return pageView{"Nodes", "nodes", view.NewNodes(f, filter, page)}, nil
	case path == "/profiles":
		return pageView{"Profiles", "profiles", view.NewProfiles(f, page)}, nil
	case path == "/rollouts":
		return pageView{"Rollouts", "rollouts", view.NewRollouts(f, page)}, nil
	case path == "/sources":
		return pageView{"Sources", "sources", view.NewSources(f, page)}, nil
	case kind == "profiles" && rest != "":
		if v, ok := view.NewProfile(f, rest, page); ok {
			return pageView{"Profile " + rest, "profile", v}, nil
		}
		return pageView{}, &missingError{"Profile " + redact.PrintableLine(rest) + " not found."}
	case path == "/search":
		v := view.NewSearch(f, query.Get("q"), page)
		return pageView{"Search", "search", v}, nil
	case kind == "pools" && strings.Count(rest, "/") == 1:
		if v, ok := view.NewPool(f, rest, page); ok {
			return pageView{"Pool " + rest, "pool", v}, nil
		}
		return pageView{}, &missingError{"Pool " + redact.PrintableLine(rest) + " not found, and no node of it is known."}
	case kind == "commits" && rest != "":
		return s.commitPage(r.Context(), f, rest, query.Get("pool"), page)
	case kind == "nodes" && isName(rest):
		record := query.Get("record")
		if record != "" && !isName(record) {
			return pageView{}, &missingError{"NodeProvenance " + redact.PrintableLine(record) + " not found."}
		}
		return s.nodePage(r.Context(), seen, rest, record, query.Has("verify") && isSameOrigin(r))
	}
	return pageView{}, &missingError{"Page " + redact.PrintableLine(path) + " not found."}
}

// isName reports whether an object can have a name. The client rejects any other name,
// which is not a failure of the cluster.
func isName(s string) bool { return s != "" && len(content.IsPathSegmentName(s)) == 0 }

// isSameOrigin reports whether the user requested a page from one of ours or typed its address: a
// page of another site must not trigger fetching repositories. The browser reports the
// origin; another port of this machine is another site.
func isSameOrigin(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "none" || site == "same-origin"
}

func (s *Server) commitPage(ctx context.Context, f *fleet.Model, id, pool string, page int) (pageView, error) {
	full := f.ResolveCommit(id)
	v, ok := view.NewCommit(f, full, pool, page)
	if !ok {
		return pageView{}, &missingError{"No version of a profile and no pool belongs to commit " + redact.PrintableLine(id) + "."}
	}
	links := githost.LinksOf(v.Repository, s.repositoryHosts(f))
	if v.Link = links.CommitURL(full); v.Link != "" {
		v.LinkGuessed = links.Guessed
	}
	if err := v.LoadDifferences(ctx, s.Trails); err != nil {
		return pageView{}, err
	}
	return pageView{"Commit " + redact.ShortCommit(full), "commit", v}, nil
}

// repositoryHosts returns the kinds of repository hosts from flags and from the webhooks of
// ProfileSources.
func (s *Server) repositoryHosts(f *fleet.Model) githost.Hosts {
	out := githost.Hosts{}
	for i := range f.Sources {
		git, hook := f.Sources[i].Spec.Git, f.Sources[i].Spec.Webhook
		if git == nil || hook == nil {
			continue
		}
		if kind := githost.ProviderKind(hook.Provider, git.URL); kind != "" {
			out[githost.Host(git.URL)] = kind
		}
	}
	maps.Copy(out, s.Hosts)
	return out
}

// nodePage returns the page of a node; with a record, that of one of several nodes with the same name, by
// its NodeProvenance.
func (s *Server) nodePage(ctx context.Context, seen visibleModel, name, record string, verify bool) (pageView, error) {
	read := s.Trails.Node
	object := name
	unknown := "Node " + redact.PrintableLine(name) + " is unknown."
	if record != "" {
		read = s.Trails.Provenance
		object = record
		unknown = "NodeProvenance " + redact.PrintableLine(record) + " of a node " + redact.PrintableLine(name) + " not found."
	}
	result, err := read(ctx, object)
	var missing *trace.NotFoundError
	// A node of a pool that the viewer cannot see must look like one that does not exist.
	if errors.As(err, &missing) || err == nil && (!seen.sees(fleet.NamespaceOf(result.Pool)) || record != "" && (result.Node == nil || result.Node.Name != name)) {
		return pageView{}, &missingError{unknown}
	}
	if err != nil {
		return pageView{}, err
	}
	v := view.NewNode(seen.model.At, name, result)
	if s.Verifier != nil && record == "" {
		v.CanVerify, v.Verification = true, s.getVerification(ctx, name, result, verify)
	}
	return pageView{"Node " + v.Name, "node", v}, nil
}

// Failure is the page of an error.
type Failure struct {
	view.About
	Status  int    `json:"status"`  // status of HTTP
	Message string `json:"message"` // what is wrong, and what to do
}

func (s *Server) fail(w http.ResponseWriter, r *http.Request, status int, message string) {
	s.writePage(w, r, status, pageView{http.StatusText(status), "failure", Failure{view.About{Kind: "Error", AsOf: s.Clock.Now()}, status, message}})
}

// writePage writes a page in the requested format.
func (s *Server) writePage(w http.ResponseWriter, r *http.Request, status int, v pageView) {
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
		if err := s.renderPage(&b, r, v); err != nil {
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
