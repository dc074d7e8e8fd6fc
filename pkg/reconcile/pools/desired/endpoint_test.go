package desired

import (
	"math/rand/v2"
	"strings"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// A kubeconfig that is made from that of another token equals an encoded one, for tokens of any
// YAML type.
func TestKubeconfigTemplate(t *testing.T) {
	r := Endpoints{}
	quick, err := r.applyOverrides(Endpoint{Server: "https://[fd00::1]:6443", Cluster: &clientcmdapi.Cluster{CertificateAuthorityData: []byte("ca")}})
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
		const alphabet = "bcdfghjklmnpqrstvwxz2456789" // of our own tokens
		for i := range token {
			token[i] = alphabet[rand.IntN(len(alphabet))]
		}
		token[6] = '.'
		tokens = append(tokens, string(token))
	}
	for _, token := range tokens {
		got, err := quick.Kubeconfig(token)
		want, wantErr := slow.Kubeconfig(token)
		if err != nil || wantErr != nil || got != want {
			t.Fatalf("%s:\n%s\nwant\n%s", token, got, want)
		}
	}
}

// The flag alone can set the server; without any server there is an error.
func TestEndpointOverride(t *testing.T) {
	nowhere := Endpoint{Cluster: &clientcmdapi.Cluster{}}
	if _, err := (Endpoints{}).applyOverrides(nowhere); err == nil || !strings.Contains(err.Error(), "has no server") {
		t.Errorf("no server: %v", err)
	}
	if e, err := (Endpoints{OverrideServer: "https://b:6443"}).applyOverrides(nowhere); err != nil || e.Server != "https://b:6443" {
		t.Errorf("the flag's server: %+v, %v", e, err)
	}
}
