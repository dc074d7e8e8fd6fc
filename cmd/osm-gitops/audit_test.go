package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	intotov1 "github.com/in-toto/attestation/go/v1"
	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/utils/clock"

	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// ran is the result of a command.
type ran struct {
	status         int
	stdout, stderr string
}

func runs(t *testing.T, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), append([]string{programName}, args...), strings.NewReader(""), &stdout, &stderr)
	return ran{status, stdout.String(), stderr.String()}
}

func (r ran) want(t *testing.T, status int, stderr string) {
	t.Helper()
	if r.status != status || !strings.Contains(r.stderr, stderr) || stderr == "" && r.stderr != "" {
		t.Errorf("it ended with %d and said %q, want %d and %q", r.status, r.stderr, status, stderr)
	}
}

// A node's statement, from a dump of the cluster, as in-toto's library reads it and
// verifies its signature.
func TestTraceIntoto(t *testing.T) {
	dir := t.TempDir()
	dump, keyFile := filepath.Join(dir, "fleet.jsonl"), filepath.Join(dir, "key.pem")
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string][]byte{dump: clusterfixture.TwoPools(t).Dump(), keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plain := runs(t, "trace", "node/one", "--from", dump, "-o", "intoto")
	plain.want(t, exitOK, "")
	var s intotov1.Statement
	if err := protojson.Unmarshal([]byte(plain.stdout), &s); err != nil || s.Validate() != nil {
		t.Fatalf("%v, %v: %s", err, s.Validate(), plain.stdout)
	}
	if !strings.Contains(plain.stdout, `"gitCommit":"`+clusterfixture.Commit(0)+`"`) || strings.Contains(plain.stdout, "canary") || len(s.GetSubject()) != 3 {
		t.Errorf("it states %s", plain.stdout)
	}

	signed := runs(t, "trace", "node/one", "--from", dump, "-o", "intoto", "--sign", keyFile)
	signed.want(t, exitOK, "")
	var e dsse.Envelope
	if err := json.Unmarshal([]byte(signed.stdout), &e); err != nil {
		t.Fatal(err)
	}
	der, err = x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signerverifier.LoadKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signerverifier.NewED25519SignerVerifierFromSSLibKey(key)
	if err != nil {
		t.Fatal(err)
	}
	all, err := dsse.NewEnvelopeVerifier(verifier)
	if err != nil {
		t.Fatal(err)
	}
	_, payload, err := all.VerifyAndDecode(t.Context(), &e)
	if err != nil || string(payload)+"\n" != plain.stdout {
		t.Errorf("the envelope: %v: %s", err, payload)
	}

	runs(t, "trace", "machinedeployment/kube-system/workers", "--from", dump, "-o", "intoto").want(t, exitMisuse, "is not a node")
	runs(t, "trace", "node/new", "--from", dump, "-o", "intoto").want(t, exitFailure, "has no NodeProvenance yet")
	runs(t, "trace", "node/one", "--from", dump, "--sign", keyFile).want(t, exitMisuse, "--sign needs -o intoto")
	runs(t, "trace", "node/one", "--from", dump, "-o", "intoto", "--diff").want(t, exitMisuse, "--diff has no effect")
	runs(t, "trace", "node/one", "--from", dump, "-o", "intoto", "--sign", dump).want(t, exitFailure, "no private key in PEM")
	runs(t, "trace", "node/one", "--from", dump, "-o", "intoto", "--sign", dir+"/none").want(t, exitFailure, "--sign: open")
}

// The digests of documents in a record are not covered by its own digest: a record in which
// they were edited is not stated or signed.
func TestTraceIntotoOfAnEditedRecord(t *testing.T) {
	dump := clusterfixture.TwoPools(t).Dump()
	edited := regexp.MustCompile(`(\\"bootstrap\\":\\"v1:sha256:)[0-9a-f]{64}`).ReplaceAll(dump, []byte("${1}"+strings.Repeat("0", 64)))
	edited = regexp.MustCompile(`("bootstrap":"v1:sha256:)[0-9a-f]{64}`).ReplaceAll(edited, []byte("${1}"+strings.Repeat("0", 64)))
	if bytes.Equal(dump, edited) {
		t.Fatal("the dump has no record to edit")
	}
	path := filepath.Join(t.TempDir(), "fleet.jsonl")
	if err := os.WriteFile(path, edited, 0o600); err != nil {
		t.Fatal(err)
	}
	got := runs(t, "trace", "node/one", "--from", path, "-o", "intoto")
	got.want(t, exitFailure, "no statement")
	if got.stdout != "" {
		t.Errorf("it states %s", got.stdout)
	}
}

// Results for an intact audit log, for a changed one, and for one with another end.
func TestVerifyAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l, err := auditlog.Open(path, clock.RealClock{}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	runs(t, "verify", "--audit-log", path).want(t, exitFailure, "the audit log is empty")
	for _, name := range []string{"a", "b", "c"} {
		if err := l.Append(auditlog.Event{Kind: auditlog.NodeJoined, Object: auditlog.Object{Kind: "Node", Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	whole := runs(t, "verify", "--audit-log", path)
	whole.want(t, exitOK, "")
	_, hash, ok := strings.Cut(strings.TrimSpace(whole.stdout), "last hash ")
	if !ok || !strings.Contains(whole.stdout, "3 lines, number 1 to 3, in "+path) {
		t.Fatalf("it says %q", whole.stdout)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(auditlog.Event{Kind: auditlog.NodeRemoved, Object: auditlog.Object{Kind: "Node", Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	runs(t, "verify", "--audit-log", path).want(t, exitOK, "warning: it begins with line number 4")
	runs(t, "verify", "--audit-log", path, path+".1", "--audit-log-hash", hash).want(t, exitOK, "")
	runs(t, "verify", "--audit-log", path, "--audit-log-hash", hash).want(t, exitFailure, "no line has the hash")
	runs(t, "verify", "--audit-log", path, path+".1", "--audit-log-hash", strings.TrimPrefix(hash, "sha256:")).want(t, exitMisuse, "is not the hash of a line")

	text, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".1", bytes.Replace(text, []byte(`"name":"b"`), []byte(`"name":"x"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	runs(t, "verify", "--audit-log", path+".1").want(t, exitFailure, "the audit log is broken at "+path+".1:2: its id is")
	runs(t, "verify", "--audit-log-hash", hash).want(t, exitMisuse, "has no effect without --audit-log")
	runs(t, "verify", "--audit-log", path+".none").want(t, exitFailure, "no such file")
	runs(t, "verify", "--audit-log").want(t, exitMisuse, "flag needs an argument")
}
