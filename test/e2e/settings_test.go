package e2e

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
)

// Settings with which a fleet works do not stop it. What can hardly do what was meant is
// told at the start, by doctor and by the dry run, and no credential is
// (security.md 14, 15).
func TestDoubtfulSettings(t *testing.T) {
	s := newSystem(t)
	proxy := "http://us er" + canary + ":1#p%x^ä" + canary + "@proxy.example.com:3128 "
	commit := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo '{{ .HTTPProxy }}' '{{ .ContainerRuntimeConfig }}'")})
	s.apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "registries", "namespace": namespace}, "type": string(corev1.SecretTypeDockerConfigJson),
		"stringData": map[string]any{corev1.DockerConfigJsonKey: `{"auths":{"https://a.example.com/v1/":{"auth":"` + canary + `1"},"a.example.com":{"auth":"` + canary + `2"}}}`},
	})
	flags := []string{
		"--disable-default-osps", "--node-http-proxy", proxy, "--node-registry-credentials-secret", namespace + "/registries",
		"--node-containerd-registry-mirrors", "x.io=", "--node-containerd-registry-mirrors", "=https://k",
		"--node-containerd-registry-mirrors", "y.io=https://user:p%x" + canary + "@m.example.com",
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
	s.source()

	var printed strings.Builder
	_, out, errs := s.runs(s.args(s.cluster.Kubeconfig, append(slices.Clone(flags), "--dry-run")...)...)
	printed.WriteString(out + errs)
	if !containsAll(out, append([]string{"WARNING: ", ofMirror}, want...)) {
		t.Errorf("the dry run does not tell:\n%s%s", out, errs)
	}
	_, out, errs = s.runs(s.args(s.cluster.Kubeconfig, append(slices.Clone(flags), "--dry-run", "-o", "json")...)...)
	printed.WriteString(out + errs)
	var report dryrun.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || len(report.Settings) != len(want)+1 {
		t.Errorf("the dry run has %v, %v", report.Settings, err)
	}

	s.pool("web", "osp-a")
	s.start(flags...)
	s.ready(commit)
	_, provisioning := s.served("web", "v1.0.0")
	if text := withFiles(string(provisioning.Data[api.UserDataKey])); !strings.Contains(text, proxy) || !strings.Contains(text, canary+"1") || strings.Contains(text, canary+"2") ||
		!strings.Contains(text, `[host."https://user:p%x`+canary+`@m.example.com"]`) || !strings.Contains(text, `server = "r.tld/b"`) || strings.Contains(text, `server = "r.tld/a"`) {
		t.Errorf("nodes do not get the settings as they are written:\n%s", text)
	}
	s.eventually("the events", func() error {
		notes := strings.Join(s.notesIn(namespace, "osps", api.EventSettingDoubtful), "\n")
		if !containsAll(notes, append([]string{ofMirror}, want...)) {
			return fmt.Errorf("they say %s", notes)
		}
		return nil
	})
	s.logMu.Lock()
	log := s.log.String()
	s.logMu.Unlock()
	if got := strings.Count(log, "a setting can hardly do what was meant"); got != len(want)+1 {
		t.Errorf("the log has %d warnings", got)
	}
	printed.WriteString(log)

	_, out, errs = s.runs("doctor", "--kubeconfig", s.cluster.Kubeconfig, "-o", "json")
	printed.WriteString(out + errs)
	var seen doctor.Report
	s.noError(json.Unmarshal([]byte(out), &seen))
	var found []string
	for _, f := range seen.Findings {
		if f.Check == "settings" && f.Level == doctor.Warning && f.Do != "" {
			found = append(found, strings.Replace(f.Found, ", which pools have", "", 1))
		}
	}
	if len(found) != len(want) || !containsAll(strings.Join(found, "\n"), want) {
		t.Errorf("doctor finds %q", found)
	}

	_, out, errs = s.runs("diff", "HEAD", "HEAD", "--repo", s.git.work, "--kubeconfig", s.cluster.Kubeconfig)
	printed.WriteString(out + errs)
	for _, list := range []client.ObjectList{&osm.OperatingSystemConfigList{}, &corev1.ConfigMapList{}, &appsv1.ControllerRevisionList{}, &eventsv1.EventList{}, &api.ProfileSourceList{}} {
		s.noError(s.client.List(t.Context(), list))
		b, err := json.Marshal(list)
		s.noError(err)
		printed.Write(b)
	}
	if strings.Contains(printed.String(), canary) {
		t.Errorf("a credential is told: %s", around(printed.String(), canary))
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
