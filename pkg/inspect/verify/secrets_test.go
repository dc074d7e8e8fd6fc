package verify

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// secret creates or replaces a Secret of nodes.
func (s *scene) secret(name, key, text string) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: name, Annotations: map[string]string{
			api.AnnotationPool: "kube-system/workers", api.AnnotationDataDigest: lineage.DataDigest([]byte(text)),
		}},
		Data: map[string][]byte{key: []byte(text)},
	}
	s.e.Objects = append(s.e.Objects, secret)
	return secret
}

const (
	server     = "https://api.example.com:6443"
	bootName   = "workers-kube-system-bootstrap-config"
	inputsName = "workers-kube-system-inputs"
	kubeName   = "kube-system-workers-kubelet-bootstrap-config"
	otherToken = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJvdGhlciJ9.other"
)

// withSecrets adds the Secrets of a pool in a cluster.
func withSecrets(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.v.WithoutSecrets = false
	var rec render.Record
	s.do(json.Unmarshal([]byte(s.osc().Annotations[api.AnnotationRecord]), &rec))
	s.secret(inputsName, render.ShortDigest(rec.Digests.Input), `{"httpProxy":"http://user:canary@proxy.example.com"}`)
	s.secret(kubeName, api.KubeconfigKey, render.BootstrapKubeconfig(server, "", "canary.0123456789canary"))
	for _, name := range []string{bootName, "workers-kube-system-provisioning-config"} {
		secret := clusterfixture.Get[*corev1.Secret](s.e, name)
		secret.Annotations[api.AnnotationDataDigest] = lineage.DataDigest(secret.Data[api.UserDataKey])
	}
	return s
}

func get1(s *scene, name string) *corev1.Secret { return clusterfixture.Get[*corev1.Secret](s.e, name) }

// edit changes the text of a Secret, and its digest.
func (s *scene) edit(name, key, was, is string) {
	s.t.Helper()
	secret := get1(s, name)
	text := strings.Replace(string(secret.Data[key]), was, is, 1)
	if text == string(secret.Data[key]) {
		s.t.Fatalf("Secret %s does not hold %q", name, was)
	}
	secret.Data[key] = []byte(text)
	secret.Annotations[api.AnnotationDataDigest] = lineage.DataDigest(secret.Data[key])
}

// clusterInfo adds ConfigMap cluster-info with a kubeconfig.
func (s *scene) clusterInfo(kubeconfig string) {
	s.e.Objects = append(s.e.Objects, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": kubeconfig},
	})
}

// Secrets equal a rendering with their tokens. Differences show no credential (security.md
// 15).
func TestSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(s *scene)
		verdict string
		where   string
		found   string
	}{
		"nothing":           {func(*scene) {}, "agrees", "", ""},
		"another token":     {func(s *scene) { s.document(bootName, `/etc/token`, otherToken+"\n") }, "agrees", "", ""},
		"a file":            {func(s *scene) { s.document(bootName, `/opt/bin/bootstrap`, "#!/bin/sh\necho evil\n") }, "Secret differs", `file "/opt/bin/bootstrap"`, "echo evil"},
		"no token":          {func(s *scene) { s.document(bootName, `/etc/token`, "nothing of the kind\n") }, "Secret differs", `file "/etc/token"`, hidden},
		"a token elsewhere": {func(s *scene) { s.document(bootName, `/opt/bin/bootstrap`, "#!/bin/sh\necho "+otherToken+"\n") }, "Secret differs", `file "/opt/bin/bootstrap"`, "echo " + hidden},
		"what is no document": {func(s *scene) {
			get1(s, bootName).Data[api.UserDataKey] = []byte("canary: [")
		}, "Secret differs", "", hidden},
		"a digest":        {func(s *scene) { get1(s, bootName).Annotations[api.AnnotationDataDigest] = "evil" }, "Secret differs", "annotation gitops.k8c.io/data-digest", "evil"},
		"an annotation":   {func(s *scene) { get1(s, bootName).Annotations[api.AnnotationCommit] = "evil" }, "Secret differs", "annotation gitops.k8c.io/commit", "evil"},
		"an input digest": {func(s *scene) { get1(s, bootName).Annotations[api.AnnotationInputDigest] = "evil" }, "Secret differs", "annotation gitops.k8c.io/input-digest", "evil"},
		"a key more":      {func(s *scene) { get1(s, bootName).Data["more"] = []byte("evil") }, "Secret differs", "data", "2 keys"},
		"no Secret":       {func(s *scene) { clusterfixture.Delete[*corev1.Secret](s.e, bootName) }, "Secret is missing", "", ""},
		"a server":        {func(s *scene) { s.edit(kubeName, api.KubeconfigKey, server, "https://evil.example.com") }, "Secret differs", "server", "https://evil.example.com"},
		"a plugin": {func(s *scene) {
			s.edit(kubeName, api.KubeconfigKey, "token: canary.0123456789canary", "exec: {apiVersion: client.authentication.k8s.io/v1, command: evil}")
		}, "Secret differs", "user", "something else"},
		"no check of certificates": {func(s *scene) {
			s.edit(kubeName, api.KubeconfigKey, "server: "+server, "server: "+server+"\n    insecure-skip-tls-verify: true")
		},
			"Secret differs", "cluster", "insecure-skip-tls-verify"},
		"a CA": {func(s *scene) {
			s.edit(kubeName, api.KubeconfigKey, "server: "+server, "server: "+server+"\n    certificate-authority-data: ZXZpbA==")
		}, "Secret differs", "certificate-authority-data", "another one"},
		"no kubeconfig":                    {func(s *scene) { clusterfixture.Delete[*corev1.Secret](s.e, kubeName) }, "Secret is missing", "", ""},
		"no credentials":                   {func(s *scene) { clusterfixture.Delete[*corev1.Secret](s.e, inputsName) }, "unproven", "", ""},
		"cluster-info has the same server": {func(s *scene) { s.clusterInfo(render.BootstrapKubeconfig(server, "ca", "")) }, "agrees", "", ""},
		"cluster-info has the server and the CA": {func(s *scene) {
			s.clusterInfo(render.BootstrapKubeconfig("https://info.example.com", "info", ""))
			s.edit(kubeName, api.KubeconfigKey, string(get1(s, kubeName).Data[api.KubeconfigKey]), render.BootstrapKubeconfig("https://info.example.com", "info", "canary.0123456789canary"))
		}, "agrees", "", ""},
		"cluster-info has another CA": {func(s *scene) {
			s.clusterInfo(render.BootstrapKubeconfig("https://info.example.com", "info", ""))
			s.edit(kubeName, api.KubeconfigKey, string(get1(s, kubeName).Data[api.KubeconfigKey]), render.BootstrapKubeconfig("https://info.example.com", "evil", "canary.0123456789canary"))
		}, "Secret differs", "certificate-authority-data", "another one"},
		"cluster-info that cannot be read": {func(s *scene) { s.clusterInfo("{") }, "agrees", "", ""},
		"cluster-info without a cluster":   {func(s *scene) { s.clusterInfo("{}") }, "agrees", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := withSecrets(t)
			c.do(s)
			report := s.verify("")
			text, err := json.MarshalIndent(report, "", "  ")
			s.do(err)
			if report.Verdict != c.verdict {
				t.Fatalf("verdict %q, want %q\n%s", report.Verdict, c.verdict, text)
			}
			if strings.Contains(string(text), "canary") || strings.Contains(string(text), otherToken) {
				t.Errorf("a credential is told\n%s", text)
			}
			if c.where+c.found == "" {
				return
			}
			if first := report.FirstDifference(); first == nil || first.Difference == nil || !strings.Contains(first.Difference.Field, c.where) || !strings.Contains(first.Difference.Found, c.found) {
				t.Errorf("the first difference is not at %q with %q\n%s", c.where, c.found, text)
			}
		})
	}
}

// The controller trusts a record that was edited together with its digests, if the inputs
// in the Secrets were edited as well. Verifying the pool still detects it.
func TestForgedRecordThatSecretsConfirm(t *testing.T) {
	for where, forge := range map[string]func(*render.Record){
		"commit":        func(r *render.Record) { r.Commit = clusterfixture.Commit(9) },
		"sshPublicKeys": func(r *render.Record) { r.Pool.SSHPublicKeys = []string{"evil"} },
	} {
		for name, confirm := range map[string]func(s *scene){
			"no Secret names its input": func(s *scene) {
				delete(get1(s, bootName).Annotations, api.AnnotationInputDigest)
				delete(get1(s, "workers-kube-system-provisioning-config").Annotations, api.AnnotationInputDigest)
			},
			"one Secret names the forged input": func(s *scene) {
				get1(s, bootName).Annotations[api.AnnotationInputDigest] = s.osc().Annotations[api.AnnotationInputDigest]
			},
		} {
			t.Run(where+", "+name, func(t *testing.T) {
				s := withSecrets(t)
				s.record(true, forge)
				confirm(s)
				report := s.verify("")
				first := report.FirstDifference()
				if first == nil || first.Thing != ThingRecord || first.Difference == nil || !strings.Contains(first.Difference.Field, where) {
					t.Errorf("verdict %q, the first difference is %+v", report.Verdict, first)
				}
			})
		}
	}
}

// document edits a file in a document of the pool.
func (s *scene) document(name, path, content string) {
	s.t.Helper()
	was := ""
	for _, l := range entriesOf(get1(s, name).Data[api.UserDataKey]) {
		if l.where == `file "`+path+`"` {
			was = l.text
		}
	}
	s.edit(name, api.UserDataKey, encoded(was), encoded(content))
}

// encoded is the form of the fixture's files in a document.
func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// The script of provider edge is compared, with its token.
func TestEdgeScript(t *testing.T) {
	s := withSecrets(t)
	s.verify("")
	of := &target{pool: types.NamespacedName{Namespace: clusterfixture.Namespace, Name: "workers"}, gen: lineage.ConfigRecord(s.osc())}
	in := render.Input{Pool: of.gen.Record.Pool, Cluster: render.Cluster{Server: server, APIServerToken: "eyJhbGciOiJub25lIn0.eyJzdWIiOiJwbGFjZWhvbGRlciJ9.x"}}
	b := &bootRenderer{engine: s.v.Engine, in: in, placeholders: &render.Output{}}
	for name, c := range map[string]struct {
		script string
		want   Result
	}{
		"as it should be":   {strings.Replace(in.EdgeScript(), in.Cluster.APIServerToken, otherToken, 1), Agrees},
		"of another server": {strings.Replace(in.EdgeScript(), "api.example.com", "evil.example.com", 1), Differs},
		"not at all":        {"", Missing},
	} {
		const secret = "edge-provider-script-workers-kube-system"
		s := withSecrets(t)
		if c.script != "" {
			s.secret(secret, "fetch-bootstrap-script", c.script)
		}
		s.verify("")
		check, err := s.v.checkEdgeScript(t.Context(), of, b)
		if err != nil || check.Result != c.want || check.Difference != nil && strings.Contains(check.Difference.Found, "eyJ") {
			t.Errorf("%s: %+v %+v (%v)", name, check, check.Difference, err)
		}
	}
}

// Documents of operating-system-manager are compared by their meaning.
func TestTakenOver(t *testing.T) {
	engine := render.NewEngine()
	compared := 0
	for _, c := range conformance.Cases(t) {
		in, err := c.Input(t)
		if err != nil || c.WantError != "" {
			continue
		}
		compared++
		b, _ := again(t, engine, in)
		b.in.Cluster = in.Cluster
		for stage, document := range map[string][]byte{"bootstrap": c.WantBootstrap, "provisioning": c.WantProvisioning} {
			if d, err := b.compareOSMDocument(document, stage); d != nil || err != nil {
				t.Errorf("%s, %s: %+v (%v)", c.Name, stage, d, err)
			}
		}
		if d, err := b.compareOSMDocument(c.WantProvisioning, "bootstrap"); d == nil || err != nil {
			t.Errorf("%s: another document is taken for the same (%v)", c.Name, err)
		}
	}
	if compared < 50 {
		t.Errorf("compared %d cases", compared)
	}
}
