package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// settings are the ones of every release in these tests.
const settings = "image.repository=registry.example.com/osm-gitops,image.tag=v1.0.0"

// builtinSource is the ProfileSource of the built-in profiles.
const builtinSource = "osm-gitops-defaults"

// A release that observes next to a reference implementation, whose objects exist already, becomes
// one that serves, by an upgrade.
func TestObserveThenServe(t *testing.T) {
	i := newInstallation(t, "kube-system")
	if err := i.cluster.Apply(t.Context(), deploy+"/crds", deploy+"/cloud-init-settings.yaml"); err != nil {
		t.Fatal(err)
	}
	install := []string{"install", "osm-gitops", chartDir, "--set", settings + ",observe=true"}
	if _, errs, err := i.try(install...); err == nil || !strings.Contains(errs, "cannot be imported into the current release") {
		t.Errorf("Helm takes kinds of somebody else: %v\n%s", err, errs)
	}
	i.helm(append(install, "--take-ownership")...)
	i.served("osm-gitops")
	i.helm("upgrade", "osm-gitops", chartDir, "--reset-then-reuse-values", "--set", "appliers.enabled=true")

	err := i.client.Create(t.Context(), &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: builtinSource},
		Spec:       api.ProfileSourceSpec{Builtin: &api.BuiltinSource{}, Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.cluster.ApplyObjects(t.Context(), pool(i.cluster.Namespace(t), "web", nil)); err != nil {
		t.Fatal(err)
	}
	c := i.starts("osm-gitops")
	i.until(c, "the condition says what would be done", func() error {
		var ps api.ProfileSource
		if err := i.client.Get(t.Context(), client.ObjectKey{Namespace: i.namespace, Name: builtinSource}, &ps); err != nil {
			return err
		}
		observed := apimeta.FindStatusCondition(ps.Status.Conditions, api.ObservedCondition)
		if observed == nil || observed.Reason != api.ReasonWouldChange || !strings.Contains(observed.Message, "1 pool") {
			return fmt.Errorf("it is %+v", observed)
		}
		return nil
	})
	c.Stop()
	wrote := map[string]bool{}
	for q := range i.allowed("osm-gitops-dry-run") {
		if !slices.Contains([]string{"get", "list", "watch"}, q.Verb) {
			wrote[q.Resource] = true
		}
	}
	if len(wrote) != 2 || !wrote["leases"] || !wrote["profilesources/status"] {
		t.Errorf("the observer wrote %v", wrote)
	}

	i.helm("upgrade", "osm-gitops", chartDir, "--reset-then-reuse-values", "--set", "observe=false", "--take-ownership")
	i.served("osm-gitops")
	i.gone(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "osm-gitops-dry-run"}})
	c = i.starts("osm-gitops")
	i.until(c, "the pool is served", func() error { return i.hasSecrets(1) })
	c.Stop()
	i.allowed("osm-gitops")
}

// hasSecrets counts the pools that have what they boot from.
func (i *installation) hasSecrets(pools int) error {
	var list corev1.SecretList
	if err := i.client.List(i.t.Context(), &list, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
		return err
	}
	got := 0
	for _, secret := range list.Items {
		if strings.HasSuffix(secret.Name, "-provisioning-config") {
			got++
		}
	}
	if got != pools {
		return fmt.Errorf("%d pools are served", got)
	}
	return nil
}

// Releases of one namespace share its pools: each may hold its lease, and asks for nothing
// that the release with the rest does not let it. A shard goes without the others, by
// uninstall.
func TestShardsOfOneNamespace(t *testing.T) {
	i := newInstallation(t, "osm")
	selector := func(s string) string { return "flags.watch-label-selector=" + s }
	i.helm("install", "osm-gitops", chartDir, "--create-namespace", "--set", settings, "--set", selector("!gitops.k8c.io/shard"))
	i.helm("install", "osm-gitops-a", chartDir, "--set", settings, "--set", selector("gitops.k8c.io/shard=a"))
	i.helm("install", "osm-gitops-b", chartDir, "--set", settings, "--set", selector("gitops.k8c.io/shard=b"))
	pools := i.cluster.Namespace(t)
	for name, labels := range map[string]map[string]any{"web": nil, "db": {"gitops.k8c.io/shard": "a"}, "gpu": {"gitops.k8c.io/shard": "b"}} {
		if err := i.cluster.ApplyObjects(t.Context(), pool(pools, name, labels)); err != nil {
			t.Fatal(err)
		}
	}
	rest := i.starts("osm-gitops")
	i.until(rest, "the pool of the rest is served", func() error { return i.hasSecrets(1) })
	a := i.starts("osm-gitops-a")
	i.until(a, "the pool of a is served", func() error { return i.hasSecrets(2) })
	b := i.starts("osm-gitops-b")
	i.until(b, "all pools are served", func() error { return i.hasSecrets(3) })
	var leases coordinationv1.LeaseList
	if err := i.client.List(t.Context(), &leases, client.InNamespace(i.namespace)); err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, lease := range leases.Items {
		held[*lease.Spec.HolderIdentity] = true
	}
	if len(leases.Items) != 3 || len(held) != 3 || held[""] {
		t.Errorf("three controllers hold %d leases: %v", len(leases.Items), held)
	}
	for _, c := range []*testenv.Process{b, a, rest} {
		c.Stop()
	}
	i.allowed("osm-gitops")

	list := i.manifest("osm-gitops-a")
	i.helm("uninstall", "osm-gitops-a")
	if missing := i.missing(list); len(missing) != len(list) || len(list) != 6 {
		t.Errorf("of %d objects of the shard are gone %q", len(list), missing)
	}
	i.helm("upgrade", "osm-gitops", chartDir, "--reset-then-reuse-values", "--set", "replicas=1,leaderElect=false")
	i.served("osm-gitops")
	if missing := i.missing(i.manifest("osm-gitops-b")); len(missing) > 0 {
		t.Errorf("of the other shard are gone %q", missing)
	}
	if _, errs, err := i.try("install", "again", chartDir, "--set", settings); err == nil || !strings.Contains(errs, "cannot be imported") {
		t.Errorf("a second release handles all pools as well: %v\n%s", err, errs)
	}
}
