package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// everything prints what templates have of credentials.
const everything = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata: {name: osp-small}
spec:
  osName: rhel
  osVersion: "9"
  version: VERSION
  supportedCloudProviders: [{name: openstack}]
  bootstrapConfig:
    files:
      - path: /etc/first-WORD # another path: the whole content is shown
        content: {inline: {data: "{{ .Token }} WORD {{ .BootstrapKubeconfig }} {{ .HTTPProxy }} {{ .NoProxy }}"}}
  provisioningConfig:
    files:
      - path: /etc/second-WORD
        content:
          inline:
            data: |
              WORD
              {{ .CloudConfig }}
              {{ .ContainerRuntimeConfig }}
              {{ .RhelConfig }}
              {{ range .RegistryHosts }}{{ .Config }}{{ end }}
              {{ range $k, $v := .DownloadMirrors }}{{ $k }}={{ $v }}{{ end }}
`

const canaryPool = `apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata:
  name: NAME
  namespace: shop
  annotations:
    k8c.io/operating-system-profile: osp-small
    kubectl.kubernetes.io/last-applied-configuration: canary-applied
spec:
  template:
    spec:
      versions: {kubelet: 1.28.5}
      providerSpec:
        value:
          cloudProvider: openstack
          cloudProviderSpec: {username: canary-user, password: {value: canary-password}, identityEndpoint: "https://keystone.example.com", tokenId: canary-tokenid, region: r, domainName: d, projectName: p}
          operatingSystem: rhel
          operatingSystemSpec: {rhelSubscriptionManagerUser: canary-rhuser, rhelSubscriptionManagerPassword: canary-rhpassword, rhsmOfflineToken: canary-rhtoken, rhelActivationKey: canary-rhkey, rhelOrganizationName: canary-rhorg}
          sshPublicKeys: ["ssh-ed25519 canary-sshkey ada@canary-host"]
          EXTRA
`

const canaryCluster = `settings:
  nodeHTTPProxy: http://canary-proxyuser:canary-proxypassword@proxy.example.com:3128
  nodeNoProxy: canary-nopuser:canary-noppassword@internal.example.com
  nodeRegistryMirrors: https://canary-miruser:canary-mirpassword@mirror.example.com
  nodeContainerdRegistryMirrors: ["docker.io=https://canary-ctruser:canary-ctrpassword@mirror.example.com"]
  downloadMirrors: {github: "https://canary-dluser:canary-dlpassword@mirror.example.com"}
  registryCredentials: {registry.example.com: {username: canary-reguser, password: canary-regpassword, auth: Y2FuYXJ5OmNhbmFyeQ==, identitytoken: canary-regtoken}}
cluster:
  server: https://api.example.com:6443
  apiServerToken: canary-apitoken
  bootstrapToken: canary.canarycanarycana
  bootstrapKubeconfig: canary-kubeconfig
`

// security.md 15: neither the output of diff nor a snapshot of such pools contains a
// credential, in any format and after any error.
func TestDiffCanaries(t *testing.T) {
	bin := filepath.Join(build(t), "osm-gitops")
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) { t.Helper(); gittest.Git(t, filepath.Join(dir, "repo"), args...) }
	profile := func(version, word string) string {
		return strings.NewReplacer("VERSION", version, "WORD", word).Replace(everything)
	}
	pool := func(name, extra string) string {
		return strings.NewReplacer("NAME", name, "EXTRA", extra).Replace(canaryPool)
	}
	write("repo/small.yaml", profile("v1.0.0", "before"))
	git("init", "--quiet", "--initial-branch=main")
	git("add", ".")
	git("commit", "--quiet", "--message=one")
	write("repo/small.yaml", profile("v1.1.0", "after"))
	write("good/pool.yaml", pool("good", "overwriteCloudConfig: canary-overwrite"))
	write("also/pool.yaml", pool("also", ""))
	write("wrong/pool.yaml", pool("wrong", "canary-field: canary-value"))
	write("type/pool.yaml", pool("type", "network: canary-network"))
	write("yaml/pool.yaml", pool("yaml", "x: [canary-yaml"))
	write("cluster.yaml", canaryCluster)
	write("cluster-type.yaml", strings.Replace(canaryCluster, "nodeHTTPProxy: http", "clusterDNS: http", 1))
	write("cluster-yaml.yaml", strings.Replace(canaryCluster, "nodeNoProxy: ", "nodeNoProxy: [", 1))
	for name, c := range map[string]struct {
		pools, cluster string
		status         int
		says           string // in what is printed
	}{
		"a difference":               {"good", "cluster.yaml", exitOK, "shop/good"},
		"with a cloud configuration": {"also", "cluster.yaml", exitOK, "shop/also"},
		"an unknown field":           {"wrong", "cluster.yaml", exitOK, "shop/wrong"},
		"a wrong type":               {"type", "cluster.yaml", exitOK, "shop/type"},
		"no YAML":                    {"yaml", "cluster.yaml", exitFailure, ""},
		"settings of a wrong type":   {"good", "cluster-type.yaml", exitFailure, ""},
		"settings that are no YAML":  {"good", "cluster-yaml.yaml", exitFailure, ""},
		"a snapshot that is a pool":  {"", "", exitFailure, ""},
		"a folder that is not there": {"nowhere", "cluster.yaml", exitFailure, ""},
	} {
		for _, format := range []string{"text", "markdown", "json"} {
			t.Run(name+" as "+format, func(t *testing.T) {
				args := []string{"diff", "main", "--repo", "repo", "--machine-deployments", c.pools, "--cluster", c.cluster, "-o", format}
				if c.pools == "" {
					args = []string{"diff", "main", "--repo", "repo", "--snapshot", "good/pool.yaml", "-o", format}
				}
				cmd := exec.CommandContext(t.Context(), bin, args...)
				cmd.Dir = dir
				var stdout, stderr strings.Builder
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				var exit *exec.ExitError
				if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(stdout.String(), c.says) {
					t.Errorf("exit status %d, want %d\n%s\n%s", got, c.status, stdout.String(), stderr.String())
				}
				for _, canary := range []string{"canary", "Y2FuYXJ5"} { // the second is the first in base64
					if text := stdout.String() + stderr.String(); strings.Contains(strings.ReplaceAll(text, "canary-field", ""), canary) {
						t.Errorf("a credential is printed:\n%s", text)
					}
				}
			})
		}
	}
}
