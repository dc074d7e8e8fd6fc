package operators

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// edit is something that an administrator does to an object, with no policy and no
// controller in the way: what is immutable is deleted and made again.
func edit[T client.Object](s *system, obj T, namespace, name string, how func(T)) (undo func()) {
	s.T.Helper()
	s.Must(s.Get(namespace, name, obj))
	before := obj.DeepCopyObject().(T)
	how(obj)
	s.replace(obj)
	return func() { s.replace(before) }
}

// replace deletes an object and makes it again.
func (s *system) replace(obj client.Object) {
	s.T.Helper()
	ctx := context.WithoutCancel(s.T.Context())
	s.NoError(client.IgnoreNotFound(s.Client.Delete(ctx, obj)))
	obj.SetResourceVersion("")
	obj.SetUID("")
	s.NoError(s.Client.Create(ctx, obj))
}

// tampering is an edit of an object, and the finding that it must cause.
type tampering struct {
	name    string
	subject string
	do      func() (undo func())
	// verdict, and the place and the current value of the first difference.
	verdict, where, found string
	status                int
}

// tamper edits one thing after the other, and wants each of them named.
func (s *system) tamper(all []born) {
	old, last := all[0], all[11] // of a replaced configuration, and of the present one
	pool := last.pool + "-" + s.Pools
	node, before := "node/"+last.node.Name, "node/"+old.node.Name
	// One that is created again sooner proves nothing: see asIfCreatedAgain of package verify.
	s.Eventually("the configuration is older than the leeway", func() error {
		var osc osm.OperatingSystemConfig
		s.Must(s.Get(e2e.Namespace, pool+"-config", &osc))
		if age := time.Since(osc.CreationTimestamp.Time); age < lineage.Leeway+2*time.Second {
			return fmt.Errorf("it was created %s ago", age)
		}
		return nil
	})
	const script = `provisioningConfig.files[0] "/opt/bin/setup".content.inline.data`
	for _, c := range []tampering{
		{name: "OSC", subject: node, verdict: "OSC differs", where: "spec." + script, found: "echo evil", do: func() func() {
			return edit(s, &osm.OperatingSystemConfig{}, e2e.Namespace, pool+"-config", func(osc *osm.OperatingSystemConfig) {
				data := &osc.Spec.ProvisioningConfig.Files[0].Content.Inline.Data
				*data = strings.Replace(*data, "echo three", "echo evil", 1)
			})
		}},
		{name: "Secret", subject: node, verdict: "Secret differs", where: `file "/opt/bin/setup"`, found: "echo evil", do: func() func() {
			return edit(s, &corev1.Secret{}, api.NamespaceCloudInitSettings, pool+"-provisioning-config", func(secret *corev1.Secret) {
				text := strings.Replace(string(secret.Data[api.UserDataKey]), "echo three", "echo evil", 1)
				sum := sha256.Sum256([]byte(text))
				secret.Data[api.UserDataKey] = []byte(text)
				secret.Annotations[api.AnnotationDataDigest] = "sha256:" + hex.EncodeToString(sum[:])
			})
		}},
		{name: "kubeconfig", subject: "machinedeployment/" + s.Pools + "/" + last.pool, verdict: "Secret differs", where: "server", found: "https://evil.example.com", do: func() func() {
			return edit(s, &corev1.Secret{}, api.NamespaceCloudInitSettings, s.Pools+"-"+last.pool+"-kubelet-bootstrap-config", func(secret *corev1.Secret) {
				secret.Data[api.KubeconfigKey] = []byte(strings.Replace(string(secret.Data[api.KubeconfigKey]), "https://api.example.com:6443", "https://evil.example.com", 1))
			})
		}},
		{name: "NodeProvenance, its author", subject: node, verdict: "NodeProvenance differs", where: "spec.configuration.author", found: "Mallory <mallory@example.com>", do: func() func() {
			return s.editNode(last, func(c *api.ProvenanceConfiguration) { c.Author = "Mallory <mallory@example.com>" })
		}},
		{name: "NodeProvenance, its commit", subject: before, verdict: "NodeProvenance differs", where: "spec.configuration.commit", found: all[5].head, do: func() func() {
			return s.editNode(old, func(c *api.ProvenanceConfiguration) { c.Commit = all[5].head })
		}},
		{name: "NodeProvenance, who selected", subject: before, verdict: "NodeProvenance differs", where: "spec.configuration.selectedBy", found: all[5].head, do: func() func() {
			return s.editNode(old, func(c *api.ProvenanceConfiguration) { c.SelectedBy = all[5].head })
		}},
		{name: "OSP", subject: node, verdict: "OSP differs", where: "spec." + script, found: "echo evil", do: func() func() {
			return edit(s, &osm.OperatingSystemProfile{}, e2e.Namespace, "osp-a-v1.2.0", func(osp *osm.OperatingSystemProfile) {
				data := &osp.Spec.ProvisioningConfig.Files[0].Content.Inline.Data
				*data = strings.Replace(*data, "echo three", "echo evil", 1)
			})
		}},
		{name: "record", subject: node, verdict: "record differs", where: "commit", found: all[5].head, do: func() func() {
			return s.editRecord(pool, func(rec *render.Record) { rec.Commit = all[5].head })
		}},
		{name: "archived record", subject: before, verdict: "record differs", where: "path", found: "profiles/evil.yaml", do: func() func() {
			np, err := s.provenanceOf(old)
			s.Must(err)
			name := old.pool + "-" + s.Pools + "-" + render.ShortDigest(np.Spec.Configuration.InputDigest)
			return edit(s, &appsv1.ControllerRevision{}, e2e.Namespace, name, func(obj *appsv1.ControllerRevision) {
				obj.Data.Raw = []byte(strings.Replace(string(obj.Data.Raw), "profiles/a.yaml", "profiles/evil.yaml", 1))
			})
		}},
		{name: "settings", subject: node, verdict: "settings differ", where: "digest of settings.json", do: func() func() {
			var osc osm.OperatingSystemConfig
			s.Must(s.Get(e2e.Namespace, pool+"-config", &osc))
			var rec render.Record
			s.Must(json.Unmarshal([]byte(osc.Annotations[api.AnnotationRecord]), &rec))
			return edit(s, &corev1.ConfigMap{}, e2e.Namespace, "osm-gitops-settings-"+render.ShortDigest(rec.SettingsDigest), func(cm *corev1.ConfigMap) {
				cm.Data["settings.json"] = strings.Replace(cm.Data["settings.json"], "{", `{"pauseImage":"evil.example.com/pause",`, 1)
			})
		}},
		{name: "another engine", subject: node, verdict: "another release is needed", status: 3, do: func() func() {
			return s.editRecord(pool, func(rec *render.Record) { rec.Engine = "v0" })
		}},
		{name: "rewritten history", subject: node, verdict: "repository differs", where: "commit of osp-a v1.2.0", found: "it is not in the repository; v1.2.0 came with commit", do: func() func() {
			s.Git.Run("commit", "-q", "--amend", "-m", "as if nothing had been")
			return s.forced(last.head)
		}},
		{name: "rewritten history, other content", subject: node, verdict: "repository differs", where: "commit of osp-a v1.2.0", found: "with other content", do: func() func() {
			s.Git.Run("reset", "-q", "--hard", "HEAD~1")
			s.Git.Write(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.2.0", "echo evil")})
			return s.forced(last.head)
		}},
	} {
		s.Run(c.name, func(t *testing.T) { s.named(c) })
	}
	if v, err := s.verify(node); err != nil || v.status != 0 {
		s.T.Errorf("after all was put back: status %d (%v)\n%s%s", v.status, err, v.out, v.stderr)
	}
}

// named tampers and expects exactly this finding.
func (s *system) named(c tampering) {
	undo := c.do()
	defer undo()
	v, err := s.verify(c.subject)
	s.Must(err)
	if want := max(c.status, 1); v.status != want || v.report.Verdict != c.verdict {
		s.T.Fatalf("status %d, verdict %q, want %d and %q\n%s%s", v.status, v.report.Verdict, want, c.verdict, v.out, v.stderr)
	}
	if c.where == "" {
		return
	}
	first := v.report.FirstDifference()
	if first == nil || first.Difference == nil || first.Difference.Field != c.where || !strings.Contains(first.Difference.Found, c.found) || first.Difference.Expected == first.Difference.Found {
		s.T.Errorf("the first difference is %+v of %+v, want it at %q with %q", first.Difference, first, c.where, c.found)
	}
	s.noTokens(v.out + v.stderr)
}

// noTokens wants no token of any Secret in a text (security.md 15).
func (s *system) noTokens(text string) {
	s.T.Helper()
	var secrets corev1.SecretList
	s.Must(s.Client.List(s.T.Context(), &secrets, client.InNamespace(api.NamespaceCloudInitSettings)))
	found := 0
	for _, secret := range secrets.Items {
		for _, data := range secret.Data {
			for word := range strings.FieldsFuncSeq(string(data), func(r rune) bool { return strings.ContainsRune(" \n\"'", r) }) {
				if strings.HasPrefix(word, "eyJ") || len(word) == 23 && word[6] == '.' {
					found++
					if strings.Contains(text, word) {
						s.T.Errorf("a token of Secret %s is told", secret.Name)
					}
				}
			}
		}
	}
	if found < 3 {
		s.T.Errorf("found %d tokens to look for", found)
	}
}

func (s *system) editNode(b born, how func(*api.ProvenanceConfiguration)) (undo func()) {
	np, err := s.provenanceOf(b)
	s.Must(err)
	return edit(s, &api.NodeProvenance{}, "", np.Name, func(np *api.NodeProvenance) { how(np.Spec.Configuration) })
}

func (s *system) editRecord(pool string, how func(*render.Record)) (undo func()) {
	return edit(s, &osm.OperatingSystemConfig{}, e2e.Namespace, pool+"-config", func(osc *osm.OperatingSystemConfig) {
		var rec render.Record
		s.Must(json.Unmarshal([]byte(osc.Annotations[api.AnnotationRecord]), &rec))
		how(&rec)
		text, err := json.Marshal(rec)
		s.Must(err)
		osc.Annotations[api.AnnotationRecord] = string(text)
	})
}

// forced pushes the working tree by force; undo restores the branch.
func (s *system) forced(head string) (undo func()) {
	s.Git.Run("push", "-q", "--force", "origin", "main")
	git := s.Git
	return func() {
		git.Run("reset", "-q", "--hard", head)
		git.Run("push", "-q", "--force", "origin", "main")
	}
}
