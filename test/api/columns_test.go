package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	condition := func(kind string, status metav1.ConditionStatus, message string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": "Because", "message": message, "lastTransitionTime": "2026-03-01T12:00:00Z"}
	}
	for obj, status := range map[client.Object]map[string]any{
		ps: {
			"revision": "main@sha1:1", "lastAttemptedRevision": "main@sha1:2", "repository": clusterfixture.Repository,
			"conditions": []any{condition("Ready", "False", "a.yaml:3: wrong"), condition(api.SourceVerifiedCondition, "True", "signed")},
		},
		np: {"behind": "Yes", "conditions": []any{condition(api.AgreedCondition, "True", "so it is")}},
	} {
		patch, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.Status().Patch(t.Context(), obj.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
	}
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
			"Name osps", "Ready False", "Revision main@sha1:1", "Verified True", "[Attempted main@sha1:2]", "[Suspended <nil>]", "[Repository " + clusterfixture.Repository + "]", "Rollout <nil>", "Age", "Status a.yaml:3: wrong",
		},
		api.GroupVersion.Group + "/v1alpha1/nodeprovenances?fieldSelector=spec.node.name%3Done": {
			"Name one.0000000e", "Node one", "[Namespace kube-system]", "Pool workers", "Profile osp-x", "Version v1.0.0", "Commit " + clusterfixture.Commit(0)[:12], "Evidence Reported", "[Agreed True]",
			"Behind Yes", "[Missing <nil>]", "[Author Ada <ada@example.com>]", "[Signature commit " + clusterfixture.Commit(0) + " by ada@example.com, ssh SHA256:x]", "[Removed <nil>]", "Age",
		},
	} {
		if diff := cmp.Diff(want, row(t, c.Config, path), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

// row is the one object of a list as kubectl shows it; of a time the column alone.
func row(t *testing.T, cfg *rest.Config, path string) []string {
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
	var table metav1.Table
	if err := json.Unmarshal(text, &table); err != nil || len(table.Rows) != 1 {
		t.Fatalf("%s: %d rows (err %v): %s", path, len(table.Rows), err, text)
	}
	var out []string
	for i, column := range table.ColumnDefinitions {
		cell := fmt.Sprintf("%s %v", column.Name, table.Rows[0].Cells[i])
		if column.Type == "date" && table.Rows[0].Cells[i] != nil {
			cell = column.Name
		}
		if column.Priority > 0 {
			cell = "[" + cell + "]"
		}
		out = append(out, cell)
	}
	return out
}
