package operators

import (
	"context"
	"errors"
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
	"github.com/osm-gitops/osm-gitops/test/e2e"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// The controller does all its work under the policies of deploy/admission.yaml, and
// answers the API server at one port, with a certificate that a restart does not
// replace (security.md 29).
func TestAdmission(t *testing.T) {
	s := newSystem(t)
	s.policies()
	address := e2e.FreeAddress(t)
	s.webhooks(address)
	flags := []string{"--webhook-address", address, "--webhook-hosts", "127.0.0.1"}
	commit := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	s.Start(flags...)
	s.Ready(commit)
	entry := s.Builtin("osp-ubuntu")
	s.Listening(address)
	s.Eventually("the API server to be told whom to trust", func() error {
		var config admissionregistrationv1.MutatingWebhookConfiguration
		if err := s.Get("", api.WebhookConfigurationName, &config); err != nil {
			return err
		}
		if len(config.Webhooks[0].ClientConfig.CABundle) == 0 {
			return errors.New("there is no caBundle")
		}
		return nil
	})

	s.Pool("pool-a", "")
	if got := s.MachineDeployment("pool-a").Annotations[api.AnnotationOSP]; got != "osp-ubuntu" {
		t.Errorf("the profile of a pool that names none is %q", got)
	}
	s.Served("pool-a", entry.Version)
	s.Pool("pool-b", "osp-a")
	s.Served("pool-b", "v1.0.0")
	s.Ready(s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")}))
	s.Served("pool-b", "v1.1.0")

	var before, after corev1.Secret
	s.NoError(s.Get(e2e.Namespace, api.WebhookSecretName, &before))
	s.Stop()
	s.Pool("pool-c", "") // the webhook does not answer
	if got := s.MachineDeployment("pool-c").Annotations[api.AnnotationOSP]; got != "" {
		t.Errorf("somebody named the profile %q", got)
	}
	mark := s.AuditSize()
	s.Start(flags...)
	s.Listening(address)
	s.Eventually("the API server to call again", func() error {
		md := s.MachineDeployment("pool-c")
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
		if err := s.Client.Patch(t.Context(), md, patch, client.DryRunAll); err != nil {
			return err
		}
		if md.Annotations[api.AnnotationOSP] != "osp-ubuntu" {
			return errors.New("nobody named a profile")
		}
		return nil
	})
	s.NoError(s.Get(e2e.Namespace, api.WebhookSecretName, &after))
	if before.ResourceVersion != after.ResourceVersion {
		t.Error("a restart made other certificates")
	}
	for _, write := range s.WritesSince(mark) {
		if strings.Contains(write, "admissionregistration") {
			t.Errorf("a restart wrote: %s", write)
		}
	}

	s.NoError(s.Client.Delete(t.Context(), s.MachineDeployment("pool-b")))
	s.Gone(e2e.Namespace, "pool-b-"+s.Pools+"-config", &osm.OperatingSystemConfig{})
	s.Gone(api.NamespaceCloudInitSettings, "pool-b-"+s.Pools+"-bootstrap-config", &corev1.Secret{})
}

// policies puts deploy/admission.yaml in force for one test. No other test of the same
// control plane can: see docs/admission.md, Taking policies away.
func (s *system) policies() {
	s.T.Helper()
	if err := s.Cluster.Apply(s.T.Context(), e2e.RepoPath("deploy/admission.yaml")); err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() {
		ctx := context.WithoutCancel(s.T.Context())
		objects, err := deploy.Objects("admission.yaml")
		s.NoError(err)
		for _, o := range slices.Backward(objects) { // bindings before their policies, parameters last
			s.NoError(client.IgnoreNotFound(s.Client.Delete(ctx, o)))
		}
	})
	s.Eventually("the policies to be in force", func() error {
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "probe", Annotations: map[string]string{api.AnnotationCommit: "1"}}}
		if err := s.Client.Create(s.T.Context(), probe, client.DryRunAll); !apierrors.IsForbidden(err) {
			return errors.Join(errors.New("not refused"), err)
		}
		return nil
	})
}

// webhooks applies deploy/webhook.yaml for one test, with an address instead of the
// Service, for no node of this cluster could be reached by one.
func (s *system) webhooks(address string) {
	s.T.Helper()
	s.NoError(testenv.InstallWebhooks(s.T.Context(), s.Cluster, address))
	s.T.Cleanup(func() {
		ctx := context.WithoutCancel(s.T.Context())
		name := metav1.ObjectMeta{Name: api.WebhookConfigurationName}
		s.NoError(s.Client.Delete(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name}))
		s.NoError(s.Client.Delete(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name}))
	})
}
