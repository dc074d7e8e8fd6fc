package ui

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// tokenFor creates a ServiceAccount and a token of it for the page.
func tokenFor(t *testing.T, cl client.Client, namespace, name string) string {
	t.Helper()
	return tokenOfAudience(t, cl, namespace, name, Audience)
}

// tokenOfAudience creates a ServiceAccount if it is missing, and a token of it for some
// audiences; none means the API server's.
func tokenOfAudience(t *testing.T, cl client.Client, namespace, name string, audiences ...string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := cl.Create(t.Context(), sa); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if err := cl.SubResource("token").Create(t.Context(), sa, token); err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// reader grants a ServiceAccount the permission that deploy/ui.yaml describes.
func reader(t *testing.T, c *cluster.Cluster, cl client.Client, namespace, name string) {
	t.Helper()
	if err := c.Apply(t.Context(), "../../../deploy/ui.yaml"); err != nil {
		t.Fatal(err)
	}
	bind(t, cl, "osm-gitops-ui", namespace, name)
}

// bind binds a ClusterRole in the whole cluster.
func bind(t *testing.T, cl client.Client, role, namespace, name string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name + "-" + role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}
	if err := cl.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Delete(context.WithoutCancel(t.Context()), binding) })
}

func bearer(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func basic(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth("whoever", token)
	return r
}

// The API server decides who is admitted: a token for another audience opens nothing
// (security.md 44).
func TestGuard(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	allowed, stranger := tokenFor(t, cl, ns, "auditor"), tokenFor(t, cl, ns, "stranger")
	reader(t, c, cl, ns, "auditor")
	g := &Authorizer{Client: cl, Clock: clocktesting.NewFakeClock(time.Now())}
	status := func(r *http.Request) int {
		t.Helper()
		s, _, err := g.Admit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, c := range map[string]struct {
		request *http.Request
		want    int
	}{
		"no token":                   {httptest.NewRequest(http.MethodGet, "/", nil), http.StatusUnauthorized},
		"another scheme":             {func() *http.Request { r := bearer(""); r.Header.Set("Authorization", "Negotiate "+allowed); return r }(), http.StatusUnauthorized},
		"no token of the cluster":    {bearer("abcdef"), http.StatusUnauthorized},
		"a token that was edited":    {bearer(allowed[:len(allowed)-4] + "AAAA"), http.StatusUnauthorized},
		"a token that is too long":   {bearer(strings.Repeat("x", maxToken+1)), http.StatusUnauthorized},
		"a user without the right":   {bearer(stranger), http.StatusForbidden},
		"a user with the right":      {bearer(allowed), http.StatusOK},
		"the token as a password":    {basic(allowed), http.StatusOK},
		"a stranger's as a password": {basic(stranger), http.StatusForbidden},
		"an empty password":          {basic(""), http.StatusUnauthorized},
		"a token for the API server": {bearer(tokenOfAudience(t, cl, ns, "auditor")), http.StatusUnauthorized},
		"a token for another":        {bearer(tokenOfAudience(t, cl, ns, "auditor", "vault")), http.StatusUnauthorized},
		"a token for both":           {bearer(tokenOfAudience(t, cl, ns, "auditor", "vault", Audience)), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			if got := status(c.request); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// An authenticator without support for audiences returns none: its tokens are valid
// everywhere, and open nothing here (security.md 44).
func TestGuardWantsAudiences(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	allowed := tokenFor(t, cl, ns, "auditor")
	reader(t, c, cl, ns, "auditor")
	without := interceptor.NewClient(c.Client(t), interceptor.Funcs{Create: func(ctx context.Context, cl client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		err := cl.Create(ctx, obj, opts...)
		if review, ok := obj.(*authenticationv1.TokenReview); ok {
			review.Status.Audiences = nil
		}
		return err
	}})
	for want, by := range map[int]client.Client{http.StatusOK: cl, http.StatusUnauthorized: without} {
		g := &Authorizer{Client: by, Clock: clocktesting.NewFakeClock(time.Now())}
		if got, _, err := g.Admit(t.Context(), bearer(allowed)); err != nil || got != want {
			t.Errorf("got %d, want %d: %v", got, want, err)
		}
	}
}

// A decision is cached for a limited time: the token of a deleted account opens nothing a
// minute later.
func TestGuardRemembers(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	allowed := tokenFor(t, cl, ns, "auditor")
	reader(t, c, cl, ns, "auditor")
	clock, asked, cfg := clocktesting.NewFakeClock(time.Now()), &counter{}, rest.CopyConfig(c.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { asked.RoundTripper = next; return asked })
	counted, err := client.New(cfg, client.Options{Scheme: cl.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	g := &Authorizer{Client: counted, Clock: clock}
	status := func(r *http.Request) int {
		t.Helper()
		s, _, err := g.Admit(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := status(bearer(allowed)); got != http.StatusOK {
		t.Fatalf("got %d", got)
	}
	before := asked.n.Load()
	for range 20 {
		status(bearer(allowed))
	}
	if now := asked.n.Load(); now != before || before == 0 {
		t.Errorf("for 20 requests the API server was asked %d times, after %d for the first", now-before, before)
	}
	if err := cl.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "auditor"}}); err != nil {
		t.Fatal(err)
	}
	// The API server caches tokens as well.
	testenv.Await(t, time.Minute, "the token of an account that is gone is refused", func() error {
		clock.Step(allowedFor)
		if got := status(bearer(allowed)); got != http.StatusUnauthorized {
			return fmt.Errorf("got %d", got)
		}
		return nil
	})

	for i := range 3 * maxDecisions {
		g.decisions.Add([32]byte{byte(i), byte(i >> 8), 1}, decision{status: http.StatusUnauthorized}, rejectedFor)
	}
	if n := len(g.decisions.Keys()); n > maxDecisions {
		t.Errorf("it remembers %d decisions", n)
	}
}

// counter counts requests to the API server.
type counter struct {
	http.RoundTripper

	n atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// Reviews of unknown tokens are rate-limited, while known ones are accepted (security.md
// 44).
func TestGuardRate(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	allowed := tokenFor(t, cl, ns, "auditor")
	reader(t, c, cl, ns, "auditor")
	clock := clocktesting.NewFakeClock(time.Now())
	g := &Authorizer{Client: cl, Clock: clock}
	status := func(token string) int {
		t.Helper()
		s, _, err := g.Admit(t.Context(), bearer(token))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	got := map[int]int{status(allowed): 1}
	for i := range 2 * reviewBurst {
		got[status(fmt.Sprintf("unknown-%d", i))]++
	}
	if want := map[int]int{200: 1, 401: reviewBurst - 1, 429: reviewBurst + 1}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if s := status(allowed); s != http.StatusOK {
		t.Errorf("a known token: got %d", s)
	}
	clock.Step(time.Second)
	if s := status("another"); s != http.StatusUnauthorized {
		t.Errorf("a second later: got %d", s)
	}
}

// If the API server is unreachable nobody is admitted, and the next request asks it again.
func TestGuardWithoutAPIServer(t *testing.T) {
	c := cluster.Shared(t)
	g := &Authorizer{Client: c.Client(t), Clock: clocktesting.NewFakeClock(time.Now())}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, _, err := g.Admit(ctx, bearer("abcdef")); err == nil || s != 0 {
		t.Errorf("got %d, %v", s, err)
	}
	if s, _, err := g.Admit(t.Context(), bearer("abcdef")); err != nil || s != http.StatusUnauthorized {
		t.Errorf("asked again: got %d, %v", s, err)
	}
}

// Which addresses are on loopback, where users are not authenticated (security.md 29).
func TestSplitAddress(t *testing.T) {
	for address, want := range map[string]string{
		"8087": "127.0.0.1:8087 true", ":8087": "127.0.0.1:8087 true", "127.0.0.1:8087": "127.0.0.1:8087 true", "127.8.8.8:1": "127.8.8.8:1 true",
		"localhost:8087": "localhost:8087 true", "[::1]:8087": "[::1]:8087 true",
		"0.0.0.0:8087": "0.0.0.0:8087 false", "[::]:8087": "[::]:8087 false", "10.0.0.1:8087": "10.0.0.1:8087 false",
		"example.com:8087": "example.com:8087 false", "127.1:8087": "127.1:8087 false", "localhost.example.com:80": "localhost.example.com:80 false",
	} {
		listen, loopback, err := SplitAddress(address)
		if got := fmt.Sprint(listen, " ", loopback); err != nil || got != want {
			t.Errorf("%q is %s, want %s (err %v)", address, got, want, err)
		}
	}
	for _, address := range []string{"", "x", "0", "-1", "65536", "127.0.0.1", "127.0.0.1:", "localhost:http", "[::1", "http://localhost:8087"} {
		if listen, _, err := SplitAddress(address); err == nil {
			t.Errorf("%q is %s", address, listen)
		}
	}
}
