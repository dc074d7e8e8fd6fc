package bootnodes_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinesapi "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/profiles"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// failure is a way in which a script of a booting machine fails again and again.
type failure struct {
	name   string
	system *system
	breaks func(r *rehearsal)
	stage  api.BootStage
	// line is part of the profile's line that the report must name.
	line string
	// always: it is part of every run, not only of a soak.
	always bool
}

const (
	fetchesSecret = "/opt/bin/fetch-secret "
	downloads     = "curl --fail --silent --show-error --location"
)

var failures = []failure{
	{name: "provisioning", system: bookworm, breaks: missing("provisioning"), stage: api.BootStageBootstrap, line: fetchesSecret},
	{name: "kubeconfig", system: trixie, breaks: missing("kubeconfig"), stage: api.BootStageSetup, line: fetchesSecret + "{{ .BootstrapKubeconfigSecretName }}"},
	{name: "kubelet", system: bookworm, breaks: missing("/kubelet.sha256"), stage: api.BootStageSetup, line: downloads},
	{name: "checksum", system: trixie, breaks: wrongChecksum, stage: api.BootStageSetup, line: `download "$binary-$KUBE_VERSION-linux-$arch"`},
	{name: "archive", system: bookworm, breaks: notAnArchive, stage: api.BootStageSetup, line: `tar -x -z -f "/var/lib/osm-gitops/downloads/$cni"`},
	{name: "packages", system: trixie, breaks: missing(".deb"), stage: api.BootStageSetup, line: "apt-get -q -y -o DPkg::Lock::Timeout=600"},
	{name: "key", system: bookworm, breaks: missing("/gpg"), stage: api.BootStageSetup, line: downloads},
	{name: "folder", system: trixie, breaks: func(r *rehearsal) { r.write("/opt/cni/bin", "", 0o644) }, stage: api.BootStageSetup, line: "install -d -m 755 /etc/cni/net.d"},
	{name: "service", system: bookworm, breaks: failingService, stage: api.BootStageSetup, line: "systemctl restart containerd.service"},
	{name: "credentials", system: trixie, breaks: printsCredentials, stage: api.BootStageSetup, line: "systemctl enable kubelet.service", always: true},
	{name: "certificate", system: bookworm, breaks: missing("/certificatesigningrequests"), stage: api.BootStageJoin, line: "[[ -s /etc/kubernetes/pki/kubelet-client-current.pem ]]"},
	{name: "flatcar-provisioning", system: flatcar, breaks: missing("provisioning"), stage: api.BootStageBootstrap, line: fetchesSecret},
	{name: "flatcar-kubelet", system: flatcar, breaks: missing("/kubelet"), stage: api.BootStageSetup, line: downloads, always: true},
	{name: "flatcar-cloud-init", system: coreOS, breaks: missing("/kubelet"), stage: api.BootStageBootstrap, line: downloads},
	{name: "rhel", system: rhel, breaks: missing("/kubelet"), stage: api.BootStageSetup, line: downloads},
	{name: "rockylinux", system: rocky, breaks: missing("/kubelet"), stage: api.BootStageSetup, line: downloads},
	{name: "amzn2", system: amazon, breaks: missing("/kubelet"), stage: api.BootStageSetup, line: downloads},
}

// missing lets a server answer with 404, or the API server with 403.
func missing(on string) func(r *rehearsal) {
	return func(r *rehearsal) {
		trouble, end, status := r.downloads(), on, http.StatusNotFound
		switch on {
		case "provisioning":
			trouble, end, status = r.api(), "/secrets/"+r.provisioning.Name, http.StatusForbidden
		case "kubeconfig":
			trouble, end, status = r.api(), "/secrets/"+r.kubeconfig, http.StatusForbidden
		case "/certificatesigningrequests":
			trouble, status = r.api(), http.StatusForbidden
		}
		trouble.Add(nodefixture.Fault{On: end, Times: 1 << 10, Handler: nodefixture.Says(status, "no\n")})
	}
}

// notAnArchive makes a publisher serve something else, with the right checksum.
func notAnArchive(r *rehearsal) {
	const text = "this is no archive\n"
	sum := sha256.Sum256([]byte(text))
	r.downloads().Add(nodefixture.Fault{On: ".tgz.sha256", Times: 1 << 10, Handler: nodefixture.Says(http.StatusOK, hex.EncodeToString(sum[:])+"  x\n")})
	r.downloads().Add(nodefixture.Fault{On: ".tgz", Times: 1 << 10, Handler: nodefixture.Says(http.StatusOK, text)})
}

// failingService prevents containerd from starting.
func failingService(r *rehearsal) {
	r.write("/etc/systemd/system/containerd.service.d/50-broken.conf", "[Service]\nExecStartPre=/bin/false\n", 0o644)
}

// printsCredentials makes a command print every credential that the machine has, and fail.
func printsCredentials(r *rehearsal) {
	r.write("/usr/local/sbin/systemctl", `#!/bin/sh
case "$*" in
"enable kubelet.service"*)
  cat /etc/osm-gitops/token-header /etc/kubernetes/bootstrap-kubelet.conf
  sed -n 's/.*token: /just the token /p; s/.*Bearer //p' /etc/osm-gitops/token-header /etc/kubernetes/bootstrap-kubelet.conf
  exit 1
  ;;
esac
exec /usr/bin/systemctl "$@"
`, 0o755)
}

// bootReport is the BootReport of the machine's pool.
func (r *rehearsal) bootReport() (*api.BootReport, error) {
	of := &machinesapi.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.cloud.namespace, Name: r.pool}}
	report := &api.BootReport{}
	return report, r.cloud.client.Get(r.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(client.ObjectKeyFromObject(of))}, report)
}

var endsWithStatus = regexp.MustCompile(`(?m)^(\d+\.\d+) .*supervise: \S+ ended with status`)

// failing waits until the controller has concluded why a stage fails. It returns that, and when a script
// ended for the first time, by the machine's journal.
func (r *rehearsal) failing(stage api.BootStage) (api.MachineBootStatus, time.Time) {
	r.t.Helper()
	var out api.MachineBootStatus
	r.cloud.eventually(r.t, r.name+" reports why it fails", func() error {
		report, err := r.bootReport()
		if err != nil {
			return err
		}
		i := slices.IndexFunc(report.Status.Machines, func(s api.MachineBootStatus) bool {
			return s.Machine == r.name && s.Stage == stage && s.Outcome == api.BootFailing && s.Cause != nil
		})
		if i < 0 {
			return fmt.Errorf("it has %+v", report.Status)
		}
		out = report.Status.Machines[i]
		return nil
	})
	found := endsWithStatus.FindStringSubmatch(r.journal("short-unix"))
	if found == nil {
		r.t.Fatal("the journal has no failure")
	}
	seconds, err := strconv.ParseFloat(found[1], 64)
	r.must(err)
	return out, time.UnixMicro(int64(seconds * 1e6))
}

// TestFailedBoots: a machine that fails reports the line of the profile, and no credential leaves it
// (security.md 46).
func TestFailedBoots(t *testing.T) {
	onlyOurs(t)
	t.Run("commit", func(t *testing.T) {
		t.Parallel()
		holdsItsCommit(t)
	})
	for _, f := range failures {
		if !f.always && !soak {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := rehearse(t, f.system, f.system.name, "fails-"+f.name)
			f.breaks(r)
			r.on()
			got, first := r.failing(f.stage)
			t.Logf("%s: %s, %.1f s after the first failure", f.name, got.Cause, time.Since(first).Seconds())
			text, err := fs.ReadFile(profiles.FS(), f.system.profile+".yaml")
			r.must(err)
			lines := strings.Split(string(text), "\n")
			if c := got.Cause; c.File != f.system.profile+".yaml" || c.Line < 1 || int(c.Line) > len(lines) || !strings.Contains(lines[c.Line-1], f.line) {
				t.Errorf("the cause is %+v, want the line with %q", c, f.line)
			}
			if c := got.Cause; c.Commit != r.cloud.commit || !strings.HasPrefix(c.Author, "Ada ") || c.ExitStatus == 0 {
				t.Errorf("the cause is %+v, want commit %s by Ada", c, r.cloud.commit)
			}
			r.keepsCredentials(f.name == "credentials")
		})
	}
}

// keepsCredentials: no credential of the machine is in what comes of its report.
func (r *rehearsal) keepsCredentials(printed bool) {
	r.t.Helper()
	report, err := r.bootReport()
	r.must(err)
	i := slices.IndexFunc(report.Spec.Machines, func(m api.MachineBoot) bool { return m.Machine == r.name && m.Outcome == api.BootFailing })
	if i < 0 || printed && !strings.Contains(report.Spec.Machines[i].Log, "just the token ***") {
		r.t.Fatalf("the report is %+v", report.Spec)
	}
	var events eventsv1.EventList
	r.must(r.cloud.client.List(r.t.Context(), &events))
	texts := map[string]string{}
	for what, object := range map[string]any{"report": report, "events": events} {
		text, err := json.Marshal(object)
		r.must(err)
		texts[what] = string(text)
	}
	for what, file := range map[string]string{"controller's log": r.cloud.log, "audit log": auditLog} {
		text, err := os.ReadFile(file)
		r.must(err)
		texts[what] = string(text)
	}
	r.cloud.eventually(r.t, "the page of the pool has the machine", func() error {
		res, err := http.Get("http://" + pageAddress + "/pools/" + r.cloud.namespace + "/" + r.pool)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		texts["page"] = string(text)
		if err == nil && !strings.Contains(texts["page"], r.name) {
			err = errors.New("it does not")
		}
		return err
	})
	secrets := r.tokens()
	if printed {
		secrets = append(secrets, r.bootstrapToken())
	}
	for what, text := range texts {
		for i, secret := range secrets {
			if strings.Contains(text, secret) {
				r.t.Errorf("credential %d is in the %s", i, what)
			}
		}
	}
}

// host is a Git host that takes commit statuses.
type host struct {
	mu  sync.Mutex
	got map[string]string // the last "state: description" about boots, by commit
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ State, Context, Description string }
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		http.Error(w, "invalid JSON", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.HasPrefix(body.Context, "osm-gitops-boots") {
		h.got[path.Base(r.URL.Path)] = body.State + ": " + body.Description
	}
	w.WriteHeader(http.StatusCreated)
}

func (h *host) of(commit string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got[commit]
}

// holdsItsCommit: from a commit with a mistake to the held wave and the failed commit status, with
// what the command line says about it.
func holdsItsCommit(t *testing.T) {
	c := theCloud(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	repo, err := testenv.NewRepository(t.Context(), gitRoot+"/shop")
	must(err)
	must(os.Symlink("work/.git", gitRoot+"/shop/profiles.git")) // a host's API needs OWNER/NAME
	statuses := &host{got: map[string]string{}}
	server := httptest.NewServer(statuses)
	t.Cleanup(server.Close)
	text, err := fs.ReadFile(profiles.FS(), "osp-ubuntu.yaml")
	must(err)
	push := func(version, before string) (commit string, line int) {
		t.Helper()
		const begins = "            if systemctl is-active --quiet ufw.service; then\n"
		content := regexp.MustCompile(`(?m)^  name: osp-ubuntu$`).ReplaceAllString(string(text), "  name: osp-web")
		content = regexp.MustCompile(`(?m)^  version: .*$`).ReplaceAllString(content, "  version: "+version)
		at := strings.Index(content, begins)
		if at < 0 {
			t.Fatal("the profile begins in another way")
		}
		commit, err := repo.Push(t.Context(), map[string]string{"osp-web.yaml": content[:at] + before + content[at:]})
		must(err)
		return commit, strings.Count(content[:at], "\n") + 1
	}
	push("v1.0.0", "")
	must(c.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "shop-host"},
		StringData: map[string]string{api.WebhookToken: "webhook", api.WebhookAPIToken: "api", api.WebhookAPIURL: server.URL},
	}))
	must(c.client.Create(t.Context(), &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "shop"},
		Spec: api.ProfileSourceSpec{
			Git: &api.GitSource{URL: c.git + "/shop/profiles.git", Timeout: metav1.Duration{Duration: time.Minute}}, Interval: metav1.Duration{Duration: 5 * time.Second}, RetryInterval: metav1.Duration{Duration: time.Second},
			Webhook: &api.Webhook{Provider: "gitea", SecretRef: meta.LocalObjectReference{Name: "shop-host"}},
			Rollout: &api.Rollout{Gate: api.GateWaves},
		},
	}))
	web := *bookworm
	web.name, web.profile = "web", "osp-web"
	for i, pool := range []string{"web", "web-later"} {
		c.makePool(t, pool, &web)
		wave := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"%d"}}}`, api.LabelWave, i))
		must(c.client.Patch(t.Context(), &machinesapi.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: pool}}, wave))
	}
	bad, line := push("v1.1.0", "            curl --fail --silent --show-error --output /opt/bin/exporter https://dl.k8s.io/exporter/v1.9.0/exporter\n")
	c.eventually(t, "the first wave gets the commit", func() error {
		bootstrap, provisioning := c.documents(t, "web")
		if bootstrap.Annotations[api.AnnotationVersion] != "v1.1.0" || provisioning.Annotations[api.AnnotationVersion] != "v1.1.0" {
			return errors.New("it has not")
		}
		return nil
	})
	r := rehearse(t, &web, "web", "7k2x1")
	r.on()
	_, first := r.failing(api.BootStageSetup)
	t.Logf("the cause is known %.1f s after the first failure", time.Since(first).Seconds())
	place := fmt.Sprintf("osp-web.yaml:%d, exit status 22", line)
	c.eventually(t, "the wave is held", func() error {
		var ps api.ProfileSource
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "shop"}, &ps); err != nil {
			return err
		}
		if rollout := ps.RolloutOf("osp-web"); rollout == nil || !rollout.Held || len(rollout.Failures) == 0 || rollout.Failures[0].Reason != api.FailureBootFailing || rollout.Failures[0].Cause != place {
			return fmt.Errorf("the rollout is %+v", rollout)
		}
		return nil
	})
	t.Logf("the wave is held %.1f s after the first failure", time.Since(first).Seconds())
	c.eventually(t, "the commit status is a failure", func() error {
		if got, want := statuses.of(bad), "failure: machines do not boot: "+place; got != want {
			return fmt.Errorf("it is %q, want %q", got, want)
		}
		return nil
	})
	t.Logf("the commit status is a failure %.1f s after the first failure", time.Since(first).Seconds())
	if _, later := c.documents(t, "web-later"); later.Annotations[api.AnnotationVersion] != "v1.0.0" {
		t.Errorf("the second wave has %s", later.Annotations[api.AnnotationVersion])
	}
	for _, args := range [][]string{{"boots"}, {"trace", "machine/" + c.namespace + "/" + r.name}} {
		args = append(args, "--kubeconfig", c.cluster.Kubeconfig, "--namespace", c.namespace, "--controller-namespace", metav1.NamespaceSystem)
		out, err := exec.CommandContext(t.Context(), os.Getenv(controllerEnv), args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), place) {
			t.Errorf("%s: %v", args[0], err)
		}
		t.Logf("osm-gitops %s:\n%s", args[0], out)
	}
}
