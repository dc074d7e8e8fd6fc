package permissions_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

const (
	system   = metav1.NamespaceSystem
	settings = api.NamespaceCloudInitSettings
	// access is the name of a pool's ServiceAccount, Role and RoleBinding.
	access = "node-web-0123456789abcdef"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// limited is a cluster with the controller's roles and its policy.
type limited struct {
	t *testing.T
	// admin is a cluster admin, controller impersonates the controller's ServiceAccount.
	admin, controller client.Client
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	c := cluster.Shared(t)
	var paths []string
	for _, file := range []string{"cloud-init-settings.yaml", "rbac.yaml", "webhook.yaml", "appliers.yaml", "controller-policy.yaml"} {
		paths = append(paths, filepath.Join("../../deploy", file))
	}
	if err := c.Apply(t.Context(), paths...); err != nil {
		t.Fatal(err)
	}
	scheme, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	cfg := rest.CopyConfig(c.Config)
	cfg.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kube-system:osm-gitops",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
	controller, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{t: t, admin: c.Client(t), controller: client.WithFieldOwner(controller, api.FieldManager)}
	l.until("the policy to be in force", func() error {
		err := l.controller.Create(t.Context(), configMap("probe", nil), client.DryRunAll)
		if !byPolicy(err) {
			return errors.Join(errors.New("a foreign ConfigMap is not refused"), err)
		}
		return nil
	})
	return l
}

// byPolicy reports whether the controller's policy refused a request.
func byPolicy(err error) bool {
	return (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'osm-gitops-controller'")
}

func (l *limited) until(what string, check func() error) {
	l.t.Helper()
	testenv.Await(l.t, time.Minute, what, check)
}

// exists makes an object as an administrator, for the test.
func (l *limited) exists(obj client.Object) {
	l.t.Helper()
	if err := l.admin.Create(l.t.Context(), obj); err != nil && !apierrors.IsAlreadyExists(err) {
		l.t.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
	}
	l.t.Cleanup(func() {
		ctx := context.WithoutCancel(l.t.Context())
		if len(obj.GetFinalizers()) > 0 {
			if err := patches(obj, "metadata: {finalizers: null}")(ctx, l.admin); err != nil {
				l.t.Error(err)
			}
		}
		if err := client.IgnoreNotFound(l.admin.Delete(ctx, obj)); err != nil {
			l.t.Error(err)
		}
	})
}

// request is one that the controller sends.
type request func(ctx context.Context, as client.Client) error

func creates(obj client.Object) request {
	return func(ctx context.Context, as client.Client) error {
		return as.Create(ctx, obj.DeepCopyObject().(client.Object))
	}
}

func deletes(obj client.Object) request {
	return func(ctx context.Context, as client.Client) error {
		return as.Delete(ctx, obj.DeepCopyObject().(client.Object))
	}
}

// patches sends a merge patch, as YAML.
func patches(obj client.Object, patch string) request {
	return func(ctx context.Context, as client.Client) error {
		body, err := yaml.YAMLToJSON([]byte(patch))
		if err != nil {
			return err
		}
		return as.Patch(ctx, obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, body))
	}
}

// changes reads an object, changes it and sends an update.
func changes[O client.Object](obj O, change func(O)) request {
	return func(ctx context.Context, as client.Client) error {
		next := obj.DeepCopyObject().(O)
		if err := as.Get(ctx, client.ObjectKeyFromObject(obj), next); err != nil {
			return err
		}
		change(next)
		return as.Update(ctx, next)
	}
}

// merges reads an object, changes it and sends the difference as a merge patch.
func merges[O client.Object](obj O, change func(O)) request {
	return func(ctx context.Context, as client.Client) error {
		before := obj.DeepCopyObject().(O)
		if err := as.Get(ctx, client.ObjectKeyFromObject(obj), before); err != nil {
			return err
		}
		after := before.DeepCopyObject().(O)
		change(after)
		return as.Patch(ctx, after, client.MergeFrom(before))
	}
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name, Labels: labels}, Data: map[string]string{"a": "b"}}
}

func secret(namespace, name string, kind corev1.SecretType) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind}
	switch kind {
	case corev1.SecretTypeServiceAccountToken:
		s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "clusterrole-aggregation-controller"}
	case corev1.SecretTypeTLS:
		s.Data = map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil}
	}
	return s
}

// token is a bootstrap token of a pool as the controller makes it, changed by more.
func token(id string, more ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "bootstrap-token-" + id, Labels: map[string]string{api.LabelTokenPool: "shop-web"}},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte(id), "token-secret": []byte("0123456789abcdef"), "expiration": at(time.Hour), "description": []byte("bootstrap token for shop-web"),
			"usage-bootstrap-authentication": []byte("true"), "usage-bootstrap-signing": []byte("true"),
			"auth-extra-groups": []byte("system:bootstrappers:machine-controller:default-node-token"),
		},
	}
	for _, f := range more {
		f(s)
	}
	return s
}

func at(from time.Duration) []byte { return []byte(time.Now().Add(from).UTC().Format(time.RFC3339)) }

// data sets a key of a Secret, or removes it.
func data(key string, value []byte) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		next := maps.Clone(s.Data)
		if next == nil {
			next = map[string][]byte{}
		}
		if next[key] = value; value == nil {
			delete(next, key)
		}
		s.Data = next
	}
}

// kubeadm returns a bootstrap token that does not belong to a pool.
func kubeadm(s *corev1.Secret) { s.Labels = nil }

func role(name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: settings, Name: name}, Rules: rules}
}

func patchReports(names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{api.GroupVersion.Group}, Resources: []string{"bootreports"}, Verbs: []string{"patch"}, ResourceNames: names}
}

func getSecrets(names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: names}
}

func binding(name, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: settings, Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}, Subjects: subjects,
	}
}

func account(namespace, name string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func subject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

func tokenOf(name string) request {
	return func(ctx context.Context, as client.Client) error {
		return as.SubResource("token").Create(ctx, account(settings, name), &authenticationv1.TokenRequest{})
	}
}

func record(name string, labels map[string]string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name, Labels: labels}, Data: runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}, Revision: 1,
	}
}

var recordLabels = map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelPool: "shop_web"}

func lease(name string) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

const poolText = `
apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata:
  name: web
  namespace: default
  labels: {team: shop}
  annotations: {k8c.io/operating-system-profile: osp-ubuntu, other: x}
  finalizers: [example.com/other]
spec:
  replicas: 1
  selector: {matchLabels: {pool: web}}
  template:
    metadata: {labels: {pool: web}, annotations: {example.com/a: b}}
    spec:
      providerSpec: {value: {cloudProvider: hetzner, operatingSystem: ubuntu}}
      versions: {kubelet: 1.35.0}
`

const sourceText = `
apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileSource
metadata: {name: platform, namespace: kube-system}
spec: {interval: 1h, git: {url: "https://git.example.com/osps.git"}}
`

const profileText = `
apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata: {name: osp-own, namespace: kube-system}
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.0.0
  supportedCloudProviders: [{name: hetzner}]
  bootstrapConfig: {files: [{path: /a, content: {inline: {encoding: plain, data: a}}}]}
  provisioningConfig: {files: [{path: /a, content: {inline: {encoding: plain, data: a}}}]}
`

// stranger are objects that are not the controller's.
type stranger struct {
	aggregation                        *corev1.ServiceAccount
	coredns                            *corev1.ConfigMap
	etcd, cert, pool, endless, kubeadm *corev1.Secret
	revision, ours                     *appsv1.ControllerRevision
	md, unnamed                        *unstructured.Unstructured
	source, builtin, profile, made     *unstructured.Unstructured
	node                               *corev1.Node
	role                               *rbacv1.Role
	mutating                           *admissionregistrationv1.MutatingWebhookConfiguration
	validating                         *admissionregistrationv1.ValidatingWebhookConfiguration
	getter                             *corev1.ServiceAccount
	getterToken                        *corev1.Secret
}

func (l *limited) strangers() stranger {
	l.t.Helper()
	unnamed := object(l.t, strings.Replace(poolText, "k8c.io/operating-system-profile: osp-ubuntu, ", "", 1))
	unnamed.SetName("unnamed")
	builtin := object(l.t, sourceText)
	builtin.SetName(api.DefaultsName)
	builtin.Object["spec"] = map[string]any{"builtin": map[string]any{}, "interval": "1h"}
	made := object(l.t, profileText)
	made.SetName("osp-made")
	made.SetLabels(map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelSource: "platform"})
	s := stranger{
		aggregation: account(system, "clusterrole-aggregation-controller"),
		coredns:     configMap("coredns", nil),
		etcd:        secret(system, "etcd-backup", corev1.SecretTypeOpaque),
		cert:        secret(system, api.WebhookSecretName, corev1.SecretTypeTLS),
		pool:        token("aaaaa1"),
		endless:     token("aaaaa2", data("expiration", nil)),
		kubeadm:     token("aaaaa3", kubeadm),
		revision:    record("cilium-1", map[string]string{"k8s-app": "cilium"}),
		ours:        record("web-shop-1", recordLabels),
		md:          object(l.t, poolText),
		unnamed:     unnamed,
		source:      object(l.t, sourceText),
		builtin:     builtin,
		profile:     object(l.t, profileText),
		made:        made,
		node:        &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"a": "b"}}},
		role:        role("broad", getSecrets()),
		mutating:    &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: api.WebhookConfigurationName}},
		validating:  &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: api.WebhookConfigurationName}},
		getter:      account(settings, "cloud-init-getter"),
		getterToken: secret(settings, api.SecretGetterToken, ""),
	}
	for _, obj := range []client.Object{
		s.aggregation, s.coredns, s.etcd, s.cert, s.pool, s.endless, s.kubeadm, s.revision, s.ours, s.md, s.unnamed, s.source, s.builtin, s.profile, s.made, s.node, s.role,
	} {
		l.exists(obj)
	}
	return s
}

// A stolen ServiceAccount of the controller cannot be used to become another user: the policy
// refuses every request that its roles allow and that the controller never makes (security.md 36).
func TestControllerCannotEscalate(t *testing.T) {
	l := newLimited(t)
	s := l.strangers()
	everything := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
	}
	evil := "https://evil.example.com/"
	parameters := configMap("osm-gitops-admission", nil)
	l.exists(parameters)
	l.exists(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: access}})
	for name, try := range map[string]request{
		"token Secret of another account":           creates(secret(system, "stolen", corev1.SecretTypeServiceAccountToken)),
		"token Secret under a name of ours":         creates(secret(system, api.KeySecretName, corev1.SecretTypeServiceAccountToken)),
		"token Secret beside those of pools":        creates(secret(settings, "web-shop-bootstrap-config", corev1.SecretTypeServiceAccountToken)),
		"the getter's token":                        deletes(s.getterToken),
		"foreign Secret":                            creates(secret(system, "flux-git", corev1.SecretTypeOpaque)),
		"foreign Secret changed":                    changes(s.etcd, data("key", []byte("x"))),
		"foreign Secret deleted":                    deletes(s.etcd),
		"Secret of ours deleted":                    deletes(s.cert),
		"bootstrap token without end":               creates(token("bbbbb1", data("expiration", nil))),
		"bootstrap token for ever":                  creates(token("bbbbb2", data("expiration", []byte("2099-01-01T00:00:00Z")))),
		"bootstrap token with an end of no length":  creates(token("bbbbb3", data("expiration", []byte("never")))),
		"bootstrap token with another form of time": creates(token("bbbbb4", data("expiration", []byte("2099-01-01T00:00:00+01:00")))),
		"bootstrap token with more than a time":     creates(token("bbbbb7", data("expiration", append(at(time.Hour), 'x')))),
		"bootstrap token of another group":          creates(token("bbbbb5", data("auth-extra-groups", []byte("system:bootstrappers:kubeadm:default-node-token")))),
		"bootstrap token of nobody":                 creates(token("bbbbb6", kubeadm)),
		"bootstrap token elsewhere":                 creates(secret(system, "bootstrap", corev1.SecretTypeBootstrapToken)),
		"bootstrap token given no end":              changes(s.pool, data("expiration", nil)),
		"bootstrap token given a late end":          changes(s.pool, data("expiration", at(25*time.Hour))),
		"bootstrap token given a late end, and a later now": changes(s.pool, func(s *corev1.Secret) {
			data("expiration", at(25*time.Hour))(s)
			for i := range s.ManagedFields {
				s.ManagedFields[i].Manager, s.ManagedFields[i].Time = api.FieldManager, &metav1.Time{Time: time.Now().Add(25 * time.Hour)}
			}
		}),
		"bootstrap token given a late end, and no managers": changes(s.pool, func(s *corev1.Secret) {
			data("expiration", at(25*time.Hour))(s)
			s.ManagedFields = []metav1.ManagedFieldsEntry{{}}
		}),
		"bootstrap token given another secret":   changes(s.pool, data("token-secret", []byte("fedcba9876543210"))),
		"bootstrap token given another group":    changes(s.pool, data("auth-extra-groups", []byte("system:bootstrappers:masters"))),
		"endless bootstrap token given a secret": changes(s.endless, data("token-secret", []byte("fedcba9876543210"))),
		"kubeadm's bootstrap token":              changes(s.kubeadm, data("expiration", at(time.Hour))),
		"kubeadm's bootstrap token taken":        changes(s.kubeadm, func(s *corev1.Secret) { s.Labels = map[string]string{api.LabelTokenPool: "shop-web"} }),
		"kubeadm's bootstrap token deleted":      deletes(s.kubeadm),
		"foreign ConfigMap":                      creates(configMap("kubeadm-config", nil)),
		"foreign ConfigMap with our label":       creates(configMap("extension-apiserver-authentication", map[string]string{api.LabelManagedBy: api.FieldManager})),
		"foreign ConfigMap deleted":              deletes(s.coredns),
		"admission parameters":                   deletes(parameters),
		"ServiceAccount":                         creates(account(settings, "mine")),
		"the getter deleted":                     deletes(s.getter),
		"the getter's image pull Secrets":        patches(s.getter, "imagePullSecrets: [{name: a}]"),
		"token of the getter":                    tokenOf("cloud-init-getter"),
		"token of default":                       tokenOf("default"),
		"Role of another name":                   creates(role("mine", getSecrets("a"))),
		"Role for all Secrets":                   creates(role(access, getSecrets())),
		"Role for more verbs":                    creates(role(access, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list"}, ResourceNames: []string{"a"}})),
		"Role for tokens":                        creates(role(access, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}, ResourceNames: []string{"a"}})),
		"Role for the report of another pool":    creates(role(access, getSecrets("a"), patchReports("node-other-0123456789abcdef"))),
		"Role for all reports":                   creates(role(access, getSecrets("a"), patchReports())),
		"RoleBinding of a foreign Role":          creates(binding(access, s.role.Name, subject(settings, access))),
		"RoleBinding of a ClusterRole": creates(func() *rbacv1.RoleBinding {
			b := binding(access, access, subject(settings, access))
			b.RoleRef.Kind = "ClusterRole"
			return b
		}()),
		"RoleBinding to a foreign account":          creates(binding(access, access, subject(system, "default"))),
		"RoleBinding to an account of another name": creates(binding(access, access, subject(settings, "default"))),
		"RoleBinding to everybody":                  creates(binding(access, access, rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:unauthenticated"})),
		"Lease of another controller":               creates(lease("cloud-controller-manager")),
		"foreign ControllerRevision":                creates(record("cilium-2", map[string]string{"k8s-app": "cilium"})),
		"ControllerRevision that an owner may adopt": creates(func() *appsv1.ControllerRevision {
			r := record("cilium-3", recordLabels)
			r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "cilium", UID: "1"}}
			return r
		}()),
		"ControllerRevision that a selector may adopt": creates(record("cilium-4", map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelPool: "shop_web", "k8s-app": "cilium"})),
		"ControllerRevision given a label":             patches(s.ours, "metadata: {labels: {k8s-app: cilium}}"),
		"foreign ControllerRevision changed":           patches(s.revision, "revision: 7"),
		"foreign ControllerRevision taken":             patches(s.revision, "metadata: {labels: {app.kubernetes.io/managed-by: osm-gitops, gitops.k8c.io/pool: a}}"),
		"foreign ControllerRevision deleted":           deletes(s.revision),
		"webhook appended": merges(s.mutating, func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			more := *c.Webhooks[0].DeepCopy()
			more.Name, more.Rules, more.MatchConditions = "all.example.com", []admissionregistrationv1.RuleWithOperations{everything}, nil
			c.Webhooks = append(c.Webhooks, more)
		}),
		"webhook for everything": merges(s.mutating, func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].Rules = []admissionregistrationv1.RuleWithOperations{everything}
		}),
		"webhook without conditions": merges(s.mutating, func(c *admissionregistrationv1.MutatingWebhookConfiguration) { c.Webhooks[0].MatchConditions = nil }),
		"webhook sent elsewhere": merges(s.mutating, func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &evil}
		}),
		"webhook of another Service": merges(s.validating, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			c.Webhooks[1].ClientConfig.Service.Name = "evil"
		}),
		"webhook removed": merges(s.validating, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) { c.Webhooks = c.Webhooks[:1] }),
		"webhook that fails": merges(s.validating, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			fail := admissionregistrationv1.Fail
			c.Webhooks[0].FailurePolicy = &fail
		}),
		"webhook configuration with a label": patches(s.validating, "metadata: {labels: {a: b}}"),
		"spec of a MachineDeployment":        patches(s.md, "spec: {replicas: 100}"),
		"machine of a MachineDeployment":     patches(s.md, "spec: {template: {spec: {providerSpec: {value: {cloudProvider: aws}}}}}"),
		"label of a MachineDeployment":       patches(s.md, "metadata: {labels: {team: mine}}"),
		"label of machines":                  patches(s.md, "spec: {template: {metadata: {labels: {a: b}}}}"),
		"annotation of a MachineDeployment":  patches(s.md, "metadata: {annotations: {gitops.k8c.io/osp-version: v0.0.1}}"),
		"annotation of machines":             patches(s.md, "spec: {template: {metadata: {annotations: {example.com/a: c}}}}"),
		"profile of a MachineDeployment":     patches(s.md, "metadata: {annotations: {k8c.io/operating-system-profile: evil}}"),
		"finalizer of somebody":              patches(s.md, "metadata: {finalizers: []}"),
		"owner of a MachineDeployment":       patches(s.md, "metadata: {ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: a}]}"),
		"label of a Node":                    patches(s.node, "metadata: {labels: {node-role.kubernetes.io/control-plane: \"\"}}"),
		"label of a Node removed":            patches(s.node, "metadata: {labels: {a: null}}"),
		"taint of a Node":                    patches(s.node, "spec: {taints: [{key: a, effect: NoExecute}]}"),
		"Node without Pods":                  patches(s.node, "spec: {unschedulable: true}"),
		"annotation of a Node":               patches(s.node, "metadata: {annotations: {example.com/a: b}}"),
		"ProfileSource":                      creates(func() client.Object { o := object(t, sourceText); o.SetName("evil"); return o }()),
		"ProfileSource of another address":   patches(s.source, "spec: {git: {url: \"https://evil.example.com/osps.git\"}}"),
		"rewrite accepted":                   patches(s.source, "metadata: {annotations: {gitops.k8c.io/accept-rewrite: a}}"),
		"built-in profiles from elsewhere":   patches(s.builtin, "spec: {builtin: null, git: {url: \"https://evil.example.com/osps.git\"}}"),
		"profile of nobody":                  creates(func() client.Object { o := object(t, profileText); o.SetName("osp-evil"); return o }()),
		"profile of somebody deleted":        deletes(s.profile),
		"profile changed":                    patches(s.profile, "spec: {version: v1.0.1}"),
		"profile taken":                      patches(s.profile, "metadata: {labels: {app.kubernetes.io/managed-by: osm-gitops}}"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := try(t.Context(), l.controller); !byPolicy(err) {
				t.Errorf("the policy does not refuse it: %v", err)
			}
		})
	}

	// The policy does not apply to other users.
	for name, do := range map[string]request{
		"foreign Secret":       creates(secret(system, "flux-git", corev1.SecretTypeOpaque)),
		"foreign ConfigMap":    creates(configMap("kubeadm-config", nil)),
		"MachineDeployment":    patches(s.md, "spec: {replicas: 3}"),
		"Node":                 patches(s.node, "spec: {unschedulable: true}"),
		"admission parameters": deletes(parameters),
	} {
		t.Run("an administrator: "+name, func(t *testing.T) {
			if err := do(t.Context(), client.NewDryRunClient(l.admin)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The policy accepts the controller's own writes (security.md 36).
func TestControllerWrites(t *testing.T) {
	l := newLimited(t)
	s := l.strangers()
	steps := []struct {
		name string
		do   request
	}{
		{"key of digests", creates(secret(system, api.KeySecretName, ""))},
		{"certificates made", func(ctx context.Context, as client.Client) error {
			return errors.Join(l.admin.Delete(ctx, s.cert.DeepCopy()), creates(secret(system, api.WebhookSecretName, corev1.SecretTypeTLS))(ctx, as))
		}},
		{"certificates renewed", changes(s.cert, data("ca.crt", []byte("a")))},
		{"bootstrap token made", creates(token("ccccc1"))},
		{"bootstrap token renewed", changes(s.pool, data("expiration", at(time.Hour)))},
		{"bootstrap token renewed again", changes(s.pool, data("expiration", at(time.Hour+time.Minute)))},
		{"bootstrap token without end put right", changes(s.endless, func(s *corev1.Secret) { s.Annotations = map[string]string{api.AnnotationPool: "shop/web"} })},
		{"bootstrap token deleted", deletes(s.pool)},
		{"user-data", creates(secret(settings, "web-shop-bootstrap-config", corev1.SecretTypeOpaque))},
		{"user-data replaced", changes(secret(settings, "web-shop-bootstrap-config", ""), data("cloud-config", []byte("a")))},
		{"user-data deleted", deletes(secret(settings, "web-shop-bootstrap-config", ""))},
		{"settings", creates(configMap("osm-gitops-settings-0123456789ab", nil))},
		{"settings deleted", deletes(configMap("osm-gitops-settings-0123456789ab", nil))},
		{"snapshot", creates(configMap("osm-gitops-snapshot", nil))},
		{"snapshot replaced", changes(configMap("osm-gitops-snapshot", nil), func(cm *corev1.ConfigMap) { cm.Data = nil })},
		{"account of a pool", creates(account(settings, access))},
		{"account of a pool patched", patches(account(settings, access), "automountServiceAccountToken: false")},
		{"token of a pool", tokenOf(access)},
		// Both are sent at once.
		{"RoleBinding of a pool, before the Role", creates(binding(access, access, subject(settings, access)))},
		{"Role of a pool", creates(role(access, getSecrets("a", "b")))},
		{"Role of a pool put back", patches(role(access), "rules: [{apiGroups: [\"\"], resources: [secrets], verbs: [get], resourceNames: [a]}]")},
		{"Role of a pool that reports", patches(role(access), "rules: [{apiGroups: [\"\"], resources: [secrets], verbs: [get], resourceNames: [a]}, {apiGroups: [gitops.k8c.io], resources: [bootreports], verbs: [patch], resourceNames: ["+access+"]}]")},
		{"RoleBinding of a pool put back", patches(binding(access, access), "metadata: {labels: {a: b}}")},
		{"RoleBinding of a pool deleted", deletes(binding(access, access))},
		{"Role of a pool deleted", deletes(role(access))},
		{"account of a pool deleted", deletes(account(settings, access))},
		{"lease", creates(lease("operating-system-manager"))},
		{"lease of a shard", creates(lease("operating-system-manager-shard-01234567"))},
		{"record", creates(record("web-shop-2", recordLabels))},
		{"record extended", patches(s.ours, "revision: 2\nmetadata: {annotations: {gitops.k8c.io/intervals: \"[]\"}}")},
		{"record deleted", deletes(s.ours)},
		{"caBundle", merges(s.mutating, func(c *admissionregistrationv1.MutatingWebhookConfiguration) {
			c.Webhooks[0].ClientConfig.CABundle = bundle
		})},
		{"caBundle of two", merges(s.validating, func(c *admissionregistrationv1.ValidatingWebhookConfiguration) {
			for i := range c.Webhooks {
				c.Webhooks[i].ClientConfig.CABundle = bundle
			}
		})},
		{"finalizer of a pool", patches(s.md, "metadata: {finalizers: [example.com/other, kubermatic.io/cleanup-operating-system-configs]}")},
		{"finalizer of a pool removed", patches(s.md, "metadata: {finalizers: [example.com/other]}")},
		{"stamp", patches(s.md, "spec: {template: {metadata: {annotations: {gitops.k8c.io/config: abc}}}}")},
		{"stamp replaced", patches(s.md, "spec: {template: {metadata: {annotations: {gitops.k8c.io/config: def}}}}")},
		{"finalizer of a pool that the webhook gives a profile", patches(s.unnamed, "metadata: {finalizers: [example.com/other, kubermatic.io/cleanup-operating-system-configs], annotations: {k8c.io/operating-system-profile: osp-ubuntu}}")},
		{"annotation of a Node", patches(s.node, "metadata: {annotations: {gitops.k8c.io/provenance: n1.0123}}")},
		{"finalizer of a ProfileSource", patches(s.source, "metadata: {finalizers: [gitops.k8c.io/finalizer]}")},
		{"finalizer of a ProfileSource removed", patches(s.source, "metadata: {finalizers: null}")},
		{"reconciliation requested", patches(s.source, "metadata: {annotations: {reconcile.fluxcd.io/requestedAt: \"1\"}}")},
		{"built-in profiles put back", func(ctx context.Context, as client.Client) error {
			o := s.builtin.DeepCopy() // complete, as the controller has it from a watch
			o.SetLabels(map[string]string{api.LabelManagedBy: api.FieldManager})
			return errors.Join(unstructured.SetNestedField(o.Object, "2h", "spec", "interval"), as.Update(ctx, o))
		}},
		{"built-in profiles withdrawn", deletes(s.builtin)},
		{"built-in profiles offered", creates(func() client.Object { o := s.builtin.DeepCopy(); o.SetResourceVersion(""); o.SetUID(""); return o }())},
		{"profile of a ProfileSource", creates(func() client.Object {
			o := object(t, profileText)
			o.SetName("osp-more")
			o.SetLabels(s.made.GetLabels())
			return o
		}())},
		{"profile of a ProfileSource deleted", deletes(s.made)},
		{"profile that Flux applied", patches(s.profile, "metadata: {annotations: {gitops.k8c.io/commit: abc}}")},
	}
	for _, step := range steps {
		if err := step.do(t.Context(), l.controller); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
	for _, obj := range []client.Object{
		secret(system, api.KeySecretName, ""), token("ccccc1"), configMap("osm-gitops-snapshot", nil), lease("operating-system-manager"), lease("operating-system-manager-shard-01234567"),
		record("web-shop-2", nil), &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "osp-more"}},
	} {
		if err := l.admin.Delete(t.Context(), obj); err != nil {
			t.Error(err)
		}
	}
}

// bundle is a valid caBundle: the API server accepts any text that is PEM of a certificate.
var bundle = []byte("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
