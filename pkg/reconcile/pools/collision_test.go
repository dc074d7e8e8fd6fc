package pools

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// everyName returns the names of all objects that a pool can have, by kind of object.
func everyName(md *machines.MachineDeployment) map[string]string {
	return map[string]string{
		"configuration": namesOf(md).Config, "kubeconfig": namesOf(md).Kubeconfig, "provisioning": namesOf(md).Provisioning,
		"bootstrap": namesOf(md).Bootstrap, "inputs": namesOf(md).Inputs, "edge": namesOf(md).EdgeScript, "access": lineage.AccessName(keyOf(md)), "token": lineage.TokenLabel(keyOf(md)),
	}
}

// sameName finds two things of two pools that would be one: names of Secrets, or two of
// the same kind.
func sameName(a, b map[string]string) (out []string) {
	alone := []string{"configuration", "access", "token"}
	for what, name := range a {
		for other, its := range b {
			if name == its && (what == other || !slices.Contains(alone, what) && !slices.Contains(alone, other)) {
				pair := []string{what, other}
				slices.Sort(pair)
				out = append(out, strings.Join(pair, " and "))
			}
		}
	}
	return out
}

// Of random pools whose names and namespaces have dashes, and parts of what is added to them,
// every two that share the name of anything are found by the index. The older one is served,
// the younger one refused with both names, and of pools that share nothing neither
// (security.md 25, 40).
func TestNamesOfPools(t *testing.T) {
	const seed = 40
	random := rand.New(rand.NewPCG(seed, seed))
	long := strings.Repeat("l", 58)
	words := []string{"a", "b", "web", "eu", "config", "bootstrap", "provisioning", "kubelet", "inputs", "edge", "provider", "script", "edge-provider-script", "kubelet-bootstrap", long}
	text := func(most int) string {
		var parts []string
		for range 1 + random.IntN(most) {
			parts = append(parts, words[random.IntN(len(words))])
		}
		return strings.Join(parts, "-")
	}
	now := time.Now()
	var pools []*machines.MachineDeployment
	add := func(namespace, name string) {
		md := named(namespace, name)
		md.UID, md.Annotations = types.UID(namespace+"/"+name), map[string]string{api.AnnotationOSP: "osp"}
		md.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(len(pools)) * time.Second))
		if !slices.ContainsFunc(pools, func(other *machines.MachineDeployment) bool { return poolKey(other) == poolKey(md) }) {
			pools = append(pools, md)
		}
	}
	for len(pools) < 700 {
		namespace, name := text(3), text(3)
		if len(namespace) > 63 {
			continue
		}
		add(namespace, name)
		// One that shares a name, made by taking that apart at another dash.
		names := everyName(pools[random.IntN(len(pools))])
		for _, what := range []string{"kubeconfig", "bootstrap", "provisioning", "inputs", "edge", "token"} {
			from := names[what]
			for _, suffix := range []string{"-kubelet-bootstrap-config", "-bootstrap-config", "-provisioning-config", "-inputs", ""} {
				stem, ok := strings.CutSuffix(from, suffix)
				if edge := strings.TrimPrefix(stem, "edge-provider-script-"); random.IntN(2) == 0 {
					stem = edge
				}
				dashes := strings.Count(stem, "-")
				if !ok || dashes == 0 || random.IntN(4) > 0 {
					continue
				}
				at := 0
				for range 1 + random.IntN(dashes) {
					at += strings.Index(stem[at:], "-") + 1
				}
				before, after := stem[:at-1], stem[at:]
				if len(after) > 0 && len(before) > 0 && len(after) <= 63 {
					add(after, before)
				}
				if len(after) > 0 && len(before) > 0 && len(before) <= 63 {
					add(before, after)
				}
			}
		}
	}
	// A name of the maximum length of a label can be the label of another pool.
	add("short", strings.Repeat("n", 100))
	add("other", lineage.TokenLabel(keyOf(pools[len(pools)-1])))

	var all []map[string]string
	var derived [][]string
	for _, md := range pools {
		all, derived = append(all, everyName(md)), append(derived, lineage.ObjectNames(keyOf(md)))
	}
	found := map[string]int{}
	for i, older := range pools {
		for j := i + 1; j < len(pools); j++ {
			younger := pools[j]
			same, both := sameName(all[i], all[j]), intersectStrings(derived[i], derived[j])
			if (len(same) > 0) != (len(both) > 0) {
				t.Fatalf("%s and %s share %q, found are %q", poolKey(older), poolKey(younger), same, both)
			}
			if len(same) == 0 {
				continue
			}
			for _, pair := range same {
				found[pair]++
			}
			if len(intersectStrings(lineage.StemsOfCollidingPools(keyOf(older)), lineage.NameStems(keyOf(younger)))) == 0 || len(intersectStrings(lineage.StemsOfCollidingPools(keyOf(younger)), lineage.NameStems(keyOf(older)))) == 0 {
				t.Errorf("%s and %s share %q, and the index does not know it", poolKey(older), poolKey(younger), same)
			}
			if by := (&observed{md: older, conflicts: []conflictingPool{{md: younger, names: both}}}).yieldsTo(); by != nil {
				t.Errorf("%s, which is older, yields to %s", poolKey(older), poolKey(younger))
			}
			if by := (&observed{md: younger, conflicts: []conflictingPool{{md: older, names: both}}}).yieldsTo(); by == nil {
				t.Errorf("%s does not yield to %s, which is older", poolKey(younger), poolKey(older))
			} else if err := by.conflictError(younger, progressNew); !strings.Contains(err.Error(), poolKey(older)+",") || !strings.Contains(err.Error(), "MachineDeployment "+poolKey(younger)+" ") {
				t.Errorf("the rejection lacks a name: %v", err)
			}
		}
	}
	for _, pair := range []string{
		"configuration and configuration", "token and token", "kubeconfig and kubeconfig", "provisioning and provisioning", "bootstrap and bootstrap",
		"inputs and inputs", "edge and edge", "bootstrap and kubeconfig", "edge and inputs", "edge and provisioning", "bootstrap and edge", "edge and kubeconfig",
	} {
		if found[pair] == 0 {
			t.Errorf("no two of %d pools share %s: %v", len(pools), pair, found)
		}
	}
	t.Logf("%d pools: %v", len(pools), found)
}

// Pools share names of different Secrets and labels. The older one is served, independent of the
// order of reconciliation; the younger one gets only an event with both names until the older one
// is deleted (security.md 40).
func TestPoolsThatShareAName(t *testing.T) {
	type place struct{ namespace, name string }
	for what, of := range map[string]func(ns string) (older, younger place){
		"kubeconfig and token":                func(ns string) (place, place) { return place{ns, "eu-web"}, place{ns + "-eu", "web"} },
		"kubeconfig and token, the other way": func(ns string) (place, place) { return place{ns + "-eu", "web"}, place{ns, "eu-web"} },
		"bootstrap document and kubeconfig":   func(ns string) (place, place) { return place{"web-kubelet", ns}, place{ns, "web"} },
		"kubeconfig and bootstrap document":   func(ns string) (place, place) { return place{ns, "web"}, place{"web-kubelet", ns} },
		"inputs and edge script":              func(ns string) (place, place) { return place{ns, "edge-provider-script-a"}, place{ns + "-inputs", "a"} },
	} {
		t.Run(what, func(t *testing.T) {
			for _, youngerFirst := range []bool{true, false} {
				f := newFixture(t)
				f.r.NodeTokenTTL = time.Hour
				told := f.told()
				make := func(at place) *machines.MachineDeployment {
					f.ensure(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.namespace}})
					md := f.pool.DeepCopy()
					md.ObjectMeta = metav1.ObjectMeta{Namespace: at.namespace, Name: at.name, Annotations: f.pool.Annotations}
					f.ensure(md)
					return md
				}
				first, second := of(f.r.Namespace)
				older, younger := make(first), make(second)
				if isOlder(younger, older) { // in one second
					older, younger = younger, older
				}
				order := []*machines.MachineDeployment{older, younger}
				if youngerFirst {
					slices.Reverse(order)
				}
				for range 2 {
					for _, f.pool = range order {
						f.reconcile()
					}
				}
				for what, name := range everyName(older) {
					switch what {
					case "kubeconfig", "provisioning", "bootstrap":
						if s := f.secret(name); lineage.PoolOf(s) != poolKey(older) {
							t.Errorf("younger first %v: Secret %s is of %q", youngerFirst, name, lineage.PoolOf(s))
						}
					}
				}
				if made := f.madeFor(younger); len(made) > 0 {
					t.Errorf("younger first %v: the younger one has %q", youngerFirst, made)
				}
				rejection := ""
				for _, text := range told.told {
					if strings.HasPrefix(text, api.EventNameCollision) {
						rejection += text
					}
				}
				if !strings.Contains(rejection, poolKey(older)+",") || !strings.Contains(rejection, "MachineDeployment "+poolKey(younger)+" ") {
					t.Errorf("younger first %v: told was %q", youngerFirst, told.told)
				}

				f.pool = older
				f.deletePool()
				f.pool = younger
				f.reconcile()
				if s := f.secret(namesOf(younger).Kubeconfig); lineage.PoolOf(s) != poolKey(younger) {
					t.Errorf("once the older one is gone the Secret is of %q", lineage.PoolOf(s))
				}
				f.deletePool()
			}
		})
	}
}

// madeFor names all objects that say that they were made for a pool.
func (f *fixture) madeFor(md *machines.MachineDeployment) []string {
	f.t.Helper()
	var out []string
	for _, list := range []client.ObjectList{&osm.OperatingSystemConfigList{}, &corev1.SecretList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}} {
		must(nil, f.client.List(f.t.Context(), list))
		must(nil, apimeta.EachListItem(list, func(item runtime.Object) error {
			if obj := item.(client.Object); lineage.PoolOf(obj) == poolKey(md) {
				out = append(out, obj.GetNamespace()+"/"+obj.GetName())
			}
			return nil
		}))
	}
	return out
}
