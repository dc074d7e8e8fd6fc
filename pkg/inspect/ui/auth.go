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
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
)

// RightPath is the URL that whoever looks at the pages must be allowed to get, where
// they are served off loopback: nonResourceURLs of a ClusterRole.
const RightPath = "/osm-gitops/ui"

// Audience is what a token must be made for, so that one for the API server, or for another
// service, opens no page, and one for the page opens nothing else:
// kubectl create token NAME --audience=osm-gitops-ui
const Audience = "osm-gitops-ui"

// Limits of what is asked of the API server about who looks.
const (
	maxToken     = 16 << 10 // bytes
	maxDecisions = 1024
	maxReviews   = 8 // at a time
	reviewTime   = 10 * time.Second
	// Tokens that are not known are reviewed so often, of all viewers together. One that is
	// refused costs the API server a TokenReview, one that is let in two requests, and those
	// for namespaces.
	reviewRate, reviewBurst = 10, 50 // per second, at once
	// A token that was withdrawn is taken for so long, and one that was refused is not
	// asked about again.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
)

// Guard lets those in who have a token of the cluster for Audience and the right to get
// RightPath. Each request is reviewed, by the API server or by what it said shortly before.
type Guard struct {
	// Client makes TokenReviews and SubjectAccessReviews.
	Client client.Client
	Clock  clock.PassiveClock

	once      sync.Once
	slots     *semaphore.Weighted
	rate      *rate.Limiter
	decisions *lru.Cache // of decision, by the SHA-256 of the token
}

// decision is what was said about a token.
type decision struct {
	status int // 200, 401 or 403
	until  time.Time
	viewer *Viewer // nil but for 200
}

// Viewer is a user who was let in. What they may read is asked once for each namespace, and
// forgotten with the decision about their token.
type Viewer struct {
	guard *Guard
	user  authenticationv1.UserInfo

	mu   sync.Mutex
	said map[authorizationv1.ResourceAttributes]bool
}

// Admit is 200 and who looks for a request that is let in, 401 where it has no good token,
// 403 where its user lacks the right, 429 where too many unknown tokens came. An error means
// that the API server did not say.
func (g *Guard) Admit(ctx context.Context, r *http.Request) (int, *Viewer, error) {
	token := tokenOf(r)
	if token == "" || len(token) > maxToken {
		return http.StatusUnauthorized, nil, nil
	}
	g.once.Do(func() {
		g.slots = semaphore.NewWeighted(maxReviews)
		g.decisions = lru.New(maxDecisions)
		g.rate = rate.NewLimiter(reviewRate, reviewBurst)
	})
	key := sha256.Sum256([]byte(token))
	if d, ok := g.known(key); ok {
		return d.status, d.viewer, nil
	}
	if !g.rate.AllowN(g.Clock.Now(), 1) {
		return http.StatusTooManyRequests, nil, nil
	}
	var d decision
	err := g.inSlot(ctx, func(ctx context.Context) (err error) {
		d.status, d.viewer, err = g.review(ctx, token)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	g.remember(key, d)
	return d.status, d.viewer, nil
}

// inSlot asks the API server something, when fewer than maxReviews do.
func (g *Guard) inSlot(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	if err := g.slots.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("waiting to ask who looks: %w", err)
	}
	defer g.slots.Release(1)
	return ask(ctx)
}

// tokenOf is the token of a request: a bearer token, or the password that a browser
// asks for.
func tokenOf(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func (g *Guard) known(key [sha256.Size]byte) (decision, bool) {
	kept, ok := g.decisions.Get(key)
	if !ok {
		return decision{}, false
	}
	d := kept.(decision)
	return d, g.Clock.Now().Before(d.until)
}

func (g *Guard) remember(key [sha256.Size]byte, d decision) {
	life := refusedFor
	if d.status == http.StatusOK {
		life = allowedFor
	}
	d.until = g.Clock.Now().Add(life)
	g.decisions.Add(key, d)
}

func (g *Guard) review(ctx context.Context, token string) (int, *Viewer, error) {
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{Audience}}}
	if err := g.Client.Create(ctx, who); err != nil {
		return 0, nil, fmt.Errorf("creating a TokenReview: %w", err)
	}
	// An authenticator that knows no audiences answers without them: its tokens are for all.
	if !who.Status.Authenticated || !slices.Contains(who.Status.Audiences, Audience) {
		return http.StatusUnauthorized, nil, nil
	}
	v := &Viewer{guard: g, user: who.Status.User, said: map[authorizationv1.ResourceAttributes]bool{}}
	may, err := v.ask(ctx, authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: RightPath, Verb: "get"}})
	if err != nil {
		return 0, nil, err
	}
	if !may {
		return http.StatusForbidden, nil, nil
	}
	return http.StatusOK, v, nil
}

// ask asks the API server whether a viewer may do something.
func (v *Viewer) ask(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	spec.User, spec.UID, spec.Groups, spec.Extra = v.user.Username, v.user.UID, v.user.Groups, map[string]authorizationv1.ExtraValue{}
	for k, values := range v.user.Extra {
		spec.Extra[k] = authorizationv1.ExtraValue(values)
	}
	may := &authorizationv1.SubjectAccessReview{Spec: spec}
	if err := v.guard.Client.Create(ctx, may); err != nil {
		return false, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	return may.Status.Allowed && !may.Status.Denied, nil
}

// may asks about a resource, unless that was asked before.
func (v *Viewer) may(ctx context.Context, a authorizationv1.ResourceAttributes) (bool, error) {
	v.mu.Lock()
	allowed, known := v.said[a]
	v.mu.Unlock()
	if known {
		return allowed, nil
	}
	err := v.guard.inSlot(ctx, func(ctx context.Context) (err error) {
		allowed, err = v.ask(ctx, authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &a})
		return err
	})
	if err != nil {
		return false, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said[a] = allowed
	return allowed, nil
}

// seesPools reports whether a viewer may list MachineDeployments in a namespace; "" is all
// of them.
func (v *Viewer) seesPools(ctx context.Context, namespace string) (bool, error) {
	return v.may(ctx, authorizationv1.ResourceAttributes{Verb: "list", Group: cluster.GroupVersion.Group, Resource: "machinedeployments", Namespace: namespace})
}

// seesNodes reports whether a viewer may read nodes: those without a pool are in no
// namespace.
func (v *Viewer) seesNodes(ctx context.Context) (bool, error) {
	return v.may(ctx, authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"})
}

// sight is what one viewer sees at one moment.
type sight struct {
	facts *Facts
	// sees reports whether something of a pool's namespace may be shown; "" is of no pool.
	sees func(namespace string) bool
}

// see filters facts by what a viewer may read; nil is somebody who reads with rights of
// their own, and sees all.
func (v *Viewer) see(ctx context.Context, f *Facts) (sight, error) {
	if v == nil {
		return sight{f, func(string) bool { return true }}, nil
	}
	nodes, err := v.seesNodes(ctx)
	if err != nil {
		return sight{}, err
	}
	all, err := v.seesPools(ctx, "")
	if err != nil {
		return sight{}, err
	}
	if all && nodes {
		return sight{f, func(string) bool { return true }}, nil
	}
	if all { // nothing in the facts is without a pool
		return sight{f, func(namespace string) bool { return namespace != "" }}, nil
	}
	allowed := map[string]bool{"": nodes}
	for _, namespace := range f.objects.namespaces() {
		if allowed[namespace], err = v.seesPools(ctx, namespace); err != nil {
			return sight{}, err
		}
	}
	sees := func(namespace string) bool { return allowed[namespace] }
	return sight{f.only(sees), sees}, nil
}

// SplitAddress takes an address to listen at apart. A bare port is one on loopback, and
// so are localhost and the loopback addresses; any other name may stand for anything.
func SplitAddress(address string) (listen string, loopback bool, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = "", address
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", false, fmt.Errorf("%q is no address: write a port, which is on loopback, or host:port", address)
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

// local reports whether a request asks for a name of this machine itself. On loopback
// nobody is asked who he is, and a page of a stranger whose name leads here must not
// read ours.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
