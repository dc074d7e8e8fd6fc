package pools

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func (f *fixture) script() string {
	f.t.Helper()
	return string(f.secret(namesOf(f.pool).EdgeScript).Data[edgeScriptKey])
}

func (f *fixture) hasScript() bool {
	f.t.Helper()
	err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: namesOf(f.pool).EdgeScript}, &corev1.Secret{})
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func (f *fixture) patch(obj client.Object, body string) {
	f.t.Helper()
	if err := f.client.Patch(f.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		f.t.Fatal(err)
	}
}

// The script of an edge pool follows token, server and CA, replaces an object that was in its
// place, and is deleted with the pool.
func TestEdgeScript(t *testing.T) {
	f := newFixture(t)
	f.use("edge", "edge", "{}", "1.35.0")
	if got, want := namesOf(f.pool).EdgeScript, "edge-provider-script-edge-"+f.r.Namespace; got != want {
		t.Errorf("its name is %s, want %s", got, want)
	}
	// The reference's, without a trace of its owner.
	f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: namesOf(f.pool).EdgeScript}, StringData: map[string]string{edgeScriptKey: "old"}})
	f.reconcile()
	first := f.secret(namesOf(f.pool).EdgeScript)
	for _, want := range []string{"Authorization: Bearer getter\n", "https://[fd00::1]:6443/api/v1/namespaces/cloud-init-settings/secrets/" + namesOf(f.pool).Bootstrap, "\nca\n"} {
		if !strings.Contains(f.script(), want) {
			t.Errorf("the script lacks %q:\n%s", want, f.script())
		}
	}
	if first.Annotations[api.AnnotationPool] != poolKey(f.pool) || first.Annotations[api.AnnotationPoolUID] != string(f.pool.UID) {
		t.Errorf("annotations %v", first.Annotations)
	}
	if strings.Contains(string(must(json.Marshal(f.config()))), "Bearer") {
		t.Error("the script is in the configuration")
	}
	if f.reconcile(); f.secret(first.Name).ResourceVersion != first.ResourceVersion {
		t.Error("a second look wrote the script")
	}

	f.r.OverrideServer = "https://elsewhere.example.com"
	if f.reconcile(); !strings.Contains(f.script(), "https://elsewhere.example.com/api") {
		t.Error("the script does not follow the server")
	}
	f.r.CA = "another-ca"
	if f.reconcile(); !strings.Contains(f.script(), "\nanother-ca\n") {
		t.Error("the script does not follow the CA")
	}
	f.patch(f.secret(first.Name), `{"stringData":{"`+edgeScriptKey+`":"edited"}}`)
	if f.reconcile(); !strings.Contains(f.script(), "Bearer getter") {
		t.Error("an edited script was left")
	}
	if f.secret(first.Name).UID != first.UID {
		t.Error("the Secret was absent in between")
	}

	f.delete(f.pool)
	f.reconcile()
	if f.hasScript() {
		t.Error("the script outlives its pool")
	}
}

// A token that changed is in the script, also of a pool that cannot have what it
// asks for now.
func TestEdgeScriptFollowsTheToken(t *testing.T) {
	f := newFixture(t)
	f.use("edge", "edge", "{}", "1.35.0")
	f.reconcile()
	f.useToken("newer")
	if f.reconcile(); !strings.Contains(f.script(), "Bearer newer\n") {
		t.Error("the script does not follow the token")
	}
	f.delete(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-cloud"}})
	f.r.OverrideServer = "https://elsewhere.example.com"
	if f.reconcile(); !strings.Contains(f.script(), "https://elsewhere.example.com/api") {
		t.Error("the script of the last good generation does not follow the server")
	}
}

// The script runs for real and gets its document from a real API server with a token that can read
// only that Secret.
func TestEdgeScriptFetches(t *testing.T) {
	for _, program := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s", program)
		}
	}
	f := newFixture(t)
	config := cluster.Shared(t).Config
	f.r.OverrideServer, f.r.CA = config.Host, string(config.CAData)
	f.use("edge", "edge", "{}", "1.35.0")
	f.useToken(f.nodeToken(namesOf(f.pool).Bootstrap))
	f.reconcile()

	dir := t.TempDir()
	for name, text := range map[string]string{
		"id": "echo 0", "sleep": `kill "$PPID"`, "systemctl": "", // a script that retries has failed
		// It reads its input, which is the script if that is piped to a shell.
		"cloud-init": `cat >/dev/null; if [ "$1" = --version ]; then echo cloud-init 25.1; else cp "$3" '` + dir + `/given'; fi`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh")
	script := strings.ReplaceAll(f.script(), "/etc/cloud/cloud.cfg.d", filepath.Join(dir, "cloud.cfg.d"))
	cmd.Stdin = iotest.OneByteReader(strings.NewReader(script)) // so that the shell reads no further than it has to
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "bootstrap.service is at work") {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(dir, "given"))
	if want := f.secret(namesOf(f.pool).Bootstrap).Data[api.UserDataKey]; err != nil || !bytes.Equal(got, want) {
		t.Errorf("cloud-init was given %q (err %v), want %q", got, err, want)
	}
}

// nodeToken creates a token that can read one Secret.
func (f *fixture) nodeToken(secret string) string {
	f.t.Helper()
	meta := metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: f.r.Namespace}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	f.ensure(account)
	f.ensure(&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{secret}, Verbs: []string{"get"}}}})
	f.ensure(&rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := f.client.SubResource("token").Create(f.t.Context(), account, request); err != nil {
		f.t.Fatal(err)
	}
	return request.Status.Token
}

// useToken makes a token the one that nodes fetch with, until the test ends:
// other tests share its Secret.
func (f *fixture) useToken(token string) {
	f.t.Helper()
	getter := f.secret(api.SecretGetterToken)
	before := string(getter.Data["token"])
	f.patch(getter.DeepCopy(), `{"stringData":{"token":"`+token+`"}}`)
	f.t.Cleanup(func() {
		body := client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"token":"`+before+`"}}`))
		if err := f.client.Patch(context.WithoutCancel(f.t.Context()), getter, body); err != nil {
			f.t.Error(err)
		}
	})
}

// The script is deleted when the provider changes, but not before the other provider's
// configuration exists.
func TestEdgeScriptGoesWithItsProvider(t *testing.T) {
	f := newFixture(t)
	f.use("edge", "edge", "{}", "1.35.0")
	f.reconcile()
	change := func(provider string) {
		t.Helper()
		var md machines.MachineDeployment
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), &md); err != nil {
			t.Fatal(err)
		}
		md.Spec.Template.Spec.ProviderSpec.Value = providerSpec(provider, "{}")
		if err := f.client.Update(t.Context(), &md); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
	}
	if change("aws"); !f.hasScript() {
		t.Error("the profile refuses the new provider, but the script is gone")
	}
	if change("hetzner"); f.hasScript() {
		t.Error("the script stays although nothing uses it")
	}
	if res := f.reconcile(); res.RequeueAfter < 10*time.Minute {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
}
