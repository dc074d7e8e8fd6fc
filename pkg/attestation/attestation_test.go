package attestation

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	intotov1 "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
	"google.golang.org/protobuf/encoding/protojson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

var update = flag.Bool("update", false, "rewrite golden files")

func decode(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// rendered renders the sample of pkg/render, and returns the records about a node of it.
func rendered(t *testing.T) (Node, *render.Output) {
	t.Helper()
	const sample = "../render/testdata/sample/"
	var osp osm.OperatingSystemProfile
	decode(t, sample+"profile.yaml", &osp)
	var md cluster.MachineDeployment
	decode(t, sample+"machinedeployment.yaml", &md)
	in := render.Input{Profile: render.Profile{
		Spec: osp.Spec, Object: "osp-sample-v1.2.3", Digest: profile.Digest(osp.Spec), SelectedBy: strings.Repeat("d", 40),
		Provenance: render.Provenance{
			Profile: osp.Name, Version: osp.Spec.Version, Repository: "https://git.example.com/osps.git", Path: "profiles/sample.yaml",
			Commit: "3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d", Change: strings.Repeat("c", 40),
		},
	}}
	var err error
	if in.Pool, err = render.DecodePool(&md); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Settings render.Settings `json:"settings"`
		Cluster  render.Cluster  `json:"cluster"`
	}
	decode(t, sample+"cluster.yaml", &file)
	in.Settings, in.Cluster = file.Settings, file.Cluster
	in, _ = in.ReplaceSecrets() // placeholders
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	at := func(second int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 21, 12, 0, second, 0, time.UTC))
	}
	from := at(10)
	rec := out.Record
	return Node{Provisioning: rec, Bootstrap: rec, Provenance: &api.NodeProvenance{
		Spec: api.NodeProvenanceSpec{
			Node:     api.ProvenanceNode{Name: "web-1", UID: "node-uid", ProviderID: "aws:///eu-1/i-0", Joined: at(59)},
			Machine:  api.ProvenanceMachine{Namespace: "shop", Name: "web-1", UID: "machine-uid", Created: from},
			Pool:     api.ProvenancePool{Namespace: "shop", Name: "web", UID: "pool-uid", MachineSet: "web-7f"},
			Evidence: api.EvidenceReported,
			Configuration: &api.ProvenanceConfiguration{
				InputDigest: rec.Digests.Input, Profile: rec.Profile, Version: rec.Version, Commit: rec.Commit, SelectedBy: rec.SelectedBy,
				Author: "Ada <ada@example.com>", CommittedAt: "2026-02-27T16:20:00Z", Signature: "commit by ada, ssh SHA256:x",
			},
			Bootstrap: &api.PossibleConfiguration{InputDigest: rec.Digests.Input, Profile: rec.Profile, Version: rec.Version, From: at(0)},
			Reported:  &api.NodeReport{Config: render.ShortDigest(rec.Digests.Input), Commit: rec.Commit},
			Window:    api.ProvenanceWindow{From: &from, Until: at(59)},
		},
		Status: api.NodeProvenanceStatus{Conditions: []metav1.Condition{{Type: api.AgreedCondition, Status: metav1.ConditionTrue, Reason: api.ReasonRecorded}}},
	}}, out
}

func statements(t *testing.T, n Node) [][]byte {
	t.Helper()
	all, err := Statements(n)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// in-toto's library can read a statement; its subjects are the documents themselves, and
// equal inputs give equal statements.
func TestStatement(t *testing.T) {
	n, out := rendered(t)
	all := statements(t, n)
	if len(all) != 1 || bytes.ContainsRune(all[0], '\n') || !bytes.Equal(all[0], statements(t, n)[0]) {
		t.Fatalf("got %q", all)
	}
	var s intotov1.Statement
	if err := protojson.Unmarshal(all[0], &s); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	for i, document := range [][]byte{out.Bootstrap, out.Provisioning} {
		sum := sha256.Sum256(document)
		if got := s.GetSubject()[i]; got.GetDigest()["sha256"] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s has digest %v, and the document %x", got.GetName(), got.GetDigest(), sum)
		}
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, all[0], "", "  "); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "statement.golden")
	if *update {
		if err := os.WriteFile(golden, pretty.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), pretty.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Statements contain no credentials of a pool. security.md 14
func TestNoCredentials(t *testing.T) {
	n, _ := rendered(t)
	var file struct{ Cluster render.Cluster }
	decode(t, "../render/testdata/sample/cluster.yaml", &file)
	for _, secret := range []string{file.Cluster.APIServerToken, file.Cluster.BootstrapToken} {
		if secret == "" {
			t.Fatal("the sample has no token to look for")
		}
		if bytes.Contains(statements(t, n)[0], []byte(secret)) {
			t.Errorf("it holds %q", secret)
		}
	}
}

// Two generations give two builds.
func TestTwoGenerations(t *testing.T) {
	n, _ := rendered(t)
	n.Bootstrap.Digests.Input = "v1:sha256:" + strings.Repeat("b", 64)
	n.Bootstrap.Commit = strings.Repeat("b", 40)
	n.Provenance.Spec.Bootstrap.InputDigest = n.Bootstrap.Digests.Input
	var got []string
	for _, text := range statements(t, n) {
		var s intotov1.Statement
		if err := protojson.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		about := ""
		for _, of := range s.GetSubject() {
			about += of.GetName() + " "
		}
		build := s.GetPredicate().GetFields()["buildDefinition"].GetStructValue().GetFields()
		source := build["resolvedDependencies"].GetListValue().GetValues()[0].GetStructValue().GetFields()
		got = append(got, about+source["digest"].GetStructValue().GetFields()["gitCommit"].GetStringValue()[:4])
	}
	if diff := cmp.Diff([]string{"bootstrap bbbb", "provisioning OperatingSystemConfig 3f2a"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	n.Bootstrap = n.Provisioning
	if _, err := Statements(n); err == nil {
		t.Error("the record of another generation is taken")
	}
}

func TestUnknown(t *testing.T) {
	n, _ := rendered(t)
	other := n
	other.Provisioning.Digests.Input = "v1:sha256:" + strings.Repeat("0", 64)
	if _, err := Statements(other); err == nil {
		t.Error("another record is taken")
	}
	newer := n
	newer.Provisioning.Digests.Spec = "v2:blake3:0"
	if _, err := Statements(newer); err == nil || !strings.Contains(err.Error(), "another release") {
		t.Errorf("digests of another recipe: %v", err)
	}
	n.Provenance.Spec.Configuration = nil
	if _, err := Statements(n); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

// The origin of the profile, for every kind of origin.
func TestSource(t *testing.T) {
	n, _ := rendered(t)
	for commit, want := range map[string]string{
		"latest@sha256:" + strings.Repeat("a", 64): "sha256",
		"main@sha1:" + strings.Repeat("a", 40):     "sha1",
		"v1.0.0":                                   "",
		"x@sha256:abc":                             "",
	} {
		n.Provisioning.Commit = commit
		b := statementBuilder{of: n.Provisioning}
		d, err := b.sourceDescriptor(n.Provenance)
		if err != nil || d.Validate() != nil || len(d.GetDigest()) > 1 || want != "" && d.GetDigest()[want] == "" || want == "" && len(d.GetDigest()) > 0 {
			t.Errorf("%s: %v, %v", commit, d, err)
		}
		if d.GetAnnotations().GetFields()["revision"].GetStringValue() != commit {
			t.Errorf("%s: %v", commit, d.GetAnnotations())
		}
	}
	n.Provisioning.Commit, n.Provisioning.Repository = "", ""
	n.Provisioning.Digests.Input = n.Provenance.Spec.Configuration.InputDigest
	if text := statements(t, n)[0]; bytes.Contains(text, []byte(`"name":"source"`)) {
		t.Errorf("a profile made by hand has a source: %s", text)
	}
}

func pkcs8PEM(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// keys of every supported kind, by name.
func keys(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]crypto.Signer{"ed25519": ed}
	for name, curve := range map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()} {
		if out[name], err = ecdsa.GenerateKey(curve, rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// The library's verifier and openssl, which computes the signed bytes itself, accept a
// signature; neither accepts it for another statement.
func TestSign(t *testing.T) {
	n, _ := rendered(t)
	statement := statements(t, n)[0]
	for name, private := range keys(t) {
		t.Run(name, func(t *testing.T) {
			key, err := ParseKey(pkcs8PEM(t, private))
			if err != nil {
				t.Fatal(err)
			}
			text, err := key.Sign(t.Context(), statement)
			if err != nil {
				t.Fatal(err)
			}
			var e dsse.Envelope
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatal(err)
			}
			if e.PayloadType != PayloadType || len(e.Signatures) != 1 {
				t.Fatalf("got %+v", e)
			}
			der, err := x509.MarshalPKIXPublicKey(private.Public())
			if err != nil {
				t.Fatal(err)
			}
			public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
			payload, err := verified(t.Context(), e, public)
			if err != nil || !bytes.Equal(payload, statement) {
				t.Errorf("the library: %v", err)
			}
			if err := openssl(t, e, public, name); err != nil {
				t.Errorf("openssl: %v", err)
			}
			forged := e
			forged.Payload = base64.StdEncoding.EncodeToString(bytes.Replace(statement, []byte("web-1"), []byte("web-2"), 1))
			if _, err := verified(t.Context(), forged, public); err == nil {
				t.Error("the library takes a forged statement")
			}
			if err := openssl(t, forged, public, name); err == nil {
				t.Error("openssl takes a forged statement")
			}
		})
	}
}

func verified(ctx context.Context, e dsse.Envelope, public []byte) ([]byte, error) {
	key, err := signerverifier.LoadKey(public)
	if err != nil {
		return nil, err
	}
	var v dsse.Verifier
	if key.KeyType == signerverifier.ED25519KeyType {
		v, err = signerverifier.NewED25519SignerVerifierFromSSLibKey(key)
	} else {
		v, err = signerverifier.NewECDSASignerVerifierFromSSLibKey(key)
	}
	if err != nil {
		return nil, err
	}
	all, err := dsse.NewEnvelopeVerifier(v)
	if err != nil {
		return nil, err
	}
	_, payload, err := all.VerifyAndDecode(ctx, &e)
	return payload, err
}

// openssl verifies an envelope, with the signed bytes according to DSSE:
// https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md
func openssl(t *testing.T, e dsse.Envelope, public []byte, kind string) error {
	t.Helper()
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Skipf("there is no openssl to verify with: %v", err)
	}
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"key": public, "sig": signature,
		"signed": fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(payload), payload),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"pkeyutl", "-verify", "-pubin", "-inkey", "key", "-rawin", "-in", "signed", "-sigfile", "sig"}
	if digest := map[string]string{"P-256": "-sha256", "P-384": "-sha384", "P-521": "-sha512"}[kind]; digest != "" {
		args = []string{"dgst", digest, "-verify", "key", "-signature", "sig", "signed"}
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// Keys in other formats are read, or rejected with a remedy.
func TestKeys(t *testing.T) {
	all := keys(t)
	sec1, err := x509.MarshalECPrivateKey(all["P-256"].(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	ec := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1})
	if _, err := ParseKey(append([]byte("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"), ec...)); err != nil {
		t.Errorf("as openssl ecparam writes it: %v", err)
	}
	const bits = 2048
	large, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, headers map[string]string) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Headers: headers, Bytes: []byte("x")})
	}
	for want, text := range map[string][]byte{
		"no private key in PEM":   []byte("hello"),
		"has a password":          block("ENCRYPTED PRIVATE KEY", nil),
		"has a password: give":    block("EC PRIVATE KEY", map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}),
		"a password: give a key":  block("ENCRYPTED SIGSTORE PRIVATE KEY", nil),
		"a key for ssh":           block("OPENSSH PRIVATE KEY", nil),
		"rsa private key":         block("RSA PRIVATE KEY", nil),
		"*rsa.PrivateKey":         pkcs8PEM(t, large),
		"reading the key":         block("PRIVATE KEY", nil),
		"reading the key: ":       block("EC PRIVATE KEY", nil),
		"contains no private key": block("PUBLIC KEY", nil),
	} {
		if _, err := ParseKey(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
