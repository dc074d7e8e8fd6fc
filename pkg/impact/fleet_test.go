package impact

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const canaryPool = `
metadata:
  name: workers
  namespace: shop
  labels: {gitops.k8c.io/wave: "2", x: canary}
  annotations: {k8c.io/operating-system-profile: osp-a, kubectl.kubernetes.io/last-applied-configuration: canary}
spec:
  template:
    spec:
      versions: {kubelet: 1.36.2}
      providerSpec:
        value:
          cloudProvider: hetzner
          cloudProviderSpec: {token: canary}
          operatingSystem: rhel
          operatingSystemSpec: {rhelSubscriptionManagerUser: canary, rhelSubscriptionManagerPassword: canary, rhsmOfflineToken: canary, rhelActivationKey: canary, rhelOrganizationName: canary}
          overwriteCloudConfig: canary
          sshPublicKeys: [ssh-ed25519 canary ada@canary, canary]
`

func canaries(t *testing.T) PoolSnapshot {
	t.Helper()
	var md cluster.MachineDeployment
	if err := yaml.Unmarshal([]byte(canaryPool), &md); err != nil {
		t.Fatal(err)
	}
	settings := RedactSettings(render.Settings{
		NodeHTTPProxy:       "http://canary:canary@proxy.example.com",
		NodeRegistryMirrors: "https://canary@mirror.example.com", DownloadMirrors: map[string]string{"github": "https://canary@mirror.example.com"},
		RegistryCredentials: map[string]render.RegistryCredential{"r": {Username: "canary", Password: "canary", Auth: "canary", IdentityToken: "canary"}},
	}, "https://api.example.com")
	return PoolSnapshot{
		Namespace: "kube-system", Settings: map[string]Settings{settings.Key(): settings},
		Pools: []Pool{NewPool(&md, settings.Key(), render.DecodePool)},
	}
}

// security.md 15: a snapshot contains no credentials, as a file and as a ConfigMap, and
// decoding restores it.
func TestSnapshot(t *testing.T) {
	fleet := canaries(t)
	if fleet.Pools[0].Problem != "" {
		t.Fatal(fleet.Pools[0].Problem)
	}
	text, err := fleet.Encode(false)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("canary")) || bytes.Contains(text, []byte("last-applied")) {
		t.Errorf("the snapshot holds a credential:\n%s", text)
	}
	packed, err := fleet.Encode(true)
	if err != nil {
		t.Fatal(err)
	}
	cm, err := fleet.ConfigMap()
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(cm)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"text": text, "compressed": packed, "ConfigMap": asYAML} {
		got, err := Decode(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(fleet, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, b := range map[string]string{"nothing": "", "other JSON": "{}", "other YAML": "a: b", "a later one": strings.Replace(string(text), `"version": 1,`, `"version": 2,`, 1)} {
		if _, err := Decode(strings.NewReader(b)); err == nil {
			t.Errorf("%s is a snapshot", name)
		}
	}
}

// A size above the limit of a ConfigMap is an error before the request to the API server.
func TestConfigMapIsBounded(t *testing.T) {
	fleet := canaries(t)
	pool := fleet.Pools[0]
	for range 4 { // random enough to be incompressible
		pool.Inputs.SSHPublicKeys = append(pool.Inputs.SSHPublicKeys, fillerText(1<<20))
		pool.Inputs.SSHPublicKeys[len(pool.Inputs.SSHPublicKeys)-1] += fillerText(1 << 20)[3:]
	}
	fleet.Pools[0] = pool
	if _, err := fleet.ConfigMap(); err == nil || !strings.Contains(err.Error(), "osm-gitops snapshot") {
		t.Errorf("got %v", err)
	}
}

// Replacements of keys have the same length, do not identify the owner, and are stable.
func TestKeyStandIn(t *testing.T) {
	for _, key := range []string{"ssh-ed25519 AAAAC3 ada@example.com", "secret", "", "ssh-rsa", "ssh-rsa "} {
		got := sshKeyPlaceholder(key)
		if len(got) != len(key) || key != "" && got == key && key != "ssh-rsa " || sshKeyPlaceholder(got) != got {
			t.Errorf("%q becomes %q", key, got)
		}
	}
	if got := sshKeyPlaceholder("ssh-ed25519 AAAA"); !strings.HasPrefix(got, "ssh-ed25519 ") {
		t.Errorf("got %q", got)
	}
}

// A truncated file, for instance by an upload or a full disk, is an error: as a smaller
// fleet, missing pools would look deleted.
func TestTruncatedSnapshot(t *testing.T) {
	packed, err := canaries(t).Encode(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []int{3, 10, len(packed) / 2, len(packed) - 8, len(packed) - 1} {
		if got, err := Decode(bytes.NewReader(packed[:left])); err == nil || len(got.Pools) > 0 {
			t.Errorf("of %d bytes the first %d are read as %d pools (error %v)", len(packed), left, len(got.Pools), err)
		}
	}
}
