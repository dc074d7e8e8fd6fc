package pools

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A kubeconfig that is made from the one of another token is the same as one that is
// encoded, whatever the token looks like to YAML.
func TestKubeconfigTemplate(t *testing.T) {
	r := &Reconciler{}
	quick, err := r.overridden(endpoint{server: "https://[fd00::1]:6443", cluster: &clientcmdapi.Cluster{CertificateAuthorityData: []byte("ca")}})
	if err != nil {
		t.Fatal(err)
	}
	slow := quick
	slow.template = ""
	tokens := []string{
		"123456.1234567890123456", "12345e.1234567890123456", "123456.12345678901234e5", "eeeeee.eeeeeeeeeeeeeeee", "1e5e5e.1234567890123456",
		"abcdef.0123456789abcdef", "0x1234.abcdef0123456789", "header.payload.signature", "", "true",
	}
	for range 1000 {
		const letters = "0123456789e" // what numbers are made of, most of the time
		token := make([]byte, 23)
		for i := range token {
			token[i] = letters[rand.IntN(len(letters))]
		}
		token[6] = '.'
		tokens = append(tokens, string(token))
		random, err := randomText(rand.NewChaCha8([32]byte{byte(len(tokens))}), 22)
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, fmt.Sprintf("%s.%s", random[:6], random[6:]))
	}
	for _, token := range tokens {
		got, err := quick.kubeconfig(token)
		want, wantErr := slow.kubeconfig(token)
		if err != nil || wantErr != nil || got != want {
			t.Fatalf("%s:\n%s\nwant\n%s", token, got, want)
		}
	}
}

// A server may be given by the flag alone, but not by nobody.
func TestEndpointOverride(t *testing.T) {
	nowhere := endpoint{cluster: &clientcmdapi.Cluster{}}
	if _, err := (&Reconciler{}).overridden(nowhere); err == nil || !strings.Contains(err.Error(), "has no server") {
		t.Errorf("no server: %v", err)
	}
	if e, err := (&Reconciler{OverrideServer: "https://b:6443"}).overridden(nowhere); err != nil || e.server != "https://b:6443" {
		t.Errorf("the flag's server: %+v, %v", e, err)
	}
}
