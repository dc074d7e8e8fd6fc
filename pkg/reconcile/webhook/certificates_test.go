package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook/pki"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// TestRenewal moves the clock of two replicas through the life of a certificate and of
// its CA. A client that trusts the webhook configurations can connect to both at every
// moment, without a restart, and in the end so can the API server.
func TestRenewal(t *testing.T) {
	// The end of the test is the API server's present.
	const fewDays = 3 * 24 * time.Hour
	begin := time.Now().Add(-(pki.AuthorityLife/3*2 + pki.ServingLife + fewDays))
	fake := testclock.NewFakeClock(begin)
	s := newSite(t)
	s.clock = fake
	one, two := s.start(), s.start()
	s.configure(one.address)
	s.ready()

	// served is the certificate of a replica, for a caller that trusts caBundle.
	served := func(r *replica) (*tls.Certificate, error) {
		d := tls.Dialer{Config: &tls.Config{RootCAs: rootsOf(t, s.bundles()[0]), Time: fake.Now, MinVersion: tls.VersionTLS12}}
		conn, err := d.DialContext(t.Context(), "tcp", r.address)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		return &tls.Certificate{Leaf: conn.(*tls.Conn).ConnectionState().PeerCertificates[0]}, nil
	}
	both := func(what string, good func(pki.Credentials) bool) pki.Credentials {
		t.Helper()
		var kept pki.Credentials
		eventually(t, what, func() error {
			secret := s.secret()
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
				return err
			}
			var err error
			if kept, err = pki.Parse(secret.Data); err != nil {
				return err
			}
			for _, bundle := range s.bundles() {
				if !bytes.Equal(bundle, kept.Bundle()) {
					return errors.New("a caBundle is not the Secret's")
				}
			}
			for _, r := range []*replica{one, two} {
				got, err := served(r)
				if err != nil {
					return err
				}
				if !got.Leaf.Equal(kept.Serving.Leaf) {
					return errors.New("another certificate is served than the Secret's")
				}
			}
			if !good(kept) {
				return fmt.Errorf("%d CAs, certificate until %s", len(kept.Authorities), kept.Serving.Leaf.NotAfter)
			}
			return nil
		})
		return kept
	}
	// pass moves the clock once both replicas wait for it.
	pass := func(d time.Duration) {
		t.Helper()
		eventually(t, "both replicas to be idle", func() error {
			if n := fake.Waiters(); n < 2 {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
		fake.Step(d)
	}

	first := both("certificates", func(c pki.Credentials) bool { return len(c.Authorities) == 1 })
	pass(pki.ServingLife / 3 * 2)
	second := both("another certificate of the same CA", func(c pki.Credentials) bool { return !c.Serving.Leaf.Equal(first.Serving.Leaf) })
	if !bytes.Equal(first.Bundle(), second.Bundle()) {
		t.Error("the CA was replaced with the certificate")
	}

	// The certificate has expired when the CA is due: the new CA is published, the old
	// one signs.
	pass(fake.Since(begin.Add(pki.AuthorityLife/3*2)) * -1)
	third := both("two CAs", func(c pki.Credentials) bool { return len(c.Authorities) == 2 })
	if third.IssuerIndex() != 1 {
		t.Error("a CA signed before it was told of for a day")
	}
	pass(pki.ServingLife / 3 * 2)
	fourth := both("a certificate of the new CA", func(c pki.Credentials) bool { return c.IssuerIndex() == 0 })
	if len(fourth.Authorities) != 2 {
		t.Error("the CA before was dropped before both replicas served another's certificate")
	}
	pass(pki.PropagationTime)
	fifth := both("one CA", func(c pki.Credentials) bool { return len(c.Authorities) == 1 })
	if !fifth.Authorities[0].Cert.Equal(fourth.Authorities[0].Cert) {
		t.Error("the wrong CA was dropped")
	}
	if left := time.Until(fifth.Serving.Leaf.NotAfter); left < 24*time.Hour || time.Since(fifth.Serving.Leaf.NotBefore) < 0 {
		t.Fatalf("the test does not end in the present: the certificate has %s left", left)
	}

	for _, r := range []*replica{one, two} {
		s.configure(r.address)
		eventually(t, "the API server to call", func() error {
			return s.defaulted()
		})
	}
}

// defaulted says whether the API server calls the webhook that names profiles.
func (s *site) defaulted() error {
	md := s.pool("called", ubuntu, nil)
	if err := s.client.Create(s.t.Context(), md, client.DryRunAll); err != nil {
		return err
	}
	if md.GetAnnotations()[api.AnnotationOSP] != "osp-ubuntu" {
		return errors.New("nobody named a profile")
	}
	return nil
}

// TestSecret checks which Secrets are changed, and that an edited or deleted one is
// created again and used without a restart.
func TestSecret(t *testing.T) {
	s := newSite(t)
	foreign := s.secret()
	foreign.Data = map[string][]byte{"tls.crt": []byte("theirs")}
	do(t, s.client.Create(t.Context(), foreign))
	r := s.start()
	s.configure(r.address)
	for range 20 { // a second
		time.Sleep(50 * time.Millisecond)
		s.get(foreign)
		if string(foreign.Data["tls.crt"]) != "theirs" {
			t.Fatal("a Secret of somebody else was overwritten")
		}
	}
	do(t, s.client.Delete(t.Context(), foreign))
	s.ready()
	eventually(t, "the API server to call", s.defaulted)
	secret := s.secret()
	s.get(secret)
	if secret.Type != corev1.SecretTypeTLS || secret.Labels[api.LabelManagedBy] != api.FieldManager {
		t.Errorf("the Secret has type %s and labels %v", secret.Type, secret.Labels)
	}

	for what, act := range map[string]func() error{
		"deleted": func() error { return s.client.Delete(t.Context(), s.secret()) },
		"edited": func() error {
			return s.client.Patch(t.Context(), s.secret(), client.RawPatch(types.MergePatchType, []byte(`{"data":{"tls.key":"AAAA"}}`)))
		},
	} {
		before := s.bundles()[0]
		do(t, act())
		eventually(t, "another CA for a Secret that was "+what, func() error {
			if bytes.Equal(before, s.bundles()[0]) {
				return errors.New("it is the same")
			}
			return s.defaulted()
		})
	}
}

// Two replicas whose clocks are months apart take each other's certificates for wrong.
// They do not fill the API server with writes over it.
func TestClocksApart(t *testing.T) {
	s := newSite(t)
	now := time.Now()
	for _, ahead := range []time.Duration{0, 70 * 24 * time.Hour} {
		s.clock = testclock.NewFakeClock(now.Add(ahead))
		s.start()
	}
	secret, versions := s.secret(), map[string]bool{}
	for range 40 { // two seconds
		time.Sleep(50 * time.Millisecond)
		if s.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret) == nil {
			versions[secret.ResourceVersion] = true
		}
	}
	if n := len(versions); n < 1 || n > 3 { // one to begin with, and one of each
		t.Errorf("the Secret was written %d times", n)
	}
}

// While there is nothing to publish, webhook configurations, for which there can be no
// permission, are not read.
func TestNothingToTell(t *testing.T) {
	s := newSite(t)
	foreign := s.secret()
	do(t, s.client.Create(t.Context(), foreign))
	var asked atomic.Int64
	s.wrap = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			if strings.Contains(req.URL.Path, "webhookconfigurations") {
				asked.Add(1)
			}
			return next.RoundTrip(req)
		})
	}
	r := s.start()
	s.configure(r.address)
	time.Sleep(time.Second) // a request would have come by now
	if n := asked.Load(); n > 0 {
		t.Errorf("there were %d requests", n)
	}
	do(t, s.client.Delete(t.Context(), foreign))
	s.ready()
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

// TestBundles shows what is written into webhook configurations: caBundle, of
// webhooks that lead here, unless cert-manager writes it.
func TestBundles(t *testing.T) {
	s := newSite(t)
	r := s.start()
	s.configure(r.address)
	s.ready()
	bundle := s.bundles()
	s.configure(r.address)
	if now := s.bundles(); !slices.EqualFunc(bundle, now, bytes.Equal) {
		t.Error("applying deploy/webhook.yaml again took caBundle away")
	}
	before := s.mutating()
	s.get(before)

	t.Run("nothing else", func(t *testing.T) {
		elsewhere := before.Webhooks[0].DeepCopy()
		elsewhere.Name, elsewhere.ClientConfig = "elsewhere.example.com", admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.2:1/x"), CABundle: before.Webhooks[0].ClientConfig.CABundle}
		service := before.Webhooks[0].DeepCopy()
		service.Name, service.ClientConfig = "service.example.com", admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: system, Name: api.WebhookServiceName, Port: new(int32(443))}}
		other := service.DeepCopy()
		other.Name, other.ClientConfig.Service.Namespace = "other.example.com", "default"
		changed := before.DeepCopy()
		changed.Webhooks[0].ClientConfig.CABundle = nil // as a user can
		changed.Webhooks = append([]admissionregistrationv1.MutatingWebhook{*elsewhere, *service, *other}, changed.Webhooks...)
		changed.Annotations = map[string]string{"a": "b"}
		do(t, s.client.Update(t.Context(), changed))
		now := s.mutating()
		eventually(t, "caBundle to be put back", func() error {
			s.get(now)
			if len(now.Webhooks[3].ClientConfig.CABundle) == 0 {
				return errors.New("there is none")
			}
			return nil
		})
		want := changed.DeepCopy()
		bundle := before.Webhooks[0].ClientConfig.CABundle
		want.Webhooks[1].ClientConfig.CABundle, want.Webhooks[3].ClientConfig.CABundle = bundle, bundle
		want.ResourceVersion, want.Generation, want.ManagedFields = now.ResourceVersion, now.Generation, now.ManagedFields
		if diff := cmp.Diff(want, now); diff != "" {
			t.Errorf("more was written (-want +got):\n%s", diff)
		}
	})

	t.Run("not what cert-manager writes", func(t *testing.T) {
		now := s.mutating()
		s.get(now)
		now.Annotations = map[string]string{"cert-manager.io/inject-ca-from": "kube-system/x"}
		now.Webhooks[0].ClientConfig.CABundle = nil
		now.Webhooks = now.Webhooks[:1]
		do(t, s.client.Update(t.Context(), now))
		for range 20 { // a second
			time.Sleep(50 * time.Millisecond)
			s.get(now)
			if len(now.Webhooks[0].ClientConfig.CABundle) != 0 {
				t.Fatal("caBundle was written")
			}
		}
	})
}

// TestCallers checks who can call if the API server presents a certificate, that only TLS
// 1.2 and later is accepted, and what an unauthenticated client gets (security.md 29).
// The certificates are files, as cert-manager mounts them, and are replaced there.
func TestCallers(t *testing.T) {
	names := []string{"osm-gitops-webhook.kube-system.svc", "127.0.0.1"}
	ca, _, err := pki.Credentials{}.RenewIfDue(names, time.Now())
	do(t, err)
	dir := t.TempDir()
	write := func(c pki.Credentials) {
		data, err := c.EncodeSecretData()
		do(t, err)
		for _, name := range []string{"tls.crt", "tls.key"} {
			do(t, os.WriteFile(filepath.Join(dir, name+".new"), data[name], 0o600))
			do(t, os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)))
		}
	}
	write(ca)
	callers := filepath.Join(t.TempDir(), "callers.pem")
	do(t, os.WriteFile(callers, ca.Bundle(), 0o600))
	s := newSite(t)
	r := s.start(func(o *Options, _ *Handlers) { o.CertDir, o.ClientCAFile = dir, callers })
	eventually(t, "the server", func() error {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.address)
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.secret()), &corev1.Secret{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("a Secret with certificates was made beside the files: %v", err)
	}

	post := func(config *tls.Config, path, body string) (int, *tls.ConnectionState, error) {
		config.RootCAs = rootsOf(t, ca.Bundle())
		c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+r.address+path, strings.NewReader(body))
		do(t, err)
		req.Header.Set("Content-Type", "application/json")
		res, err := c.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer res.Body.Close()
		return res.StatusCode, res.TLS, nil
	}
	if _, _, err := post(&tls.Config{MinVersion: tls.VersionTLS12}, PathDefault, "{}"); err == nil {
		t.Error("a stranger was answered")
	}
	if _, _, err := post(&tls.Config{MaxVersion: tls.VersionTLS11, Certificates: []tls.Certificate{clientOf(t, ca)}}, PathDefault, "{}"); err == nil { //nolint:gosec // it has to be refused
		t.Error("TLS 1.1 was spoken")
	}
	for path, want := range map[string]int{PathDefault: 200, PathValidate: 200, PathProfile: 200, PathConfig: 200, "/": 404, "/metrics": 404, "/debug/pprof/": 404} {
		got, _, err := post(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{clientOf(t, ca)}}, path, "{}")
		if err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", path, got, err, want)
		}
	}

	next, err := ca.Authorities[0].Sign(names, time.Now())
	do(t, err)
	write(pki.Credentials{Authorities: ca.Authorities, Serving: next})
	eventually(t, "the files to be read again", func() error {
		_, state, err := post(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{clientOf(t, ca)}}, PathDefault, "{}")
		if err != nil {
			return err
		}
		if !state.PeerCertificates[0].Equal(next.Leaf) {
			return errors.New("the old certificate is served")
		}
		return nil
	})
}

// clientOf is what an API server shows.
func clientOf(t *testing.T, c pki.Credentials) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	do(t, err)
	template := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, c.Authorities[0].Cert, key.Public(), c.Authorities[0].Key)
	do(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestTwoClusters has one controller whose pools are in another cluster: the CA is
// published to the API servers of both, and both call.
func TestTwoClusters(t *testing.T) {
	here := newSite(t)
	worker := &site{t: t, cluster: cluster.Start(t, cluster.Options{}), clock: here.clock}
	worker.client, worker.pools = worker.cluster.Client(t), worker.cluster.Namespace(t)
	r := here.start()
	other, err := crcluster.New(worker.cluster.Config, func(o *crcluster.Options) { o.Scheme = here.client.Scheme() })
	do(t, err)
	do(t, r.certificates.PublishBundles(r.manager, other)) // later, when the other cluster exists
	for _, s := range []*site{here, worker} {
		s.configure(r.address)
		s.ready()
		eventually(t, "the API server to call", s.defaulted)
	}
	if a, b := here.bundles()[0], worker.bundles()[0]; !bytes.Equal(a, b) {
		t.Error("the clusters were told of different CAs")
	}
	if err := worker.client.Get(t.Context(), client.ObjectKeyFromObject(worker.secret()), &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("the worker cluster has the certificates too: %v", err)
	}
}

// Without deploy/webhook.yaml the permission to write caBundle is missing: everything
// else works, and it is written when the permission is granted.
func TestWithoutTheRight(t *testing.T) {
	s := newSite(t)
	s.configure("127.0.0.1:1")
	fake := testclock.NewFakeClock(time.Now())
	s.clock = fake
	binding := &rbacv1.ClusterRoleBinding{}
	binding.Name = "osm-gitops-webhook"
	do(t, s.client.Delete(t.Context(), binding))
	may := func() bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:kube-system:osm-gitops",
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Verb: "get", Name: api.WebhookConfigurationName},
		}}
		do(t, s.client.Create(t.Context(), review))
		return review.Status.Allowed
	}
	eventually(t, "the right to be taken away", func() error {
		if may() {
			return errors.New("it is there")
		}
		return nil
	})
	r := s.start()
	eventually(t, "the controller to have a certificate, and to wait for the right", func() error {
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(s.secret()), s.secret()); err != nil {
			return err
		}
		if n := fake.Waiters(); n != 2 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // no client knows the CA yet
	conn, err := d.DialContext(t.Context(), "tcp", r.address)
	do(t, err)
	conn.Close()
	if len(s.bundles()[0]) != 0 {
		t.Fatal("caBundle was written without the right")
	}

	do(t, s.cluster.ApplyObjects(t.Context(), webhookManifests(t, "ClusterRoleBinding")...))
	eventually(t, "the right", func() error {
		if !may() {
			return errors.New("it is not there")
		}
		return nil
	})
	fake.Step(forbiddenRetry)
	s.ready()
}
