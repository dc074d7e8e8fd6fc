package pools

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// A pool adopts no version before its wave gets it, independent of the order of writes.
func TestPoolsWaitForTheirWave(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	selected := strings.Repeat("5", 40)
	ps := f.offers(f.r.Namespace, "v1.0.0")
	for _, v := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
		f.version(f.r.Namespace, v)
	}
	gate := func(gate string) {
		must(nil, f.client.Get(t.Context(), client.ObjectKeyFromObject(ps), ps))
		ps.Spec.Rollout = &api.Rollout{Gate: gate}
		must(nil, f.client.Update(t.Context(), ps))
	}
	given := func(wave int32, version string, from *api.RolloutVersion, superseded ...api.RolloutStep) {
		f.status(ps, func(s *api.ProfileSourceStatus) {
			s.Rollouts = []api.RolloutStatus{{Profile: "osp-a", RolloutVersion: versionOf(version), Wave: wave, Since: metav1.NewTime(f.clock.Now()), From: from, Superseded: superseded, Reason: "Window"}}
		})
		f.ask(nil)
	}
	gate(api.GateWaves)
	// No decision yet: a new pool waits, and one with a configuration retains it.
	f.ask(map[string]string{api.AnnotationOSP: "osp-a"})
	told.saidLast(t, "Waiting", `which version of profile "osp-a" wave 5 gets is not decided yet: ProfileSource "team"`)
	gate(api.GateNone)
	f.ask(nil)
	f.has("without a gate", "osp-a-v1.0.0", selected)
	gate(api.GateWaves)
	f.offers(f.r.Namespace, "v1.1.0")
	f.ask(nil)
	f.has("undecided", "osp-a-v1.0.0", selected)

	old := versionOf("v1.0.0")
	given(4, "v1.1.0", &old)
	f.has("an earlier wave", "osp-a-v1.0.0", selected)
	f.offers(f.r.Namespace, "v1.2.0") // the inventory moves first
	f.ask(nil)
	f.has("another version", "osp-a-v1.0.0", selected)
	given(0, "v1.2.0", &old, api.RolloutStep{RolloutVersion: versionOf("v1.1.0"), Wave: 5})
	f.has("what was superseded", "osp-a-v1.1.0", selected)
	given(5, "v1.2.0", &old)
	f.has("its wave", "osp-a-v1.2.0", selected)

	must(nil, f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), f.pool))
	before := f.pool.DeepCopy()
	f.pool.Labels = map[string]string{api.LabelWave: "9"}
	must(nil, f.client.Patch(t.Context(), f.pool, client.MergeFrom(before)))
	f.ask(nil)
	f.has("another wave", "osp-a-v1.0.0", selected)
	f.ask(map[string]string{api.AnnotationVersionPin: "v1.2.0"})
	f.has("a pin is not part of it", "osp-a-v1.2.0", commitOf("v1.2.0"))
}

func versionOf(v string) api.RolloutVersion {
	return api.RolloutVersion{Version: v, Object: "osp-a-" + v, Commit: commitOf(v), SelectedBy: strings.Repeat("5", 40)}
}

// Only what a wave is given starts pools, not how far others have come.
func TestCountsStartNobody(t *testing.T) {
	ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{Gate: api.GateWaves}}}
	ps.Status.Profiles = []api.ProfileEntry{{Name: "osp-a", Version: "v1.1.0"}}
	from := versionOf("v1.0.0")
	ps.Status.Rollouts = []api.RolloutStatus{{Profile: "osp-a", RolloutVersion: versionOf("v1.1.0"), Wave: 3, From: &from}}
	counted := ps.DeepCopy()
	counted.Status.Rollouts[0].Pools.Adopted, counted.Status.Rollouts[0].Held = 7, true
	if got := changedProfiles(ps, counted); len(got) != 0 {
		t.Errorf("counts start pools of %v", got)
	}
	for name, change := range map[string]func(*api.ProfileSource){
		"a wave": func(ps *api.ProfileSource) { ps.Status.Rollouts[0].Wave = 4 },
		"a gate": func(ps *api.ProfileSource) { ps.Spec.Rollout.Gate = api.GateNone },
		"an end": func(ps *api.ProfileSource) { ps.Status.Rollouts = nil },
	} {
		next := ps.DeepCopy()
		change(next)
		if got := changedProfiles(ps, next); !got["osp-a"] {
			t.Errorf("%s starts nobody", name)
		}
	}
}

// A configuration says which version a pool cannot have. It names no version if the reason is the
// pool itself or a missing object: this decides if a rollout is paused.
func TestWhichVersionIsRefused(t *testing.T) {
	f := newFixture(t)
	f.offers(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.1.0")
	spec := specOf("v1.2.0")
	spec.ProvisioningConfig.Files[0].Content.Inline.Data = "{{ .KubeletFeatureGates.NoSuchGate }}"
	for _, version := range []string{"v1.2.0", "v1.2.1"} {
		spec.Version = version
		f.ensure(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-a-" + version}, Spec: spec})
	}
	f.ask(map[string]string{api.AnnotationOSP: "osp-a"})

	offers := func(version string) func() {
		return func() {
			spec.Version = version
			f.status(f.offers(f.r.Namespace, version), func(s *api.ProfileSourceStatus) { s.Profiles[0].Digest = profile.Digest(spec) })
		}
	}
	good := func(version string) func() { return func() { f.offers(f.r.Namespace, version) } }
	edit := func(key string) func() {
		return func() { f.patch(f.osc(), `{"metadata":{"annotations":{"gitops.k8c.io/`+key+`":"edited"}}}`) }
	}
	later := func() {
		f.patch(f.osc(), `{"metadata":{"annotations":{"gitops.k8c.io/refused-since":"2999-01-01T00:00:00Z"}}}`)
	}
	suspend := func(value string) func() { return func() { f.ask(map[string]string{api.AnnotationSuspend: value}) } }
	since := ""
	for _, c := range []struct {
		when             string
		act              func()
		version, message string
		anew             bool // since is now, and not what it was
	}{
		{"at first", func() {}, "", "", false},
		{"the version cannot be rendered", offers("v1.2.0"), "v1.2.0", "the output contains", true},
		{"nor later", func() {}, "v1.2.0", "the output contains", false},
		{"nor the next one", offers("v1.2.1"), "v1.2.1", "the output contains", true},
		{"somebody edited the message", edit("refused"), "v1.2.1", "the output contains", false},
		{"and the time", edit("refused-since"), "v1.2.1", "the output contains", true},
		{"to one that is to come", later, "v1.2.1", "the output contains", true},
		{"nor is it known what the pool wants", suspend("maybe"), "", "maybe", true},
		{"the object is not there", func() { good("v1.3.0")(); suspend("")() }, "", "is missing", false},
		{"what it has", good("v1.0.0"), "", "", false},
		{"the object is still not there", good("v1.3.0"), "", "is missing", true},
		{"a better one", good("v1.1.0"), "", "", false},
		{"nothing is refused, and somebody says so", edit("refused"), "", "", false},
	} {
		f.clock.Step(time.Minute)
		c.act()
		f.ask(nil)
		switch {
		case c.anew:
			since = lineage.FormatTime(f.clock.Now())
		case c.message == "":
			since = ""
		}
		a := f.osc().Annotations
		if got := a[api.AnnotationRefused]; a[api.AnnotationRefusedVersion] != c.version || (got != "") != (c.message != "") || !strings.Contains(got, c.message) || a[api.AnnotationRefusedSince] != since {
			t.Errorf("%s: refused is %q for %q since %s, want %q for %q since %s", c.when, a[api.AnnotationRefusedVersion], got, a[api.AnnotationRefusedSince], c.version, c.message, since)
		}
	}
}
