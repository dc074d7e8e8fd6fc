package page

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RightPath is the URL that whoever looks at the pages must be allowed to get, where
// they are served off loopback: nonResourceURLs of a ClusterRole.
const RightPath = "/osm-gitops/ui"

// Limits of what is asked of the API server about who looks.
const (
	maxToken     = 16 << 10 // bytes
	maxDecisions = 1024
	maxReviews   = 8 // at a time
	reviewTime   = 10 * time.Second
	// A token that was withdrawn is taken for so long, and one that was refused is not
	// asked about again.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
)

// Guard lets those in who have a token of the cluster and the right to get RightPath.
// Each request is reviewed, by the API server or by what it said shortly before.
type Guard struct {
	// Client makes TokenReviews and SubjectAccessReviews.
	Client client.Client
	Clock  clock.PassiveClock

	once      sync.Once
	slots     chan struct{}
	mu        sync.Mutex
	decisions map[[sha256.Size]byte]decision
}

// decision is what was said about a token.
type decision struct {
	status int // 200, 401 or 403
	until  time.Time
}

// Status is 200 for a request that is let in, 401 where it has no good token, 403 where
// its user lacks the right. An error means that the API server did not say.
func (g *Guard) Status(ctx context.Context, r *http.Request) (int, error) {
	token := tokenOf(r)
	if token == "" || len(token) > maxToken {
		return http.StatusUnauthorized, nil
	}
	g.once.Do(func() {
		g.slots, g.decisions = make(chan struct{}, maxReviews), map[[sha256.Size]byte]decision{}
	})
	key := sha256.Sum256([]byte(token))
	if d, ok := g.known(key); ok {
		return d.status, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTime)
	defer cancel()
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	case <-ctx.Done():
		return 0, fmt.Errorf("waiting to ask who looks: %w", ctx.Err())
	}
	status, err := g.review(ctx, token)
	if err == nil {
		g.remember(key, status)
	}
	return status, err
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
	g.mu.Lock()
	defer g.mu.Unlock()
	d, ok := g.decisions[key]
	return d, ok && g.Clock.Now().Before(d.until)
}

func (g *Guard) remember(key [sha256.Size]byte, status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.Clock.Now()
	if len(g.decisions) >= maxDecisions {
		for k, d := range g.decisions {
			if !now.Before(d.until) {
				delete(g.decisions, k)
			}
		}
	}
	if len(g.decisions) >= maxDecisions {
		clear(g.decisions)
	}
	life := refusedFor
	if status == http.StatusOK {
		life = allowedFor
	}
	g.decisions[key] = decision{status, now.Add(life)}
}

func (g *Guard) review(ctx context.Context, token string) (int, error) {
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if err := g.Client.Create(ctx, who); err != nil {
		return 0, fmt.Errorf("creating a TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: RightPath, Verb: "get"},
	}}
	for k, v := range user.Extra {
		may.Spec.Extra[k] = authorizationv1.ExtraValue(v)
	}
	if err := g.Client.Create(ctx, may); err != nil {
		return 0, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
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
