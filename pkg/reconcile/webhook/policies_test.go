package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// root is the path of the repository's root from here.
const root = "../../.."

// users are clients of people and programs with real rights: the controller with
// those of deploy/rbac.yaml, the administrator with all, the others with every right
// to profiles, configurations and Secrets.
type users map[string]client.Client

const (
	controller = "the controller"
	admin      = "the administrator"
	editor     = "an editor"
	restorer   = "a user of the parameters"
	operator   = "a member of a group of the parameters"
	tenant     = "the controller of another namespace"
)

// tenants is the namespace of the other controller.
const tenants = "tenants"

// policed installs deploy/admission.yaml and waits until it is in force.
func policed(t *testing.T) (users, string) {
	t.Helper()
	c := cluster.Shared(t)
	if err := c.Apply(t.Context(), filepath.Join(root, "deploy/cloud-init-settings.yaml"), filepath.Join(root, "deploy/rbac.yaml"), filepath.Join(root, "deploy/admission.yaml")); err != nil {
		t.Fatal(err)
	}
	cl := c.Client(t)
	do(t, client.IgnoreAlreadyExists(cl.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenants}})))
	parameters(t, cl, `{"users":"system:serviceaccount:kube-system:osm-gitops\n restorer \n","groups":"backup\noperators","serviceAccounts":""}`)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "everything-of-profiles"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{osm.GroupVersion.Group, api.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
	}}
	do(t, client.IgnoreAlreadyExists(cl.Create(t.Context(), role)))
	do(t, client.IgnoreAlreadyExists(cl.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "editor"},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "restorer"},
			{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "operators"},
			{Kind: rbacv1.ServiceAccountKind, Namespace: tenants, Name: "osm-gitops"},
		},
	})))
	as := func(who rest.ImpersonationConfig) client.Client {
		config := rest.CopyConfig(c.Config)
		config.Impersonate = who
		out, err := client.New(config, client.Options{Scheme: cl.Scheme()})
		do(t, err)
		return out
	}
	const accounts = "system:serviceaccounts"
	out := users{
		admin:      cl,
		controller: as(rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:osm-gitops", Groups: []string{accounts, accounts + ":kube-system", "system:authenticated"}}),
		editor:     as(rest.ImpersonationConfig{UserName: "editor", Groups: []string{"system:authenticated"}}),
		restorer:   as(rest.ImpersonationConfig{UserName: "restorer", Groups: []string{"system:authenticated"}}),
		operator:   as(rest.ImpersonationConfig{UserName: "somebody", Groups: []string{"operators", "system:authenticated"}}),
		tenant:     as(rest.ImpersonationConfig{UserName: "system:serviceaccount:" + tenants + ":osm-gitops", Groups: []string{accounts, "system:authenticated"}}),
	}
	ns := "kube-system" // where deploy/rbac.yaml lets the controller write
	eventually(t, "the policies to be in force", func() error {
		for _, obj := range []client.Object{
			marked(profileObject(ns, "probe")), marked(configObject(ns, "probe")), marked(secretObject("probe")), recordObject(ns, "probe"), provenanceObject("probe.1"),
		} {
			if err := out[editor].Create(t.Context(), obj, client.DryRunAll); !apierrors.IsForbidden(err) {
				return fmt.Errorf("%T: %w", obj, errors.Join(errors.New("not refused"), err))
			}
			if err := out[operator].Create(t.Context(), obj, client.DryRunAll); err != nil { // the parameters
				return fmt.Errorf("%T: %w", obj, err)
			}
		}
		return nil
	})
	return out, ns
}

// parameters changes those of the policies.
func parameters(t *testing.T, cl client.Client, data string) {
	t.Helper()
	do(t, cl.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "osm-gitops-admission"}},
		client.RawPatch(types.MergePatchType, []byte(`{"data":`+data+`}`))))
}

// step is one write and what the API server says to it.
type step struct {
	name string
	as   string
	// before is written by a user of the parameters, nil for nothing; after is
	// written by the one above, nil to delete.
	before, after client.Object
	refused       string // part of the message, "" for accepted
}

// apply writes what was before, and then what the step is about.
func (s step) apply(t *testing.T, who users) error {
	t.Helper()
	if s.before == nil {
		return who[s.as].Create(t.Context(), s.after)
	}
	do(t, who[restorer].Create(t.Context(), s.before.DeepCopyObject().(client.Object)))
	if s.after == nil {
		return who[s.as].Delete(t.Context(), s.before)
	}
	// The controller may patch, and not update.
	return who[s.as].Patch(t.Context(), s.after, client.MergeFrom(s.before))
}

// TestPolicies checks who can write what, as enforced by the API server. None of the
// rules prevents deletions.
func TestPolicies(t *testing.T) {
	who, ns := policed(t)
	const mine = "only osm-gitops writes"
	profile := func(edits ...func(client.Object)) client.Object {
		osp := profileObject(ns, "osp-mine")
		for _, edit := range edits {
			edit(osp)
		}
		return osp
	}
	config := func(edits ...func(client.Object)) client.Object {
		osc := configObject(ns, "pool-shop-config")
		for _, edit := range edits {
			edit(osc)
		}
		return osc
	}
	secret := func(edits ...func(client.Object)) client.Object {
		s := secretObject("pool-shop-bootstrap-config")
		for _, edit := range edits {
			edit(s)
		}
		return s
	}
	mark := func(o client.Object) { marked(o) }
	annotate := func(key, value string) func(client.Object) {
		return func(o client.Object) { o.SetAnnotations(with(o.GetAnnotations(), key, value)) }
	}
	label := func(key, value string) func(client.Object) {
		return func(o client.Object) { o.SetLabels(with(o.GetLabels(), key, value)) }
	}
	unlabel := func(o client.Object) { o.SetLabels(nil) }
	unannotate := func(o client.Object) { o.SetAnnotations(nil) }
	hold := func(o client.Object) { o.SetFinalizers([]string{"example.com/hold"}) }
	version := func(v string) func(client.Object) {
		return func(o client.Object) { o.(*osm.OperatingSystemProfile).Spec.Version = v }
	}
	units := func(o client.Object) {
		o.(*osm.OperatingSystemProfile).Spec.BootstrapConfig.Units = []osm.Unit{{Name: "a.service"}}
	}
	edited := func(o client.Object) { o.(*osm.OperatingSystemConfig).Spec.OSVersion = "other" }
	data := func(o client.Object) { o.(*corev1.Secret).Data["cloud-config"] = []byte("edited") }

	for _, s := range []step{
		// Profiles.
		{"the controller makes a profile of a source", controller, nil, profile(mark), ""},
		{"nobody else", editor, nil, profile(mark), mine},
		{"not even the administrator", admin, nil, profile(mark), mine},
		{"but a user whom the parameters name", restorer, nil, profile(mark), ""},
		{"and a group", operator, nil, profile(mark), ""},
		{"a profile of one's own", editor, nil, profile(annotate("a", "b"), label("c", "d")), ""},
		{"with units, on Ubuntu", editor, nil, profile(units), ""},
		{"a label of a source alone", editor, nil, profile(label(api.LabelSource, "osps")), mine},
		{"any label of ours", editor, nil, profile(label(api.LabelVersion, "")), mine},
		{"a commit alone", editor, nil, profile(annotate(api.AnnotationCommit, "3f2a9c1")), mine},
		{"an empty annotation", editor, nil, profile(annotate(api.AnnotationSignature, "")), mine},
		{"one's own, changed together with its version", editor, profile(), profile(version("v1.0.1"), units), ""},
		{"one's own, changed without its version: the CRD's rule", editor, profile(), profile(units), "the spec of a profile is immutable"},
		{"one's own, annotated", editor, profile(), profile(annotate("a", "b")), ""},
		{"one's own, with a commit added", editor, profile(), profile(annotate(api.AnnotationCommit, "3f2a9c1")), mine},
		{"one's own, put into a source", editor, profile(), profile(label(api.LabelSource, "osps")), mine},
		{"a foreign commit, altered", editor, profile(annotate(api.AnnotationCommit, "1")), profile(annotate(api.AnnotationCommit, "2")), mine},
		{"a foreign commit, kept", editor, profile(annotate(api.AnnotationCommit, "1")), profile(annotate(api.AnnotationCommit, "1"), annotate("a", "b")), ""},
		{"a foreign commit, removed", editor, profile(annotate(api.AnnotationCommit, "1")), profile(), ""},
		{"a source's profile, changed", editor, profile(mark), profile(mark, version("v1.0.1")), "it belongs to ProfileSource osps, and only osm-gitops writes it: change profiles/x.yaml there"},
		{"a source's profile, another commit", editor, profile(mark), profile(mark, annotate(api.AnnotationCommit, "2")), mine},
		{"a source's profile, without its annotations", editor, profile(mark), profile(mark, unannotate), mine},
		{"a source's profile, without its labels", editor, profile(mark), profile(mark, unlabel), mine},
		{"a source's profile, of another source", editor, profile(mark), profile(mark, label(api.LabelSource, "other")), mine},
		{"a source's profile, any annotation", editor, profile(mark), profile(mark, annotate("a", "b")), mine},
		{"a source's profile, held", editor, profile(mark), profile(mark, hold), mine},
		{"a source's profile, held by the administrator", admin, profile(mark), profile(mark, hold), mine},
		{"a source's profile, released: garbage collection does that", editor, profile(mark, hold), profile(mark), ""},
		{"a source's profile, deleted", editor, profile(mark), nil, ""},
		{"a source's profile, changed by a user of the parameters: the CRD's rule", restorer, profile(mark), profile(mark, units), "the spec of a profile is immutable"},

		// Configurations.
		{"the controller makes a configuration", controller, nil, config(mark), ""},
		{"nobody else makes one with a record", editor, nil, config(mark), mine},
		{"as the reference makes them", editor, nil, config(annotate(api.AnnotationOSPVersion, "v1.0.0")), ""},
		{"one of the reference's, annotated", editor, config(), config(annotate(api.AnnotationRevisionFor, "2")), ""},
		{"one of the reference's, with a record added", editor, config(), config(annotate(api.AnnotationRecord, "{}")), mine},
		{"a record, altered", editor, config(mark), config(mark, annotate(api.AnnotationRecord, "{}")), mine},
		{"a record, removed", editor, config(mark), config(), "osm-gitops created the configuration"},
		{"the revision of a configuration of ours", editor, config(mark), config(mark, annotate(api.AnnotationRevisionFor, "9")), "osm-gitops created the configuration"},
		{"the controller annotates its own", controller, config(mark), config(mark, annotate(api.AnnotationRevisionFor, "9")), ""},
		{"the spec, by the controller: the CRD's rule", restorer, config(mark), config(mark, edited), "immutable"},
		{"the spec of the reference's: the CRD's rule", editor, config(), config(edited), "immutable"},
		{"a configuration, deleted", editor, config(mark), nil, ""},

		// Secrets that nodes boot from.
		{"the controller makes user-data", controller, nil, secret(mark), ""},
		{"nobody else makes some with a commit", editor, nil, secret(mark), mine},
		{"user-data of others", editor, nil, secret(annotate("a", "b")), ""},
		{"a commit of user-data, altered", editor, secret(mark), secret(mark, annotate(api.AnnotationCommit, "2")), mine},
		{"a commit of user-data, removed", editor, secret(mark), secret(unannotate), mine},
		{"other annotations of user-data", editor, secret(mark), secret(mark, annotate("a", "b")), ""},
		{"user-data edited by hand is put back, not refused", editor, secret(mark), secret(mark, data), ""},
		{"user-data, deleted", editor, secret(mark), nil, ""},
		{"the controller writes its own", controller, secret(mark), secret(mark, data, annotate(api.AnnotationCommit, "2")), ""},
	} {
		t.Run(s.name, func(t *testing.T) {
			target := s.after
			if target == nil {
				target = s.before
			}
			t.Cleanup(func() { remove(t, who[restorer], target) })
			err := s.apply(t, who)
			switch {
			case s.refused == "" && err != nil:
				t.Errorf("%s: %v", s.as, err)
			case s.refused != "" && err == nil:
				t.Errorf("%s was not refused", s.as)
			case s.refused != "" && (!strings.Contains(err.Error(), s.refused) || !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err)):
				t.Errorf("refused by %v, want %q", err, s.refused)
			}
		})
	}

	t.Run("Secrets elsewhere are nobody's business", func(t *testing.T) {
		s := marked(secretObject("elsewhere"))
		s.SetNamespace(cluster.Shared(t).Namespace(t))
		do(t, who[editor].Create(t.Context(), s))
	})
	t.Run("Kubernetes fills in the getter's token", func(t *testing.T) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: api.SecretGetterToken}}
		eventually(t, "the token", func() error {
			if err := who[admin].Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
				return err
			}
			if len(s.Data["token"]) == 0 {
				return errors.New("is empty")
			}
			return nil
		})
	})
	t.Run("the types of the rules agree", func(t *testing.T) {
		eventually(t, "the API server's view of the policies", func() error {
			var list admissionregistrationv1.ValidatingAdmissionPolicyList
			if err := who[admin].List(t.Context(), &list); err != nil {
				return err
			}
			if len(list.Items) != 6 {
				t.Fatalf("found %d policies", len(list.Items))
			}
			for _, p := range list.Items {
				if p.Status.ObservedGeneration != p.Generation || p.Status.TypeChecking == nil {
					return fmt.Errorf("%s was not looked at", p.Name)
				}
				for _, w := range p.Status.TypeChecking.ExpressionWarnings {
					t.Errorf("%s: %s: %s", p.Name, w.FieldRef, w.Warning)
				}
			}
			return nil
		})
	})
	t.Run("without its parameters nothing stands in the way", func(t *testing.T) {
		do(t, who[admin].Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "osm-gitops-admission"}}))
		eventually(t, "the controller to write without parameters", func() error {
			return who[controller].Create(t.Context(), marked(configObject(ns, "free")), client.DryRunAll)
		})
	})
}

func profileObject(ns, name string) *osm.OperatingSystemProfile {
	return &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: osm.OperatingSystemProfileSpec{
			OSName: osm.OperatingSystemUbuntu, OSVersion: "24.04", Version: "v1.0.0",
			SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "aws"}},
		},
	}
}

func configObject(ns, name string) *osm.OperatingSystemConfig {
	return &osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec: osm.OperatingSystemConfigSpec{
			OSName: osm.OperatingSystemUbuntu, OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "aws"},
		},
	}
}

func secretObject(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: name},
		Data:       map[string][]byte{"cloud-config": []byte("#cloud-config\n")},
	}
}

// marked makes an object one of the controller's.
func marked(o client.Object) client.Object {
	switch o.(type) {
	case *osm.OperatingSystemProfile:
		o.SetLabels(map[string]string{api.LabelSource: "osps", api.LabelProfile: o.GetName()})
		o.SetAnnotations(map[string]string{api.AnnotationCommit: "1", api.AnnotationPath: "profiles/x.yaml"})
	case *osm.OperatingSystemConfig:
		o.SetAnnotations(map[string]string{api.AnnotationRecord: `{"object":"x"}`, api.AnnotationRevisionFor: "1"})
	default:
		o.SetAnnotations(map[string]string{api.AnnotationPool: "shop/pool", api.AnnotationCommit: "1"})
	}
	return o
}

func with(m map[string]string, key, value string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}

func remove(t *testing.T, c client.Client, obj client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // a cleanup comes after the test
	do(t, client.IgnoreNotFound(c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))))
	do(t, client.IgnoreNotFound(c.Delete(ctx, obj)))
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually retries until there is no error; giving up is a failure, so it can take
// long.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	testenv.Await(t, time.Minute, what, try)
}
