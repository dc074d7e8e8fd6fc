package profilesource

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

const digest = "v1:sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func entry(name, version string) api.ProfileEntry {
	return api.ProfileEntry{Name: name, Version: version, Object: name + "-" + version, Path: name + ".yaml", Digest: digest}
}

func removed(e api.ProfileEntry) api.ProfileEntry {
	e.Removed = true
	return e
}

func offer(name, version string) profile.Version {
	return profile.Version{Name: name, Version: version, Digest: digest, Path: name + ".yaml", CurrentPath: name + ".yaml"}
}

func named(name string, age time.Duration, entries ...api.ProfileEntry) api.ProfileSource {
	return api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Generation: 2, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Status:     api.ProfileSourceStatus{Profiles: entries},
	}
}

func builtin(entries ...api.ProfileEntry) api.ProfileSource {
	ps := named(api.DefaultsName, 0, entries...)
	ps.Spec.Builtin = &api.BuiltinSource{}
	return ps
}

func TestInventory(t *testing.T) {
	withHistory := &source.Snapshot{Line: make([]source.HistoryEntry, 1)}
	for name, c := range map[string]struct {
		ps      api.ProfileSource
		snap    *source.Snapshot
		cat     profile.Catalogue
		others  []api.ProfileSource
		failed  map[string]bool
		want    []api.ProfileEntry
		refused []string
	}{
		"a new profile is added, a new version takes the place of the old": {
			ps: named("mine", 0, entry("a", "v1.0.0")), snap: withHistory,
			cat:  profile.Catalogue{Current: []profile.Version{offer("a", "v1.1.0"), offer("b", "v1.0.0")}},
			want: []api.ProfileEntry{entry("a", "v1.1.0"), entry("b", "v1.0.0")},
		},
		"what left the source is marked, and comes back": {
			ps: named("mine", 0, entry("a", "v1.0.0"), removed(entry("b", "v1.0.0"))), snap: withHistory,
			cat:  profile.Catalogue{Current: []profile.Version{offer("b", "v1.0.0")}},
			want: []api.ProfileEntry{removed(entry("a", "v1.0.0")), entry("b", "v1.0.0")},
		},
		"a version that cannot become an object leaves the one before": {
			ps: named("mine", 0, entry("a", "v1.0.0")), snap: withHistory, failed: map[string]bool{"a": true},
			cat:  profile.Catalogue{Current: []profile.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{entry("a", "v1.0.0")},
		},
		"a broken file of a folder without history stands for what it held": {
			ps: named("mine", 0, entry("a", "v1.0.0"), entry("b", "v1.0.0")), snap: &source.Snapshot{},
			cat:  profile.Catalogue{Rejected: []*profile.Rejection{{Problem: profile.Problem{Path: "a.yaml", Err: errors.New("broken")}}}},
			want: []api.ProfileEntry{entry("a", "v1.0.0"), removed(entry("b", "v1.0.0"))}, refused: []string{"a.yaml: broken"},
		},
		"who has a profile keeps it": {
			ps: named("mine", time.Hour), snap: withHistory, others: []api.ProfileSource{named("theirs", 0, entry("a", "v1.0.0"))},
			cat:     profile.Catalogue{Current: []profile.Version{offer("a", "v1.1.0")}},
			refused: []string{`a.yaml: profile "a" is already offered by ProfileSource "theirs": remove it from one of the two sources`},
		},
		"of two that have it the older source keeps it": {
			ps: named("mine", time.Hour, entry("a", "v1.0.0")), snap: withHistory, others: []api.ProfileSource{named("theirs", 0, entry("a", "v1.0.0"))},
			cat:  profile.Catalogue{Current: []profile.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{entry("a", "v1.1.0")},
		},
		"what another source has removed is free": {
			ps: named("mine", 0), snap: withHistory, others: []api.ProfileSource{named("theirs", time.Hour, removed(entry("a", "v1.0.0")))},
			cat:  profile.Catalogue{Current: []profile.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{entry("a", "v1.1.0")},
		},
		"a built-in profile may be offered by another source, too": {
			ps: named("mine", 0), snap: withHistory, others: []api.ProfileSource{builtin(entry("a", "v1.0.0"))},
			cat:  profile.Catalogue{Current: []profile.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{entry("a", "v1.1.0")},
		},
		"built-in profiles stay on offer beside those that shadow them": {
			ps: builtin(), snap: &source.Snapshot{}, others: []api.ProfileSource{named("theirs", time.Hour, entry("a", "v1.0.0"))},
			cat:  profile.Catalogue{Current: []profile.Version{offer("a", "v1.0.0")}},
			want: []api.ProfileEntry{{Name: "a", Version: "v1.0.0", Object: "a-012345-v1.0.0", Path: "a.yaml", Digest: digest}},
		},
		"a built-in profile that a release drops is marked": {
			ps: builtin(entry("a", "v1.0.0")), snap: &source.Snapshot{},
			want: []api.ProfileEntry{removed(entry("a", "v1.0.0"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := decide(&c.ps, c.snap, &c.cat, c.others)
			if diff := cmp.Diff(c.want, inventory(&c.ps, w, applied{failed: c.failed}, objectName)); diff != "" {
				t.Error(diff)
			}
			var refused []string
			for _, err := range w.rejected {
				refused = append(refused, err.Error())
			}
			if diff := cmp.Diff(c.refused, refused); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// How kstatus, and with it Flux, Argo CD and kubectl wait, reads every status.
func TestStatusAsKstatusReadsIt(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(ps *api.ProfileSource)
		want status.Status
	}{
		"never reconciled": {func(ps *api.ProfileSource) { ps.Status.ObservedGeneration = -1 }, status.InProgressStatus},
		"applied":          {func(ps *api.ProfileSource) { setOutcome(ps, outcome{revision: "main@sha1:1"}) }, status.CurrentStatus},
		"files refused": {func(ps *api.ProfileSource) {
			setOutcome(ps, outcome{revision: "r", rejected: []error{errors.New("x")}})
		}, status.FailedStatus},
		"server away":    {func(ps *api.ProfileSource) { fail(ps, fmt.Errorf("x: %w", source.ErrUnreachable)) }, status.InProgressStatus},
		"wrong password": {func(ps *api.ProfileSource) { fail(ps, fmt.Errorf("x: %w", source.ErrAuthentication)) }, status.FailedStatus},
		"no such branch": {func(ps *api.ProfileSource) { fail(ps, fmt.Errorf("x: %w", source.ErrNotFound)) }, status.FailedStatus},
		"a spec that cannot be": {func(ps *api.ProfileSource) {
			fail(ps, &fetcher.SpecError{Reason: api.ReasonSourceInvalid, Err: errors.New("x")})
		}, status.FailedStatus},
		"API server away":   {func(ps *api.ProfileSource) { fail(ps, errors.New("x")) }, status.InProgressStatus},
		"healed":            {func(ps *api.ProfileSource) { fail(ps, source.ErrAuthentication); setOutcome(ps, outcome{}) }, status.CurrentStatus},
		"failed after that": {func(ps *api.ProfileSource) { setOutcome(ps, outcome{}); fail(ps, source.ErrUnreachable) }, status.InProgressStatus},
		"a new spec":        {func(ps *api.ProfileSource) { setOutcome(ps, outcome{}); ps.Generation++ }, status.InProgressStatus},
	} {
		t.Run(name, func(t *testing.T) {
			ps := named("osps", 0)
			c.set(&ps)
			raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ps)
			if err != nil {
				t.Fatal(err)
			}
			got, err := status.Compute(&unstructured.Unstructured{Object: raw})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != c.want {
				t.Errorf("kstatus reads %s, want %s: %s", got.Status, c.want, got.Message)
			}
			conditions := ps.Status.Conditions
			if apimeta.IsStatusConditionTrue(conditions, meta.StalledCondition) && apimeta.IsStatusConditionTrue(conditions, meta.ReconcilingCondition) {
				t.Error("Stalled and Reconciling together")
			}
			for _, cond := range conditions {
				if cond.ObservedGeneration != 2 {
					t.Errorf("%s is of generation %d", cond.Type, cond.ObservedGeneration)
				}
				if (cond.Type == meta.StalledCondition || cond.Type == meta.ReconcilingCondition) && cond.Status != metav1.ConditionTrue {
					t.Errorf("%s is there and not True", cond.Type)
				}
			}
		})
	}
}

func fail(ps *api.ProfileSource, err error) { setFailed(ps, classify(err), err.Error()) }
