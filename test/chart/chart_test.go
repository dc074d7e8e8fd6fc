package chart

import (
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// The chart without values and kustomize make the same objects, apart from Helm's marks of
// ownership and the image.
func TestChartAndKustomizeAgree(t *testing.T) {
	for _, c := range []struct{ name, dirs, values string }{
		{"one cluster", ".", ""},
		{"appliers", ". appliers", "appliers: {enabled: true}\n"},
		{"observe", "observe", "observe: true\nhooks: {enabled: true}\nui: {enabled: true}\n"},
		{"management", "two-clusters/management", "mode: management\nworkerCluster: {kubeconfigSecret: {name: osm-gitops-worker-cluster}}\nwebhook: {enabled: false}\nadmission: {policies: false}\n"},
		{"worker", "two-clusters/worker", "mode: worker\nadmission: {policies: false}\n"},
		{"monitoring", "monitoring", "metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}\nnetworkPolicy: {enabled: false}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var folders []*unstructured.Unstructured
			for dir := range strings.FieldsSeq(c.dirs) {
				folders = append(folders, kustomize(t, dir)...)
			}
			fromChart, fromKustomize := byName(t, chart(t, "kube-system", image+c.values)), byName(t, folders)
			for _, o := range fromChart {
				withoutHelm(o)
			}
			for _, o := range fromKustomize {
				withoutHelm(o)
			}
			if c.name == "monitoring" { // which is put on top of the rest
				for name := range fromChart {
					if fromKustomize[name] == nil {
						delete(fromChart, name)
					}
				}
			}
			if diff := cmp.Diff(fromKustomize, fromChart); diff != "" {
				t.Errorf("-kustomize +chart:\n%s", diff)
			}
		})
	}
}

// In a namespace in which the controller always has rights, a release has those and the ones of
// its own namespace in one Role.
func TestRightsInOneRole(t *testing.T) {
	for values, role := range map[string]string{"": "osm-gitops", "observe: true\n": "osm-gitops-dry-run"} {
		elsewhere := byName(t, chart(t, "osm", image+values))
		for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespacePublic, api.NamespaceCloudInitSettings} {
			got := byName(t, chart(t, namespace, image+values)) // fails for duplicates
			rules := func(objects map[string]map[string]any, namespace string) []any {
				out, _, err := unstructured.NestedSlice(objects["Role "+namespace+"/"+role], "rules")
				if err != nil || len(out) == 0 {
					t.Fatalf("Role %s/%s has no rules: %v", namespace, role, err)
				}
				return out
			}
			want := append(rules(elsewhere, "osm"), rules(elsewhere, namespace)...)
			if diff := cmp.Diff(want, rules(got, namespace)); diff != "" {
				t.Errorf("in %s %s has other rights than elsewhere (-want +got):\n%s", namespace, role, diff)
			}
			if len(got) != len(elsewhere)-2 {
				t.Errorf("in %s there are %d objects, elsewhere %d", namespace, len(got), len(elsewhere))
			}
		}
	}
}

// withoutHelm takes away what only Helm writes, and what has to be set.
func withoutHelm(o map[string]any) {
	meta := o["metadata"].(map[string]any)
	for _, where := range []string{"labels", "annotations"} {
		if m, ok := meta[where].(map[string]any); ok {
			for key := range m {
				if strings.HasPrefix(key, "helm.sh/") || key == "app.kubernetes.io/managed-by" || key == "app.kubernetes.io/instance" || key == "app.kubernetes.io/name" {
					delete(m, key)
				}
			}
			if len(m) == 0 {
				delete(meta, where)
			}
		}
	}
	delete(o, "status") // of CustomResourceDefinitions
	containers, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
	if len(containers) == 1 {
		c := containers[0].(map[string]any)
		delete(c, "image")
		delete(c, "imagePullPolicy")
		_ = unstructured.SetNestedSlice(o, containers, "spec", "template", "spec", "containers")
	}
}

// deployment is the one of a rendering.
func deployment(t *testing.T, list []*unstructured.Unstructured) *appsv1.Deployment {
	t.Helper()
	for _, o := range list {
		if o.GetKind() == "Deployment" {
			d := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("there is no Deployment")
	return nil
}

// Access to the audit page is reviewed by the cluster with nodes, and the right to it exists there.
func TestAuditPageOfTwoClusters(t *testing.T) {
	const right = "ClusterRole /osm-gitops-ui"
	for values, want := range map[string]bool{
		"ui: {enabled: true, tlsSecret: ui}\n": true,
		"mode: worker\nui: {enabled: true}\n":  true,
		"mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\nui: {enabled: true, tlsSecret: ui}\n": false,
		"mode: worker\n": false,
	} {
		if got := byName(t, chart(t, "osm", image+values))[right] != nil; got != want {
			t.Errorf("with %q %s is made: %v", values, right, got)
		}
	}
}

// The ServiceAccount of the release can read objects that cloudProviderSpecs reference, by name,
// in the cluster with pools, and no others (security.md 35).
func TestRightsToReferences(t *testing.T) {
	const values = "cloudProvider: {references: [shop/openstack, kube-system/values], ownReferences: [shop/own, shop/openstack]}\n"
	for more, c := range map[string]struct{ name, account string }{
		"":                {"osm-gitops-cloud-provider-values-osm", "osm-gitops"},
		"observe: true\n": {"osm-gitops-cloud-provider-values-osm", "osm-gitops-dry-run"},
		"mode: worker\n":  {"osm-gitops-cloud-provider-values-osm", "osm-gitops"},
		"mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\n": {},
	} {
		list := chart(t, "osm", image+values+more)
		got := byName(t, list)
		var roles []string
		for name := range got {
			if strings.HasPrefix(name, "Role ") && strings.Contains(name, "cloud-provider") {
				roles = append(roles, name)
			}
		}
		slices.Sort(roles)
		if c.name == "" {
			if len(roles) > 0 {
				t.Errorf("with %q there are %q", more, roles)
			}
			continue
		}
		if want := []string{"Role kube-system/" + c.name, "Role shop/" + c.name}; !slices.Equal(roles, want) {
			t.Fatalf("with %q there are %q, want %q", more, roles, want)
		}
		for namespace, names := range map[string][]any{"shop": {"openstack", "own"}, "kube-system": {"values"}} {
			want := []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets", "configmaps"}, "resourceNames": names, "verbs": []any{"get"}}}
			if diff := cmp.Diff(want, got["Role "+namespace+"/"+c.name]["rules"]); diff != "" {
				t.Errorf("with %q in %s (-want +got):\n%s", more, namespace, diff)
			}
			binding := got["RoleBinding "+namespace+"/"+c.name]
			wantSubjects := []any{map[string]any{"kind": "ServiceAccount", "name": c.account, "namespace": "osm"}}
			if diff := cmp.Diff(wantSubjects, binding["subjects"]); diff != "" || binding["roleRef"].(map[string]any)["name"] != c.name {
				t.Errorf("with %q in %s: role %v, subjects (-want +got):\n%s", more, namespace, binding["roleRef"], diff)
			}
		}
	}
}

// With any values the process is not root, writes nothing but its cache, and has no capability.
// security.md 30
func TestSecurityContext(t *testing.T) {
	for _, values := range []string{"", "mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\n", "ui: {enabled: true, tlsSecret: ui}\nhooks: {enabled: true, tlsSecret: h}\n"} {
		pod := deployment(t, chart(t, "osm", image+values)).Spec.Template.Spec
		p, c := pod.SecurityContext, pod.Containers[0].SecurityContext
		if p == nil || p.RunAsNonRoot == nil || !*p.RunAsNonRoot || p.SeccompProfile == nil || p.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("the Pod may be root, or call what it likes: %+v", p)
		}
		if c == nil || c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem || c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation ||
			c.Capabilities == nil || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(c.Capabilities.Add) > 0 {
			t.Errorf("the container may write or become more: %+v", c)
		}
		if pod.HostNetwork || pod.HostPID || pod.HostIPC {
			t.Error("the Pod has a part of its node")
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if !m.ReadOnly && m.Name != "cache" {
				t.Errorf("%s may be written to", m.MountPath)
			}
		}
	}
}

// Exactly the ports that values request are open, each with its rule in the NetworkPolicy; no
// client can read metrics until values name one. security.md 29
func TestPorts(t *testing.T) {
	for _, c := range []struct {
		name, values string
		ports, let   []string
	}{
		{"as it is", "", []string{"webhook", "metrics", "health"}, []string{"webhook"}},
		{"no webhook", "webhook: {enabled: false}\n", []string{"metrics", "health"}, nil},
		{"all", "hooks: {enabled: true}\nui: {enabled: true, tlsSecret: ui}\nnetworkPolicy: {metricsFrom: [{podSelector: {}}]}\n",
			[]string{"webhook", "metrics", "health", "hooks", "ui"}, []string{"webhook", "metrics", "hooks", "ui"}},
		{"two clusters", "mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\n", []string{"webhook", "metrics", "health", "worker-health"}, []string{"webhook"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := chart(t, "osm", image+c.values)
			var ports, let []string
			for _, p := range deployment(t, list).Spec.Template.Spec.Containers[0].Ports {
				ports = append(ports, p.Name)
			}
			policy := byName(t, list)["NetworkPolicy osm/osm-gitops"]
			rules, _, err := unstructured.NestedSlice(policy, "spec", "ingress")
			if err != nil {
				t.Fatal(err)
			}
			for _, rule := range rules {
				for _, port := range rule.(map[string]any)["ports"].([]any) {
					let = append(let, port.(map[string]any)["port"].(string))
				}
			}
			if !slices.Equal(ports, c.ports) || !slices.Equal(let, c.let) {
				t.Errorf("ports are %q, let through %q; want %q, %q", ports, let, c.ports, c.let)
			}
		})
	}
}

// The controller reaches everything but the metadata services of clouds, whose addresses are a
// value. Without it they are those that the program refuses itself, of either family and in every
// way to install it (security.md 42).
func TestNotTo(t *testing.T) {
	var v4, v6 []string
	for _, a := range source.MetadataServices() {
		prefix := netip.PrefixFrom(a, a.BitLen()).String()
		if a.Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	theirs := fmt.Sprint("0.0.0.0/0 ", v4, " ::/0 ", v6)
	for _, dir := range []string{".", "observe", "two-clusters/management"} {
		policies := 0
		for _, o := range kustomize(t, dir) {
			if o.GetKind() != "NetworkPolicy" {
				continue
			}
			policies++
			if got := exceptions(t, o); got != theirs {
				t.Errorf("%s lets out to %s, want %s", dir, got, theirs)
			}
		}
		if policies != 1 {
			t.Errorf("%s has %d NetworkPolicies", dir, policies)
		}
	}
	for values, want := range map[string]string{
		"": theirs,
		"networkPolicy: {notTo: [\"fd20:ce::254/128\", \"169.254.0.0/16\"]}\n": "0.0.0.0/0 [169.254.0.0/16] ::/0 [fd20:ce::254/128]",
		"networkPolicy: {notTo: [192.0.2.0/24]}\n":                             "0.0.0.0/0 [192.0.2.0/24] ::/0 []",
		"networkPolicy: {notTo: []}\n":                                         "0.0.0.0/0 [] ::/0 []",
	} {
		for _, o := range chart(t, "default", image+values) {
			if o.GetKind() != "NetworkPolicy" {
				continue
			}
			if got := exceptions(t, o); got != want {
				t.Errorf("with %q it may reach %q, want %s", values, got, want)
			}
			if err := cluster.Shared(t).ApplyObjects(t.Context(), o); err != nil {
				t.Errorf("with %q: %v", values, err)
			}
		}
	}
}

// exceptions are the networks that a NetworkPolicy lets out to, and what of them it does not.
func exceptions(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	var policy networkingv1.NetworkPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &policy); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, to := range policy.Spec.Egress[0].To {
		out = append(out, fmt.Sprint(to.IPBlock.CIDR, " ", to.IPBlock.Except))
	}
	return strings.Join(out, " ")
}

// Every flag that the chart manages is set by its value, and every entry under flags becomes an
// argument.
func TestArguments(t *testing.T) {
	for _, c := range []struct {
		values string
		want   []string
	}{
		{"", []string{"controller", "--namespace=$(POD_NAMESPACE)", "--cache-dir=/var/cache/osm-gitops/mirrors", "--health-probe-address=:8085", "--metrics-address=:8080"}},
		{"replicas: 1\nleaderElect: false\n", []string{"--leader-elect=false"}},
		{"mode: management\nworkerCluster: {kubeconfigSecret: {name: w, key: config}}\n",
			[]string{"--worker-cluster-kubeconfig=/etc/osm-gitops/worker-cluster/config", "--worker-health-probe-address=:8086", "--worker-metrics-address=0"}},
		{"webhook: {enabled: false}\n", []string{"--webhook-address=0"}},
		{"cloudProvider: {references: [shop/openstack, kube-system/values], ownReferences: [team/own]}\n", []string{"--cloud-provider-references=shop/openstack,kube-system/values"}},
		{"observe: true\n", []string{"--observe"}},
		{"flags: null\n", []string{"controller"}},
		{"flags: {watch-label-selector: '!gitops.k8c.io/shard'}\n", []string{"--watch-label-selector=!gitops.k8c.io/shard"}},
		{"hooks: {enabled: true, tlsSecret: h}\n", []string{"--hooks-address=:9292", "--hooks-cert-file=/etc/osm-gitops/hooks/tls.crt", "--hooks-key-file=/etc/osm-gitops/hooks/tls.key"}},
		{"ui: {enabled: true, tlsSecret: u}\n", []string{"--ui-address=0.0.0.0:8443", "--ui-tls-cert=/etc/osm-gitops/ui/tls.crt", "--ui-tls-key=/etc/osm-gitops/ui/tls.key"}},
		{"flags: {provenance-max: 1000000, disable-default-osps: true, node-download-mirrors: [a=https://x, b=https://y], cluster-name: \"1\"}\nextraArgs: [--log-debug]\n",
			[]string{"--provenance-max=1000000", "--disable-default-osps=true", "--node-download-mirrors=a=https://x", "--node-download-mirrors=b=https://y", "--cluster-name=1", "--log-debug"}},
	} {
		args := deployment(t, chart(t, "osm", image+c.values)).Spec.Template.Spec.Containers[0].Args
		for _, want := range c.want {
			if !slices.Contains(args, want) {
				t.Errorf("with %q the arguments lack %s: %q", c.values, want, args)
			}
		}
	}
}

// Wrong values are rejected before anything is applied, with the remedy.
func TestRefusedValues(t *testing.T) {
	for values, says := range map[string]string{
		"":                                    "image.repository is not set",
		image + "replica: 3":                  "replica",
		image + "replicas: many":              "replicas",
		image + "mode: both":                  "mode",
		image + "flags: {cluster-dn: x}":      "cluster-dn",
		image + "flags: {cache-dir: /x}":      "cache-dir",
		image + "flags: {node-token-ttl: 5d}": "node-token-ttl",
		image + "leaderElect: false":          "Set replicas=1",
		image + "mode: management":            "workerCluster.kubeconfigSecret.name is not set",
		image + "workerCluster: {kubeconfigSecret: {name: x}}":     "set mode=management",
		image + "webhook: {url: \"https://x\"}":                    "it is for mode=worker",
		image + "flags: {cloud-provider-references: a/b}":          "cloud-provider-references",
		image + "cloudProvider: {references: [openstack]}":         "/cloudProvider/references/0",
		image + "cloudProvider: {references: [\"kube-system/*\"]}": "/cloudProvider/references/0",
		image + "ui: {enabled: true}":                              "ui.tlsSecret is not set",
		image + "metrics: {serviceMonitor: {enabled: true}}":       "networkPolicy.metricsFrom is not set",
		image + "flags: {watch-label-selector: a=b}":               "the release is called osm-gitops",
		image + "flags: {observe: true}":                           "observe",
		image + "extraArgs: [--observe]":                           "set flags.watch-label-selector or observe",
		image + "extraArgs: [-watch-label-selector=a]":             "set flags.watch-label-selector or observe",
		"image: {repository: \"https://registry.example.com/x\"}":  "repository",
		image + "metrics: {serviceMonitor: {interval: 1s1m}}":      "interval",
		image + "networkPolicy: {notTo: [169.254.169.254]}":        "/networkPolicy/notTo/0",
		image + "cache: {sizeLimit: 5K}":                           `cache.sizeLimit is "5K"`,
		image + "cache: {sizeLimit: 5mi}":                          "such as 500M or 2Gi",
		image + "cache: {sizeLimit: \"\"}":                         "cache.sizeLimit",
	} {
		out, errs, err := render(t, values, "chart", chartDir, "osm")
		if err == nil {
			t.Errorf("%q is rendered:\n%.300s", values, out)
		} else if !strings.Contains(errs, says) {
			t.Errorf("%q is refused without %q:\n%s", values, says, errs)
		}
	}
}

// Null equals the default of a value if that is empty, false or zero. Otherwise null is refused
// by name: it would silently remove a NetworkPolicy. For resources it means none.
func TestNull(t *testing.T) {
	b, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var standard map[string]any
	if err := yaml.Unmarshal(b, &standard); err != nil {
		t.Fatal(err)
	}
	const set = image + "appliers: {enabled: true}\nhooks: {enabled: true}\nui: {enabled: true, tlsSecret: ui}\n" +
		"metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}\nnetworkPolicy: {metricsFrom: [{podSelector: {}}]}\n"
	rendered := map[string][2]string{}
	// at renders what is set, without a value or with null for it.
	at := func(path []string, null bool) (out, errs string) {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(set), &values); err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(values, path...)
		if null {
			if err := unstructured.SetNestedField(values, nil, path...); err != nil {
				t.Fatal(err)
			}
		}
		text, err := yaml.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		key := string(text)
		if _, known := rendered[key]; !known { // many values are not set, so that leaving them out changes nothing
			out, errs, _ = render(t, key, "chart", chartDir, "osm")
			rendered[key] = [2]string{out, errs}
		}
		return rendered[key][0], rendered[key][1]
	}
	refused := 0
	var walk func(value any, path ...string) (empty bool)
	walk = func(value any, path ...string) bool {
		empty := value == nil || reflect.ValueOf(value).IsZero()
		if list, ok := value.([]any); ok {
			empty = len(list) == 0
		}
		if section, ok := value.(map[string]any); ok {
			empty = true
			for key, inner := range section {
				empty = walk(inner, append(slices.Clone(path), key)...) && empty
			}
		}
		switch name := strings.Join(path, "."); {
		case name == "", path[0] == "resources":
		case empty:
			out, errs := at(path, true)
			if wantOut, wantErrs := at(path, false); errs != wantErrs || out != wantOut {
				t.Errorf("%s: null is something else than to leave it out: %s\n%s", name, errs, cmp.Diff(wantOut, out))
			}
		default:
			refused++
			if out, errs := at(path, true); out != "" || !strings.Contains(errs, name) || !strings.Contains(errs, " is null: leave it out for ") {
				t.Errorf("%s: null is taken, or refused otherwise: %s", name, errs)
			}
		}
		return empty
	}
	walk(standard)
	if refused < 20 {
		t.Errorf("%d values are not empty", refused)
	}
	for values, want := range map[string]int{"resources: null\n": 0, "resources: {limits: null}\n": 1} {
		r := deployment(t, chart(t, "osm", image+values)).Spec.Template.Spec.Containers[0].Resources
		if len(r.Limits) > 0 || len(r.Requests)/2 != want {
			t.Errorf("with %q they are %+v", values, r)
		}
	}
}

// An interval is written as Prometheus has it, and what a worker cluster's half has no part in is
// not asked for there.
func TestMonitoringValues(t *testing.T) {
	for interval, want := range map[string]any{"30s": "30s", "1m30s": "1m30s", "1d": "1d", "1h500ms": "1h500ms", "": nil} {
		list := chart(t, "osm", image+"metrics: {serviceMonitor: {enabled: true, interval: \""+interval+"\"}}\nnetworkPolicy: {enabled: false}\n")
		endpoints, _, err := unstructured.NestedSlice(byName(t, list)["ServiceMonitor osm/osm-gitops"], "spec", "endpoints")
		if err != nil || len(endpoints) != 1 || endpoints[0].(map[string]any)["interval"] != want {
			t.Errorf("%q becomes %v (%v)", interval, endpoints, err)
		}
	}
	for values, want := range map[string]bool{image: true, "mode: worker\n": false} {
		if _, errs, err := render(t, values+"metrics: {serviceMonitor: {enabled: true}}\n", "chart", chartDir, "osm"); (err != nil) != want {
			t.Errorf("with %q networkPolicy.metricsFrom is missed: %s", values, errs)
		}
	}
}

// A size is taken as Kubernetes takes one.
func TestSizeLimit(t *testing.T) {
	for _, size := range []string{"500k", "5Ki", "500M", "1.5Gi", "1T", "1000000000"} {
		for _, v := range deployment(t, chart(t, "osm", image+"cache: {sizeLimit: \""+size+"\"}\n")).Spec.Template.Spec.Volumes {
			if v.Name == "cache" && v.EmptyDir.SizeLimit.Cmp(resource.MustParse(size)) != 0 {
				t.Errorf("%s becomes %s", size, v.EmptyDir.SizeLimit)
			}
		}
	}
}

// What renders, what installs and what the page names is one helm.
func TestOneHelm(t *testing.T) {
	release := regexp.MustCompile(`helm\.sh/helm/v3 (v\S+)|helm of the tests \((v\S+)\)`)
	found := map[string]bool{}
	for _, path := range []string{"render/go.mod", "../../tools/helm/go.mod", page} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m := release.FindSubmatch(b)
		if m == nil {
			t.Fatalf("%s names no helm", path)
		}
		found[string(m[1])+string(m[2])] = true
	}
	if len(found) != 1 {
		t.Errorf("they are %v", found)
	}
}

// helm lint finds nothing.
func TestLint(t *testing.T) {
	for _, values := range []string{image, "mode: worker", image + "mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}"} {
		out, errs, err := render(t, values, "lint", chartDir, "osm")
		if err != nil || strings.TrimSpace(out) != "" {
			t.Errorf("%v\n%s%s", err, out, errs)
		}
	}
}

// The notes name the next steps with the names of the release.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		name, values string
		want         []string
	}{
		{"osm/osm-gitops", "", []string{"namespace: osm", "kubectl -n osm rollout status deployment/osm-gitops", "root on every node"}},
		{"osm/osm-gitops", "flags: {watch-label-selector: '!a'}", []string{"deployment/osm-gitops", "It handles the objects that !a selects"}},
		{"osm/osm-gitops-a", "flags: {watch-label-selector: a=b}", []string{"deployment/osm-gitops-a", "handles the objects that a=b selects"}},
		{"osm/osm-gitops-a", "mode: worker\nflags: {watch-label-selector: a=b}", []string{"the lease of shard a=b"}},
		{"osm/osm-gitops", "observe: true", []string{"changes nothing", `{.metadata.name}: {.status.conditions[?(@.type=="Observed")].message}{"\n"}`}},
		{"osm/osm-gitops", "mode: worker", []string{"The kinds, the namespace cloud-init-settings and the permissions", "ServiceAccount osm-gitops in osm"}},
		{"osm/osm-gitops", "mode: worker\nobserve: true", []string{"The kinds and the permissions", "ServiceAccount osm-gitops-dry-run in osm"}},
	} {
		out, errs, err := render(t, image+c.values, "notes", chartDir, c.name)
		if err != nil {
			t.Fatalf("%v\n%s", err, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("with %q the notes of %s lack %q:\n%s", c.values, c.name, want, out)
			}
		}
	}
}
