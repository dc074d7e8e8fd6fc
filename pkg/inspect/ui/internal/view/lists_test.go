package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

// rejected is a commit with a rejected file.
var rejected = strings.Repeat("5e", 20)

// worldWithRejection is fleetfixture.World after a commit with a rejected file, with subjects.
func worldWithRejection() fleet.Objects {
	o := fleetfixture.World()
	o.Profiles[0].Annotations[api.AnnotationSubject] = "Begin"
	o.Profiles[1].Annotations[api.AnnotationSubject] = "More watches"
	status := &o.Sources[0].Status
	status.LastAttemptedRevision = "main@sha1:" + rejected
	status.Conditions = []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Reason: api.ReasonProfilesInvalid, Message: "osp-web.yaml:3: unknown field", LastTransitionTime: fleetfixture.Ago(fleetfixture.Day)}}
	return o
}

// Changes lists commits with what they did, newest first: a rejected one has the time of
// the rejection, a revert the time at which the first pool got it.
func TestChanges(t *testing.T) {
	f := fleet.NewModel(fleetfixture.Noon, worldWithRejection())
	list := func(query string) []string {
		var got []string
		for _, r := range NewChanges(f, Filter{Query: query}, 1).Items {
			got = append(got, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %v %s pools=%d nodes=%d", r.ID[:2], duration.HumanDuration(fleetfixture.Noon.Sub(r.At)), r.Subject, r.Versions, r.Rejected, r.Pools, r.Nodes)), " "))
		}
		return got
	}
	all := []string{
		"5e 24h [] ProfilesInvalid pools=0 nodes=0",
		"3c 2d [osp-web v1.0.0] pools=1 nodes=1",
		"2b 10d More watches [osp-web v1.1.0] pools=1 nodes=3",
		"4d 10d More watches [osp-web v1.1.0] pools=1 nodes=3",
		"1a 30d Begin [osp-web v1.0.0] pools=2 nodes=2",
	}
	for query, want := range map[string][]string{
		"": all, "more WATCHES": all[2:4], "ada": all[4:], "v1.1.0": all[2:4], "5e5e": all[:1], "nothing": nil,
	} {
		if diff := cmp.Diff(want, list(query)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

// A rejected commit has a page with the reason, also if nothing came from it.
func TestRejectedCommit(t *testing.T) {
	f := fleet.NewModel(fleetfixture.Noon, worldWithRejection())
	v, ok := NewCommit(f, f.ResolveCommit(rejected[:12]), "", 1)
	want := []Notice{{State: "Rejected", What: "ProfileSource kube-system/osps", Link: "/commits/" + rejected, Reason: api.ReasonProfilesInvalid, Message: "osp-web.yaml:3: unknown field"}}
	if diff := cmp.Diff(want, v.Rejected); !ok || diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v.Repository == "" || len(v.Profiles) != 0 {
		t.Errorf("got %+v", v)
	}
	if notices := NewFleet(f, Filter{}, 1).Notices; notices[0].Link != "/commits/"+rejected {
		t.Errorf("the first page links to %+v", notices[0])
	}
	for name, change := range map[string]func(*metav1.Condition){
		"the source is ready": func(c *metav1.Condition) { c.Status = metav1.ConditionTrue },
		"a later failure":     func(c *metav1.Condition) { c.Reason = api.ReasonUnreachable },
	} {
		o := worldWithRejection()
		change(&o.Sources[0].Status.Conditions[0])
		if _, ok := NewCommit(fleet.NewModel(fleetfixture.Noon, o), rejected, "", 1); ok {
			t.Errorf("%s: there is a page of the commit", name)
		}
	}
}

func TestNodes(t *testing.T) {
	f := fleet.NewModel(fleetfixture.Noon, worldWithRejection())
	for _, c := range []struct{ query, state, want string }{
		{"", "", "eu-1 eu-2 eu-3 eu-4 eu-5 old-1 us-1"},
		{"", "Behind", "eu-2 eu-3"},
		{"", "disputed", "eu-2"},
		{"", "Unknown", "us-1"},
		{"", "Deleted", "eu-5"},
		{"", "nothing", ""},
		{fleetfixture.Second[:12], "", "eu-2 eu-3 eu-5"},
		{"ben", "Behind", "eu-2 eu-3"},
		{"shop v1.0.0", "", "eu-1 eu-4"},
	} {
		var got []string
		for _, n := range NewNodes(f, Filter{Query: c.query, State: c.state}, 1).Items {
			got = append(got, n.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q, state %q: got %q, want %q", c.query, c.state, got, c.want)
		}
	}
}

func TestProfiles(t *testing.T) {
	o := worldWithRejection()
	o.Sources[0].Status.Profiles = []api.ProfileEntry{{Name: "osp-old", Version: "v3.0.0", Removed: true}, {Name: "osp-web", Version: "v1.0.0", Commit: fleetfixture.First}}
	o.Pools = append(o.Pools, fleetfixture.PoolMeta("shop", "typo"))
	o.Pools[3].Annotations[api.AnnotationOSP] = "osp-wbe"
	o.Pools = append(o.Pools, fleetfixture.PoolMeta("shop", "other")) // with a profile of the same name
	o.Pools[4].Annotations[api.AnnotationOSPNamespace] = "team"
	o.Nodes = append(o.Nodes, fleet.ProvenanceSummary{Record: "other-1.0a1b2c3d", Node: "other-1", UID: "uid-other-1", Pool: "shop/other", Profile: "osp-web", Version: "v1.0.0", Joined: fleetfixture.Ago(fleetfixture.Day)})
	f := fleet.NewModel(fleetfixture.Noon, o)
	want := []ProfileSummary{
		{Name: "osp-old", Source: "osps", Version: "v3.0.0", Removed: true},
		{Name: "osp-wbe", Pools: 1},
		{Name: "osp-web", Source: "osps", Version: "v1.0.0", Commit: fleetfixture.First, Subject: "Begin", Versions: 2, Pools: 3, Nodes: 5},
	}
	if diff := cmp.Diff(want, NewProfiles(f, 1).Items); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Pools get a profile from the older source of users, and the built-in one last.
	younger, builtin := *o.Sources[0].DeepCopy(), *o.Sources[0].DeepCopy()
	younger.Name, younger.CreationTimestamp, younger.Status.Profiles[1].Version = "a-new", fleetfixture.Ago(0), "v9.0.0"
	builtin.Name, builtin.Spec.Builtin, builtin.Status.Profiles[1].Version = "builtin", &api.BuiltinSource{}, "v8.0.0"
	builtin.CreationTimestamp, o.Sources[0].CreationTimestamp = fleetfixture.Ago(2*fleetfixture.Day), fleetfixture.Ago(fleetfixture.Day)
	o.Sources = append(o.Sources, younger, builtin)
	if got := NewProfiles(fleet.NewModel(fleetfixture.Noon, o), 1).Items[2]; got.Source != "osps" || got.Version != "v1.0.0" {
		t.Errorf("of several sources got %+v", got)
	}
	v, ok := NewProfile(f, "osp-web", 1)
	var got []string
	for _, r := range v.Items {
		got = append(got, fmt.Sprintf("%s %s %d nodes, current %t", r.Version, r.Subject, r.Nodes, r.Current))
	}
	if diff := cmp.Diff([]string{"v1.1.0 More watches 2 nodes, current false", "v1.0.0 Begin 2 nodes, current true"}, got); !ok || diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, ok := NewProfile(f, "osp", 1); ok {
		t.Error("there is a page of a profile that nobody knows")
	}
}

// A commit that is held, because of its signature or since history was rewritten, has a page with
// the reason, which is also with the source and on the first page. A later failure to read the
// repository is no reason.
func TestHeldCommit(t *testing.T) {
	held := strings.Repeat("9", 40)
	for _, reason := range []string{api.ReasonVerificationFailed, api.ReasonHistoryRewritten} {
		o := worldWithRejection()
		ready := &o.Sources[0].Status.Conditions[0]
		ready.Reason, ready.Message = reason, "commit "+held+" is held"
		o.Sources[0].Status.HeldRevision = "main@sha1:" + held
		f := fleet.NewModel(fleetfixture.Noon, o)
		if v, ok := NewCommit(f, held, "", 1); !ok || len(v.Rejected) != 1 || v.Rejected[0].Reason != reason || v.Rejected[0].Message != ready.Message {
			t.Errorf("%s: the page of the commit is %+v", reason, v)
		}
		if s := NewSources(f, 1).Items[0]; s.State != "NotReady" || s.Reason != reason || s.Message != ready.Message || s.Commit == held || s.RejectedCommit != held {
			t.Errorf("%s: the source is %+v", reason, s)
		}
		if n := NewFleet(f, Filter{}, 1).Notices[0]; n.Reason != reason || n.Message != ready.Message {
			t.Errorf("%s: the first page says %+v", reason, n)
		}
		ready.Reason = api.ReasonUnreachable
		if _, ok := NewCommit(fleet.NewModel(fleetfixture.Noon, o), held, "", 1); ok {
			t.Errorf("%s: the commit has a page after another failure", reason)
		}
	}
}

func TestRollouts(t *testing.T) {
	o := worldWithRejection()
	of := func(profile, version, commit string, at int) api.RolloutStatus {
		return api.RolloutStatus{Profile: profile, RolloutVersion: api.RolloutVersion{Version: version, Commit: commit}, Since: fleetfixture.Ago(fleetfixture.Day), Wave: int32(at), Pools: api.RolloutPools{Adopted: 1, Total: 3}}
	}
	done, running, paused := of("osp-old", "v3.0.0", "", 9), of("osp-web", "v1.1.0", fleetfixture.Second, 2), of("osp-db", "v1.0.0", "", 1)
	done.Done, paused.Held, paused.Reason = true, true, "MachinesNotJoined"
	o.Sources[0].Status.Rollouts = []api.RolloutStatus{done, running, paused}
	at := metav1.NewTime(time.Date(2026, 3, 2, 21, 0, 0, 0, time.UTC))
	o.Sources[0].Status.MaintenanceWindows = []api.WindowStatus{{Applies: "Replace", Opens: &at, TimeZone: "Europe/Berlin"}, {Applies: "Waves", Open: true, Closes: &at, TimeZone: "UTC"}, {Applies: "Replace", Open: true}, {Applies: "Waves"}}
	var when []string
	for _, w := range NewRollouts(fleet.NewModel(fleetfixture.Noon, o), 1).Windows {
		when = append(when, w.Applies+" "+w.When)
	}
	if diff := cmp.Diff([]string{"Replace opens Mon 22:00 Europe/Berlin (2026-03-02)", "Waves open until Mon 21:00 UTC (2026-03-02)", "Replace open", "Waves closed: no window is valid"}, when); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	var got []string
	for _, r := range NewRollouts(fleet.NewModel(fleetfixture.Noon, o), 1).Items {
		got = append(got, fmt.Sprintf("%s %s %s wave %d, %d of %d %s%s", r.State, r.Profile, r.Version, r.Wave, r.Adopted, r.Pools, r.Subject, r.Reason))
	}
	want := []string{"Paused osp-db v1.0.0 wave 1, 1 of 3 MachinesNotJoined", "Running osp-web v1.1.0 wave 2, 1 of 3 More watches", "Done osp-old v3.0.0 wave 9, 1 of 3 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
