package matrix

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// Credentials, each different, so that a test can find out where each is written. They are
// invented, and as long as real ones, since sizes are measured.
const (
	BootstrapToken   = "abcdef.0123456789abcdef"
	ProxyPassword    = "proxy-2f6c0b94"
	RegistryPassword = "registry-81d3a5e7"
	RegistryIdentity = "identity-5b0c9f12"
	MirrorPassword   = "mirror-c47e1a60"
	RHELPassword     = "rhsm-93b8d2f4"
	RHELOffline      = "offline-6a1f7c38"
	RHELActivation   = "activation-e05d4b29"
	CloudSecret      = "cloud-config-7d92e6b1"
)

// NodeToken is as long as a ServiceAccount's: three parts, about a thousand characters.
var NodeToken = incompressibleText("header", 120) + "." + incompressibleText("claims", 620) + "." + incompressibleText("signature", 342)

// incompressibleText returns text of n characters that cannot be compressed, always the same.
func incompressibleText(seed string, n int) string {
	var b []byte
	for i := 0; len(b) < n; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", seed, i))
		b = append(b, sum[:]...)
	}
	return strings.NewReplacer("+", "-", "/", "_").Replace(base64.StdEncoding.EncodeToString(b))[:n]
}

// fakeCertificate returns a text of the length of a cluster CA's certificate with an RSA key. Lint
// does not parse it.
func fakeCertificate(seed string) string {
	var b strings.Builder
	b.WriteString("-----BEGIN CERTIFICATE-----\n")
	for line := range slices.Chunk([]byte(incompressibleText(seed, 1024)), 64) {
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteString("-----END CERTIFICATE-----\n")
	return b.String()
}
