package token

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
)

// The alphabet and form of the tokens of operating-system-manager.
func TestNewToken(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := map[rune]int{}
	for range 500 {
		token, err := New(rand.Reader, &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool", UID: "u"}}, now)
		if err != nil {
			t.Fatal(err)
		}
		id, secret, _ := strings.Cut(token.Value, ".")
		if len(id) != 6 || len(secret) != 16 || strings.Trim(id+secret, alphabet) != "" {
			t.Fatalf("token %q", token.Value)
		}
		for _, r := range id + secret {
			seen[r]++
		}
		if got := string(token.Secret.Data["expiration"]); got != "2026-01-02T04:04:05Z" {
			t.Fatalf("expiration %q", got)
		}
	}
	if len(seen) != len(alphabet) {
		t.Errorf("500 tokens use %d of %d characters", len(seen), len(alphabet))
	}
	if _, err := New(bytes.NewReader(nil), &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pool", UID: "u"}}, now); err == nil {
		t.Error("a token was made without randomness")
	}
}

func TestBestToken(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	token := func(id string, expires time.Time) corev1.Secret {
		s := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id}, Type: bootstrapapi.SecretTypeBootstrapToken, Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte("s")}}
		if !expires.IsZero() {
			s.Data["expiration"] = Expiration(expires)
		}
		return s
	}
	foreign := token("foreign", time.Time{})
	foreign.Type = corev1.SecretTypeOpaque
	for name, c := range map[string]struct {
		secrets []corev1.Secret
		want    string
	}{
		"none":                             {nil, ""},
		"of two the one that lives longer": {[]corev1.Secret{token("a", now.Add(10*time.Minute)), token("b", now.Add(20*time.Minute))}, "b.s"},
		"one without an end before all":    {[]corev1.Secret{token("a", time.Time{}), token("b", now.Add(20*time.Minute))}, "a.s"},
		"none that has ended":              {[]corev1.Secret{token("a", now.Add(-time.Minute))}, ""},
		"of two alike the first by name":   {[]corev1.Secret{token("b", now.Add(time.Hour)), token("a", now.Add(time.Hour))}, "a.s"},
		"none that ends at once":           {[]corev1.Secret{token("a", now.Add(30*time.Second))}, ""},
		"none of another type":             {[]corev1.Secret{foreign}, ""},
	} {
		got, ok := longestLived(c.secrets, now)
		if got.Value != c.want || ok != (c.want != "") {
			t.Errorf("%s: got %q, want %q", name, got.Value, c.want)
		}
	}
}
