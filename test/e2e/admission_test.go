package e2e

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/deploy"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// The controller does all its work under the policies of deploy/admission.yaml, and
// answers the API server at one port, with a certificate that a restart does not
// replace (security.md 29).
func TestAdmission(t *testing.T) {
	s := newSystem(t)
	s.policies()
	address := freeAddress(t)
	s.webhooks(address)
	flags := []string{"--webhook-address", address, "--webhook-hosts", "127.0.0.1"}
	commit := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.source()
	s.start(flags...)
	s.ready(commit)
	entry := s.builtin("osp-ubuntu")
	s.listening(address)
	s.eventually("the API server to be told whom to trust", func() error {
		var config admissionregistrationv1.MutatingWebhookConfiguration
		if err := s.get("", api.WebhookConfigurationName, &config); err != nil {
			return err
		}
		if len(config.Webhooks[0].ClientConfig.CABundle) == 0 {
			return errors.New("there is no caBundle")
		}
		return nil
	})

	s.pool("pool-a", "")
	if got := s.machineDeployment("pool-a").Annotations[api.AnnotationOSP]; got != "osp-ubuntu" {
		t.Errorf("the profile of a pool that names none is %q", got)
	}
	s.served("pool-a", entry.Version)
	s.pool("pool-b", "osp-a")
	s.served("pool-b", "v1.0.0")
	s.ready(s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")}))
	s.served("pool-b", "v1.1.0")

	var before, after corev1.Secret
	s.noError(s.get(namespace, api.WebhookSecretName, &before))
	s.stop()
	s.pool("pool-c", "") // nobody answers
	if got := s.machineDeployment("pool-c").Annotations[api.AnnotationOSP]; got != "" {
		t.Errorf("somebody named the profile %q", got)
	}
	mark := s.auditSize()
	s.start(flags...)
	s.listening(address)
	s.eventually("the API server to call again", func() error {
		md := s.machineDeployment("pool-c")
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		if err := s.client.Patch(t.Context(), md, patch, client.DryRunAll); err != nil {
			return err
		}
		if md.Annotations[api.AnnotationOSP] != "osp-ubuntu" {
			return errors.New("nobody named a profile")
		}
		return nil
	})
	s.noError(s.get(namespace, api.WebhookSecretName, &after))
	if before.ResourceVersion != after.ResourceVersion {
		t.Error("a restart made other certificates")
	}
	for _, write := range s.writesSince(mark) {
		if strings.Contains(write, "admissionregistration") {
			t.Errorf("a restart wrote: %s", write)
		}
	}

	s.noError(s.client.Delete(t.Context(), s.machineDeployment("pool-b")))
	s.gone(namespace, "pool-b-"+s.pools+"-config", &osm.OperatingSystemConfig{})
	s.gone(api.NamespaceCloudInitSettings, "pool-b-"+s.pools+"-bootstrap-config", &corev1.Secret{})
}

// policies puts deploy/admission.yaml in force for one test. No other test of the same
// control plane can: see docs/admission.md, Taking policies away.
func (s *system) policies() {
	s.t.Helper()
	if err := s.cluster.Apply(s.t.Context(), repoPath("deploy/admission.yaml")); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx := context.WithoutCancel(s.t.Context())
		objects, err := deploy.Objects("admission.yaml")
		s.noError(err)
		for _, o := range slices.Backward(objects) { // bindings before their policies, parameters last
			s.noError(client.IgnoreNotFound(s.client.Delete(ctx, o)))
		}
	})
	s.eventually("the policies to be in force", func() error {
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "probe", Annotations: map[string]string{api.AnnotationCommit: "1"}}}
		if err := s.client.Create(s.t.Context(), probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("not refused"), err)
		}
		return nil
	})
}

// webhooks applies deploy/webhook.yaml for one test, with an address instead of the
// Service, for no node of this cluster could be reached by one.
func (s *system) webhooks(address string) {
	s.t.Helper()
	b, err := os.ReadFile(repoPath("deploy/webhook.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	const service = "    service:\n      namespace: kube-system\n      name: osm-gitops-webhook\n      path: "
	text := strings.ReplaceAll(string(b), service, "    url: https://"+address)
	if n := strings.Count(text, "url: https://"+address+"/"); n != 3 {
		s.t.Fatalf("found %d webhooks", n)
	}
	for _, doc := range strings.Split(text, "\n---\n") {
		s.applyYAML(doc)
	}
	s.t.Cleanup(func() {
		ctx := context.WithoutCancel(s.t.Context())
		name := metav1.ObjectMeta{Name: api.WebhookConfigurationName}
		s.noError(s.client.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name}))
		s.noError(s.client.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name}))
	})
}
