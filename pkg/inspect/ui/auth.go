package ui

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	expiring "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
)

// RightPath is the URL that users must be allowed to get to see pages that are not served
// on loopback: nonResourceURLs of a ClusterRole.
const RightPath = "/osm-gitops/ui"

// Audience is the audience of valid tokens, so that a token for the API server or another
// service opens no page, and a token for the page opens nothing else:
//
//	kubectl create token NAME --audience=osm-gitops-ui
const Audience = "osm-gitops-ui"

// Limits of authentication requests to the API server.
const (
	maxToken     = 16 << 10 // bytes
	maxDecisions = 1024
	maxReviews   = 8 // concurrent
	reviewTime   = 10 * time.Second
	// Rate of reviews of unknown tokens, for all viewers together. A rejected token costs the
	// API server a TokenReview, an accepted one two requests, and those for namespaces.
	reviewRate, reviewBurst = 10, 50 // per second, at once
	// How long a decision about a token is cached: a revoked token is accepted for this time.
	allowedFor  = time.Minute
	rejectedFor = 10 * time.Second
)

// Authorizer admits users with a token of the cluster for Audience and permission to get
// RightPath. The API server or a cached decision reviews each request.
type Authorizer struct {
	// Client creates TokenReviews and SubjectAccessReviews.
	Client client.Client
	Clock  clock.PassiveClock

	once      sync.Once
	slots     *semaphore.Weighted
	rate      *rate.Limiter
	decisions *expiring.LRUExpireCache // of decision, by the SHA-256 of the token
}

// decision is the result of reviewing a token.
type decision struct {
	status int     // 200, 401 or 403
	viewer *Viewer // nil unless the status is 200
}

// Viewer is an admitted user. Their permissions are reviewed once for each namespace, and
// cached with the decision about their token.
type Viewer struct {
	authorizer *Authorizer
	user       authenticationv1.UserInfo

	mu           sync.Mutex
	allowedReads map[authorizationv1.ResourceAttributes]bool
}

// Admit returns 200 and the viewer for an admitted request, 401 without a valid token, 403
// if the user lacks permission, and 429 if too many unknown tokens arrive. An error means
// that the API server gave no answer.
func (g *Authorizer) Admit(ctx context.Context, r *http.Request) (int, *Viewer, error) {
	token := tokenOrPasswordOf(r)
	if token == "" || len(token) > maxToken {
		return http.StatusUnauthorized, nil, nil
	}
	g.once.Do(func() {
		g.slots = semaphore.NewWeighted(maxReviews)
		g.decisions = expiring.NewLRUExpireCacheWithClock(maxDecisions, g.Clock)
		g.rate = rate.NewLimiter(reviewRate, reviewBurst)
	})
	key := sha256.Sum256([]byte(token))
	if known, ok := g.decisions.Get(key); ok {
		d := known.(decision)
		return d.status, d.viewer, nil
	}
	if !g.rate.AllowN(g.Clock.Now(), 1) {
		return http.StatusTooManyRequests, nil, nil
	}
	var d decision
	err := g.runInSlot(ctx, func(ctx context.Context) (err error) {
		d.status, d.viewer, err = g.reviewToken(ctx, token)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	life := rejectedFor
	if d.status == http.StatusOK {
		life = allowedFor
	}
	g.decisions.Add(key, d, life)
	return d.status, d.viewer, nil
}

// runInSlot sends a review once fewer than maxReviews are running.
func (g *Authorizer) runInSlot(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	if err := g.slots.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting to authenticate the viewer: %w", err)
	}
	defer g.slots.Release(1)
	return request(ctx)
}

// tokenOrPasswordOf returns the token of a request: a bearer token, or the password that a browser
// asks for.
func tokenOrPasswordOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// reviewToken asks the API server whose token it is, and whether this user can read the page.
func (g *Authorizer) reviewToken(ctx context.Context, token string) (int, *Viewer, error) {
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}}}
	if err := g.Client.Create(ctx, who); err != nil {
		return 0, nil, fmt.Errorf("creating a TokenReview: %w", err)
	}
	// An authenticator without support for audiences omits them: its tokens are valid for all.
	if !who.Status.Authenticated || !slices.Contains(who.Status.Audiences, Audience) {
		return http.StatusUnauthorized, nil, nil
	}
	v := &Viewer{authorizer: g, user: who.Status.User, allowedReads: map[authorizationv1.ResourceAttributes]bool{}}
	may, err := v.hasPermission(ctx, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: RightPath, Verb: "get"}})
	if err != nil {
		return 0, nil, err
	}
	if !may {
		return http.StatusForbidden, nil, nil
	}
	return http.StatusOK, v, nil
}

// hasPermission asks the API server whether a viewer has a permission.
func (v *Viewer) hasPermission(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	spec.User = v.user.Username
	spec.UID = v.user.UID
	spec.Groups = v.user.Groups
	spec.Extra = map[string]authorizationv1.ExtraValue{}
	for k, values := range v.user.Extra {
		spec.Extra[k] = authorizationv1.ExtraValue(values)
	}
	may := &authorizationv1.SubjectAccessReview{Spec: spec}
	if err := v.authorizer.Client.Create(ctx, may); err != nil {
		return false, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	return may.Status.Allowed && !may.Status.Denied, nil
}

// isAllowed returns whether a viewer has a permission for a resource, and caches the answer.
func (v *Viewer) isAllowed(ctx context.Context, a authorizationv1.ResourceAttributes) (bool, error) {
	v.mu.Lock()
	allowed, known := v.allowedReads[a]
	v.mu.Unlock()
	if known {
		return allowed, nil
	}
	// The lock is free while the API server is asked.
	err := v.authorizer.runInSlot(ctx, func(ctx context.Context) (err error) {
		allowed, err = v.hasPermission(ctx, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &a})
		return err
	})
	if err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.allowedReads[a] = allowed
	return allowed, nil
}

// seesPools reports whether a viewer can list MachineDeployments in a namespace; "" means
// all namespaces.
func (v *Viewer) seesPools(ctx context.Context, namespace string) (bool, error) {
	return v.isAllowed(ctx, authorizationv1.ResourceAttributes{Verb: "list", Group: cluster.GroupVersion.Group, Resource: "machinedeployments", Namespace: namespace})
}

// seesNodes reports whether a viewer can read nodes. Nodes without a pool belong to no
// namespace.
func (v *Viewer) seesNodes(ctx context.Context) (bool, error) {
	return v.isAllowed(ctx, authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"})
}

// visibleModel is what a viewer can see at one moment.
type visibleModel struct {
	model *fleet.Model
	// sees reports whether objects of a pool's namespace are visible; "" means no pool.
	sees func(namespace string) bool
}

// filterModel filters the model by the viewer's permissions. A nil viewer reads with their own
// permissions and sees everything.
func (v *Viewer) filterModel(ctx context.Context, f *fleet.Model) (visibleModel, error) {
	if v == nil {
		return visibleModel{f, func(string) bool { return true }}, nil
	}
	nodes, err := v.seesNodes(ctx)
	if err != nil {
		return visibleModel{}, err
	}
	all, err := v.seesPools(ctx, "")
	if err != nil {
		return visibleModel{}, err
	}
	if all && nodes {
		return visibleModel{f, func(string) bool { return true }}, nil
	}
	if all { // every fact belongs to a pool
		return visibleModel{f, func(namespace string) bool { return namespace != "" }}, nil
	}
	allowed := map[string]bool{"": nodes}
	for _, namespace := range f.Namespaces() {
		if allowed[namespace], err = v.seesPools(ctx, namespace); err != nil {
			return visibleModel{}, err
		}
	}
	sees := func(namespace string) bool { return allowed[namespace] }
	return visibleModel{f.FilterVisible(sees), sees}, nil
}

// SplitAddress parses an address to listen on. A bare port is on loopback, as are localhost
// and the loopback addresses; any other name can resolve to anything.
func SplitAddress(address string) (listen string, loopback bool, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = "", address
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false, fmt.Errorf("%q is not an address: write a port, which is on loopback, or host:port", address)
	}
	switch host {
	case "":
		return net.JoinHostPort("127.0.0.1", port), true, nil
	case "localhost":
		return net.JoinHostPort(host, port), true, nil
	}
	ip := net.ParseIP(host)
	return net.JoinHostPort(host, port), ip != nil && ip.IsLoopback(), nil
}

// isLoopbackHost reports whether a request names this machine itself. On loopback nothing
// authenticates users, so a page from another site whose name resolves to this machine must
// not read ours.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
