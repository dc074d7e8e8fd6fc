package running

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// handback runs the command as the cluster's administrator.
func (s *system) handback(flags ...string) (status int, stdout, stderr string) {
	s.T.Helper()
	return s.Runs(append([]string{"handback", "--kubeconfig", s.Cluster.Kubeconfig, "--namespace", e2e.Namespace}, flags...)...)
}

// A cluster is handed back to OSM: refused while a controller runs or a
// machine boots, printed before it is done, and leaving what OSM needs to go
// on: profiles under the names that pools use, one token per pool, configurations that
// it replaces, and nothing of ours that judges or dangles.
func TestHandback(t *testing.T) {
	s := newSystem(t)
	s.Source()
	commit := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo one"), "b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo .Provenance")})
	s.Start("--leader-elect=true", "--node-http-proxy=http://user:canary@proxy.example.com")
	s.Ready(commit)
	s.Pool("pool-a", "osp-a")
	bootstrap, provisioning := s.Served("pool-a", "v1.1.0")
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "handback-test", Labels: map[string]string{api.LabelManagedBy: api.FieldManager}},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{"none"}, APIVersions: []string{"v1"}, Resources: []string{"nothing"}},
		}}}}, Validations: []admissionv1.Validation{{Expression: "true"}}}}
	others := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "handback-test-of-others"}}
	for _, obj := range []client.Object{policy, others} {
		s.NoError(s.Client.Create(t.Context(), obj))
		defer func() { s.NoError(client.IgnoreNotFound(s.Client.Delete(t.Context(), obj))) }()
	}
	token := s.Tokens()[0]
	second := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: token.Namespace, Name: "bootstrap-token-second", Labels: token.Labels},
		Type: token.Type, Data: map[string][]byte{"token-id": []byte("second"), "token-secret": []byte("0123456789abcdef"), "expiration": []byte(time.Now().Add(30 * time.Minute).UTC().Format(time.RFC3339))}}
	s.NoError(s.Client.Create(t.Context(), second))

	status, out, errs := s.handback()
	if status != 1 || out != "" || !strings.Contains(errs, "Lease kube-system/operating-system-manager is held by") || !strings.Contains(errs, "--force") {
		t.Errorf("while a controller runs: status %d, out %q, err %q", status, out, errs)
	}
	s.Stop()
	s.Eventually("the lease to end", func() error {
		var lease coordinationv1.Lease
		if err := s.Get(e2e.Namespace, "operating-system-manager", &lease); err != nil {
			return err
		}
		holder, expiry := lease.Spec.HolderIdentity, lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second)
		if holder == nil || *holder == "" || s.releaseFailed(e2e.MainLease) && time.Now().After(expiry) {
			return nil
		}
		return fmt.Errorf("it is held by %q until %s", *holder, expiry)
	})
	booting := &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: s.Pools, Name: "booting"}}
	s.NoError(s.Client.Create(t.Context(), booting))
	if status, out, errs = s.handback(); status != 1 || out != "" || !strings.Contains(errs, "1 machines have no node yet, "+s.Pools+"/booting among them") {
		t.Errorf("while a machine boots: status %d, out %q, err %q", status, out, errs)
	}
	if status, out, errs = s.handback("--dry-run"); status != 1 || !strings.Contains(out, "delete ServiceAccount") || !strings.Contains(errs, "machines have no node yet") {
		t.Errorf("a dry run while a machine boots: status %d, out %q, err %q", status, out, errs)
	}
	s.NoError(s.Client.Delete(t.Context(), booting))

	before := s.Versions()
	status, planned, errs := s.handback("--dry-run")
	if now := s.Versions(); status != 0 || !equality.Semantic.DeepEqual(now, before) {
		t.Errorf("a dry run ended with %d and wrote", status)
	}
	for _, want := range []string{
		"delete ValidatingAdmissionPolicy handback-test\n", "create OperatingSystemProfile kube-system/osp-a of osp-a-v1.1.0\n",
		"delete ServiceAccount cloud-init-settings/node-pool-a-", "delete Secret kube-system/bootstrap-token-second\n", "delete Secret cloud-init-settings/pool-a-" + s.Pools + "-inputs\n",
	} {
		if !strings.Contains(planned, want) {
			t.Errorf("planned is %q, want %q", planned, want)
		}
	}
	if !strings.Contains(errs, `warning: profile "osp-b" uses .Provenance`) || strings.Contains(planned+errs, "canary") || strings.Contains(planned, "of-others") {
		t.Errorf("planned is %q, err %q", planned, errs)
	}
	if status, out, errs = s.handback(); status != 0 || out != planned {
		t.Fatalf("status %d, err %q, done %q, planned %q", status, errs, out, planned)
	}
	s.checkHandedBack(bootstrap, provisioning)
	if status, out, errs = s.handback(); status != 0 || out != "" {
		t.Errorf("a second run: status %d, out %q, err %q", status, out, errs)
	}

	// And forth again.
	s.Start("--leader-elect=true")
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.2.0", "echo two")})
	s.Served("pool-a", "v1.2.0")
}

// checkHandedBack checks what a handback leaves.
func (s *system) checkHandedBack(bootstrap, provisioning *corev1.Secret) {
	s.T.Helper()
	var plain, versioned osm.OperatingSystemProfile
	s.NoError(s.Get(e2e.Namespace, "osp-a", &plain))
	s.NoError(s.Get(e2e.Namespace, "osp-a-v1.1.0", &versioned))
	if !equality.Semantic.DeepEqual(plain.Spec, versioned.Spec) || plain.Spec.Version != "v1.1.0" {
		s.T.Error("the profile osp-a is another")
	}
	var osc osm.OperatingSystemConfig
	s.NoError(s.Get(e2e.Namespace, "pool-a-"+s.Pools+"-config", &osc))
	if got := osc.Annotations[api.AnnotationOSPVersion]; got == plain.Spec.Version {
		s.T.Errorf("OSM would not replace a configuration of version %q", got)
	}
	for _, was := range []*corev1.Secret{bootstrap, provisioning} {
		var now corev1.Secret
		if s.NoError(s.Get(was.Namespace, was.Name, &now)); now.ResourceVersion != was.ResourceVersion {
			s.T.Errorf("%s was touched", was.Name)
		}
	}
	if got := s.MachineDeployment("pool-a").Finalizers; !slices.Contains(got, api.FinalizerPool) {
		s.T.Errorf("the pool's finalizers are %q", got)
	}
	if got := s.Tokens(); len(got) != 1 || got[0].Name == "bootstrap-token-second" {
		s.T.Errorf("there are %d tokens", len(got))
	}
	ours := client.MatchingLabels{api.LabelManagedBy: api.FieldManager}
	for _, list := range []client.ObjectList{&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		s.NoError(s.Client.List(s.T.Context(), list, client.InNamespace(api.NamespaceCloudInitSettings), ours))
		if n := lenOf(list); n != 0 {
			s.T.Errorf("%T has %d objects of ours", list, n)
		}
	}
	var webhooks admissionv1.ValidatingWebhookConfigurationList
	s.NoError(s.Client.List(s.T.Context(), &webhooks))
	if !slices.ContainsFunc(webhooks.Items, func(w admissionv1.ValidatingWebhookConfiguration) bool { return w.Name == "handback-test-of-others" }) {
		s.T.Error("a webhook of others is gone")
	}
}

func lenOf(list client.ObjectList) int {
	switch l := list.(type) {
	case *corev1.ServiceAccountList:
		return len(l.Items)
	case *rbacv1.RoleList:
		return len(l.Items)
	case *rbacv1.RoleBindingList:
		return len(l.Items)
	}
	return -1
}
