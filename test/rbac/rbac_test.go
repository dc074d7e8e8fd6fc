// Package rbac_test compares the rights that deploy/ gives in one cluster with those
// it gives in two.
package rbac_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// workerLease is the one right that a single cluster does not need.
const workerLease = "kube-system: get,update coordination.k8s.io/leases operating-system-manager-worker-manager"

// definitions reports whether a right is that to read two CustomResourceDefinitions, for the event
// about those of KubeOne and KKP, which have one cluster.
func definitions(right string) bool {
	return strings.Contains(right, ": get apiextensions.k8s.io/customresourcedefinitions operatingsystem")
}

// Each right of one cluster is a right in the management or the worker cluster, and there are no
// others: a rule that is added to one file is added to both.
func TestTwoClustersHaveTheRightsOfOne(t *testing.T) {
	one := rights(t, "rbac.yaml")
	management, worker := rights(t, "two-clusters/management.yaml"), rights(t, "two-clusters/worker.yaml")
	if len(one) < 20 || len(management) < 10 || len(worker) < 10 {
		t.Fatalf("found %d, %d and %d rights only", len(one), len(management), len(worker))
	}
	for right := range one {
		if !management[right] && !worker[right] && !definitions(right) {
			t.Errorf("rbac.yaml allows %s, and neither file of two-clusters/ does", right)
		}
	}
	for file, got := range map[string]map[string]bool{"management.yaml": management, "worker.yaml": worker} {
		for right := range got {
			if !one[right] && !one[right[:strings.LastIndex(right, " ")]+" any"] && !slices.Contains(expand(workerLease), right) {
				t.Errorf("two-clusters/%s allows %s, and rbac.yaml does not", file, right)
			}
		}
	}
	// Many controllers may share a management cluster.
	for right := range management {
		if !strings.HasPrefix(right, "kube-system: ") {
			t.Errorf("two-clusters/management.yaml allows %s, outside the controller's namespace", right)
		}
	}
}

// A dry run can read everything that the controller reads and writes nothing, with two clusters in
// each of them.
func TestDryRunHasTheRightsToRead(t *testing.T) {
	for file, of := range map[string]string{
		"dry-run.yaml": "rbac.yaml", "two-clusters/dry-run-management.yaml": "two-clusters/management.yaml", "two-clusters/dry-run-worker.yaml": "two-clusters/worker.yaml",
	} {
		t.Run(file, func(t *testing.T) {
			want := map[string]bool{}
			for right := range rights(t, of) {
				_, rest, _ := strings.Cut(right, ": ")
				verb, _, _ := strings.Cut(rest, " ")
				if slices.Contains([]string{"get", "list", "watch"}, verb) && !ofLease(right) && !definitions(right) {
					want[right] = true
				}
			}
			if want["kube-system: list gitops.k8c.io/profilesources any"] {
				want["kube-system: get gitops.k8c.io/profilesources any"] = true // what would be patched is read first
			}
			if len(want) < 15 {
				t.Fatalf("found %d rights to read only", len(want))
			}
			got := rights(t, file)
			for right := range want {
				if !got[right] {
					t.Errorf("it lacks %s", right)
				}
			}
			for right := range got {
				if !want[right] {
					t.Errorf("it allows %s, which %s does not, or which writes", right, of)
				}
			}
		})
	}
}

// ofLease reports whether a right is about the lease, or about Deployments that would take it: a dry
// run has no lease.
func ofLease(right string) bool {
	return strings.Contains(right, "/leases ") || strings.Contains(right, "apps/deployments ")
}

// Who observes writes one condition and its lease.
func TestObservingWritesOneCondition(t *testing.T) {
	want := map[string]bool{}
	for _, rule := range []string{
		"kube-system: patch gitops.k8c.io/profilesources/status any", "kube-system: create coordination.k8s.io/leases any", "kube-system: get,update coordination.k8s.io/leases osm-gitops-observe",
	} {
		for _, right := range expand(rule) {
			want[right] = true
		}
	}
	if got := rights(t, "observe.yaml"); !maps.Equal(got, want) {
		t.Errorf("observe.yaml allows %v, want %v", got, want)
	}
}

func expand(rule string) []string {
	where, rest, _ := strings.Cut(rule, ": ")
	verbs, what, _ := strings.Cut(rest, " ")
	var out []string
	for verb := range strings.SplitSeq(verbs, ",") {
		out = append(out, where+": "+verb+" "+what)
	}
	return out
}

// rights are the roles of a file, a line for each verb on each resource, "*" for
// those that hold in every namespace.
func rights(t *testing.T, file string) map[string]bool {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		var role rbacv1.Role // a ClusterRole has the same rules
		err := d.Decode(&role)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(role.Kind, "Role") {
			continue
		}
		where := role.Namespace
		if role.Kind == "ClusterRole" {
			where = "*"
		}
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{"any"}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range names {
							out[where+": "+verb+" "+group+"/"+resource+" "+name] = true
						}
					}
				}
			}
		}
	}
}
