package receiver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	clientevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/listen"
)

// Path is the URL path of requests: Path itself for every source whose key signs the
// request and whose repository it names, Path/<namespace>/<name> for one source.
const Path = "/hooks/git"

// Limits. A client that can connect can exhaust them; then polling continues.
const (
	maxBody     = 1 << 20  // 1 MiB
	maxHeader   = 16 << 10 // 16 KiB
	maxRequests = 32       // concurrently checked
	maxLarge    = 32       // concurrently read bodies of more than 128 KiB
	// maxKeys is the number of keys that a request to Path is checked with; each check
	// hashes the body once.
	maxKeys        = 16
	headerTime     = 5 * time.Second
	readTime       = 10 * time.Second // of a request, body included
	writeTime      = 15 * time.Second // from the end of its header to the end of the response
	idleTime       = 30 * time.Second
	requestTimeout = 5 * time.Second // for the API server to answer
	stopTime       = 10 * time.Second
)

// Listener is the HTTP server. Its exported fields are set once, before Start.
type Listener struct {
	// Client reads ProfileSources through the manager's cache, and patches them.
	Client client.Client
	// Live reads the Secrets with keys.
	Live client.Reader
	// Recorder emits events about unusable Secrets.
	Recorder clientevents.EventRecorder
	// Namespace of the ProfileSources.
	Namespace string
	// Address is the listen address.
	Address string
	// CertFile and KeyFile are for TLS, and are read again when they change. Without them
	// the server uses plain http, for a proxy with TLS in front of it.
	CertFile, KeyFile string

	once      sync.Once
	slots     *semaphore.Weighted
	bodies    *listen.LargeBodyLimiter
	keys      *keyCache
	debouncer *debouncer

	loggedMu sync.Mutex
	logged   map[types.UID]string
}

// NeedLeaderElection returns false: every replica listens.
func (*Listener) NeedLeaderElection() bool { return false }

func (l *Listener) init() {
	l.once.Do(func() {
		l.slots = semaphore.NewWeighted(maxRequests)
		l.bodies = listen.NewLargeBodyLimiter(maxLarge)
		l.keys = &keyCache{live: l.Live, known: cache.NewLRUExpireCache(maxCachedKeys)}
		l.debouncer = &debouncer{request: l.requestReconcile, failed: func(err error, source types.NamespacedName) {
			ctrllog.Log.Error(err, "requesting a reconciliation, retrying", "source", source.String())
		}}
		l.logged = map[types.UID]string{}
	})
}

// Start serves until ctx ends. It then answers current requests, and requests the
// reconciliations that were delayed.
func (l *Listener) Start(ctx context.Context) error {
	l.init()
	var list api.ProfileSourceList
	if err := l.Client.List(ctx, &list, client.InNamespace(l.Namespace)); err != nil { // fills the cache
		return fmt.Errorf("listing ProfileSources: %w", err)
	}
	listener, err := listen.Listen(ctx, l.Address)
	if err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	if l.CertFile != "" {
		if listener, err = listen.TLS(ctx, listener, l.CertFile, l.KeyFile); err != nil {
			return fmt.Errorf("reading the certificate for webhooks: %w", err)
		}
	}
	if err := listen.Serve(ctx, l.server(ctx), listener, stopTime); err != nil {
		return fmt.Errorf("serving webhooks: %w", err)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	// Every request has its response by now, so nothing is added any more.
	l.debouncer.stopAndFlush(ending)
	return nil
}

func (l *Listener) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler:           l,
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      writeTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          listen.ErrorLog(ctx, "serving webhooks"),
	}
}

// ServeHTTP answers 202 to every authenticated request, whether it causes a
// reconciliation or not, 401 to every other, and 503 if the client should retry. The body
// of the response is empty.
func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.init()
	w.WriteHeader(l.serveRequest(w, r))
}

// serveRequest handles a request and returns the status of the response.
func (l *Listener) serveRequest(w http.ResponseWriter, r *http.Request) int {
	one, ok := l.sourceInPathOrAll(r.URL.Path)
	switch {
	case !ok:
		return http.StatusNotFound
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed
	case !hasAnyCredential(r.Header):
		return http.StatusUnauthorized // before a byte of the body is read
	}
	body, err := l.bodies.Read(w, r, maxBody) // before it takes a slot: its sender can be slow
	switch {
	case listen.IsTooLarge(err):
		return http.StatusRequestEntityTooLarge
	case err != nil:
		return http.StatusBadRequest
	}
	// The sender repeats the push; waiting here would need memory for its body.
	if !l.slots.TryAcquire(1) {
		w.Header().Set("Retry-After", "10")
		return http.StatusServiceUnavailable
	}
	defer l.slots.Release(1)
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	return l.requestReconciliations(ctx, one, request{r.Header, body})
}

// request has the content of a request.
type request struct {
	header http.Header
	body   []byte
}

// requestReconciliations finds the sources that a request concerns, and requests their reconciliation.
func (l *Listener) requestReconciliations(ctx context.Context, one types.NamespacedName, r request) int {
	sources, err := l.listWebhookSources(ctx, one)
	if err != nil {
		ctrllog.FromContext(ctx).Error(err, "finding the sources of a webhook")
		return http.StatusServiceUnavailable
	}
	sources, err = l.authenticatedSources(ctx, sources, r)
	if err != nil {
		ctrllog.FromContext(ctx).Error(err, "checking a webhook")
		return http.StatusServiceUnavailable
	}
	if len(sources) == 0 {
		return http.StatusUnauthorized
	}
	about := map[string]pushEvent{}
	failed := false
	for i := range sources {
		ps := &sources[i]
		provider := ps.Spec.Webhook.Provider
		n, ok := about[provider]
		if !ok {
			n = parsePush(provider, r.header, r.body)
			about[provider] = n
		}
		if !n.concerns(ps, one.Name != "") {
			continue
		}
		if err := l.debouncer.requestOrMerge(ctx, client.ObjectKeyFromObject(ps)); err != nil && !apierrors.IsNotFound(err) {
			ctrllog.FromContext(ctx).Error(err, "requesting a reconciliation", "source", client.ObjectKeyFromObject(ps).String())
			failed = true
		}
	}
	if failed {
		return http.StatusServiceUnavailable
	}
	return http.StatusAccepted
}

// sourceInPathOrAll returns the source that a request's path names, empty for Path itself. It reports
// false for other paths.
func (l *Listener) sourceInPathOrAll(path string) (types.NamespacedName, bool) {
	if path == Path {
		return types.NamespacedName{}, true
	}
	rest, ok := strings.CutPrefix(path, Path+"/")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 2 || parts[0] == "" || parts[1] == "" {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, true
}

// listWebhookSources lists sources with a webhook, oldest first: all, or the given one.
func (l *Listener) listWebhookSources(ctx context.Context, one types.NamespacedName) ([]api.ProfileSource, error) {
	var list api.ProfileSourceList
	if err := l.Client.List(ctx, &list, client.InNamespace(l.Namespace)); err != nil {
		return nil, fmt.Errorf("listing ProfileSources: %w", err)
	}
	out := slices.DeleteFunc(list.Items, func(ps api.ProfileSource) bool {
		return ps.Spec.Webhook == nil || !ps.DeletionTimestamp.IsZero() || one.Name != "" && client.ObjectKeyFromObject(&ps) != one
	})
	slices.SortFunc(out, func(a, b api.ProfileSource) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// proof identifies one check of a request.
type proof struct{ provider, secret string }

// authenticatedSources returns the sources whose key signs the request. An error means that a
// key could not be read and no other key matches.
func (l *Listener) authenticatedSources(ctx context.Context, sources []api.ProfileSource, r request) ([]api.ProfileSource, error) {
	var out []api.ProfileSource
	var readError error
	checked := map[proof]bool{}
	for _, ps := range sources {
		hook := ps.Spec.Webhook
		if !hasCredential(hook.Provider, r.header) {
			continue
		}
		p := proof{hook.Provider, hook.SecretRef.Name}
		good, done := checked[p]
		if !done {
			if len(checked) == maxKeys {
				continue // sources beyond the limit can be named in the path
			}
			key, err := l.keys.readCached(ctx, types.NamespacedName{Namespace: ps.Namespace, Name: hook.SecretRef.Name})
			var unusable *unusableError
			switch {
			case errors.As(err, &unusable):
				l.warnOnce(&ps, unusable.text)
			case err != nil:
				readError = err
			default:
				good = authentic(hook.Provider, key, r.header, r.body)
			}
			checked[p] = good
		}
		if good {
			out = append(out, ps)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, readError
}

// warnOnce emits an event about a source's Secret, once per problem.
func (l *Listener) warnOnce(ps *api.ProfileSource, text string) {
	l.loggedMu.Lock()
	defer l.loggedMu.Unlock()
	if l.logged[ps.UID] == text {
		return
	}
	l.logged[ps.UID] = text
	l.Recorder.Eventf(ps, nil, corev1.EventTypeWarning, api.EventWebhookUnusable, "Receive", "%s", text)
}

// requestReconcile annotates a source, as flux reconcile does.
func (l *Listener) requestReconcile(ctx context.Context, source types.NamespacedName) error {
	ps := &api.ProfileSource{}
	ps.Namespace, ps.Name = source.Namespace, source.Name
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, meta.ReconcileRequestAnnotation, time.Now().UTC().Format(time.RFC3339Nano))
	if err := l.Client.Patch(ctx, ps, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(api.FieldManager)); err != nil {
		return fmt.Errorf("annotating ProfileSource %s: %w", source, err)
	}
	return nil
}
