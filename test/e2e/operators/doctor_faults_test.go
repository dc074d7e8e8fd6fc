package operators

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/doctor"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

func (p *patient) brokenSources(first string) {
	p.Source(func(spec map[string]any) { spec["suspend"] = true })
	p.finds(doctor.Note, "sources", "ProfileSource osps is suspended")
	p.Source(func(spec map[string]any) { spec["suspend"] = false })

	p.Git.Push(map[string]string{"b.yaml": e2e.OSP("osp-b", "v1.0.0", "echo {{ .Nonsense }}")})
	p.WaitRejected(api.ReasonProfilesInvalid)
	p.finds(doctor.Problem, "sources", "ProfilesInvalid: ")
	p.Git.Push(map[string]string{"b.yaml": ""})
	p.Ready(p.Git.Run("rev-parse", "HEAD"))

	p.Git.Mode.Store("down")
	p.WaitRejected(api.ReasonUnreachable)
	p.finds(doctor.Problem, "sources", "Unreachable: ")
	p.Git.Mode.Store("password")
	p.WaitRejected(api.ReasonAuthenticationFailed)
	p.finds(doctor.Problem, "sources", "AuthenticationFailed: ")
	p.Git.Mode.Store("")

	p.Source(e2e.GitSpec("ref", map[string]any{"branch": "gone"}))
	p.WaitRejected(api.ReasonReferenceNotFound)
	p.finds(doctor.Problem, "sources", "ReferenceNotFound: ")

	_, line := e2e.Signer(p.T, "ada@example.com")
	p.Trust(line)
	p.Source(e2e.GitSpec("verify", map[string]any{"mode": "HEAD", "secretRef": map[string]any{"name": "signers"}}))
	p.WaitRejected(api.ReasonVerificationFailed)
	p.finds(doctor.Problem, "sources", "VerificationFailed: ")

	p.Source(e2e.GitSpec("onRewrite", "Hold"))
	p.Ready(p.Git.Run("rev-parse", "HEAD"))
	p.Git.Run("push", "-q", "--force", "origin", first+":main")
	p.WaitRejected(api.ReasonHistoryRewritten)
	p.finds(doctor.Problem, "sources", "HistoryRewritten: ")
	p.Git.Run("reset", "-q", "--hard", first)
	p.Source(e2e.GitSpec("onRewrite", "Accept"))
	p.Ready(first)
}

func (p *patient) brokenPools() {
	p.Pool("lost", "osp-nowhere")
	p.Event("lost", api.EventProfileError)
	p.finds(doctor.Problem, "pools", "/lost has no configuration: OperatingSystemProfileError: ")
	p.drop("lost")

	p.Set("web", api.AnnotationVersionPin, "v9.9.9")
	p.Eventually("the pin to be refused", func() error { return p.CheckRejectionNoted("web") })
	p.finds(doctor.Problem, "pools", "/web does not have what it requests: ")
	p.Set("web", api.AnnotationVersionPin, "")
	p.Eventually("it to be well again", func() error { return p.Applied("web") })

	p.Pool("other", "osp-a", func(md map[string]any) { e2e.Value(md)["cloudProvider"] = "azure" })
	p.Event("other", api.EventProfileError)
	p.finds(doctor.Problem, "pools", "/other has no configuration: OperatingSystemProfileError: ")
	p.drop("other")

	p.Set("web", api.AnnotationSuspend, "true")
	p.finds(doctor.Note, "pools", "the configuration is frozen for "+p.Pools+"/web")
	p.Set("web", api.AnnotationSuspend, "")
}

// references are to objects of other namespaces: doctor lists those that the controller was
// allowed to read, and those that it was not (security.md 35).
func (p *patient) references(t *testing.T) {
	flag := func(found []doctor.Finding, level doctor.Level, want string) {
		t.Helper()
		for _, f := range found {
			if f.Check == "references" && f.Level == level && !strings.Contains(f.Remedy, want) {
				t.Errorf("%q does not say %s", f.Remedy, want)
			}
		}
	}
	p.Must(p.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "allowed"}, StringData: map[string]string{"key": e2e.Canary}}))
	p.Pool("served", "osp-a", e2e.RefersTo("allowed"))
	p.Served("served", "v1.0.0")
	flag(p.among(doctor.Note, "references", "1 served pool refers to objects in other namespaces: "+p.Pools+"/served"), doctor.Note, "--cloud-provider-references=kube-system/allowed")
	p.Pool("refused", "osp-a", e2e.RefersTo("etcd-backup"))
	p.Event("refused", api.EventProfileError, "--cloud-provider-references=kube-system/etcd-backup")
	p.among(doctor.Problem, "pools", "/refused has no configuration: OperatingSystemProfileError: ")
	flag(p.among(doctor.Problem, "references", "1 pool refers to objects in other namespaces, and do not have what they request: "+p.Pools+"/refused"),
		doctor.Problem, "--cloud-provider-references=kube-system/etcd-backup")
	p.drop("refused")
	p.drop("served")
}

// drop deletes a pool.
func (p *patient) drop(pool string) {
	p.NoError(p.Client.Delete(p.T.Context(), p.MachineDeployment(pool)))
	p.Gone(p.Pools, pool, &machines.MachineDeployment{})
}

func (p *patient) brokenRights() {
	var role rbacv1.ClusterRole
	p.Must(p.Get("", "osm-gitops", &role))
	whole := role.DeepCopy()
	for i := range role.Rules {
		if role.Rules[i].Resources[0] == "nodes" {
			role.Rules[i].Verbs = []string{"get", "list", "watch"}
		}
	}
	p.Must(p.Client.Update(p.T.Context(), &role))
	p.Eventually("the API server to know", func() error { // it learns of roles by a watch
		if _, report := p.doctor(); report.Problems == 0 {
			return errors.New("it does not")
		}
		return nil
	})
	p.finds(doctor.Problem, "rights", "system:serviceaccount:kube-system:osm-gitops cannot patch nodes")
	whole.ResourceVersion = ""
	p.Must(p.Client.Update(p.T.Context(), whole))
	p.Eventually("the API server to know", func() error {
		if status, _ := p.doctor(); status != 0 {
			return errors.New("it does not")
		}
		return nil
	})
	p.among(doctor.Problem, "rights", "system:serviceaccount:elsewhere:robot has none of the ", "--user", "system:serviceaccount:elsewhere:robot")
	p.withoutRight()
}

// withoutRight takes a right away that one use alone needs.
func (p *patient) withoutRight() {
	var role rbacv1.Role
	p.Must(p.Get(e2e.Namespace, "osm-gitops", &role))
	whole := role.DeepCopy()
	role.Rules = slices.DeleteFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return r.Resources[0] == "serviceaccounts" })
	p.Must(p.Client.Update(p.T.Context(), &role))
	const says = "cannot get serviceaccounts in kube-system, which is needed for --bootstrap-token-service-account-name"
	p.Eventually("the API server to know", func() error {
		_, report := p.doctor()
		if !slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return strings.Contains(f.Found, says) }) {
			return errors.New("it does not")
		}
		return nil
	})
	p.finds(doctor.Warning, "rights", says)
	whole.ResourceVersion = ""
	p.Must(p.Client.Update(p.T.Context(), whole))
	p.Eventually("the API server to know", func() error {
		_, report := p.doctor()
		if slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return strings.Contains(f.Found, says) }) {
			return errors.New("it does not")
		}
		return nil
	})
}

// What limits the controller's rights has to be there, be bound, and name the controller
// (security.md 36).
func (p *patient) brokenControllerPolicy() {
	const file = "deploy/controller-policy.yaml"
	name := metav1.ObjectMeta{Name: "osm-gitops-controller"}
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: name}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name}
	again := func() {
		p.Must(p.Client.Delete(p.T.Context(), binding.DeepCopy()))
		p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath(file)))
		p.healthy()
	}
	p.finds(doctor.OK, "controller-policy", "ValidatingAdmissionPolicy osm-gitops-controller of this release limits what system:serviceaccount:kube-system:osm-gitops can write")
	p.patch(binding.DeepCopy(), "", name.Name, `{"spec":{"validationActions":["Audit"]}}`)
	p.finds(doctor.Problem, "controller-policy", "no ValidatingAdmissionPolicyBinding enforces")
	again()
	p.patch(binding.DeepCopy(), "", name.Name, `{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"a":"b"}}}}}`)
	p.finds(doctor.Problem, "controller-policy", "no ValidatingAdmissionPolicyBinding enforces")
	again()
	p.Must(p.Client.Delete(p.T.Context(), binding.DeepCopy()))
	p.finds(doctor.Problem, "controller-policy", "no ValidatingAdmissionPolicyBinding enforces")
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath(file)))
	p.patch(policy.DeepCopy(), "", name.Name, `{"spec":{"failurePolicy":"Ignore"}}`)
	p.finds(doctor.Problem, "controller-policy", "ValidatingAdmissionPolicy osm-gitops-controller, which limits the permissions of the controller, differs from the one of this release")
	p.patch(policy.DeepCopy(), "", name.Name, `{"spec":{"failurePolicy":"Fail","matchConditions":[{"name":"is-the-controller","expression":"request.userInfo.username == 'system:serviceaccount:kube-system:osm-gitops'"}]}}`)
	p.finds(doctor.Problem, "controller-policy", "ValidatingAdmissionPolicy osm-gitops-controller, which limits the permissions of the controller, differs from the one of this release")
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath(file)))
	p.healthy()
	p.among(doctor.Problem, "controller-policy", "ValidatingAdmissionPolicy osm-gitops-controller is about another user than system:serviceaccount:elsewhere:robot", "--user", "system:serviceaccount:elsewhere:robot")
	p.Must(p.Client.Delete(p.T.Context(), policy.DeepCopy()))
	p.finds(doctor.Problem, "controller-policy", "ValidatingAdmissionPolicy osm-gitops-controller not found: the permissions of system:serviceaccount:kube-system:osm-gitops are not limited")
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath(file)))
	p.healthy()
}

// otherNamespace examines a second namespace, used by clusters without a controller in
// kube-system: its lease, which this controller holds, and its profiles are there.
func (p *patient) otherNamespace() {
	before := len(p.said)
	p.among(doctor.Problem, "namespace", "should run in namespace other, but kube-system has Lease operating-system-manager, OperatingSystemProfile osp-a", "--namespace", "other")
	// Other findings about an empty namespace are not faults of this installation.
	p.said = slices.Concat(p.said[:before], slices.DeleteFunc(p.said[before:], func(f doctor.Finding) bool { return f.Check != "namespace" }))
}

// successors are Deployments of operating-system-manager, as a platform installs them.
func (p *patient) successors() {
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath("test/platforms/kubeone/deployments.yaml")))
	const name = "operating-system-manager"
	found := 0
	for _, f := range p.among(doctor.Problem, "lease", "Deployment kube-system/operating-system-manager runs operating-system-manager (quay.io/kubermatic/operating-system-manager:v1.11.2)") {
		if f.Check != "lease" || f.Level != doctor.Problem {
			continue
		}
		found++
		if !e2e.ContainsAll(f.Remedy, []string{"plain installations: ", "KubeOne: set operatingSystemManager.deploy: false", "KKP: ", "spec.userCluster.operatingSystemManager"}) {
			p.T.Errorf("the remedy is %q", f.Remedy)
		}
	}
	if found != 1 {
		p.T.Errorf("%d Deployments are reported, want 1: the webhook has another lease", found)
	}
	p.among(doctor.Problem, "predecessor", "Deployment kube-system/operating-system-manager is operating-system-manager (quay.io/kubermatic/operating-system-manager:v1.11.2)", "--pre")
	p.patch(&appsv1.Deployment{}, e2e.Namespace, name, `{"spec":{"replicas":0}}`)
	for _, f := range p.among(doctor.Note, "lease", "Deployment kube-system/operating-system-manager of operating-system-manager (quay.io/kubermatic/operating-system-manager:v1.11.2) is scaled to 0") {
		if strings.Contains(f.Found, "is scaled to 0") && !strings.HasPrefix(f.Remedy, "plain installations: leave it for the way back") {
			p.T.Errorf("the remedy is %q", f.Remedy)
		}
	}
	p.Must(p.Client.DeleteAllOf(p.T.Context(), &appsv1.Deployment{}, client.InNamespace(e2e.Namespace)))
	p.Must(p.Client.Delete(p.T.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: name + "-webhook"}}))
	p.healthy()
}

func (p *patient) brokenPolicies() {
	p.policies()
	p.finds(doctor.OK, "policies", "6 policies are installed, bound, and of this release; the API server enforces them for you")
	name := metav1.ObjectMeta{Name: "osm-gitops-records"}
	p.patch(&admissionregistrationv1.ValidatingAdmissionPolicy{}, "", name.Name, `{"spec":{"failurePolicy":"Ignore"}}`)
	p.finds(doctor.Warning, "policies", "ValidatingAdmissionPolicy osm-gitops-records differs from the one of this release")
	p.Must(p.Client.Delete(p.T.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name}))
	p.finds(doctor.Problem, "policies", "ValidatingAdmissionPolicyBinding osm-gitops-records of deploy/admission.yaml not found")
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath("deploy/admission.yaml")))
	p.patch(&admissionregistrationv1.ValidatingAdmissionPolicy{}, "", name.Name, `{"spec":{"failurePolicy":"Fail"}}`)
	p.among(doctor.Problem, "policies", "does not name system:serviceaccount:other:osm: the policies reject", "--user", "system:serviceaccount:other:osm")
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "osm-gitops-admission"}}
	p.Must(p.Client.Delete(p.T.Context(), cm))
	p.finds(doctor.Warning, "policies", "ConfigMap kube-system/osm-gitops-admission, which names the users")
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath("deploy/admission.yaml")))

	p.loseAndApply(cm)
	p.finds(doctor.Problem, "policies", "the API server does not enforce them for admin")
}

// loseAndApply makes the API server drop its policies after their parameters, and applies all
// of them again. One more policy, deleted last, shows when the API server has dropped them.
func (p *patient) loseAndApply(parameters *corev1.ConfigMap) {
	p.T.Helper()
	p.ApplyYAML(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: last}, spec: {failurePolicy: Fail,
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], resourceNames: [last]}]}, validations: [{expression: "false"}]}}`)
	p.ApplyYAML(`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: last}, spec: {policyName: last, validationActions: [Deny]}}`)
	try := func() error {
		return p.Client.Create(p.T.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "last"}}, client.DryRunAll)
	}
	p.Eventually("the last policy to be in force", func() error {
		if err := try(); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			return fmt.Errorf("it is not: %w", err)
		}
		return nil
	})
	p.Must(p.Client.Delete(p.T.Context(), parameters))
	p.Eventually("the parameters to be gone", func() error {
		return p.Client.Create(p.T.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: api.NamespaceCloudInitSettings, Name: "probe", Annotations: map[string]string{api.AnnotationCommit: "1"},
		}}, client.DryRunAll)
	})
	p.Must(p.Client.DeleteAllOf(p.T.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}))
	p.Must(p.Client.DeleteAllOf(p.T.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{}))
	p.Eventually("the policies to be gone", try)
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath("deploy/admission.yaml"), e2e.RepoPath("deploy/controller-policy.yaml")))
}

// holds reports whether a controller holds the lease.
func (p *patient) holds() error {
	var lease coordinationv1.Lease
	err := p.Get(e2e.Namespace, e2e.MainLease, &lease)
	if err == nil && (lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "") {
		err = errors.New("nobody does")
	}
	return err
}

// renewed says when the lease was renewed last.
func (p *patient) renewed(when time.Time) {
	p.T.Helper()
	p.patch(&coordinationv1.Lease{}, e2e.Namespace, e2e.MainLease, fmt.Sprintf(`{"spec":{"holderIdentity":"one","leaseDurationSeconds":600,"renewTime":%q}}`, when.UTC().Format("2006-01-02T15:04:05.000000Z07:00")))
}

// held gives the lease to an idle holder for an hour.
func (p *patient) held() { p.Lease(e2e.MainLease) }

// slack is the time that may pass between a fault and its examination without another minute in the
// message: clocks that differ by an hour and slack differ by 1h0m and some seconds.
const slack = 30 * time.Second

func (p *patient) brokenLease() {
	p.finds(doctor.Problem, "lease", "Lease kube-system/operating-system-manager has no holder")
	p.renewed(time.Now().Add(-time.Hour))
	p.finds(doctor.Problem, "lease", `"one" holds Lease kube-system/operating-system-manager, and has not renewed it since`)
	p.renewed(time.Now().Add(time.Hour + slack))
	p.finds(doctor.Problem, "lease", `the clock of "one", which holds Lease kube-system/operating-system-manager, is 1h0m`)
	p.DeleteLease(e2e.MainLease)
	p.finds(doctor.Warning, "lease", "Lease kube-system/operating-system-manager not found")

	// No controller processes new or changed objects.
	p.held()
	p.Source(func(spec map[string]any) { spec["historyLimit"] = 3 })
	p.finds(doctor.Problem, "sources", "has not reconciled the changed spec")
	p.ApplyYAML(`{apiVersion: gitops.k8c.io/v1alpha1, kind: ProfileSource, metadata: {name: new, namespace: kube-system}, spec: {git: {url: "https://git.example.com/osps.git"}}}`)
	p.finds(doctor.Problem, "sources", "ProfileSource new: the controller has not reconciled it")
	p.NoError(p.Client.Delete(p.T.Context(), &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "new"}}))
	p.Pool("unseen", "osp-a")
	p.among(doctor.Problem, "pools", "/unseen has no configuration: no event gives the reason")
	p.NoError(p.Client.Delete(p.T.Context(), p.MachineDeployment("unseen")))
	ps := p.ProfileSource()
	if ps.Status.LastLook == nil {
		p.T.Fatal("the controller noted no look")
	}
	noted := *ps.Status.LastLook
	ps.Status.ObservedGeneration = ps.Generation
	ps.Status.LastLook = &metav1.Time{Time: noted.Add(-time.Hour)}
	p.Must(p.Client.Status().Update(p.T.Context(), ps))
	p.finds(doctor.Problem, "sources", "no controller reconciles ProfileSource osps: the last reconciliation was recorded 1h")
	ps.Status.LastLook = &noted
	p.Must(p.Client.Status().Update(p.T.Context(), ps))
}

func (p *patient) brokenClusterInfo() {
	ca := e2e.CaOf(p.T, p.Cluster)
	const good = "https://api.example.com:6443"
	p.ClusterInfo("https://127.0.0.1:6443", ca)
	p.finds(doctor.Problem, "cluster-info", "server 127.0.0.1:6443 is the address of the node itself")
	p.ClusterInfo("", ca)
	p.finds(doctor.Problem, "cluster-info", "names no server")
	p.ClusterInfo(good, "")
	p.finds(doctor.Warning, "cluster-info", "has no CA")
	p.ClusterInfo(good, string(e2e.CertificateUntil(p.T, time.Now().Add(time.Hour))))
	p.finds(doctor.Warning, "cluster-info", "its CA did not sign the certificate")
	p.ClusterInfo(good, string(e2e.CertificateUntil(p.T, time.Now().Add(-time.Hour))))
	p.finds(doctor.Problem, "cluster-info", "its CA expired on")
	p.patch(&corev1.ConfigMap{}, "kube-public", "cluster-info", `{"data":{"kubeconfig":"clusters: {"}}`)
	p.finds(doctor.Problem, "cluster-info", "key kubeconfig is not a kubeconfig")
	p.NoError(p.Client.Delete(p.T.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"}}))
	p.finds(doctor.Warning, "cluster-info", "ConfigMap kube-public/cluster-info does not exist")
	p.ClusterInfo(good, ca)
}

func (p *patient) brokenWebhooks() {
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath("deploy/webhook.yaml")))
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	mutating.Name, validating.Name = api.WebhookConfigurationName, api.WebhookConfigurationName
	p.finds(doctor.Problem, "webhooks", "webhook default.machinedeployments.gitops.k8c.io has no caBundle: it is skipped")
	p.bundle(mutating, validating, e2e.CertificateUntil(p.T, time.Now().Add(-time.Hour)))
	p.finds(doctor.Problem, "webhooks", "has a caBundle without a valid certificate")
	p.bundle(mutating, validating, e2e.CertificateUntil(p.T, time.Now().Add(time.Hour)))
	p.finds(doctor.Problem, "webhooks", "calls Service kube-system/osm-gitops-webhook, which has no ready endpoint: it is skipped")
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: api.WebhookServiceName}}
	p.NoError(p.Client.Delete(p.T.Context(), service))
	p.finds(doctor.Problem, "webhooks", "calls Service kube-system/osm-gitops-webhook, which does not exist")
	p.Must(p.Cluster.Apply(p.T.Context(), e2e.RepoPath("deploy/webhook.yaml")))
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "hooks", Labels: map[string]string{discoveryv1.LabelServiceName: api.WebhookServiceName}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}},
	}
	p.Must(p.Client.Create(p.T.Context(), slice))
	p.finds(doctor.Note, "webhooks", "no Secret kube-system/osm-gitops-webhook-cert")
	for _, c := range []struct {
		level doctor.Level
		says  string
		cert  []byte
	}{
		{doctor.Problem, "contains no certificate", []byte("none")},
		{doctor.Problem, "osm-gitops-webhook-cert, expired at", e2e.CertificateUntil(p.T, time.Now().Add(-time.Hour))},
		{doctor.Warning, "and is not renewed", e2e.CertificateUntil(p.T, time.Now().Add(time.Hour))},
		{doctor.OK, "3 webhooks have a valid certificate", e2e.CertificateUntil(p.T, time.Now().Add(1000*time.Hour))},
	} {
		p.Apply(map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": api.WebhookSecretName, "namespace": e2e.Namespace},
			"stringData": map[string]any{"tls.crt": string(c.cert), "tls.key": "canary-key-of-webhooks"},
		})
		p.finds(c.level, "webhooks", c.says)
	}
	p.NoError(p.Client.Delete(p.T.Context(), mutating))
	p.NoError(p.Client.Delete(p.T.Context(), validating))
	p.NoError(p.Client.Delete(p.T.Context(), slice))
	p.NoError(p.Client.Delete(p.T.Context(), service))
	p.referenceLeft(mutating)
}

// bundle writes the CA of every webhook.
func (p *patient) bundle(mutating *admissionregistrationv1.MutatingWebhookConfiguration, validating *admissionregistrationv1.ValidatingWebhookConfiguration, ca []byte) {
	p.T.Helper()
	p.Must(p.Get("", mutating.Name, mutating))
	p.Must(p.Get("", validating.Name, validating))
	mutating.Webhooks[0].ClientConfig.CABundle = ca
	for i := range validating.Webhooks {
		validating.Webhooks[i].ClientConfig.CABundle = ca
	}
	p.Must(p.Client.Update(p.T.Context(), mutating))
	p.Must(p.Client.Update(p.T.Context(), validating))
}

// referenceLeft is what operating-system-manager leaves behind when it is only stopped, under
// the name that KubeOne and KKP give it.
func (p *patient) referenceLeft(like *admissionregistrationv1.MutatingWebhookConfiguration) {
	fail := admissionregistrationv1.Fail
	left := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "operating-system-manager.kubermatic.io"}}
	hook := *like.Webhooks[0].DeepCopy()
	hook.FailurePolicy, hook.ClientConfig.Service.Name = &fail, "operating-system-manager-webhook"
	hook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "namespace"}}
	left.Webhooks = []admissionregistrationv1.MutatingWebhook{hook} // as in deploy/kubeone: ours
	p.Must(p.Client.Create(p.T.Context(), left))
	p.finds(doctor.Problem, "webhooks", "webhook "+hook.Name+" calls Service kube-system/operating-system-manager-webhook, which does not exist")
	hook.Name = "operating-system-manager.kubermatic.io-machinedeployments"
	left.Webhooks[0] = hook
	p.Must(p.Client.Update(p.T.Context(), left))
	for _, flags := range [][]string{nil, {"--pre"}} {
		p.among(doctor.Problem, "webhooks", "of operating-system-manager calls Service kube-system/operating-system-manager-webhook, which does not exist: every request that it should check is rejected", flags...)
	}
	p.NoError(p.Client.Delete(p.T.Context(), left))

	// KKP's leads to the seed cluster.
	address := "https://operating-system-manager-webhook.cluster-abc.svc.cluster.local:443/mutate"
	hook.ClientConfig.Service, hook.ClientConfig.URL = nil, &address
	left = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: left.Name}, Webhooks: []admissionregistrationv1.MutatingWebhook{hook}}
	p.Must(p.Client.Create(p.T.Context(), left))
	for _, f := range p.among(doctor.Note, "webhooks", "calls "+address+", which only the API server can reach") {
		if strings.Contains(f.Found, address) && !strings.HasPrefix(f.Remedy, "KKP: leave it") {
			p.T.Errorf("it lets users delete what KKP applies again: %+v", f)
		}
		if strings.HasPrefix(f.Found, "no webhook of osm-gitops found") {
			p.T.Errorf("it lets users of KKP, whose webhooks our image answers, apply others: %+v", f)
		}
	}
	p.NoError(p.Client.Delete(p.T.Context(), left))
}

func (p *patient) brokenTokens() {
	ago := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	next, web := p.TokenOf("next"), p.TokenOf("web")
	p.TokenEnds("next", -time.Hour) // kube-controller-manager deletes it
	p.Gone(next.Namespace, next.Name, &corev1.Secret{})
	p.finds(doctor.Problem, "tokens", p.Pools+"/next has no valid bootstrap token")
	p.TokenEnds("web", -time.Hour)
	p.Gone(web.Namespace, web.Name, &corev1.Secret{})
	p.finds(doctor.Warning, "tokens", "no pool has a valid bootstrap token")
	for _, token := range []*corev1.Secret{next, web} {
		token.ResourceVersion, token.UID = "", ""
		p.Must(p.Client.Create(p.T.Context(), token))
	}

	name := "web-" + p.Pools + "-bootstrap-config"
	var secret corev1.Secret
	p.Must(p.Get(api.NamespaceCloudInitSettings, name, &secret))
	ends := secret.Annotations[api.AnnotationCredentialsExpireAt]
	annotation := func(value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationCredentialsExpireAt, value)
	}
	p.patch(&corev1.Secret{}, api.NamespaceCloudInitSettings, name, annotation(ago))
	p.finds(doctor.Problem, "tokens", "the token with which machines of "+p.Pools+"/web fetch their Secrets expired at "+ago)
	p.patch(&corev1.Secret{}, api.NamespaceCloudInitSettings, name, annotation(ends))

	p.NoError(p.Client.Delete(p.T.Context(), &secret))
	p.finds(doctor.Problem, "pools", "/web has no Secret cloud-init-settings/"+name+", so its machines do not boot")
	secret.ResourceVersion, secret.UID = "", ""
	p.Must(p.Client.Create(p.T.Context(), &secret))

	var osc osm.OperatingSystemConfig
	p.Must(p.Get(e2e.Namespace, "web-"+p.Pools+"-config", &osc))
	p.patch(&osm.OperatingSystemConfig{}, e2e.Namespace, osc.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"shop/another"}}}`, api.AnnotationPool))
	p.finds(doctor.Problem, "pools", `belongs to another pool, "shop/another"`)
	p.patch(&osm.OperatingSystemConfig{}, e2e.Namespace, osc.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:null,%q:"1",%q:"0",%q:"v1.0.0"}}}`,
		api.AnnotationPool, api.AnnotationRevisionFor, api.AnnotationMDAnnotationsHash, api.AnnotationOSPVersion))
	p.finds(doctor.Problem, "pools", "/web has the configuration of operating-system-manager, OperatingSystemConfig kube-system/"+osc.Name+": the controller takes it over")
	p.collidingPools(osc)
	p.patch(&osm.OperatingSystemConfig{}, e2e.Namespace, osc.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q,%q:"another"}}}`, api.AnnotationPool, p.Pools+"/web", api.AnnotationInputDigest))
	p.finds(doctor.Problem, "pools", "/web boots from an earlier configuration, since the documents of the current one are not written: ")
	p.patch(&osm.OperatingSystemConfig{}, e2e.Namespace, osc.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationInputDigest, osc.Annotations[api.AnnotationInputDigest]))
}

// collidingPools are two pools with the same object names, of which operating-system-manager served
// neither with its present annotations.
func (p *patient) collidingPools(like osm.OperatingSystemConfig) {
	const name, namespace = "web", "q"
	pools := []types.NamespacedName{{Namespace: namespace, Name: name + "-" + p.Pools}, {Namespace: p.Pools + "-" + namespace, Name: name}}
	for _, key := range pools {
		p.Apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": key.Namespace}})
		p.Pool(key.Name, "osp-a", func(md map[string]any) { md["metadata"].(map[string]any)["namespace"] = key.Namespace })
	}
	osc := &osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: lineage.NamesOf(pools[0]).Config, Annotations: map[string]string{
			api.AnnotationRevisionFor: "1", api.AnnotationMDAnnotationsHash: "0", api.AnnotationOSPVersion: "v1.0.0",
		}},
		Spec: like.Spec,
	}
	p.Must(p.Client.Create(p.T.Context(), osc))
	for _, key := range pools {
		p.among(doctor.Problem, "pools", "MachineDeployment "+key.String()+" has the same object names as another pool, and operating-system-manager did not create OperatingSystemConfig kube-system/"+osc.Name)
	}
	p.Must(p.Client.Delete(p.T.Context(), osc))
	for _, key := range pools {
		p.Must(p.Client.Delete(p.T.Context(), &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
		p.Gone(key.Namespace, key.Name, &machines.MachineDeployment{})
		p.Must(p.Client.Delete(p.T.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}))
	}
}

func (p *patient) brokenKinds() {
	name := "profilesources.gitops.k8c.io"
	var crd apiextensionsv1.CustomResourceDefinition
	p.Must(p.Get("", name, &crd))
	crd.Spec.Versions[0].AdditionalPrinterColumns[0].Name = "Other"
	p.Must(p.Client.Update(p.T.Context(), &crd))
	p.finds(doctor.Problem, "kinds", "CustomResourceDefinition "+name+" differs from the one of this release at spec.versions[0].additionalPrinterColumns[0].name")

	// As platforms do that bring a definition of their own.
	name = "operatingsystemconfigs.operatingsystemmanager.k8c.io"
	crd = apiextensionsv1.CustomResourceDefinition{}
	p.Must(p.Get("", name, &crd))
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.XValidations = nil
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	p.Must(p.Client.Update(p.T.Context(), &crd, client.FieldOwner("platform")))
	p.finds(doctor.Warning, "kinds", "CustomResourceDefinition "+name+` differs from the one of this release at spec.versions[0].schema.openAPIV3Schema.properties.spec.x-kubernetes-validations, as written by "platform" at `)

	p.uninstallProvenance()
	p.finds(doctor.Problem, "kinds", "CustomResourceDefinition nodeprovenances.gitops.k8c.io does not exist")
	p.installProvenance()
	p.Eventually("the kinds to be back", func() error {
		if status, _ := p.doctor(); status != 0 {
			return errors.New("they are not")
		}
		return nil
	})

	sets := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "machinesets.cluster.k8s.io"}}
	p.Must(p.Client.Delete(p.T.Context(), sets))
	p.Eventually("the kind to be gone", func() error {
		if err := p.Get("", sets.Name, sets); !apierrors.IsNotFound(err) {
			return errors.New("it is there")
		}
		return nil
	})
	p.finds(doctor.Problem, "kinds", "CustomResourceDefinition machinesets.cluster.k8s.io does not exist")
	p.installProvenance() // and all other kinds
}

// brokenClocks examines the cluster through a proxy that reports a different time.
func (p *patient) brokenClocks(t *testing.T) {
	path := p.through(t, func(res *http.Response) {
		res.Header.Set("Date", time.Now().Add(-time.Hour-slack).UTC().Format(http.TimeFormat))
	})
	p.among(doctor.Warning, "clocks", "the clock of the API server is 1h0m", "--kubeconfig", path)
	p.among(doctor.Problem, "clocks", "the clocks of both API servers differ by 1h0m", "--worker-cluster-kubeconfig", path)
}

// rotating examines a pool whose configuration is being replaced: the first list is without it.
func (p *patient) rotating(t *testing.T) {
	var lists atomic.Int32
	path := p.through(t, func(res *http.Response) {
		if !strings.HasSuffix(res.Request.URL.Path, "/operatingsystemconfigs") || lists.Add(1) > 1 {
			return
		}
		p.NoError(res.Body.Close())
		body := `{"kind":"OperatingSystemConfigList","apiVersion":"operatingsystemmanager.k8c.io/v1alpha1","metadata":{"resourceVersion":"1"},"items":[]}`
		res.Body, res.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		res.Header.Set("Content-Length", strconv.Itoa(len(body)))
		res.Header.Del("Content-Encoding")
		res.Header.Set("Content-Type", "application/json")
	})
	p.among(doctor.OK, "pools", "what", "--kubeconfig", path)
	if lists.Load() != 2 {
		t.Errorf("the configurations were listed %d times", lists.Load())
	}
}

// through returns a kubeconfig that leads through a proxy, which changes responses.
func (p *patient) through(t *testing.T, change func(*http.Response)) (kubeconfig string) {
	target, err := url.Parse(p.Cluster.Config.Host)
	p.Must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(e2e.CaOf(t, p.Cluster)))
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	proxy.ModifyResponse = func(res *http.Response) error {
		change(res)
		return nil
	}
	front := httptest.NewTLSServer(proxy)
	t.Cleanup(front.Close)
	cfg, err := clientcmd.LoadFromFile(p.KubeconfigOf(e2e.Namespace, "osm-gitops"))
	p.Must(err)
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: front.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})}
	path := filepath.Join(t.TempDir(), "through")
	p.Must(clientcmd.WriteToFile(*cfg, path))
	return path
}

// before examines a cluster for an installation that would be the second one: everything exists
// without Helm.
func (p *patient) before(t *testing.T) {
	p.among(doctor.OK, "kubernetes", "the API server is v1.", "--pre")
	p.among(doctor.OK, "kinds", "3 kinds of machine-controller exist", "--pre")
	p.among(doctor.OK, "webhooks", "no webhook of operating-system-manager blocks", "--pre")
	p.among(doctor.OK, "rights", "permissions that the installation needs", "--pre")
	p.among(doctor.Warning, "predecessor", "Helm did not install Namespace cloud-init-settings, CustomResourceDefinition bootreports.gitops.k8c.io, ", "--pre")

	for said, want := range map[string]doctor.Finding{
		`{"gitVersion":"v1.29.9"}`: {Level: doctor.Problem, Found: "the API server is v1.29.9, and osm-gitops needs 1.30"},
		`{}`:                       {Level: doctor.Unknown, Found: `the API server does not say its version, but ""`},
	} {
		path := p.through(t, func(res *http.Response) {
			if res.Request.URL.Path == "/version" {
				res.Body = io.NopCloser(strings.NewReader(said))
				res.ContentLength = int64(len(said))
				res.Header.Del("Content-Length")
			}
		})
		p.among(want.Level, "kubernetes", want.Found, "--pre", "--kubeconfig", path)
	}

	p.ApplyYAML(`{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer, namespace: ` + p.Pools + `}}`)
	deployer := []string{"--pre", "--kubeconfig", p.KubeconfigOf(p.Pools, "deployer")}
	p.among(doctor.Problem, "rights", "you cannot get, create, patch, list deployments.apps in kube-system, which the installation needs, or grants to the controller", deployer...)
	p.among(doctor.Problem, "rights", "more permissions are missing", deployer...)
	p.ApplyYAML(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: deployer}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: [get, list, create, patch]}]}`)
	p.ApplyYAML(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: deployer},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: deployer}, subjects: [{kind: ServiceAccount, name: deployer, namespace: ` + p.Pools + `}]}`)
	p.Eventually("the API server to know", func() error {
		_, report := p.doctor(deployer...)
		if slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return strings.Contains(f.Found, "create") }) {
			return errors.New("it does not")
		}
		return nil
	})
	p.among(doctor.Problem, "rights", "you cannot watch, update, delete secrets in cloud-init-settings, which the installation needs, or grants to the controller", deployer...)
}
