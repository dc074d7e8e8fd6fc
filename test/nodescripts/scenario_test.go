package nodescripts_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/profiles"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

// The two credentials of a node.
const (
	apiToken       = "api-token-5f1e7c2b9d"
	bootstrapToken = "abcdef.0123456789abcdef"
)

const (
	kubeVersion   = "v1.36.2"
	nodeAddress   = "10.77.0.10"
	machineName   = "shop-web-7d9f4-x2x7p"
	kubeconfigKey = "kubeconfig"
	configKey     = "cloud-config"
)

// scenario is a profile, the pool that uses it, and settings.
type scenario struct {
	profile string
	// provider is a cloud provider; the profile must know it.
	provider string
	// family is the network's, empty: as it comes.
	family   string
	settings func(*render.Settings)
	// pool changes what the pool asks for.
	pool func(*render.Pool)
	// token of the API server, by default apiToken.
	token string
	// image changes the image.
	image func(*system)
	// everyCommand is to be recorded, so that the power can fail before it; that makes
	// a node half as fast.
	everyCommand bool
	// weaken replaces a text of the profile's scripts by another.
	weaken [2]string
}

// scenarios is one for each profile, which a test may change. The first is the one of tests
// that look at a single profile.
var scenarios = []scenario{
	{profile: "osp-ubuntu", provider: "openstack"},
	{profile: "osp-flatcar", provider: "openstack"},
	{profile: "osp-flatcar-cloud-init", provider: "anexia"},
	{profile: "osp-rhel", provider: "openstack"},
	{profile: "osp-rockylinux", provider: "openstack"},
	{profile: "osp-amzn2", provider: "aws"},
}

// booted are the scenarios whose machines are booted in this run.
func booted() []scenario {
	return slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return !nodefixture.Booted(s.profile) })
}

func (s scenario) with(change func(*scenario)) scenario {
	change(&s)
	return s
}

func (s scenario) rendered(t testing.TB) (render.Input, *render.Output) {
	t.Helper()
	path := s.profile + ".yaml"
	b, err := fs.ReadFile(profiles.FS(), path)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := profile.Decode(path, b)
	if err != nil || len(docs) != 1 {
		t.Fatalf("%s holds %d profiles: %v", path, len(docs), err)
	}
	md := &machines.MachineDeployment{}
	md.Name, md.Namespace = "web", "kube-system"
	md.Spec.Template.Spec.Versions.Kubelet = kubeVersion
	network, flatcar := "", ""
	if s.family != "" {
		network = fmt.Sprintf(`,"network":{"ipFamily":%q}`, s.family)
	}
	if s.profile == "osp-flatcar-cloud-init" {
		flatcar = `,"operatingSystemSpec":{"provisioningUtility":"cloud-init"}`
	}
	md.Spec.Template.Spec.ProviderSpec.Value = &k8sruntime.RawExtension{Raw: fmt.Appendf(nil,
		`{"cloudProvider":%q,"cloudProviderSpec":{},"operatingSystem":%q%s%s}`, s.provider, docs[0].Spec.OSName, network, flatcar)}
	in := render.Input{
		Profile: render.Profile{Spec: docs[0].Spec, Object: docs[0].Name, Digest: docs[0].Digest, Provenance: render.Provenance{
			Profile: docs[0].Name, Version: docs[0].Spec.Version, Commit: strings.Repeat("1a", 20), Change: strings.Repeat("2b", 20),
			Repository: "https://git.test/nodefixture", Path: "profiles/x.yaml",
		}},
		Cluster: render.Cluster{Server: "https://" + apiHost + ":" + apiPort, APIServerToken: cmp.Or(s.token, apiToken), BootstrapToken: bootstrapToken},
		Settings: render.Settings{
			ClusterDNS: []string{"10.96.0.10"}, ExternalCloudProvider: true, KubernetesCACert: clusterCA.certificate(),
		},
	}
	if in.Pool, err = render.DecodePool(md); err != nil {
		t.Fatal(err)
	}
	if s.pool != nil {
		s.pool(&in.Pool)
	}
	if s.settings != nil {
		s.settings(&in.Settings)
	}
	if s.weaken[0] != "" {
		s.weakenScripts(t, &in.Profile)
	}
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

// weakenScripts takes something out of the scripts, which must be there.
func (s scenario) weakenScripts(t testing.TB, p *render.Profile) {
	t.Helper()
	p.Digest = "" // another profile
	found := false
	weaken := func(text string) string {
		found = found || strings.Contains(text, s.weaken[0])
		return strings.ReplaceAll(text, s.weaken[0], s.weaken[1])
	}
	for _, stage := range []*osm.OSPConfig{&p.Spec.BootstrapConfig, &p.Spec.ProvisioningConfig} {
		for i := range stage.Files {
			stage.Files[i].Content.Inline.Data = weaken(stage.Files[i].Content.Inline.Data)
		}
		for name, text := range stage.Templates {
			stage.Templates[name] = weaken(text)
		}
	}
	if !found {
		t.Fatalf("%s has no %q in its scripts", s.profile, s.weaken[0])
	}
}

// rehearsal is a node that has not booted yet, with everything it will need.
type rehearsal struct {
	*node
	scenario scenario
	cloud    *cloud
	// want is the required content of files at every time at which they exist.
	want map[string]wanted
	// secret is the path of the Secret that brings the provisioning stage, and
	// kubeconfig that of the kubelet's.
	secret, kubeconfig string
	wrong              map[string]bool   // what was reported already
	seen               map[string]string // versions of files that were intact
	// secrets are the files that only root can read.
	secrets []string
	input   render.Input
	made    *render.Output // of input
}

// wanted is a file that appears at once, or not at all. A mode of 0 is any.
type wanted struct {
	content []byte
	mode    fs.FileMode
}

// rehearse makes a node that has not booted yet.
func rehearse(t testing.TB, s scenario) *rehearsal {
	t.Helper()
	needNodes(t)
	in, out := s.rendered(t)
	image := images[string(in.Pool.OperatingSystem)]
	image.without, image.recorded = slices.Clone(image.without), s.everyCommand
	if s.image != nil {
		s.image(&image)
	}
	r := &rehearsal{node: newNode(t, image), scenario: s, wrong: map[string]bool{}, seen: map[string]string{}, secrets: []string{in.Cluster.APIServerToken, bootstrapToken}}
	if !strings.Contains(s.family, "6") {
		r.net.uplink(t, nodeAddress+"/24")
	}
	r.input, r.made = in, out
	provisioning := "web-kube-system-provisioning-config"
	kubeconfig := "kube-system-web-kubelet-bootstrap-config"
	kubeconfigText := render.BootstrapKubeconfig(in.Cluster.Server, in.Settings.KubernetesCACert, bootstrapToken)
	r.cloud = newCloud(t, r.net, in.Cluster.APIServerToken, map[string]map[string]string{
		provisioning: {configKey: string(out.Provisioning)},
		kubeconfig:   {kubeconfigKey: kubeconfigText},
	})
	r.secret, r.kubeconfig = "/secrets/"+provisioning, "/secrets/"+kubeconfig
	// machine-controller puts the machine's name in, in either form.
	named := strings.NewReplacer("<MACHINE_NAME>", machineName, "%3CMACHINE_NAME%3E", machineName).Replace(string(out.Bootstrap))
	r.document = &document{text: []byte(named)}
	r.want = map[string]wanted{
		"/etc/kubernetes/bootstrap-kubelet.conf": {[]byte(kubeconfigText), 0o600},
		"/opt/bin/crictl":                        {program("crictl", "archived"), 0o755},
		"/opt/cni/bin/bridge":                    {program("bridge", "archived"), 0o755},
		"/opt/cni/bin/portmap":                   {program("portmap", "archived"), 0o755},
	}
	for _, name := range []string{"kubelet", "kubeadm", "kubectl"} {
		r.want["/opt/bin/"+name] = wanted{program(name, kubeVersion), 0o755}
		r.want["/opt/bin/kubernetes-"+kubeVersion+"/"+name] = wanted{program(name, kubeVersion), 0o755}
	}
	switch {
	case s.profile == "osp-flatcar":
		r.want[oemConfig] = wanted{out.Provisioning, 0o600}
	case image.name != "flatcar":
		r.want["/etc/cloud/cloud.cfg.d/"+provisioning+".cfg"] = wanted{out.Provisioning, 0o600}
	}
	r.onCall = r.check
	r.onKubelet = func() { r.complete("when the kubelet is started") }
	return r
}

// check holds at every command of every script: existing files are complete, only root can read a
// credential, and no command line contains one. The caller holds mu.
func (r *rehearsal) check(c protocol.Call) {
	for path, want := range r.want {
		r.intact(path, want, "when "+c.Argv[0]+" is called")
	}
	for _, argv := range append(c.Parents, c.Argv) {
		for _, secret := range r.secrets {
			if line := strings.Join(argv, " "); strings.Contains(line, secret) {
				r.once("a command line holds a credential: %s", strings.ReplaceAll(line, secret, "<secret>"))
			}
		}
	}
	if c.Argv[0] == "sleep" || c.Argv[0] == "mv" {
		r.readers()
	}
}

// intact reports whether a file exists; an existing file with wrong content, mode or owner is an
// error.
func (r *rehearsal) intact(path string, want wanted, when string) bool {
	real := r.resolve(path)
	// Not os.Stat: go test records its paths for its cache, and each command comes here.
	var stat unix.Stat_t
	statErr := unix.Stat(real, &stat)
	if errors.Is(statErr, fs.ErrNotExist) {
		return false
	}
	if statErr == nil && r.seen[path] == version(stat) {
		return true // checked before
	}
	mode := os.FileMode(stat.Mode).Perm()
	b, err := os.ReadFile(real)
	switch {
	case err != nil || statErr != nil:
		r.once("%s, %s: %v", path, when, errors.Join(err, statErr))
	case !bytes.Equal(b, want.content):
		r.once("%s, %s, holds %d bytes that are not the %d it should: %.200q", path, when, len(b), len(want.content), b)
	case want.mode != 0 && mode != want.mode:
		r.once("%s, %s, has the mode %o, want %o", path, when, mode, want.mode)
	default:
		r.seen[path] = version(stat)
	}
	return true
}

// version identifies a state of a file: every change of a file changes its ctime.
func version(stat unix.Stat_t) string { return fmt.Sprint(stat.Ino, stat.Ctim, stat.Size) }

// resolve follows the links of the node, which lead from its own root.
func (r *rehearsal) resolve(path string) string {
	for range 8 {
		target, err := os.Readlink(r.path(path))
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return r.path(path)
}

func (r *rehearsal) once(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !r.wrong[text] {
		r.wrong[text] = true
		r.t.Error(text)
	}
}

// readers looks for credentials in files that others than root can read.
func (r *rehearsal) readers() {
	for _, dir := range []string{"/etc", "/opt", "/var/lib", "/var/log", "/usr/share", "/boot"} {
		err := filepath.WalkDir(r.path(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return ignoreGone(err)
			}
			info, err := d.Info()
			if err != nil || info.Mode().Perm()&0o077 == 0 {
				return ignoreGone(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return ignoreGone(err)
			}
			if slices.ContainsFunc(r.secrets, func(s string) bool { return bytes.Contains(b, []byte(s)) }) {
				r.once("%s has the mode %o and holds a credential", strings.TrimPrefix(path, r.dir), info.Mode().Perm())
			}
			return nil
		})
		if err != nil {
			r.once("%v", err)
		}
	}
}

// ignoreGone: scripts rename and remove while one looks.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// complete holds when a node is one.
func (r *rehearsal) complete(when string) {
	for _, path := range slices.Sorted(maps.Keys(r.want)) {
		if !r.intact(path, r.want[path], when) {
			r.once("%s is not there %s", path, when)
		}
	}
	for _, path := range []string{
		"/etc/kubernetes/kubelet.conf", "/etc/kubernetes/pki/ca.crt", "/etc/systemd/system/kubelet.service", "/etc/containerd/config.toml",
		"/etc/osm-gitops/provenance.json", "/etc/kubernetes/nodeip.conf",
	} {
		if info, err := os.Stat(r.resolve(path)); err != nil || info.Size() == 0 {
			r.once("%s is empty or not there %s (%v)", path, when, err)
		}
	}
}

// finished holds when all services have ended.
func (r *rehearsal) finished() {
	r.t.Helper()
	if r.machine.kubelets == 0 {
		r.t.Error("the kubelet was never started")
	}
	r.complete("in the end")
	r.readers()
	for _, unit := range []string{"kubelet.service", "kubelet-healthcheck.service", "osm-gitops-match.timer"} {
		if !r.machine.active[unit] {
			r.t.Errorf("%s is not active", unit)
		}
		if !r.exists(wantsDir + unit) {
			r.t.Errorf("%s is not enabled", unit)
		}
	}
	for _, unit := range []string{"bootstrap.service", "setup.service"} {
		if r.exists(wantsDir+unit) && r.scenario.profile != "osp-flatcar-cloud-init" && (unit != "bootstrap.service" || !r.bootstrapped()) {
			r.t.Errorf("%s is still enabled", unit)
		}
	}
	if !r.machine.active["containerd.service"] {
		r.t.Error("containerd is not active")
	}
	out := r.output.String()
	for _, secret := range r.secrets {
		if strings.Contains(out, secret) {
			r.t.Error("the scripts print a credential")
		}
	}
	if left := r.cloud.left(); left > 0 {
		r.t.Errorf("%d faults have never happened", left)
	}
	for _, url := range r.cloud.seen() {
		host, path, _ := strings.Cut(url, "/")
		if host != apiHost && download(host, "/"+path) == nil {
			r.t.Errorf("the node asks for https://%s, which is not there", url)
		}
	}
	r.foretold()
}

// tree describes every file of a node: mode, owner and content, or the target of a link. It omits
// files that a reboot removes, the programs, what is kept of failures, and the preset, to which every run of Ignition
// appends.
func (r *rehearsal) tree() map[string]string {
	r.t.Helper()
	out := map[string]string{}
	skip := []string{protocol.Dir, "/proc", "/sys", "/dev", "/run", "/tmp", "/usr/bin", filepath.Dir(ignitionPreset), "/var/log"}
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, r.dir)
		if slices.Contains(skip, name) {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		uid, gid := owner(info)
		what := fmt.Sprintf("%s %d:%d", info.Mode(), uid, gid)
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += " " + sum(b)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += " -> " + target
		}
		out[name] = what
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}

func owner(info fs.FileInfo) (uid, gid uint32) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return stat.Uid, stat.Gid
}

// bootstrapped reports whether bootstrap.service would do nothing at another boot,
// whether it is enabled or not. It stays enabled when the power fails between the
// mark that it is done and its last command.
func (r *rehearsal) bootstrapped() bool {
	return r.exists("/etc/bootstrap-complete") && r.exists(unitDir+"bootstrap.service") &&
		r.parseUnit("bootstrap.service").condition == "!/etc/bootstrap-complete"
}

// equals holds a node to one that had no faults.
func (r *rehearsal) equals(want map[string]string) {
	r.t.Helper()
	got := r.tree()
	if r.bootstrapped() {
		delete(got, wantsDir+"bootstrap.service")
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		r.t.Errorf("the node differs from one that had no fault (-without +with):\n%s", diff)
	}
}

// parallel runs a test in parallel with others: half of its time is waiting.
func parallel(t *testing.T) {
	t.Helper()
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("nodes need Linux")
	}
}
