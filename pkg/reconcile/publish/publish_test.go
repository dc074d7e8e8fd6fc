package publish

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

const digest = "v1:sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// world is a pool that has a configuration, which was rendered with those settings.
const world = `
apiVersion: v1
kind: ConfigMap
metadata: {name: SETTINGS, namespace: NAMESPACE}
data: {KEY: '{"settings":{"nodeHTTPProxy":"http://canary:canary@proxy.example.com"},"cluster":{"server":"https://api.example.com"}}'}
---
apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemConfig
metadata:
  name: web-NAMESPACE-config
  namespace: NAMESPACE
  annotations:
    gitops.k8c.io/machine-deployment: NAMESPACE/web
    gitops.k8c.io/record: '{"profile":"osp-a","version":"v1.0.0","settingsDigest":"DIGEST"}'
spec: {osName: ubuntu, osVersion: "24.04", cloudProvider: {name: hetzner}, bootstrapConfig: {}, provisioningConfig: {}}
---
apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata:
  name: web
  namespace: NAMESPACE
  annotations: {k8c.io/operating-system-profile: osp-a, x: canary}
spec:
  selector: {matchLabels: {pool: web}}
  template:
    metadata: {labels: {pool: web}}
    spec:
      versions: {kubelet: 1.36.2}
      providerSpec:
        value: {cloudProvider: hetzner, cloudProviderSpec: {token: canary}, operatingSystem: ubuntu, sshPublicKeys: [canary]}
`

// The published snapshot is written again when it changes, and only then; another
// client's ConfigMap of that name is not changed. Security.md 15: it has no credentials.
func TestPublish(t *testing.T) {
	c := cluster.Shared(t)
	cl, namespace := c.Client(t), c.Namespace(t)
	for doc := range strings.SplitSeq(strings.NewReplacer("SETTINGS", lineage.SettingsName(digest), "KEY", lineage.SettingsKey, "DIGEST", digest, "NAMESPACE", namespace).Replace(world), "---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), obj); err != nil {
			t.Fatal(err)
		}
		if err := cl.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	p := Publisher{Reader: Reader{Management: cl, Worker: cl, Settings: cl, Namespace: namespace}, Live: cl, Writer: cl}
	published := func() *corev1.ConfigMap {
		t.Helper()
		if err := p.publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		return read(t, cl, namespace)
	}
	first := published()
	if again := published(); again.ResourceVersion != first.ResourceVersion {
		t.Error("it was written although nothing is another")
	}
	text := decoded(t, first)
	if strings.Contains(text, "canary") || !strings.Contains(text, `"profile": "osp-a"`) || !strings.Contains(text, "proxy.example.com") {
		t.Errorf("it holds a credential, or not what it should: %s", text)
	}

	md := &unstructured.Unstructured{}
	md.SetAPIVersion("cluster.k8s.io/v1alpha1")
	md.SetKind("MachineDeployment")
	md.SetNamespace(namespace)
	md.SetName("web")
	patch := []byte(`{"metadata":{"annotations":{"` + api.AnnotationVersionPin + `":"~1.0"}}}`)
	if err := cl.Patch(t.Context(), md, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	next := published()
	if next.UID != first.UID || !strings.Contains(decoded(t, next), "~1.0") {
		t.Error("what the pool asks for now is not there")
	}

	next.Labels = nil
	next.BinaryData = map[string][]byte{"theirs": []byte("x")}
	if err := cl.Update(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if err := p.publish(t.Context()); err == nil || !strings.Contains(err.Error(), namespace+"/"+impact.ConfigMapName+" is not managed by osm-gitops") {
		t.Errorf("got %v", err)
	}
	if theirs := read(t, cl, namespace); theirs.ResourceVersion != next.ResourceVersion {
		t.Error("somebody else's ConfigMap was written")
	}
}

func read(t *testing.T, cl client.Client, namespace string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: impact.ConfigMapName}}
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
		t.Fatal(err)
	}
	return cm
}

// decoded returns a snapshot as published; Decode would mask credentials in it.
func decoded(t *testing.T, cm *corev1.ConfigMap) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(cm.BinaryData["snapshot.json.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
