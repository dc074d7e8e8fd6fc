// Package fleetfixture has the objects of a small fleet, for tests of what shows it.
package fleetfixture

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
)

// Noon is the time of the tests.
var Noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// Ago is a time before that.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(Noon.Add(-d)) }

// Commits of the tests.
var (
	First, Second, Third = strings.Repeat("1a", 20), strings.Repeat("2b", 20), strings.Repeat("3c", 20)
	Written              = strings.Repeat("4d", 20)
)

// Day is a day.
const Day = 24 * time.Hour

// World is a fleet of two pools and a remainder, during a push and its revert.
func World() fleet.Objects {
	var o fleet.Objects
	o.Sources = []api.ProfileSource{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "osps"},
		Status: api.ProfileSourceStatus{
			Repository: "https://git.example.com/platform/osps.git", Revision: "main@sha1:" + Third,
			Conditions: []metav1.Condition{{Type: meta.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "applied"}},
			Profiles:   []api.ProfileEntry{{Name: "osp-web", Version: "v1.0.0"}},
		},
	}}
	o.Profiles = []metav1.ObjectMeta{
		ProfileMeta("osp-web", "v1.0.0", First, First, "Ada <ada@example.com>", 30*Day),
		ProfileMeta("osp-web", "v1.1.0", Second, Written, "Ben <ben@example.com>", 10*Day),
	}
	o.Pools = []metav1.ObjectMeta{PoolMeta("shop", "web-eu"), PoolMeta("shop", "web-us"), PoolMeta("shop", "new")}
	// web-eu got v1.1.0 and was reverted; web-us was unchanged, since its new version was
	// rejected.
	o.Records = []metav1.ObjectMeta{RecordMeta("shop/web-eu", "v1.1.0", Second, "d-eu-2", api.Interval{From: Ago(9 * Day), Until: Ago(2 * Day), UID: "u2", Replaces: "u1", SelectedBy: Second})}
	back := ConfigOf("shop/web-eu", "v1.0.0", First, "d-eu-1", Ago(2*Day), "u3")
	back.Annotations[api.AnnotationSelectedBy] = Third
	o.Records = append(o.Records, RecordMeta("shop/web-eu", "v1.0.0", First, "d-eu-1", api.Interval{From: Ago(29 * Day), Until: Ago(9 * Day), UID: "u1", SelectedBy: First}))
	stuck := ConfigOf("shop/web-us", "v1.0.0", First, "d-us-1", Ago(29*Day), "u4")
	stuck.Annotations[api.AnnotationRefused] = "version v1.1.0 does not fit\x1b[31m"
	o.Configs = []osm.OperatingSystemConfig{back, stuck}
	add := func(name, pool, digest, version string, behind api.Behind, joined time.Duration) *fleet.ProvenanceSummary {
		o.Nodes = append(o.Nodes, fleet.ProvenanceSummary{
			Record: name + ".0a1b2c3d", Node: name, UID: "uid-" + name, Pool: pool, Digest: digest, Profile: "osp-web", Version: version,
			Evidence: api.EvidenceReported, Behind: behind, Joined: Ago(joined),
		})
		return &o.Nodes[len(o.Nodes)-1]
	}
	add("eu-1", "shop/web-eu", "d-eu-1", "v1.0.0", api.BehindNo, 20*Day)
	add("eu-2", "shop/web-eu", "d-eu-2", "v1.1.0", api.BehindYes, 5*Day).Disputed = true
	add("eu-3", "shop/web-eu", "d-eu-2", "v1.1.0", api.BehindYes, 4*Day)
	add("eu-4", "shop/web-eu", "d-eu-1", "v1.0.0", api.BehindNo, Day)
	gone := Ago(3 * Day)
	add("eu-5", "shop/web-eu", "d-eu-2", "v1.1.0", api.BehindYes, 6*Day).Removed = &gone
	unknown := add("us-1", "shop/web-us", "", "", api.BehindUnknown, 90*Day)
	unknown.Profile, unknown.Evidence = "", api.EvidenceUnknown
	add("old-1", "legacy/old", "d-old", "v0.9.0", api.BehindUnknown, 300*Day)
	return o
}

func ProfileMeta(name, version, commit, change, author string, committed time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "kube-system", Name: name + "-" + version, Labels: map[string]string{api.LabelProfile: name, api.LabelSource: "osps"},
		Annotations: map[string]string{
			api.AnnotationProfile: name, api.AnnotationVersion: version, api.AnnotationCommit: commit, api.AnnotationChange: change,
			api.AnnotationRepository: "https://git.example.com/platform/osps.git", api.AnnotationPath: "profiles/" + name + ".yaml",
			api.AnnotationAuthor: author, api.AnnotationCommittedAt: Noon.Add(-committed).Format(time.RFC3339),
		},
	}
}

func PoolMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationOSP: "osp-web"}}
}

func annotationsOf(pool, version, commit, digest string) map[string]string {
	a := map[string]string{
		api.AnnotationPool: pool, api.AnnotationProfile: "osp-web", api.AnnotationVersion: version, api.AnnotationCommit: commit,
		api.AnnotationChange: commit, api.AnnotationInputDigest: digest, api.AnnotationRepository: "https://git.example.com/platform/osps.git",
	}
	if commit == Second {
		a[api.AnnotationChange] = Written
	}
	return a
}

func RecordMeta(pool, version, commit, digest string, stood api.Interval) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "kube-system", Name: "record-" + digest, Annotations: annotationsOf(pool, version, commit, digest)}
	b, err := json.Marshal([]api.Interval{stood})
	if err != nil {
		panic(err)
	}
	m.Annotations[api.AnnotationIntervals] = string(b)
	return m
}

func ConfigOf(pool, version, commit, digest string, created metav1.Time, uid types.UID) osm.OperatingSystemConfig {
	c := osm.OperatingSystemConfig{}
	c.Name, c.Namespace, c.UID, c.CreationTimestamp = "config", "kube-system", uid, created
	c.Annotations = annotationsOf(pool, version, commit, digest)
	return c
}
