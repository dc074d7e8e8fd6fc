package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// TestColumns: what `kubectl get` shows answers which commit, whose, from where, for
// which pool, and what is refused. A row is "column cell", those of -o wide in brackets.
func TestColumns(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)
	fleet := clusterfixture.TwoPools(t)
	osp := clusterfixture.Get[*osm.OperatingSystemProfile](fleet, "osp-x-v1.2.0")
	osc := clusterfixture.Get[*osm.OperatingSystemConfig](fleet, "workers-kube-system-config")
	ps := clusterfixture.Get[*api.ProfileSource](fleet, clusterfixture.Source)
	np := clusterfixture.Get[*api.NodeProvenance](fleet, "one.0000000e")
	osc.Annotations[api.AnnotationRefused] = "profile osp-x v1.3.0 is refused"
	for _, obj := range []client.Object{osp, osc, ps, np} {
		if obj.SetUID(""); obj.GetNamespace() != "" {
			obj.SetNamespace(ns)
		}
		if err := cl.Create(t.Context(), obj.DeepCopyObject().(client.Object)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := cl.Delete(context.WithoutCancel(t.Context()), np); err != nil {
			t.Error(err)
		}
	})
	setStatus(t, cl, np, map[string]any{"behind": "Yes", "match": api.NodeMatch{State: api.MatchStateDiffers, Since: metav1.Now()}, "conditions": []any{
		metav1.Condition{Type: api.AgreedCondition, Status: metav1.ConditionTrue, Reason: "Because", Message: "so it is", LastTransitionTime: metav1.Now()},
	}})
	ps.Status = api.ProfileSourceStatus{
		Revision: "main@sha1:" + clusterfixture.Commit(1), LastAttemptedRevision: "main@sha1:" + clusterfixture.Commit(2), Repository: clusterfixture.Repository,
	}
	setCondition(ps, "Ready", metav1.ConditionFalse, "Because", "a.yaml:3: wrong")
	setCondition(ps, api.SourceVerifiedCondition, metav1.ConditionTrue, "Because", "signed")
	ps.Summarize()
	setStatus(t, cl, ps, ps.Status)
	for path, want := range map[string][]string{
		osm.GroupVersion.Group + "/v1alpha1/namespaces/" + ns + "/operatingsystemprofiles": {
			"Name osp-x-v1.2.0", "OS ubuntu", "[Profile osp-x]", "Version v1.2.0", "Commit " + clusterfixture.Commit(2), "Committed", "Author Ada <ada@example.com>",
			"[Signature commit " + clusterfixture.Commit(2) + " by ada@example.com, ssh SHA256:x]", "Source osps", "[Path profiles/osp-x.yaml]", "Age",
		},
		osm.GroupVersion.Group + "/v1alpha1/namespaces/" + ns + "/operatingsystemconfigs": {
			"Name workers-kube-system-config", "Pool kube-system/workers", "OS ubuntu", "Profile osp-x", "Version v1.2.0", "Commit " + clusterfixture.Commit(2), "[Selected " + clusterfixture.Commit(2) + "]",
			"Age", "Refused profile osp-x v1.3.0 is refused",
		},
		api.GroupVersion.Group + "/v1alpha1/namespaces/" + ns + "/profilesources": {
			"Name osps", "Ready False", "Revision " + clusterfixture.Commit(1)[:12], "[Verified True]", "[Attempted main@sha1:" + clusterfixture.Commit(2) + "]", "[Suspended <nil>]", "[Repository " + clusterfixture.Repository + "]", "Rollout <nil>", "Age", "Status a.yaml:3: wrong",
		},
		api.GroupVersion.Group + "/v1alpha1/nodeprovenances?fieldSelector=spec.node.name%3Done,status.match.state%3DDiffers": {
			"Name one.0000000e", "[Node one]", "Namespace kube-system", "Pool workers", "Profile osp-x", "Version v1.0.0", "Commit " + clusterfixture.Commit(0)[:12], "Evidence Reported", "[Agreed True]",
			"Behind Yes", "Match Differs", "[Missing <nil>]", "[Author Ada <ada@example.com>]", "[Signature commit " + clusterfixture.Commit(0) + " by ada@example.com, ssh SHA256:x]", "[Removed <nil>]", "Age",
		},
	} {
		if diff := cmp.Diff(want, row(t, c.Config, path), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// setStatus writes the status of an object.
func setStatus(t *testing.T, cl client.Client, obj client.Object, status any) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.Status().Patch(t.Context(), obj.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
}

func setCondition(ps *api.ProfileSource, kind string, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&ps.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}

// TestWidth: `kubectl get ps` fits 120 columns, and says what is wrong first.
func TestWidth(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)
	revision := "production-clusters@sha1:" + clusterfixture.Commit(1)
	short := clusterfixture.Commit(1)[:12]
	running := api.RolloutStatus{Profile: "osp-a", Wave: 1, Pools: api.RolloutPools{Adopted: 1, Total: 3}, Since: metav1.Now(), Reason: "Adopting"}
	running.Version, running.Object = "v1.9.0", "osp-a-v1.9.0"
	done := running
	done.Profile, done.Done = "osp-b", true
	var want []string
	for name, of := range map[string]struct {
		spec api.ProfileSourceSpec
		set  func(ps *api.ProfileSource)
		row  string
	}{
		"platform-operating-system-profiles": {row: "True " + short + " applied " + short + ": 3 profiles", set: func(ps *api.ProfileSource) {
			setCondition(ps, "Ready", metav1.ConditionTrue, "Because", "applied "+revision+": 3 profiles")
		}},
		"refused": {row: "False " + short + " profiles/osp-ubuntu-production.yaml:31:…", set: func(ps *api.ProfileSource) {
			setCondition(ps, "Ready", metav1.ConditionFalse, "Because", "2 problems at "+revision+" (the rest is applied, earlier versions remain current):\n- profiles/osp-ubuntu-production.yaml:31: unknown field\n- profiles/b.yaml:1: wrong")
		}},
		"suspended": {row: "True " + short + " suspended; last applied " + short + ": 3…", spec: api.ProfileSourceSpec{Suspend: true}, set: func(ps *api.ProfileSource) {
			setCondition(ps, "Ready", metav1.ConditionTrue, "Because", "suspended; last applied "+revision+": 3 profiles")
		}},
		"held": {row: "True " + short + ` 1/3 profile "osp-a" v1.9.0 is held at wave…`, spec: api.ProfileSourceSpec{Rollout: &api.Rollout{Gate: "Waves"}}, set: func(ps *api.ProfileSource) {
			ps.Status.Rollouts = []api.RolloutStatus{running, done}
			setCondition(ps, "Ready", metav1.ConditionTrue, "Because", "applied "+revision+": 3 profiles")
			setCondition(ps, api.RolledOutCondition, metav1.ConditionFalse, api.ReasonRolloutHeld, `profile "osp-a" v1.9.0 is held at wave 1: machine web did not join`)
		}},
		"held-suspended": {row: "True " + short + ` Done suspended; profile "osp-a" v1.9.0 is he…`, spec: api.ProfileSourceSpec{Suspend: true, Rollout: &api.Rollout{Gate: "Waves"}}, set: func(ps *api.ProfileSource) {
			ps.Status.Rollouts = []api.RolloutStatus{done}
			setCondition(ps, "Ready", metav1.ConditionTrue, "Because", "suspended; last applied "+revision)
			setCondition(ps, api.RolledOutCondition, metav1.ConditionFalse, api.ReasonRolloutHeld, `profile "osp-a" v1.9.0 is held at wave 1: machine web did not join`)
		}},
		"new": {row: "", set: func(*api.ProfileSource) {}},
	} {
		ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: of.spec}
		ps.Spec.Builtin = &api.BuiltinSource{}
		ps.Spec.Interval.Duration, ps.Spec.RetryInterval.Duration = time.Minute, time.Minute
		if err := cl.Create(t.Context(), ps); err != nil {
			t.Fatal(err)
		}
		if ps.Status.Revision = revision; name == "new" {
			ps.Status.Revision = ""
		}
		of.set(ps)
		ps.Summarize()
		setStatus(t, cl, ps, ps.Status)
		want = append(want, strings.TrimSpace(name+" "+of.row))
	}
	answer := table(t, c.Config, api.GroupVersion.Group+"/v1alpha1/namespaces/"+ns+"/profilesources")
	for i := range answer.Rows {
		answer.Rows[i].Cells[slices.IndexFunc(answer.ColumnDefinitions, func(d metav1.TableColumnDefinition) bool { return d.Name == "Age" })] = "2y100d"
	}
	var text strings.Builder
	tabs := printers.GetNewTabWriter(&text)
	if err := errors.Join(printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(answer, tabs), tabs.Flush()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
		got = append(got, strings.Join(strings.Fields(strings.Replace(line, "2y100d", "", 1)), " "))
	}
	slices.Sort(want)
	if diff := cmp.Diff(append([]string{"NAME READY REVISION ROLLOUT AGE STATUS"}, want...), got); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, text.String())
	}
}

// row is the one object of a list as kubectl shows it; of a time the column alone.
func row(t *testing.T, cfg *rest.Config, path string) []string {
	t.Helper()
	answer := table(t, cfg, path)
	if len(answer.Rows) != 1 {
		t.Fatalf("%s: %d rows", path, len(answer.Rows))
	}
	var out []string
	for i, column := range answer.ColumnDefinitions {
		cell := fmt.Sprintf("%s %v", column.Name, answer.Rows[0].Cells[i])
		if column.Type == "date" && answer.Rows[0].Cells[i] != nil {
			cell = column.Name
		}
		if column.Priority > 0 {
			cell = "[" + cell + "]"
		}
		out = append(out, cell)
	}
	return out
}

// table is a list as the API server prints it for kubectl.
func table(t *testing.T, cfg *rest.Config, path string) *metav1.Table {
	t.Helper()
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(cfg.Host, "/")+"/apis/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	res, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := &metav1.Table{}
	if err := json.Unmarshal(text, answer); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s (err %v): %s", path, res.Status, err, text)
	}
	return answer
}
