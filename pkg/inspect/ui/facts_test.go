package ui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// noon is the time of the tests.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// ago is a time before that.
func ago(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// Commits of the tests.
var (
	first, second, third = strings.Repeat("1a", 20), strings.Repeat("2b", 20), strings.Repeat("3c", 20)
	written              = strings.Repeat("4d", 20)
)

const day = 24 * time.Hour

// world is a fleet of two pools and a remainder, during a push and its revert.
func world() Objects {
	var o Objects
	o.Sources = []api.ProfileSource{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "osps"},
		Status: api.ProfileSourceStatus{
			Repository: "https://git.example.com/platform/osps.git", Revision: "main@sha1:" + third,
			Conditions: []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "applied"}},
			Profiles:   []api.ProfileEntry{{Name: "osp-web", Version: "v1.0.0"}},
		},
	}}
	o.Profiles = []metav1.ObjectMeta{
		profileMeta("osp-web", "v1.0.0", first, first, "Ada <ada@example.com>", 30*day),
		profileMeta("osp-web", "v1.1.0", second, written, "Ben <ben@example.com>", 10*day),
	}
	o.Pools = []metav1.ObjectMeta{poolMeta("shop", "web-eu"), poolMeta("shop", "web-us"), poolMeta("shop", "new")}
	// web-eu got v1.1.0 and was reverted; web-us was unchanged, since its new version was
	// rejected.
	o.Records = []metav1.ObjectMeta{recordMeta("shop/web-eu", "v1.1.0", second, "d-eu-2", api.Interval{From: ago(9 * day), Until: ago(2 * day), UID: "u2", Replaces: "u1", SelectedBy: second})}
	back := configOf("shop/web-eu", "v1.0.0", first, "d-eu-1", ago(2*day), "u3")
	back.Annotations[api.AnnotationSelectedBy] = third
	o.Records = append(o.Records, recordMeta("shop/web-eu", "v1.0.0", first, "d-eu-1", api.Interval{From: ago(29 * day), Until: ago(9 * day), UID: "u1", SelectedBy: first}))
	stuck := configOf("shop/web-us", "v1.0.0", first, "d-us-1", ago(29*day), "u4")
	stuck.Annotations[api.AnnotationRefused] = "version v1.1.0 does not fit\x1b[31m"
	o.Configs = []osm.OperatingSystemConfig{back, stuck}
	add := func(name, pool, digest, version string, behind api.Behind, joined time.Duration) *ProvenanceSummary {
		o.Nodes = append(o.Nodes, ProvenanceSummary{
			Record: name + ".0a1b2c3d", Node: name, UID: "uid-" + name, Pool: pool, Digest: digest, Profile: "osp-web", Version: version,
			Evidence: api.EvidenceReported, Behind: behind, Joined: ago(joined),
		})
		return &o.Nodes[len(o.Nodes)-1]
	}
	add("eu-1", "shop/web-eu", "d-eu-1", "v1.0.0", api.BehindNo, 20*day)
	add("eu-2", "shop/web-eu", "d-eu-2", "v1.1.0", api.BehindYes, 5*day).Disputed = true
	add("eu-3", "shop/web-eu", "d-eu-2", "v1.1.0", api.BehindYes, 4*day)
	add("eu-4", "shop/web-eu", "d-eu-1", "v1.0.0", api.BehindNo, day)
	gone := ago(3 * day)
	add("eu-5", "shop/web-eu", "d-eu-2", "v1.1.0", api.BehindYes, 6*day).Removed = &gone
	unknown := add("us-1", "shop/web-us", "", "", api.BehindUnknown, 90*day)
	unknown.Profile, unknown.Evidence = "", api.EvidenceUnknown
	add("old-1", "legacy/old", "d-old", "v0.9.0", api.BehindUnknown, 300*day)
	return o
}

func profileMeta(name, version, commit, change, author string, committed time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "kube-system", Name: name + "-" + version, Labels: map[string]string{api.LabelProfile: name, api.LabelSource: "osps"},
		Annotations: map[string]string{
			api.AnnotationProfile: name, api.AnnotationVersion: version, api.AnnotationCommit: commit, api.AnnotationChange: change,
			api.AnnotationRepository: "https://git.example.com/platform/osps.git", api.AnnotationPath: "profiles/" + name + ".yaml",
			api.AnnotationAuthor: author, api.AnnotationCommittedAt: noon.Add(-committed).Format(time.RFC3339),
		},
	}
}

func poolMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationOSP: "osp-web"}}
}

func annotationsOf(pool, version, commit, digest string) map[string]string {
	a := map[string]string{
		api.AnnotationPool: pool, api.AnnotationProfile: "osp-web", api.AnnotationVersion: version, api.AnnotationCommit: commit,
		api.AnnotationChange: commit, api.AnnotationInputDigest: digest, api.AnnotationRepository: "https://git.example.com/platform/osps.git",
	}
	if commit == second {
		a[api.AnnotationChange] = written
	}
	return a
}

func recordMeta(pool, version, commit, digest string, stood api.Interval) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "kube-system", Name: "record-" + digest, Annotations: annotationsOf(pool, version, commit, digest)}
	b, err := json.Marshal([]api.Interval{stood})
	if err != nil {
		panic(err)
	}
	m.Annotations[api.AnnotationIntervals] = string(b)
	return m
}

func configOf(pool, version, commit, digest string, created metav1.Time, uid types.UID) osm.OperatingSystemConfig {
	c := osm.OperatingSystemConfig{}
	c.Name, c.Namespace, c.UID, c.CreationTimestamp = "config", "kube-system", uid, created
	c.Annotations = annotationsOf(pool, version, commit, digest)
	return c
}

func TestFleet(t *testing.T) {
	f := NewModel(noon, world())
	v := ViewFleet(f, Filter{}, 1)
	if diff := cmp.Diff(Counts{Total: 6, Current: 2, Behind: 2, Unknown: 2, Disputed: 1, Deleted: 1}, v.Nodes); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if v.Pools != 3 {
		t.Errorf("there are %d pools", v.Pools)
	}
	var got []string
	for _, p := range v.Items {
		got = append(got, fmt.Sprintf("%s/%s %s", p.Namespace, p.Name, p.State))
	}
	// Pools that need attention are first; of a deleted pool only nodes remain.
	if diff := cmp.Diff([]string{"shop/web-us Rejected", "shop/new Waiting", "shop/web-eu Following", "legacy/old Deleted"}, got); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	// The pool's current version is first, also after a revert.
	want := []VersionShare{
		{Profile: "osp-web", Version: "v1.0.0", Commit: first, Nodes: 2, Current: true, Since: noon.Add(-2 * day), Rank: 0},
		{Profile: "osp-web", Version: "v1.1.0", Commit: second, Nodes: 2, Since: noon.Add(-9 * day), Rank: 1},
	}
	if diff := cmp.Diff(want, v.Items[2].Versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if s := v.Items[0].Versions; len(s) != 2 || s[0].Nodes != 0 || !s[0].Current || s[1].Rank != -1 || s[1].Nodes != 1 {
		t.Errorf("a pool whose node is not known: %+v", s)
	}
	if len(v.Notices) != 2 || v.Notices[1].What != "Node eu-2" || v.Notices[0].What != "Pool shop/web-us" || v.Notices[0].Message != "version v1.1.0 does not fit[31m" {
		t.Errorf("notices are %+v", v.Notices)
	}
	for query, want := range map[string]int{"eu": 1, "osp-web": 3, "v1.0.0": 2, first[:6]: 2, "nothing": 0, "SHOP/": 3} {
		if v := ViewFleet(f, Filter{Query: query}, 1); v.Matching != want {
			t.Errorf("%q fits %d pools, want %d", query, v.Matching, want)
		}
	}
	for state, want := range map[string]int{"Rejected": 1, "behind": 1, "Deleted": 1, "Paused": 0} {
		if v := ViewFleet(f, Filter{State: state}, 1); v.Matching != want {
			t.Errorf("%s are %d pools, want %d", state, v.Matching, want)
		}
	}
}

// The state of a pool follows from its own status, its configuration and its source.
func TestStates(t *testing.T) {
	five := int32(5)
	gated := func(r api.RolloutStatus) func(*Objects) {
		return func(o *Objects) {
			o.Sources[0].Spec.Rollout = &api.Rollout{Gate: api.GateWaves, MaxConcurrent: &five}
			r.Profile, r.Version = "osp-web", "v1.2.0"
			o.Sources[0].Status.Rollouts = []api.RolloutStatus{r}
		}
	}
	annotated := func(key, value string) func(*Objects) {
		return func(o *Objects) { o.Pools[0].Annotations[key] = value }
	}
	for name, c := range map[string]struct {
		with  func(*Objects)
		state State
		why   string
	}{
		"it follows its profile":          {func(*Objects) {}, Following, ""},
		"it is suspended":                 {annotated(api.AnnotationSuspend, "true"), Suspended, api.AnnotationSuspend},
		"it asks for a version":           {annotated(api.AnnotationVersionPin, "~1.0"), Pinned, "~1.0"},
		"its wave has not begun":          {gated(api.RolloutStatus{Wave: 2, Message: "waits for machines"}), Waiting, "wave 2, this pool is in wave 5. waits for machines"},
		"the rollout is held before it":   {gated(api.RolloutStatus{Wave: 2, Held: true, Message: "1 machine did not join"}), Paused, "did not join"},
		"the rollout has reached it":      {gated(api.RolloutStatus{Wave: 5}), Following, ""},
		"the rollout is done":             {gated(api.RolloutStatus{Wave: 9, Done: true}), Following, ""},
		"it has no configuration":         {func(o *Objects) { o.Configs = o.Configs[1:] }, Waiting, "no configuration yet"},
		"its source is another's rollout": {func(o *Objects) { gated(api.RolloutStatus{Wave: 0})(o); o.Sources[0].Status.Profiles = nil }, Following, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := world()
			c.with(&o)
			p := NewModel(noon, o).pools["shop/web-eu"]
			if p.state != c.state || !strings.Contains(p.why, c.why) || c.why == "" && p.why != "" {
				t.Errorf("it is %s: %s", p.state, p.why)
			}
		})
	}
}

func TestNotices(t *testing.T) {
	o := world()
	o.ReadErrors = []string{"ControllerRevisions cannot be listed with these permissions."}
	o.Sources[0].Status.Conditions = []metav1.Condition{
		{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Reason: api.ReasonVerificationFailed, Message: "commit is not signed"},
		{Type: api.SourceVerifiedCondition, Status: metav1.ConditionFalse, Reason: api.ReasonUnsigned, Message: "commit is not signed"},
	}
	o.Sources[0].Status.Rollouts = []api.RolloutStatus{{Profile: "osp-web", RolloutVersion: api.RolloutVersion{Version: "v1.2.0", Commit: third}, Wave: 3, Held: true, Reason: "MachinesNotJoined", Message: "2 machines"}}
	var got []string
	for _, n := range ViewFleet(NewModel(noon, o), Filter{}, 1).Notices {
		got = append(got, n.State+": "+n.What+": "+n.Reason)
	}
	want := []string{
		"Unreadable: This page lacks something: ", "Rejected: ProfileSource kube-system/osps: VerificationFailed",
		"Paused: Profile osp-web v1.2.0 at wave 3: MachinesNotJoined", "Rejected: Pool shop/web-us: ",
		"Disputed: Node eu-2: ProvenanceDisputed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPool(t *testing.T) {
	f := NewModel(noon, world())
	if _, ok := ViewPool(f, "shop/nothing", 1); ok {
		t.Error("there is a page of a pool that nobody knows")
	}
	v, ok := ViewPool(f, "shop/web-eu", 1)
	if !ok || v.Matching != 4 || len(v.Items) != 4 || v.Nodes.Deleted != 1 {
		t.Fatalf("got %+v", v)
	}
	want := []Configuration{
		{InputDigest: "d-eu-1", Profile: "osp-web", Version: "v1.0.0", Commit: first, Author: "Ada <ada@example.com>", Current: true, From: noon.Add(-2 * day)},
		{InputDigest: "d-eu-2", Profile: "osp-web", Version: "v1.1.0", Commit: second, Author: "Ben <ben@example.com>", From: noon.Add(-9 * day), Until: noon.Add(-2 * day)},
		{InputDigest: "d-eu-1", Profile: "osp-web", Version: "v1.0.0", Commit: first, Author: "Ada <ada@example.com>", From: noon.Add(-29 * day), Until: noon.Add(-9 * day)},
	}
	if diff := cmp.Diff(want, v.Configurations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
