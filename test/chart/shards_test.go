package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// selecting are values with a label selector.
func selecting(selector string) string {
	return image + "flags: {watch-label-selector: \"" + selector + "\"}\n"
}

// The chart and the controller agree which selectors take objects without labels, since
// that release has what there is one of, and which lease a shard holds.
func TestShardsOfTheController(t *testing.T) {
	for _, selector := range []string{
		"", " ", "!a", "! a", "a!=b", "a != b", "a!=", "a notin (b)", "a notin (b, c),!d", "!gitops.k8c.io/shard, x.example.com/y != z", "a notin()",
		"a", "a=b", "a==b", "a in (b)", "a=", "a in ()", "!a,b", "b,!a", "a!=b,c=d", "a notin (b),c in (d)", "a>1", "gitops.k8c.io/shard=a", "a=b ",
	} {
		s, err := shard.Parse(selector)
		if err != nil {
			t.Fatalf("%q is none: %v", selector, err)
		}
		names := map[string]bool{}
		var leases []string
		for _, o := range release(t, "osm-gitops-x", "osm", selecting(selector)) {
			names[o.GetKind()+" "+o.GetName()] = true
			if o.GetKind() == "Role" && o.GetNamespace() == "osm" {
				leases = append(leases, leasesOf(t, o)...)
			}
		}
		if rest := names["ServiceAccount osm-gitops"]; rest != s.IncludesUnlabeled() || names["Deployment osm-gitops"] != s.IncludesUnlabeled() || names["Deployment osm-gitops-x"] == s.IncludesUnlabeled() {
			t.Errorf("%q: the chart takes it for the rest: %v, the controller: %v; it makes %v", selector, rest, s.IncludesUnlabeled(), names)
		}
		if want := s.LeaseName("operating-system-manager"); !slices.Equal(leases, []string{want}) {
			t.Errorf("%q: the controller holds %s, and may hold %q", selector, want, leases)
		}
	}
}

// The name of a shard can look like a boolean or null in YAML, and must be valid as part of the
// name of a Service.
func TestNamesOfShards(t *testing.T) {
	const more = "hooks: {enabled: true}\nmetrics: {serviceMonitor: {enabled: true}}\nnetworkPolicy: {metricsFrom: [{podSelector: {}}]}\n"
	for _, name := range []string{"no", "off", "y", "true", "null", "e5", strings.Repeat("a", 53)} {
		list := release(t, name, "osm", selecting("a=b")+more)
		pods := labels.Set(deployment(t, list).Spec.Template.Labels)
		if got := pods["app.kubernetes.io/instance"]; got != name {
			t.Errorf("Pods of shard %s say %q", name, got)
		}
		for what, selector := range selectors(t, list) {
			if !selector.Matches(pods) {
				t.Errorf("%s does not select Pods of shard %s", what, name)
			}
		}
	}
	for _, name := range []string{"1e3", "7", "shards.a", strings.Repeat("a", 56)} {
		out, errs, err := render(t, selecting("a=b"), "chart", chartDir, "osm/"+name)
		if err == nil {
			t.Errorf("a shard may be called %s:\n%.300s", name, out)
		} else if want := "the release is called " + name; !strings.Contains(errs, want) || !strings.Contains(errs, "such as osm-gitops-") {
			t.Errorf("a shard called %s is refused without %q:\n%s", name, want, errs)
		}
	}
}

func leasesOf(t *testing.T, role *unstructured.Unstructured) []string {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(role.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, rule := range rules {
		rule := rule.(map[string]any)
		if slices.Equal(rule["resources"].([]any), []any{"leases"}) && rule["resourceNames"] != nil {
			for _, name := range rule["resourceNames"].([]any) {
				out = append(out, name.(string))
			}
		}
	}
	return out
}

// Three releases of one namespace make no object twice, and nothing of one selects Pods of
// another.
func TestReleasesOfOneNamespace(t *testing.T) {
	const more = "hooks: {enabled: true}\nui: {enabled: true, tlsSecret: ui}\nmetrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}\nnetworkPolicy: {metricsFrom: [{podSelector: {}}]}\nappliers: {enabled: true}\n"
	releases := map[string][]*unstructured.Unstructured{
		"osm-gitops":   release(t, "osm-gitops", "osm", selecting("!gitops.k8c.io/shard")+more),
		"osm-gitops-a": release(t, "osm-gitops-a", "osm", selecting("gitops.k8c.io/shard=a")+more),
		"b":            release(t, "b", "osm", selecting("gitops.k8c.io/shard=b")+more),
	}
	var all []*unstructured.Unstructured
	var got []string
	for name, list := range releases {
		all = append(all, list...)
		if name == "b" {
			for _, o := range list {
				got = append(got, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
			}
		}
		pods := labels.Set(deployment(t, list).Spec.Template.Labels)
		for owner, others := range releases {
			for what, selector := range selectors(t, others) {
				if selector.Matches(pods) != (owner == name) {
					t.Errorf("%s of release %s selects Pods of release %s: %v", what, owner, name, owner != name)
				}
			}
		}
	}
	byName(t, all) // fails for duplicates
	slices.Sort(got)
	want := []string{
		"Deployment osm/b", "NetworkPolicy osm/b", "PodDisruptionBudget osm/b", "Role osm/b-lease", "RoleBinding osm/b-lease",
		"Service osm/b-hooks", "Service osm/b-metrics", "Service osm/b-ui", "ServiceMonitor osm/b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a shard is made of (-want +got):\n%s", diff)
	}
	d := deployment(t, releases["b"])
	if d.Spec.Template.Spec.ServiceAccountName != "osm-gitops" || !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--webhook-address=0") {
		t.Errorf("the shard's Pods are %+v", d.Spec.Template.Spec)
	}
}

// selectors are those with which objects select Pods of their namespace, and a
// ServiceMonitor its Service.
func selectors(t *testing.T, list []*unstructured.Unstructured) map[string]labels.Selector {
	t.Helper()
	out := map[string]labels.Selector{}
	for _, o := range list {
		path := map[string][]string{
			"Deployment": {"spec", "selector", "matchLabels"}, "PodDisruptionBudget": {"spec", "selector", "matchLabels"},
			"NetworkPolicy": {"spec", "podSelector", "matchLabels"}, "Service": {"spec", "selector"}, "ServiceMonitor": {"spec", "selector", "matchLabels"},
		}[o.GetKind()]
		if path == nil {
			continue
		}
		set, found, err := unstructured.NestedStringMap(o.Object, path...)
		if err != nil || !found {
			t.Fatalf("%s %s has no selector: %v", o.GetKind(), o.GetName(), err)
		}
		out[o.GetKind()+" "+o.GetName()] = labels.SelectorFromSet(set)
	}
	if len(out) < 6 {
		t.Fatalf("found %d selectors only", len(out))
	}
	return out
}

// In the worker cluster a shard's release is the right to its lease there.
func TestShardOfTwoClusters(t *testing.T) {
	digits := strings.TrimPrefix(must(shard.Parse("gitops.k8c.io/shard=a")).LeaseName(""), api.ShardLeaseInfix)
	worker := byName(t, release(t, "osm-gitops-a", "osm", "mode: worker\nflags: {watch-label-selector: gitops.k8c.io/shard=a}\n"))
	role := worker["Role kube-system/osm-gitops-a-lease"]
	if len(worker) != 2 || role == nil || !slices.Equal(leasesOf(t, &unstructured.Unstructured{Object: role}), []string{"operating-system-manager-worker-manager-shard-" + digits}) {
		t.Errorf("it is %v", worker)
	}
	management := release(t, "osm-gitops-a", "osm", selecting("gitops.k8c.io/shard=a")+"mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\n")
	args := deployment(t, management).Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--worker-cluster-kubeconfig=/etc/osm-gitops/worker-cluster/kubeconfig") || byName(t, management)["Role osm/osm-gitops-a-lease"] == nil {
		t.Errorf("it is started with %q", args)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The rights to read objects of Flux and Argo CD can be limited to their namespaces, and each of
// several releases has its own.
func TestAppliersByNamespace(t *testing.T) {
	c := cluster.Shared(t)
	list := chart(t, "default", image+"mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\nappliers: {enabled: true, namespaces: [default, kube-system, default]}\n")
	got := byName(t, list)
	for _, want := range []string{
		"ClusterRole /osm-gitops-appliers-default", "RoleBinding default/osm-gitops-appliers-default-read", "RoleBinding kube-system/osm-gitops-appliers-default-read",
		"Role default/osm-gitops-appliers", "RoleBinding default/osm-gitops-appliers",
	} {
		if got[want] == nil {
			t.Errorf("there is no %s", want)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "ClusterRoleBinding /osm-gitops-appliers") {
			t.Errorf("there is %s", name)
		}
	}
	if err := c.ApplyObjects(t.Context(), list...); err != nil {
		t.Error(err)
	}
	for name := range byName(t, chart(t, "osm", image+"appliers: {enabled: true}\nobserve: true\n")) {
		if strings.Contains(name, "Role osm/osm-gitops-appliers") {
			t.Errorf("who observes has %s", name)
		}
	}
}
