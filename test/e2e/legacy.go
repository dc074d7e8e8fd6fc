package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
)

// LegacyProfile is a profile that operating-system-manager (OSM) takes, of both utilities.
func LegacyProfile(name, version, script string) string {
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

// LegacyPool is a pool that OSM serves.
type LegacyPool struct {
	Name, profile, provider string
	md                      *machines.MachineDeployment
	token                   string // with which its machines join
	documents               map[string]*corev1.Secret
}

// Legacy is a control plane as OSM leaves it.
type Legacy struct {
	// Client has the permissions of OSM.
	Client client.Client

	s      *System
	getter string
	Pools  []*LegacyPool
}

const legacyServer = "https://api.example.com:6443"

// NewLegacy populates a control plane with pools: every fifth has Flatcar, and the last two have
// provider edge.
func NewLegacy(s *System, pools int) *Legacy {
	s.T.Helper()
	var getter corev1.Secret
	s.NoError(s.Get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &getter))
	l := &Legacy{Client: s.Client, s: s, getter: string(getter.Data["token"])}
	for _, name := range []string{"osp-legacy", "osp-legacy-flatcar"} {
		profile := strings.Replace(LegacyProfile(name, "v1.0.0", "install"), "metadata:", "metadata:\n  namespace: "+Namespace, 1)
		s.ApplyYAML(profile)
	}
	for i := range pools {
		p := &LegacyPool{Name: fmt.Sprintf("pool-%02d", i), profile: "osp-legacy", provider: "hetzner", documents: map[string]*corev1.Secret{}}
		switch {
		case i >= pools-2:
			p.provider = "edge"
		case i%5 == 0:
			p.profile, p.provider = "osp-legacy-flatcar", "openstack"
		}
		l.Pools = append(l.Pools, p)
	}
	l.each(l.make)
	return l
}

// each does something for all pools, a few at a time.
func (l *Legacy) each(do func(p *LegacyPool) error) {
	l.s.T.Helper()
	var group sync.WaitGroup
	work := make(chan *LegacyPool)
	for range 8 {
		group.Go(func() {
			for p := range work {
				if err := do(p); err != nil {
					l.s.T.Errorf("%s: %v", p.Name, err)
				}
			}
		})
	}
	for _, p := range l.Pools {
		work <- p
	}
	close(work)
	group.Wait()
	if l.s.T.Failed() {
		l.s.T.FailNow()
	}
}

func (l *Legacy) make(p *LegacyPool) error {
	p.md = l.machineDeployment(p)
	if err := l.s.Client.Create(l.s.T.Context(), p.md); err != nil {
		return err
	}
	return l.reconcile(p)
}

// machineDeployment has the finalizer and the revision of one that is served.
func (l *Legacy) machineDeployment(p *LegacyPool) *machines.MachineDeployment {
	os := "ubuntu"
	if p.profile == "osp-legacy-flatcar" {
		os = "flatcar"
	}
	spec := fmt.Sprintf(`{"cloudProvider":%q,"cloudProviderSpec":{"token":%q},"operatingSystem":%q,"operatingSystemSpec":{},"sshPublicKeys":[%q]}`, p.provider, Canary, os, legacyKey(p))
	return &machines.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.s.Pools, Name: p.Name, Finalizers: []string{api.FinalizerPool},
			Annotations: map[string]string{api.AnnotationOSP: p.profile, api.AnnotationMDRevision: "1"}},
		Spec: machines.MachineDeploymentSpec{Template: machines.MachineTemplateSpec{Spec: machines.MachineSpec{
			Versions:     machines.MachineVersion{Kubelet: "1.35.0"},
			ProviderSpec: machines.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(spec)}},
		}}},
	}
}

func legacyKey(p *LegacyPool) string {
	return "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample " + p.Name + "@example.com"
}

// reconcile makes OSM's requests for a pool, in its order.
func (l *Legacy) reconcile(p *LegacyPool) error {
	ctx, name := l.s.T.Context(), p.Name+"-"+l.s.Pools
	annotations, err := l.annotations(p)
	if err != nil {
		return err
	}
	osc := &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name + "-config", Annotations: annotations}, Spec: l.config(p)}
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: l.s.Pools + "-" + p.Name + "-kubelet-bootstrap-config"}}

	rotates, err := l.rotates(p)
	if err != nil {
		return err
	}
	if rotates {
		for _, obj := range []client.Object{osc, legacySecret(name+"-provisioning-config", ""), legacySecret(name+"-bootstrap-config", ""), kubeconfig} {
			if err := l.Client.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	made, err := l.ensureToken(p)
	if err != nil {
		return err
	}
	if err := l.ensureKubeconfig(kubeconfig, made); err != nil {
		return err
	}
	if err := l.Client.Get(ctx, client.ObjectKeyFromObject(osc), osc); apierrors.IsNotFound(err) {
		if p.provider == "edge" {
			script := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "edge-provider-script-" + name}, Data: map[string][]byte{"fetch-bootstrap-script": []byte("fetch\n")}}
			if err := l.Client.Create(ctx, script); err != nil { // it does no more than that
				return err
			}
		}
		if err := l.Client.Create(ctx, osc); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	for _, s := range []*corev1.Secret{
		legacySecret(name+"-provisioning-config", legacyDocument(p, &osc.Spec.ProvisioningConfig, "")),
		legacySecret(name+"-bootstrap-config", legacyDocument(p, &osc.Spec.BootstrapConfig, legacyMachineName(p))),
	} {
		s.Annotations = annotations
		if err := l.Client.Create(ctx, s); err == nil {
			p.documents[s.Name] = s
		} else if !apierrors.IsAlreadyExists(err) { // a Secret that exists is never compared or updated
			return err
		}
	}
	return nil
}

// ensureKubeconfig writes the kubelet's kubeconfig if there is none, and with a new token.
func (l *Legacy) ensureKubeconfig(s *corev1.Secret, made bool) error {
	ctx, data := l.s.T.Context(), map[string][]byte{"kubeconfig": []byte("apiVersion: v1\nkind: Config\n")}
	err := l.Client.Get(ctx, client.ObjectKeyFromObject(s), s)
	switch {
	case apierrors.IsNotFound(err):
		s.ResourceVersion, s.UID, s.Data = "", "", data
		return l.Client.Create(ctx, s)
	case err != nil || !made:
		return err
	}
	s.Data = data
	return l.Client.Update(ctx, s)
}

func legacySecret(name, document string) *corev1.Secret {
	immutable := true
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: name},
		Type: corev1.SecretTypeOpaque, Immutable: &immutable, Data: map[string][]byte{api.UserDataKey: []byte(document)}}
}

// annotations are the three by which OSM knows when to rotate.
func (l *Legacy) annotations(p *LegacyPool) (map[string]string, error) {
	var osp osm.OperatingSystemProfile
	if err := l.Client.Get(l.s.T.Context(), types.NamespacedName{Namespace: Namespace, Name: p.profile}, &osp); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(p.md.Annotations); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return map[string]string{api.AnnotationRevisionFor: "1", api.AnnotationMDAnnotationsHash: hex.EncodeToString(sum[:]), api.AnnotationOSPVersion: osp.Spec.Version}, nil
}

// ensureToken finds the pool's bootstrap token, or makes it. More than one is an error of
// OSM.
func (l *Legacy) ensureToken(p *LegacyPool) (made bool, err error) {
	var list corev1.SecretList
	key := l.s.Pools + "-" + p.Name
	if err := l.Client.List(l.s.T.Context(), &list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{api.LabelTokenPool: key}); err != nil {
		return false, err
	}
	switch len(list.Items) {
	case 1:
		return false, nil
	case 0:
	default:
		return false, fmt.Errorf("there are %d bootstrap tokens", len(list.Items))
	}
	id := "x" + p.Name[len("pool-"):] + hex.EncodeToString([]byte(l.s.Pools[len(l.s.Pools)-2:]))[:3]
	p.token = id + ".0123456789abcdef"
	return true, l.Client.Create(l.s.T.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id, Labels: map[string]string{api.LabelTokenPool: key}},
		Type:       "bootstrap.kubernetes.io/token",
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "expiration": time.Now().Add(50 * time.Minute).UTC().Format(time.RFC3339), "description": "bootstrap token for " + key,
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true", "auth-extra-groups": "system:bootstrappers:machine-controller:default-node-token",
		},
	})
}

// config is what operating-system-manager makes of the profile, with its credentials.
func (l *Legacy) config(p *LegacyPool) osm.OperatingSystemConfigSpec {
	const hosts = "server = \"https://registry-1.docker.io\"\n\n[host.\"https://registry-1.docker.io\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
	file := func(path string, permissions int32, encoding, content string) osm.File {
		return osm.File{Path: path, Permissions: permissions, Content: osm.FileContent{Inline: &osm.FileContentInline{Encoding: encoding, Data: content}}}
	}
	keys := []string{legacyKey(p)}
	fetch := fmt.Sprintf("fetch %s %s-%s-provisioning-config with %s\n", legacyServer, p.Name, l.s.Pools, l.getter)
	out := osm.OperatingSystemConfigSpec{
		OSName: "ubuntu", OSVersion: "24.04", ProvisioningUtility: osm.ProvisioningUtilityCloudInit,
		CloudProvider:   osm.CloudProviderSpec{Name: osm.CloudProvider(p.provider), Spec: &runtime.RawExtension{Raw: []byte(`{"token":"` + Canary + `"}`)}},
		BootstrapConfig: osm.OSCConfig{UserSSHKeys: keys, Files: []osm.File{file("/opt/bin/bootstrap", 755, "b64", fetch)}},
		ProvisioningConfig: osm.OSCConfig{UserSSHKeys: keys, Files: []osm.File{
			file("/opt/bin/setup", 755, "", "install v1.35.0\n"), file("/etc/containerd/certs.d/docker.io/hosts.toml", 600, "", hosts),
		}},
	}
	if p.isFlatcar() {
		out.OSName, out.ProvisioningUtility = "flatcar", osm.ProvisioningUtilityIgnition
		out.BootstrapConfig.Units = []osm.Unit{{Name: "bootstrap.service", Enable: new(true), Content: new("[Service]\nExecStart=/opt/bin/bootstrap\n[Install]\nWantedBy=multi-user.target\n")}}
	} else {
		out.BootstrapConfig.CloudInitModules = &osm.CloudInitModule{RunCMD: []string{"systemctl daemon-reload"}}
	}
	return out
}

func (p *LegacyPool) isFlatcar() bool { return p.profile == "osp-legacy-flatcar" }

// legacyMachineName is the machine's name in bootstrap documents.
func legacyMachineName(p *LegacyPool) string {
	if p.provider == "edge" {
		return p.Name
	}
	return "<MACHINE_NAME>"
}

// legacyDocument makes the document of a stage of a configuration, in the form of operating-system-manager.
func legacyDocument(p *LegacyPool, config *osm.OSCConfig, machine string) string {
	if p.isFlatcar() {
		return legacyIgnition(config, machine)
	}
	var b strings.Builder
	file := func(path string, permissions int32, encoding, content string) {
		fmt.Fprintf(&b, "- path: '%s'\n  permissions: '0%d'\n", path, permissions)
		if encoding != "" {
			content = base64.StdEncoding.EncodeToString([]byte(content))
			fmt.Fprintf(&b, "  encoding: %s\n", encoding)
		}
		fmt.Fprintf(&b, "  content: |-\n    %s\n", strings.ReplaceAll(content, "\n", "\n    "))
	}
	b.WriteString("#cloud-config\n")
	if machine != "" {
		fmt.Fprintf(&b, "hostname: %s\n", machine)
	}
	fmt.Fprintf(&b, "ssh_pwauth: false\nssh_authorized_keys:\n- '%s'\nwrite_files:\n", strings.Join(config.UserSSHKeys, "'\n- '"))
	for _, f := range config.Files {
		file(f.Path, f.Permissions, f.Content.Inline.Encoding, f.Content.Inline.Data)
	}
	if machine != "" {
		file("/etc/machine-name", 600, "", machine)
	}
	if m := config.CloudInitModules; m != nil && len(m.RunCMD) > 0 {
		fmt.Fprintf(&b, "runcmd:\n- %s\n", strings.Join(m.RunCMD, "\n- "))
	}
	return b.String()
}

func legacyIgnition(config *osm.OSCConfig, machine string) string {
	var files, units []string
	file := func(path, content string, mode int64) {
		files = append(files, fmt.Sprintf(`{"filesystem":"root","path":%q,"contents":{"source":"data:,%s","verification":{}},"mode":%d}`, path, strings.ReplaceAll(url.QueryEscape(content), "+", "%20"), mode))
	}
	if machine != "" {
		file("/etc/machine-name", machine, 0o600)
	}
	for _, f := range config.Files {
		mode, _ := strconv.ParseInt(strconv.Itoa(int(f.Permissions)), 8, 32)
		file(f.Path, strings.TrimRight(f.Content.Inline.Data, "\n")+"\n", mode)
	}
	for _, u := range config.Units {
		units = append(units, fmt.Sprintf(`{"name":%q,"enabled":%t,"contents":%q}`, u.Name, *u.Enable, *u.Content))
	}
	systemd := ""
	if len(units) > 0 {
		systemd = `"units":[` + strings.Join(units, ",") + `]`
	}
	return fmt.Sprintf(`{"ignition":{"config":{},"security":{"tls":{}},"timeouts":{},"version":"2.3.0"},"networkd":{},"passwd":{"users":[{"name":"core","sshAuthorizedKeys":[%q]}]},"storage":{"files":[%s]},"systemd":{%s}}`,
		config.UserSSHKeys[0], strings.Join(files, ","), systemd)
}

// rotates reports whether OSM would rotate a pool: unless all three annotations of its
// configuration are those of the pool and its profile. Without a
// configuration none of them is.
func (l *Legacy) rotates(p *LegacyPool) (bool, error) {
	var osc osm.OperatingSystemConfig
	err := l.Client.Get(l.s.T.Context(), types.NamespacedName{Namespace: Namespace, Name: p.Name + "-" + l.s.Pools + "-config"}, &osc)
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	want, err := l.annotations(p)
	if err != nil {
		return false, err
	}
	for k, v := range want {
		if osc.Annotations[k] != v {
			return true, nil
		}
	}
	return false, nil
}

// WayBack hands the cluster back and runs operating-system-manager for all pools. The handback itself
// replaces no Secret, the first run the three of each pool in rotated, the next one none. What
// is deleted after that is created with the same meaning. MachineDeployments, Machines and Nodes
// remain as they are.
func (l *Legacy) WayBack(handBack func(), rotated ...string) {
	l.s.T.Helper()
	before := l.machines()
	if replaced := l.replaced(handBack); len(replaced) != 0 {
		l.s.T.Errorf("handing back replaced %q", replaced)
	}
	run := func() { l.each(l.reconcile) }
	var want []string
	for _, pool := range rotated {
		name := pool + "-" + l.s.Pools
		want = append(want, name+"-bootstrap-config", name+"-provisioning-config", l.s.Pools+"-"+pool+"-kubelet-bootstrap-config")
	}
	slices.Sort(want)
	if replaced := l.replaced(run); !slices.Equal(replaced, want) {
		l.s.T.Errorf("the first run of operating-system-manager replaced %d Secrets, %q, want %q", len(replaced), replaced, want)
	}
	if replaced := l.replaced(run); len(replaced) != 0 {
		l.s.T.Errorf("the next run replaced %q", replaced)
	}
	l.CheckKept()
	l.checkRestored()
	if d := cmp.Diff(before, l.machines()); d != "" {
		l.s.T.Errorf("running machines changed:\n%s", d)
	}
}

// checkRestored deletes Secrets of three pools, of both utilities and of provider edge, which
// operating-system-manager creates again with the same meaning.
func (l *Legacy) checkRestored() {
	l.s.T.Helper()
	for _, p := range []*LegacyPool{l.Pools[0], l.Pools[1], l.Pools[len(l.Pools)-1]} {
		before := l.secrets()
		for _, suffix := range []string{"-bootstrap-config", "-provisioning-config"} {
			l.s.NoError(l.s.Client.Delete(l.s.T.Context(), legacySecret(p.Name+"-"+l.s.Pools+suffix, "")))
		}
		l.s.NoError(l.reconcile(p))
		for name, now := range l.secrets() {
			// Blanks in hosts.toml can differ.
			if was := before[name]; !strings.Contains(name, "-kubelet-") {
				for _, d := range takeover.Compare(&was, &now) {
					l.s.T.Errorf("%s was created with other content: %s", name, d)
				}
			}
		}
	}
}

// replaced returns which Secrets of pools an action replaces. Each pool has three, before and after it.
func (l *Legacy) replaced(action func()) (names []string) {
	l.s.T.Helper()
	before := l.secrets()
	action()
	after := l.secrets()
	for name, was := range before {
		if now := after[name]; now.UID != was.UID || !maps.EqualFunc(now.Data, was.Data, bytes.Equal) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// secrets are those of pools, by name.
func (l *Legacy) secrets() map[string]corev1.Secret {
	l.s.T.Helper()
	var list corev1.SecretList
	l.s.NoError(l.s.Client.List(l.s.T.Context(), &list, client.InNamespace(api.NamespaceCloudInitSettings)))
	out := map[string]corev1.Secret{}
	for _, s := range list.Items {
		if strings.HasSuffix(s.Name, "-config") {
			out[s.Name] = s
		}
	}
	if want := 3 * len(l.Pools); len(out) != want {
		l.s.T.Errorf("there are %d Secrets of pools, want %d", len(out), want)
	}
	return out
}

// machines are the resource versions of MachineDeployments, Machines and Nodes, by kind and name.
func (l *Legacy) machines() map[string]string {
	l.s.T.Helper()
	out := map[string]string{}
	for _, gvk := range []schema.GroupVersionKind{
		machines.GroupVersion.WithKind("MachineDeployment"), machines.GroupVersion.WithKind("Machine"), corev1.SchemeGroupVersion.WithKind("Node"),
	} {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(gvk)
		l.s.NoError(l.s.Client.List(l.s.T.Context(), &list))
		for _, obj := range list.Items {
			out[gvk.Kind+" "+obj.Name] = obj.ResourceVersion
		}
	}
	return out
}

// CheckKept checks that the documents are those of OSM, to the byte.
func (l *Legacy) CheckKept() {
	l.s.T.Helper()
	for _, p := range l.Pools {
		for _, was := range p.documents {
			var now corev1.Secret
			if err := l.s.Get(was.Namespace, was.Name, &now); err != nil || now.UID != was.UID || !bytes.Equal(now.Data[api.UserDataKey], was.Data[api.UserDataKey]) {
				l.s.T.Errorf("%s was replaced (err %v)", was.Name, err)
			}
		}
	}
}
