package running

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// legacyProfile is a profile that the reference takes, of both utilities.
func legacyProfile(name, version, script string) string {
	os, utility, units, modules := "ubuntu", "cloud-init", "", "    modules:\n      runcmd: [systemctl daemon-reload]\n"
	if strings.Contains(name, "flatcar") {
		os, utility, modules = "flatcar", "ignition", ""
		units = "    units:\n    - {name: bootstrap.service, enable: true, content: \"" + `[Service]\nExecStart=/opt/bin/bootstrap\n[Install]\nWantedBy=multi-user.target\n` + "\"}\n"
	}
	return fmt.Sprintf(`apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: %s
spec:
  osName: %s
  osVersion: "24.04"
  version: %s
  provisioningUtility: %s
  supportedCloudProviders: [{name: hetzner}, {name: openstack}, {name: edge}]
  bootstrapConfig:
%s%s    files:
    - path: /opt/bin/bootstrap
      permissions: 755
      content: {inline: {encoding: b64, data: "fetch {{ .ServerURL }} {{ .SecretName }} with {{ .Token }}\n"}}
  provisioningConfig:
    files:
    - path: /opt/bin/setup
      permissions: 755
      content: {inline: {data: "%s {{ .KubeVersion }}\n"}}
`, name, os, version, utility, units, modules, script)
}

// legacyPool is a pool that the reference serves.
type legacyPool struct {
	name, profile, provider string
	md                      *machines.MachineDeployment
	token                   string // with which its machines join
	documents               map[string]*corev1.Secret
}

// legacy is a control plane as the reference leaves it.
type legacy struct {
	s      *system
	getter string
	pools  []*legacyPool
}

const legacyServer = "https://api.example.com:6443"

// newLegacy populates a control plane with pools: every fifth has Flatcar, and the last two have
// provider edge (contract: sections 8.1 to 8.3 and 9.3).
func newLegacy(s *system, pools int) *legacy {
	s.T.Helper()
	var getter corev1.Secret
	s.NoError(s.Get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &getter))
	l := &legacy{s: s, getter: string(getter.Data["token"])}
	for _, name := range []string{"osp-legacy", "osp-legacy-flatcar"} {
		profile := strings.Replace(legacyProfile(name, "v1.0.0", "install"), "metadata:", "metadata:\n  namespace: "+e2e.Namespace, 1)
		s.ApplyYAML(profile)
	}
	for i := range pools {
		p := &legacyPool{name: fmt.Sprintf("pool-%02d", i), profile: "osp-legacy", provider: "hetzner", documents: map[string]*corev1.Secret{}}
		switch {
		case i >= pools-2:
			p.provider = "edge"
		case i%5 == 0:
			p.profile, p.provider = "osp-legacy-flatcar", "openstack"
		}
		l.pools = append(l.pools, p)
	}
	l.each(l.make)
	return l
}

// each does something for all pools, a few at a time.
func (l *legacy) each(do func(p *legacyPool) error) {
	l.s.T.Helper()
	var group sync.WaitGroup
	work := make(chan *legacyPool)
	for range 8 {
		group.Go(func() {
			for p := range work {
				if err := do(p); err != nil {
					l.s.T.Errorf("%s: %v", p.name, err)
				}
			}
		})
	}
	for _, p := range l.pools {
		work <- p
	}
	close(work)
	group.Wait()
	if l.s.T.Failed() {
		l.s.T.FailNow()
	}
}

func (l *legacy) make(p *legacyPool) error {
	p.md = l.machineDeployment(p)
	if err := l.s.Client.Create(l.s.T.Context(), p.md); err != nil {
		return err
	}
	return l.regenerate(p)
}

// machineDeployment has the finalizer and the revision of one that is served.
func (l *legacy) machineDeployment(p *legacyPool) *machines.MachineDeployment {
	os := "ubuntu"
	if p.profile == "osp-legacy-flatcar" {
		os = "flatcar"
	}
	spec := fmt.Sprintf(`{"cloudProvider":%q,"cloudProviderSpec":{"token":%q},"operatingSystem":%q,"operatingSystemSpec":{},"sshPublicKeys":[%q]}`, p.provider, e2e.Canary, os, legacyKey(p))
	return &machines.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.s.Pools, Name: p.name, Finalizers: []string{api.FinalizerPool},
			Annotations: map[string]string{api.AnnotationOSP: p.profile, api.AnnotationMDRevision: "1"}},
		Spec: machines.MachineDeploymentSpec{Template: machines.MachineTemplateSpec{Spec: machines.MachineSpec{
			Versions:     machines.MachineVersion{Kubelet: "1.35.0"},
			ProviderSpec: machines.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(spec)}},
		}}},
	}
}

func legacyKey(p *legacyPool) string {
	return "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample " + p.name + "@example.com"
}

// regenerate makes the reference's requests for a pool, in its order (contract: section 8.1);
// existing objects are deleted first, as in its rotation (section 9.4).
func (l *legacy) regenerate(p *legacyPool) error {
	ctx, c, name := l.s.T.Context(), l.s.Client, p.name+"-"+l.s.Pools
	bootstrap, provisioning := l.render(p)
	objects := []client.Object{
		&osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: name + "-config"}, Spec: osm.OperatingSystemConfigSpec{
			OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{
				Name: osm.CloudProvider(p.provider), Spec: &runtime.RawExtension{Raw: []byte(`{"token":"` + e2e.Canary + `"}`)},
			},
		}},
		legacySecret(name+"-provisioning-config", provisioning), legacySecret(name+"-bootstrap-config", bootstrap),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: l.s.Pools + "-" + p.name + "-kubelet-bootstrap-config"},
			Data: map[string][]byte{"kubeconfig": []byte("apiVersion: v1\nkind: Config\n")}},
	}
	for i, obj := range objects[:3] {
		obj.SetAnnotations(l.annotations(p))
		if s, ok := obj.(*corev1.Secret); ok {
			p.documents[map[int]string{1: "provisioning", 2: "bootstrap"}[i]] = s
		}
	}
	for _, obj := range objects {
		if err := c.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if err := l.ensureToken(p); err != nil {
		return err
	}
	if p.provider == "edge" {
		script := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "edge-provider-script-" + name}, Data: map[string][]byte{"fetch-bootstrap-script": []byte("fetch\n")}}
		if err := c.Create(ctx, script); err != nil { // it does no more than that (contract: section 15.1, 10)
			return err
		}
	}
	for _, obj := range objects {
		if err := c.Create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

func legacySecret(name, document string) *corev1.Secret {
	immutable := true
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: name},
		Type: corev1.SecretTypeOpaque, Immutable: &immutable, Data: map[string][]byte{api.UserDataKey: []byte(document)}}
}

// annotations are the three by which the reference knows when to rotate.
func (l *legacy) annotations(p *legacyPool) map[string]string {
	var b bytes.Buffer
	l.s.NoError(json.NewEncoder(&b).Encode(p.md.Annotations))
	sum := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return map[string]string{api.AnnotationRevisionFor: "1", api.AnnotationMDAnnotationsHash: hex.EncodeToString(sum[:]), api.AnnotationOSPVersion: "v1.0.0"}
}

// ensureToken finds the pool's bootstrap token, or makes it. More than one is an error of
// the reference (contract: section 8.3).
func (l *legacy) ensureToken(p *legacyPool) error {
	var list corev1.SecretList
	key := l.s.Pools + "-" + p.name
	if err := l.s.Client.List(l.s.T.Context(), &list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{api.LabelTokenPool: key}); err != nil {
		return err
	}
	switch len(list.Items) {
	case 1:
		return nil
	case 0:
	default:
		return fmt.Errorf("there are %d bootstrap tokens", len(list.Items))
	}
	id := "x" + p.name[len("pool-"):] + hex.EncodeToString([]byte(l.s.Pools[len(l.s.Pools)-2:]))[:3]
	p.token = id + ".0123456789abcdef"
	return l.s.Client.Create(l.s.T.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id, Labels: map[string]string{api.LabelTokenPool: key}},
		Type:       "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "expiration": time.Now().Add(50 * time.Minute).UTC().Format(time.RFC3339), "description": "bootstrap token for " + key,
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true", "auth-extra-groups": "system:bootstrappers:machine-controller:default-node-token",
		},
	})
}

// render makes the documents in the reference's own form (contract: sections 7.3 and 7.4).
func (l *legacy) render(p *legacyPool) (bootstrap, provisioning string) {
	const hosts = "server = \"https://registry-1.docker.io\"\n\n[host.\"https://registry-1.docker.io\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
	fetch := fmt.Sprintf("fetch %s %s-%s-provisioning-config with %s\n", legacyServer, p.name, l.s.Pools, l.getter)
	const setup = "install v1.35.0\n"
	if p.profile == "osp-legacy-flatcar" {
		file := func(path, content string, mode int) string {
			return fmt.Sprintf(`{"filesystem":"root","path":%q,"contents":{"source":"data:,%s","verification":{}},"mode":%d}`, path, strings.ReplaceAll(url.QueryEscape(content), "+", "%20"), mode)
		}
		document := func(units, files string) string {
			return fmt.Sprintf(`{"ignition":{"config":{},"security":{"tls":{}},"timeouts":{},"version":"2.3.0"},"networkd":{},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":[%q]}]},"storage":{"files":[%s]},"systemd":{%s}}`, legacyKey(p), files, units)
		}
		return document(`"units":[{"name":"bootstrap.service","enabled":true,"contents":"[Service]\nExecStart=/opt/bin/bootstrap\n[Install]\nWantedBy=multi-user.target\n"}]`,
				file("/etc/machine-name", "<MACHINE_NAME>", 384)+","+file("/opt/bin/bootstrap", fetch, 493)),
			document("", file("/opt/bin/setup", setup, 493)+","+file("/etc/containerd/certs.d/docker.io/hosts.toml", hosts, 384))
	}
	machine := "<MACHINE_NAME>"
	if p.provider == "edge" {
		machine = p.name
	}
	head := "ssh_pwauth: false\nssh_authorized_keys:\n- '" + legacyKey(p) + "'\nwrite_files:\n"
	file := func(path, mode, more, content string) string {
		return fmt.Sprintf("- path: '%s'\n  permissions: '%s'\n%s  content: |-\n    %s\n", path, mode, more, strings.ReplaceAll(content, "\n", "\n    "))
	}
	return "#cloud-config\nhostname: " + machine + "\n" + head +
			file("/opt/bin/bootstrap", "0755", "  encoding: b64\n", base64.StdEncoding.EncodeToString([]byte(fetch))) +
			file("/etc/machine-name", "0600", "", machine) + "runcmd:\n- systemctl daemon-reload\n",
		"#cloud-config\n" + head + file("/opt/bin/setup", "0755", "", setup) + file("/etc/containerd/certs.d/docker.io/hosts.toml", "0600", "", hosts)
}

// rotates reports whether the reference would rotate a pool: unless all three annotations
// are those of the pool and its profile (contract: section 9.4).
func (l *legacy) rotates(p *legacyPool) (bool, error) {
	var osc osm.OperatingSystemConfig
	if err := l.s.Get(e2e.Namespace, p.name+"-"+l.s.Pools+"-config", &osc); err != nil {
		return false, err
	}
	var osp osm.OperatingSystemProfile
	if err := l.s.Get(e2e.Namespace, p.profile, &osp); err != nil {
		return false, err
	}
	want := l.annotations(p)
	want[api.AnnotationOSPVersion] = osp.Spec.Version
	for k, v := range want {
		if osc.Annotations[k] != v {
			return true, nil
		}
	}
	return false, nil
}

// checkKept checks that the Secrets are those of the reference, to the byte.
func (l *legacy) checkKept(t *testing.T) {
	t.Helper()
	for _, p := range l.pools {
		for _, was := range p.documents {
			var now corev1.Secret
			if err := l.s.Get(was.Namespace, was.Name, &now); err != nil || now.UID != was.UID || !bytes.Equal(now.Data[api.UserDataKey], was.Data[api.UserDataKey]) {
				t.Errorf("%s was replaced (err %v)", was.Name, err)
			}
		}
	}
}
