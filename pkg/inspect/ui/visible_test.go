package ui

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/view"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

// trails knows the pools of some nodes.
type trails struct {
	kept

	pools map[string]string // by node or record
}

func (n *trails) Node(_ context.Context, name string) (*trace.Result, error) {
	return &trace.Result{Pool: n.pools[name], Node: &trace.Node{Name: name}}, nil
}

func (n *trails) Provenance(_ context.Context, record string) (*trace.Result, error) {
	name, _, _ := strings.Cut(record, ".")
	return &trace.Result{Pool: n.pools[name], Node: &trace.Node{Name: name}}, nil
}

// twoTeams is a fleet with pools in two namespaces. Objects of the second are called
// canary; both use the profile osp-web.
func twoTeams(namespace string) fleet.Objects {
	const theirs = "canary-team"
	o := fleet.Objects{}
	o.Pools = []metav1.ObjectMeta{fleetfixture.PoolMeta(namespace, "web"), fleetfixture.PoolMeta(theirs, "canary-web")}
	o.Pools[1].Annotations[api.AnnotationOSP] = "osp-canary"
	o.Profiles = []metav1.ObjectMeta{
		fleetfixture.ProfileMeta("osp-web", "v1.0.0", fleetfixture.First, fleetfixture.First, "Ada <ada@example.com>", 30*fleetfixture.Day),
		fleetfixture.ProfileMeta("osp-canary", "v2.0.0", fleetfixture.Second, fleetfixture.Written, "Canary <canary@example.com>", 10*fleetfixture.Day),
	}
	ours := fleetfixture.ConfigOf(namespace+"/web", "v1.0.0", fleetfixture.First, "d-ours", fleetfixture.Ago(9*fleetfixture.Day), "u1")
	other := fleetfixture.ConfigOf(theirs+"/canary-web", "v2.0.0", fleetfixture.Second, "d-theirs", fleetfixture.Ago(9*fleetfixture.Day), "u2")
	other.Annotations[api.AnnotationProfile] = "osp-canary"
	o.Configs = append(o.Configs, ours, other)
	o.Records = []metav1.ObjectMeta{fleetfixture.RecordMeta(theirs+"/canary-web", "v1.0.0", fleetfixture.First, "d-before", api.Interval{From: fleetfixture.Ago(29 * fleetfixture.Day), Until: fleetfixture.Ago(9 * fleetfixture.Day), UID: "u3"})}
	for _, node := range []struct{ name, pool, digest, profile string }{{"node-ours", namespace + "/web", "d-ours", "osp-web"}, {"node-canary", theirs + "/canary-web", "d-theirs", "osp-canary"}} {
		o.Nodes = append(o.Nodes, fleet.ProvenanceSummary{Record: node.name + ".0a1b2c3d", Node: node.name, Pool: node.pool, Digest: node.digest, Profile: node.profile, Version: "v1.0.0", Evidence: api.EvidenceReported, Joined: fleetfixture.Ago(fleetfixture.Day), Disputed: true})
	}
	for _, pool := range []string{namespace + "/web", theirs + "/canary-web"} {
		_, name, _ := strings.Cut(pool, "/")
		o.Failing = append(o.Failing, fleet.MachineBoot{Pool: pool, Machine: name + "-machine", Boot: &api.MachineBootStatus{Profile: "osp-web", Version: "v1.0.0"}})
	}
	source := func(name string, profiles ...string) api.ProfileSource {
		ps := api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
		ps.Status.LastAttemptedRevision = "main@sha1:" + fleetfixture.Second
		ps.Status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Reason: api.ReasonProfilesInvalid, Message: "pool canary-team/canary-web cannot have it"}}
		for _, p := range profiles {
			ps.Status.Profiles = append(ps.Status.Profiles, api.ProfileEntry{Name: p, Version: "v1.0.0"})
			rollout := api.RolloutStatus{Profile: p, Held: true, Message: "machines of canary-team/canary-web do not join"}
			rollout.Version, rollout.Pools.Total, rollout.Machines.Joined = "v1.0.0", 4711, 4711
			rollout.Failures = []api.RolloutFailure{{Pool: "canary-team/canary-web", Machine: "canary-machine", Reason: api.FailureBootFailing}}
			ps.Status.Rollouts = append(ps.Status.Rollouts, rollout)
		}
		return ps
	}
	o.Sources = []api.ProfileSource{source("osps", "osp-web", "osp-canary"), source("canary-osps", "osp-canary")}
	return o
}

// A user of one namespace sees its pools, nodes, commits and profiles, on every page and as
// JSON, and neither names nor counts of others. A user who can list all pools sees
// everything (security.md 44).
func TestViewersSeeTheirNamespaces(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	tokens := map[string]string{}
	for _, name := range []string{"tenant", "auditor", "nobody"} {
		tokens[name] = tokenFor(t, cl, ns, name)
		reader(t, c, cl, ns, name)
	}
	bind(t, cl, "osm-gitops-ui-pools", ns, "auditor")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(cl.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "osm-gitops-ui-pools"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "tenant"}},
	}))
	s := served(twoTeams(ns))
	s.Authorizer = &Authorizer{Client: cl, Clock: s.Clock}
	s.Trails = &trails{pools: map[string]string{"node-ours": ns + "/web", "node-canary": "canary-team/canary-web"}}
	get := func(user, target, accept string) (int, string) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, target, nil)
		r.Header.Set("Authorization", "Bearer "+tokens[user])
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	all := map[string]struct {
		tenant, nobody int
		has            string
	}{
		"/":                                       {200, 200, ns},
		"/?q=canary":                              {200, 200, ""},
		"/?state=Rejected":                        {200, 200, ""},
		"/changes":                                {200, 200, fleetfixture.First},
		"/nodes":                                  {200, 200, "node-ours"},
		"/profiles":                               {200, 200, "osp-web"},
		"/profiles/osp-web":                       {200, 404, fleetfixture.First},
		"/profiles/osp-canary":                    {404, 404, ""},
		"/rollouts":                               {200, 200, "osp-web"},
		"/sources":                                {200, 200, "osps"},
		"/search?q=osp":                           {200, 200, "osp-web"},
		"/search?q=node":                          {200, 200, "node-ours"},
		"/search?q=" + fleetfixture.Second[:10]:   {200, 200, ""},
		"/search?q=example.com":                   {200, 200, ""},
		"/pools/" + ns + "/web":                   {200, 404, "node-ours"},
		"/pools/canary-team/canary-web":           {404, 404, ""},
		"/commits/" + fleetfixture.First:          {200, 404, "osp-web"},
		"/commits/" + fleetfixture.Second:         {404, 404, ""},
		"/commits/" + fleetfixture.Written[:12]:   {404, 404, ""},
		"/nodes/node-ours":                        {200, 404, "node-ours"},
		"/nodes/node-canary":                      {404, 404, ""},
		"/nodes/node-canary?verify=1":             {404, 404, ""},
		"/nodes/node-ours?record=node-ours.1":     {200, 404, "node-ours"},
		"/nodes/node-canary?record=node-canary.1": {404, 404, ""},
		"/nodes/unowned":                          {404, 404, ""},
	}
	for target, want := range all {
		for _, accept := range []string{"text/html", "application/json"} {
			for user, status := range map[string]int{"tenant": want.tenant, "nobody": want.nobody} {
				got, text := get(user, target, accept)
				// The response repeats the request.
				for _, asked := range []string{fleetfixture.Second, "canary-team/canary-web", "node-canary.1", "node-canary", "canary"} {
					if strings.Contains(target, asked) {
						text = strings.ReplaceAll(text, asked, "")
					}
				}
				if got != status || strings.Contains(strings.ToLower(text), "canary") || strings.Contains(text, "4711") || strings.Contains(text, fleetfixture.Second) {
					t.Errorf("%s, %s, %s: got %d, want %d, with\n%.3000s", user, target, accept, got, status, text)
				}
				if user == "tenant" && !strings.Contains(text, want.has) {
					t.Errorf("%s, %s: %q is missing in\n%.3000s", user, target, want.has, text)
				}
			}
			if got, _ := get("auditor", target, accept); got != http.StatusOK {
				t.Errorf("auditor, %s: got %d", target, got)
			}
		}
	}
	_, text := get("auditor", "/", "application/json")
	var fleet view.Fleet
	if err := json.Unmarshal([]byte(text), &fleet); err != nil || fleet.Pools != 2 || fleet.Nodes.Total != 2 {
		t.Errorf("the auditor sees, %v,\n%s", err, text)
	}
	_, text = get("tenant", "/", "application/json")
	fleet = view.Fleet{}
	if err := json.Unmarshal([]byte(text), &fleet); err != nil || fleet.Pools != 1 || fleet.Nodes.Total != 1 {
		t.Errorf("the tenant sees, %v,\n%s", err, text)
	}
	for user, want := range map[string]int{"auditor": 2, "tenant": 1} {
		_, text = get(user, "/sources", "application/json")
		var sources view.Sources
		if err := json.Unmarshal([]byte(text), &sources); err != nil || len(sources.Items) != want || user == "tenant" && sources.Items[0].Profiles != 1 || strings.Contains(text, fleetfixture.Second) != (user == "auditor") {
			t.Errorf("the %s sees, %v,\n%s", user, err, text)
		}
		if _, text = get(user, "/rollouts", "application/json"); strings.Contains(text, "4711") != (user == "auditor") {
			t.Errorf("the %s sees the rollouts\n%s", user, text)
		}
	}

	// On loopback users are not authenticated, and everything is shown.
	open := served(twoTeams(ns))
	open.Trails = s.Trails
	for target := range all {
		if w := ask(open, http.MethodGet, target); w.Code != http.StatusOK {
			t.Errorf("on loopback %s: got %d", target, w.Code)
		}
	}
}
