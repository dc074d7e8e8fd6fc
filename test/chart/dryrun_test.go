package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun"
	"github.com/osm-gitops/osm-gitops/test/permissions"
)

const dryRunAccount = "osm-gitops-dry-run"

// With two clusters a dry run has the rights of two-clusters/dry-run-*.yaml, and the chart's
// halves let a controller observe: nothing is forbidden, and nothing is written but one
// condition and a lease, in the management cluster.
func TestDryRunOfTwoClusters(t *testing.T) {
	management, worker := newInstallation(t, "kube-system"), newInstallation(t, "kube-system")
	const halves = "flags: {disable-default-osps: true}\nwebhook: {enabled: false}\nadmission: {policies: false}\n"
	for _, err := range []error{
		management.cluster.Apply(t.Context(), deploy+"/crds", deploy+"/two-clusters/dry-run-management.yaml"),
		worker.cluster.Apply(t.Context(), deploy+"/crds/gitops.k8c.io_nodeprovenances.yaml", deploy+"/cloud-init-settings.yaml", deploy+"/two-clusters/dry-run-worker.yaml"),
		management.client.Create(t.Context(), &api.ProfileSource{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: builtinSource},
			Spec:       api.ProfileSourceSpec{Builtin: &api.BuiltinSource{}, Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute}},
		}),
		worker.cluster.ApplyObjects(t.Context(), pool(worker.cluster.Namespace(t), "web", nil)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	program, err := controllerProgram()
	if err != nil {
		t.Fatal(err)
	}
	clusters := []string{
		"--kubeconfig", kubeconfig(t, management.cluster, "kube-system", dryRunAccount), "--worker-cluster-kubeconfig", kubeconfig(t, worker.cluster, "kube-system", dryRunAccount),
	}
	dry := exec.CommandContext(t.Context(), program, append([]string{"controller", "--dry-run", "--output=json", "--namespace=kube-system", "--cache-dir", t.TempDir()}, clusters...)...)
	var out, errs bytes.Buffer
	dry.Stdout, dry.Stderr = &out, &errs
	var report dryrun.Report
	if err := dry.Run(); err != nil {
		t.Fatalf("the dry run: %v\n%s%s", err, errs.String(), out.String())
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Pools) != 1 || len(report.Pools[0].Documents) != 2 || report.Writes < 8 || report.HasFailures() {
		t.Errorf("of one pool is foreseen %s", report.Text())
	}
	if wrote := writes(management.allowed(dryRunAccount), worker.allowed(dryRunAccount)); len(wrote) > 0 {
		t.Errorf("the dry run wrote %q", wrote)
	}
	listUnused(t, management, "two-clusters/dry-run-management.yaml")
	listUnused(t, worker, "two-clusters/dry-run-worker.yaml")

	// The chart's halves, on top of existing objects: the same rights, and those to observe.
	kubeconfigOfWorker := "mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\nobserve: true\nhooks: {enabled: true}\n"
	observing := chart(t, "kube-system", image+halves+kubeconfigOfWorker)
	for _, err := range []error{
		management.cluster.ApplyObjects(t.Context(), observing...),
		worker.cluster.ApplyObjects(t.Context(), chart(t, "kube-system", halves+"mode: worker\nobserve: true\n")...),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	args := deployment(t, observing).Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--observe") || slices.Contains(args, "--hooks-address=:9292") {
		t.Errorf("it observes with %q", args)
	}
	c := management.runs(program, append([]string{
		"controller", "--observe", "--namespace=kube-system", "--cache-dir", t.TempDir(), "--health-probe-address=0", "--metrics-address=0",
		"--worker-health-probe-address=0", "--worker-metrics-address=0",
	}, clusters...)...)
	management.until(c, "the condition says what would be done", func() error {
		var ps api.ProfileSource
		if err := management.client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: builtinSource}, &ps); err != nil {
			return err
		}
		if observed := apimeta.FindStatusCondition(ps.Status.Conditions, api.ObservedCondition); observed == nil || observed.Reason != api.ReasonWouldChange {
			return fmt.Errorf("it is %+v", observed)
		}
		return nil
	})
	c.Stop()
	if wrote := writes(management.allowed(dryRunAccount)); !slices.Equal(wrote, []string{"create leases", "patch profilesources/status", "update leases"}) {
		t.Errorf("the observer wrote %q in the management cluster", wrote)
	}
	if wrote := writes(worker.allowed(dryRunAccount)); len(wrote) > 0 {
		t.Errorf("the observer wrote %q in the worker cluster", wrote)
	}
}

// writes are the requests that write, by verb and kind.
func writes(all ...map[permissions.Request]int) []string {
	found := map[string]bool{}
	for _, requests := range all {
		for q := range requests {
			if !slices.Contains([]string{"get", "list", "watch"}, q.Verb) {
				found[q.Verb+" "+q.Resource] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// listUnused logs the rights of a file that were not used here: this cluster has no Flux objects,
// records or ServiceAccounts.
func listUnused(t *testing.T, i *installation, file string) {
	t.Helper()
	rules, err := permissions.Read(deploy + "/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range permissions.Unused(rules, i.allowed(dryRunAccount)) {
		t.Logf("%s: nobody needed %s", file, r)
	}
}
