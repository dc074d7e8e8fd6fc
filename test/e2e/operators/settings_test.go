package operators

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/doctor"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// Settings that work in an existing fleet do not stop the controller. Those that probably do not
// have the intended effect are reported at start, by doctor and by the dry run, without
// credentials (security.md 14, 15).
func TestDoubtfulSettings(t *testing.T) {
	s := newSystem(t)
	proxy := "http://us er" + e2e.Canary + ":1#p%x^ä" + e2e.Canary + "@proxy.example.com:3128 "
	commit := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo '{{ .HTTPProxy }}' '{{ .ContainerRuntimeConfig }}'")})
	s.Apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "registries", "namespace": e2e.Namespace}, "type": string(corev1.SecretTypeDockerConfigJson),
		"stringData": map[string]any{corev1.DockerConfigJsonKey: `{"auths":{"https://a.example.com/v1/":{"auth":"` + e2e.Canary + `1"},"a.example.com":{"auth":"` + e2e.Canary + `2"}}}`},
	})
	flags := []string{
		"--disable-default-osps", "--node-http-proxy", proxy, "--node-registry-credentials-secret", e2e.Namespace + "/registries",
		"--node-containerd-registry-mirrors", "x.io=", "--node-containerd-registry-mirrors", "=https://k",
		"--node-containerd-registry-mirrors", "y.io=https://user:p%x" + e2e.Canary + "@m.example.com",
		"--node-containerd-registry-mirrors", "z.io=https://bad host", "--node-insecure-registries", "r.tld/a,r.tld/b",
	}
	want := []string{
		`-node-http-proxy "http://(not shown)@proxy.example.com:3128 ": its user and password are not percent-encoded`,
		`-node-containerd-registry-mirrors "x.io=": its address has no host`, `"=https://k": it names no registry`,
		`"z.io=https://bad host": its address has no host`,
		`-node-insecure-registries "r.tld/a": containerd knows hosts only, and nodes get what the flags say of registry "r.tld/b"`,
		`-node-registry-credentials-secret "a.example.com": nodes get the credentials of "https://a.example.com/v1/"`,
	}
	const ofMirror = `"y.io=https://(not shown)@m.example.com": its user and password are not percent-encoded` // not to be seen without them
	s.Source()

	var printed strings.Builder
	_, out, errs := s.Runs(s.Args(s.Cluster.Kubeconfig, append(slices.Clone(flags), "--dry-run")...)...)
	printed.WriteString(out + errs)
	if !e2e.ContainsAll(out, append([]string{"WARNING: ", ofMirror}, want...)) {
		t.Errorf("the dry run does not tell:\n%s%s", out, errs)
	}
	_, out, errs = s.Runs(s.Args(s.Cluster.Kubeconfig, append(slices.Clone(flags), "--dry-run", "-o", "json")...)...)
	printed.WriteString(out + errs)
	var report dryrun.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Settings) != len(want)+1 {
		t.Errorf("the dry run has %v, %v", report.Settings, err)
	}

	s.Pool("web", "osp-a")
	s.Start(flags...)
	s.Ready(commit)
	_, provisioning := s.Served("web", "v1.0.0")
	if text := withFiles(string(provisioning.Data[api.UserDataKey])); !strings.Contains(text, proxy) || !strings.Contains(text, e2e.Canary+"1") || strings.Contains(text, e2e.Canary+"2") ||
		!strings.Contains(text, `[host."https://user:p%x`+e2e.Canary+`@m.example.com"]`) || !strings.Contains(text, `server = "r.tld/b"`) || strings.Contains(text, `server = "r.tld/a"`) {
		t.Errorf("nodes do not get the settings as they are written:\n%s", text)
	}
	s.Eventually("the events", func() error {
		notes := strings.Join(s.EventsIn(e2e.Namespace, "osps", api.EventSettingDoubtful), "\n")
		if !e2e.ContainsAll(notes, append([]string{ofMirror}, want...)) {
			return fmt.Errorf("they say %s", notes)
		}
		return nil
	})
	s.LogMu.Lock()
	log := s.Log.String()
	s.LogMu.Unlock()
	if got := strings.Count(log, "a setting probably does not have the intended effect"); got != len(want)+1 {
		t.Errorf("the log has %d warnings", got)
	}
	printed.WriteString(log)

	_, out, errs = s.Runs("doctor", "--kubeconfig", s.Cluster.Kubeconfig, "-o", "json")
	printed.WriteString(out + errs)
	var seen doctor.Report
	s.NoError(json.Unmarshal([]byte(out), &seen))
	var found []string
	for _, f := range seen.Findings {
		if f.Check == "settings" && f.Level == doctor.Warning && f.Remedy != "" {
			found = append(found, strings.Replace(f.Found, ", which pools have", "", 1))
		}
	}
	if len(found) != len(want) || !e2e.ContainsAll(strings.Join(found, "\n"), want) {
		t.Errorf("doctor finds %q", found)
	}

	_, out, errs = s.Runs("diff", "HEAD", "HEAD", "--repo", s.Git.Work, "--kubeconfig", s.Cluster.Kubeconfig)
	printed.WriteString(out + errs)
	for _, list := range []client.ObjectList{&osm.OperatingSystemConfigList{}, &corev1.ConfigMapList{}, &appsv1.ControllerRevisionList{}, &eventsv1.EventList{}, &api.ProfileSourceList{}} {
		s.NoError(s.Client.List(t.Context(), list))
		b, err := json.Marshal(list)
		s.NoError(err)
		printed.Write(b)
	}
	if strings.Contains(printed.String(), e2e.Canary) {
		t.Errorf("a credential is told: %s", e2e.Around(printed.String(), e2e.Canary))
	}
}

// withFiles is user-data with the content of its files that are in base64.
func withFiles(text string) string {
	for _, word := range strings.Fields(text) {
		if b, err := base64.StdEncoding.DecodeString(word); err == nil {
			text += "\n" + string(b)
		}
	}
	return text
}
