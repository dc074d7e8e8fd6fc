package nodes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apicache "k8s.io/apimachinery/pkg/util/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/drift"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

// matched makes the record of a version of a profile with files of these contents, and its
// OperatingSystemProfile. Without a manifest its nodes do not report.
func (f *fleet) matched(pool *machines.MachineDeployment, version string, files map[string]string, withManifest bool) render.Record {
	f.t.Helper()
	spec := osm.OperatingSystemProfileSpec{
		OSName: "ubuntu", OSVersion: "24.04", Version: version, ProvisioningUtility: osm.ProvisioningUtilityCloudInit,
		SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "aws"}},
	}
	for _, path := range []string{"/etc/a", "/etc/b"} {
		spec.ProvisioningConfig.Files = append(spec.ProvisioningConfig.Files, osm.File{Path: path, Permissions: 644, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: files[path]}}})
	}
	if withManifest {
		text := manifest.Manifest{Config: "{{ .Provenance.ConfigDigest }}", Files: []manifest.File{
			{Path: "/etc/a", Digest: digestOf(files["/etc/a"]), Mode: 0o644, Owner: "root:root"}, {Path: "/etc/b", Digest: digestOf(files["/etc/b"]), Mode: 0o644, Owner: "root:root"},
		}, Units: []manifest.Unit{{Name: "a.service", State: manifest.Any}}}.Encode()
		spec.ProvisioningConfig.Files = append(spec.ProvisioningConfig.Files, osm.File{Path: manifest.Path, Permissions: 644, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: text}}})
	}
	digest, commit := profile.Digest(spec), strings.Repeat(version[1:2], 40)
	osp := &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.ns, Name: "osp-m-" + version, Labels: map[string]string{api.LabelProfile: "osp-m"},
			Annotations: map[string]string{api.AnnotationDigest: digest, api.AnnotationVersion: version, api.AnnotationCommit: commit, api.AnnotationCommittedAt: "2026-02-27T16:20:00Z"},
		},
		Spec: spec,
	}
	f.do(client.IgnoreAlreadyExists(f.client.Create(f.t.Context(), osp)))
	in := render.Input{
		Profile: render.Profile{Spec: spec, Object: osp.Name, Digest: digest, Provenance: render.Provenance{Profile: "osp-m", Version: version, Commit: commit}},
		Pool:    render.Pool{Namespace: pool.Namespace, Name: pool.Name, CloudProvider: "aws", OperatingSystem: "ubuntu", KubeletVersion: "1.36.0"},
		Cluster: render.Cluster{Server: "https://api.example.com:6443", APIServerToken: "-", BootstrapToken: "-"},
	}
	in, _ = in.ReplaceSecrets()
	out, err := render.NewEngine().Render(in)
	f.do(err)
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: lineage.SettingsName(out.Record.SettingsDigest)},
		Data:       map[string]string{lineage.SettingsKey: string(in.RedactedSettingsJSON())},
	}
	f.do(client.IgnoreAlreadyExists(f.client.Create(f.t.Context(), settings)))
	return out.Record
}

// reports writes the annotation of a node, as its script does.
func (f *fleet) reports(node *corev1.Node, text string) {
	f.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.AnnotationMatch: text}}})
	f.do(err)
	f.do(f.client.Patch(f.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, client.RawPatch(types.MergePatchType, patch)))
}

// report is an annotation about a record.
func (f *fleet) report(rec render.Record, differences ...api.MatchDifference) string {
	f.t.Helper()
	body := map[string]any{"v": 1, "config": render.ShortDigest(rec.Digests.Input), "state": "Matches", "time": f.clock.Now().UTC().Format(time.RFC3339)}
	if len(differences) > 0 {
		body["state"], body["differences"] = "Differs", differences
	}
	text, err := json.Marshal(body)
	f.do(err)
	return string(text)
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// matches waits until a node has a state and reason.
func (f *fleet) matches(node *corev1.Node, state api.MatchState, reason string) *api.NodeProvenance {
	f.t.Helper()
	return f.until(lineage.ProvenanceName(node.Name, node.UID), func(np *api.NodeProvenance) bool {
		c := apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition)
		return np.Status.Match != nil && np.Status.Match.State == state && c != nil && c.Reason == reason
	})
}

// quiet waits until the controller writes nothing, and returns how often it wrote since the last call.
func (f *fleet) quiet() int64 {
	f.t.Helper()
	f.eventually("nothing is written", func() error {
		before := f.writes.Load()
		time.Sleep(300 * time.Millisecond) // a write would have come by now
		if n := f.writes.Load() - before; n > 0 {
			return fmt.Errorf("%d writes", n)
		}
		return nil
	})
	return f.writes.Swap(0)
}

func (f *fleet) said() []string {
	var out []string
	for {
		select {
		case e := <-f.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// What a node reports about its files is explained, once for each set of differences, and a
// repeated report writes nothing.
func TestMatch(t *testing.T) {
	f := newFleet(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.audited(path)
	pool := f.pool("workers", "osp-m")
	first := map[string]string{"/etc/a": "a of v1\n", "/etc/b": "b of v1\n"}
	f.matched(pool, "v2.0.0", map[string]string{"/etc/a": "a of v2\n", "/etc/b": "b of v2\n"}, true) // offered
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", first, true))
	f.start()
	node := f.join(f.machine(pool), says(rec))
	if np := f.provenance(node); np.Status.Match != nil {
		t.Errorf("a node that has not reported has %+v", np.Status.Match)
	}
	f.reports(node, f.report(rec))
	np := f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
	if agreed := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition); agreed == nil || agreed.Message == "" || np.Status.Match.Config != render.ShortDigest(rec.Digests.Input) {
		t.Errorf("the status is %+v", np.Status)
	}
	f.quiet()

	// The daily report of the same, and a restart, change nothing.
	for range 3 {
		f.clock.Step(24 * time.Hour)
		f.reports(node, f.report(rec))
	}
	f.stop()
	f.audited(path)
	f.start()
	other := f.join(f.machine(pool), says(rec))
	f.provenance(other)
	f.quiet()
	if again := f.matches(node, api.MatchStateMatches, api.ReasonUnchanged); again.ResourceVersion != np.ResourceVersion {
		t.Errorf("it was written: %+v", again.Status)
	}

	f.said()
	for _, c := range []struct {
		reason      string
		differences []api.MatchDifference
		check       func(*api.NodeMatch) bool
	}{
		{api.ReasonEdited, []api.MatchDifference{{Path: "/etc/a", Reason: api.DifferenceContent, Found: digestOf("edited")[:12]}, {Path: "/etc/b", Reason: api.DifferenceMissing}}, func(m *api.NodeMatch) bool {
			return len(m.Differences) == 2 && m.Differences[0].Version == "" && m.Others == 0
		}},
		{api.ReasonOtherVersion, []api.MatchDifference{{Path: "/etc/a", Reason: api.DifferenceContent, Found: digestOf("a of v2\n")[:12]}}, func(m *api.NodeMatch) bool {
			return m.Differences[0].Version == "v2.0.0" && m.Differences[0].Commit == strings.Repeat("2", 40)
		}},
		{api.ReasonDisabled, []api.MatchDifference{{Path: "unit:a.service", Reason: api.DifferenceMasked}}, func(m *api.NodeMatch) bool { return len(m.Differences) == 1 }},
		{api.ReasonEdited, []api.MatchDifference{{Path: "/etc/passwd", Reason: api.DifferenceMode}, {Path: "/etc/systemd/system/a.service.d/x.conf", Reason: api.DifferenceDropIn}}, func(m *api.NodeMatch) bool {
			return len(m.Differences) == 1 && m.Differences[0].Reason == api.DifferenceDropIn && m.Others == 1
		}},
	} {
		f.clock.Step(2 * time.Minute)
		f.reports(node, f.report(rec, c.differences...))
		var np *api.NodeProvenance
		f.eventually("the differences are told", func() error {
			np = f.matches(node, api.MatchStateDiffers, c.reason)
			if !c.check(np.Status.Match) {
				return fmt.Errorf("it is %+v", np.Status.Match)
			}
			return nil
		})
		f.quiet()
		if !np.Status.Match.Since.Time.Equal(f.clock.Now().Truncate(time.Second)) {
			t.Errorf("since %s, want %s", np.Status.Match.Since, f.clock.Now())
		}
		f.reports(node, f.report(rec, c.differences...)) // with another time
		f.clock.Step(2 * time.Minute)
		f.reports(node, f.report(rec, c.differences...))
		if n := f.quiet(); n != 0 {
			t.Errorf("%s: %d writes for reports of the same", c.reason, n)
		}
		if said := f.said(); len(said) != 1 || !strings.HasPrefix(said[0], "Warning "+api.EventNodeDiffers+" ") || !strings.Contains(said[0], np.Name) {
			t.Errorf("%s: the events are %q", c.reason, said)
		}
	}
	f.clock.Step(2 * time.Minute)
	f.reports(node, f.report(rec))
	np = f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
	if np.Status.Match.Differences != nil || np.Status.Match.Others != 0 {
		t.Errorf("something of before is left: %+v", np.Status.Match)
	}
	f.quiet()
	told := f.told(path, auditlog.NodeDiffers, node)
	if len(told) != 4 || told[0].Reason != api.ReasonEdited || !strings.Contains(told[0].Message, "/etc/a: other content") || told[1].Reason != api.ReasonOtherVersion {
		t.Errorf("the audit log has %+v", told)
	}
	if again := f.told(path, auditlog.NodeMatches, node); len(again) != 1 || again[0].ID != np.Status.Journaled.Match {
		t.Errorf("the audit log has %+v, the status %+v", again, np.Status.Journaled)
	}
}

// Nodes whose profile has no manifest, and those whose configuration is not known, are not supported:
// nobody waits for their report.
func TestMatchNotSupported(t *testing.T) {
	f := newFleet(t)
	pool, taken := f.pool("workers", "osp-m"), f.pool("taken", "osp-m")
	unknown := f.join(f.machine(taken), nil)
	// The objects of two others are deleted: the profile, and the record.
	var lost []*corev1.Node
	for _, name := range []string{"profileless", "recordless"} {
		other := f.pool(name, "osp-m")
		lost = append(lost, f.join(f.machine(other), says(f.serveRecord(other, f.matched(other, "v"+fmt.Sprint(len(lost)+8)+".0.0", nil, true)))))
	}
	apart()
	f.serveRecord(taken, f.matched(taken, "v1.0.0", nil, false))
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, false))
	f.start()
	node := f.join(f.machine(pool), says(rec))
	for _, n := range []*corev1.Node{node, unknown} {
		np := f.matches(n, api.MatchStateNotSupported, api.ReasonNotSupported)
		if c := apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition); c.Status != metav1.ConditionUnknown {
			t.Errorf("the condition is %+v", c)
		}
	}
	for _, n := range lost {
		if np := f.provenance(n); np.Spec.Configuration == nil || np.Status.Match != nil {
			t.Errorf("%+v", np)
		}
	}
	f.do(f.client.Delete(t.Context(), &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "osp-m-v8.0.0"}}))
	f.do(f.client.Delete(t.Context(), f.config(&machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "recordless"}})))
	f.stop()
	f.clock.Step(freshness + time.Minute) // the clock of the API server went on meanwhile
	f.start()
	for _, n := range lost {
		f.matches(n, api.MatchStateNotSupported, api.ReasonNotSupported)
	}
	// What a node says of a configuration that nothing confirms is not evidence.
	f.reports(unknown, f.report(rec, api.MatchDifference{Path: "/etc/a", Reason: api.DifferenceMode}))
	f.quiet()
	f.clock.Step(48 * time.Hour)
	f.stop()
	f.start()
	last := f.join(f.machine(pool), says(rec))
	f.matches(last, api.MatchStateNotSupported, api.ReasonNotSupported)
	f.quiet()
	for _, n := range []*corev1.Node{node, unknown} {
		f.matches(n, api.MatchStateNotSupported, api.ReasonNotSupported)
	}
	if said := f.said(); len(said) > 0 {
		t.Errorf("events %q", said)
	}
}

// A configuration that cannot be rendered again is not read for each change of a report.
func TestMatchWithoutSettings(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	here := kubeclient.Cluster{Client: f.client, Live: f.client}
	reader := &observe.Reader{Management: here, Worker: here, Namespace: f.ns, Engine: render.NewEngine()}
	timeline, err := reader.TimelineOf(t.Context(), client.ObjectKeyFromObject(pool), true)
	f.do(err)
	settings := &corev1.ConfigMap{}
	f.do(f.client.Get(t.Context(), client.ObjectKey{Namespace: f.ns, Name: lineage.SettingsName(rec.SettingsDigest)}, settings))
	f.do(f.client.Delete(t.Context(), settings))
	for _, there := range []bool{false, true} {
		if there {
			settings.ResourceVersion, settings.UID = "", ""
			f.do(f.client.Create(t.Context(), settings))
		}
		if m, err := reader.ManifestOf(t.Context(), client.ObjectKeyFromObject(pool), &timeline[0]); m != nil || !errors.Is(err, observe.ErrNoManifest) {
			t.Errorf("with settings %t: %+v, %v", there, m, err)
		}
	}
	again := &observe.Reader{Management: here, Worker: here, Namespace: f.ns, Engine: render.NewEngine()}
	if m, err := again.ManifestOf(t.Context(), client.ObjectKeyFromObject(pool), &timeline[0]); err != nil || m == nil || len(m.Files) != 2 {
		t.Errorf("after that: %+v, %v", m, err)
	}
}

// If the configuration of a pool changes while a machine boots, files of its first stage are those of the
// earlier configuration: this is no difference. Other content is one.
func TestMatchOfTwoConfigurations(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	f.serveRecord(pool, f.matched(pool, "v1.0.0", map[string]string{"/etc/a": "a of v1\n", "/etc/b": "b of v1\n"}, true))
	m := f.machine(pool)
	rec := f.serveRecord(pool, f.matched(pool, "v2.0.0", map[string]string{"/etc/a": "a of v2\n", "/etc/b": "b of v2\n"}, true))
	f.start()
	node := f.join(m, says(rec))
	f.provenance(node)
	earlier := api.MatchDifference{Path: "/etc/a", Reason: api.DifferenceContent, Found: digestOf("a of v1\n")[:12]}
	f.reports(node, f.report(rec, earlier))
	f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
	f.clock.Step(2 * time.Minute)
	f.reports(node, f.report(rec, earlier, api.MatchDifference{Path: "/etc/b", Reason: api.DifferenceContent, Found: digestOf("edited")[:12]}))
	np := f.matches(node, api.MatchStateDiffers, api.ReasonEdited)
	if d := np.Status.Match.Differences; len(d) != 1 || d[0].Path != "/etc/b" {
		t.Errorf("differences %+v", d)
	}
}

// So are those of a configuration without a manifest, as of the version before the first one with it.
func TestMatchOfConfigurationWithoutManifest(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	f.serveRecord(pool, f.matched(pool, "v1.0.0", map[string]string{"/etc/a": "a of v1\n", "/etc/b": "b of v1\n"}, false))
	m := f.machine(pool)
	rec := f.serveRecord(pool, f.matched(pool, "v2.0.0", map[string]string{"/etc/a": "a of v2\n", "/etc/b": "b of v2\n"}, true))
	f.start()
	node := f.join(m, says(rec))
	f.provenance(node)
	f.reports(node, f.report(rec, api.MatchDifference{Path: "/etc/a", Reason: api.DifferenceContent, Found: digestOf("a of v1\n")[:12]}))
	f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
	f.clock.Step(2 * time.Minute)
	f.reports(node, f.report(rec, api.MatchDifference{Path: "/etc/a", Reason: api.DifferenceContent, Found: digestOf("edited")[:12]}))
	f.matches(node, api.MatchStateDiffers, api.ReasonEdited)
}

// An archived record that was deleted, or edited, does not keep a node from being compared with the rest.
func TestMatchWithoutRecord(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	here := kubeclient.Cluster{Client: f.client, Live: f.client}
	reader := &observe.Reader{Management: here, Worker: here, Namespace: f.ns, Engine: render.NewEngine()}
	timeline, err := reader.TimelineOf(t.Context(), client.ObjectKeyFromObject(pool), true)
	f.do(err)
	edited := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: "edited"}, Revision: 1}
	edited.Data.Raw = []byte(`{"profile":"another"}`)
	f.do(f.client.Create(t.Context(), edited))
	for _, name := range []string{"edited", "deleted"} {
		g := timeline[0]
		g.Record, g.InputDigest = name, "v1:sha256:"+name
		if m, err := reader.ManifestOf(t.Context(), client.ObjectKeyFromObject(pool), &g); m != nil || !errors.Is(err, observe.ErrNoManifest) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// ready sets the condition of a node.
func (f *fleet) ready(node *corev1.Node, status corev1.ConditionStatus, since time.Time) {
	f.t.Helper()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(since)}}
	f.do(f.client.Status().Update(f.t.Context(), node))
}

// nudge lets nodes be observed again, as the time does that a request waits, and others before them.
func (f *fleet) nudge(nodes ...*corev1.Node) {
	f.t.Helper()
	for _, n := range nodes {
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"none/%d"}}}`, api.AnnotationMachine, f.clock.Now().UnixNano())
		f.do(f.client.Patch(f.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, client.RawPatch(types.MergePatchType, []byte(body))))
	}
}

// A node that stops to report counts as NotReported only while its kubelet is Ready, and some time
// after it became Ready, or after the API server could be read again (security.md 47).
func TestMatchNotReported(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	f.start()
	silent, down, back := f.join(f.machine(pool), says(rec)), f.join(f.machine(pool), says(rec)), f.join(f.machine(pool), says(rec))
	all := []*corev1.Node{silent, down, back}
	f.ready(silent, corev1.ConditionTrue, f.clock.Now())
	f.ready(down, corev1.ConditionFalse, f.clock.Now())
	f.ready(back, corev1.ConditionTrue, f.clock.Now().Add(24*time.Hour+35*time.Minute))
	unchanged := func(nodes ...*corev1.Node) {
		t.Helper()
		f.nudge(nodes...)
		f.provenance(f.join(f.machine(pool), says(rec))) // by now the others were observed
		f.quiet()
		for _, n := range nodes {
			f.matches(n, api.MatchStateMatches, api.ReasonUnchanged)
		}
	}
	for _, n := range all {
		f.reports(n, f.report(rec))
		f.matches(n, api.MatchStateMatches, api.ReasonUnchanged)
	}
	f.quiet()
	f.clock.Step(24*time.Hour + 29*time.Minute)
	unchanged(all...)
	// The API server is away, and the controller with it.
	f.stop()
	f.clock.Step(2 * time.Minute)
	f.start()
	unchanged(all...)
	f.clock.Step(29 * time.Minute)
	unchanged(all...)
	f.clock.Step(2 * time.Minute)
	f.nudge(all...)
	np := f.matches(silent, api.MatchStateNotReported, api.ReasonNotReported)
	if c := apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "Ready") {
		t.Errorf("the condition is %+v", c)
	}
	unchanged(down, back)
	if said := f.said(); len(said) != 1 {
		t.Errorf("events %q", said)
	}
	f.stop()
	f.start()
	unchanged(down, back)
	f.matches(silent, api.MatchStateNotReported, api.ReasonNotReported)
	f.clock.Step(32 * time.Minute)
	f.nudge(down, back)
	f.matches(back, api.MatchStateNotReported, api.ReasonNotReported)
	unchanged(down)
	f.reports(silent, f.report(rec))
	f.matches(silent, api.MatchStateMatches, api.ReasonUnchanged)
}

// The clock of a node can be wrong: that of the API server says when it reported.
func TestMatchOfSlowClock(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	f.start()
	node := f.join(f.machine(pool), says(rec))
	f.ready(node, corev1.ConditionTrue, f.clock.Now())
	slow := func(by time.Duration, differences ...api.MatchDifference) {
		t.Helper()
		f.clock.Step(-by)
		text := f.report(rec, differences...)
		f.clock.Step(by)
		f.reports(node, text)
	}
	slow(17 * time.Minute)
	f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
	f.quiet()
	f.clock.Step(24*time.Hour + 15*time.Minute)
	for range 2 { // the first time can only begin to wait
		f.nudge(node)
		f.provenance(f.join(f.machine(pool), says(rec)))
		f.quiet()
		f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
		f.clock.Step(14 * time.Minute / 2)
	}
	slow(365*24*time.Hour, api.MatchDifference{Path: "/etc/a", Reason: api.DifferenceMode})
	f.matches(node, api.MatchStateDiffers, api.ReasonEdited)
}

// A cache that is behind does not make a node silent.
func TestMatchOfStaleCache(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	node := f.join(f.machine(pool), says(rec))
	f.ready(node, corev1.ConditionTrue, f.clock.Now())
	f.reports(node, f.report(rec))
	here := kubeclient.Cluster{Client: f.client, Live: f.client}
	r := &Reconciler{Reader: observe.Reader{Management: here, Worker: here, Namespace: f.ns}, Clock: f.clock, silent: apicache.NewLRUExpireCacheWithClock(1, f.clock)}
	np := &api.NodeProvenance{Spec: api.NodeProvenanceSpec{Node: api.ProvenanceNode{Name: node.Name, UID: node.UID, Joined: node.CreationTimestamp}}}
	f.clock.Step(25 * time.Hour)
	for text, want := range map[string]bool{"": false, f.report(rec): false} { // the second is of a later time
		for range 2 {
			if got, err := r.observeSilence(t.Context(), np, text); err != nil || got.silent != want || got.recent || got.next != later {
				t.Errorf("%q: %+v, %v", text, got, err)
			}
			f.clock.Step(drift.Settled(f.clock.Now()).Sub(f.clock.Now()))
		}
	}
}

// An annotation that cannot be read is reported at once, with the reason, also in the audit log
// (security.md 47).
func TestMatchUnreadable(t *testing.T) {
	f := newFleet(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.audited(path)
	pool := f.pool("workers", "osp-m")
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	f.start()
	node := f.join(f.machine(pool), says(rec))
	f.provenance(node)
	f.reports(node, "<script>"+strings.Repeat("x", 4<<10))
	np := f.matches(node, api.MatchStateNotReported, api.ReasonNotReported)
	c := apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition)
	if !strings.Contains(c.Message, "longer than 2048 bytes") || strings.Contains(c.Message, "script") {
		t.Errorf("the condition is %+v", c)
	}
	f.quiet()
	if told := f.told(path, auditlog.NodeDiffers, node); len(told) != 1 || told[0].Message != c.Message || told[0].Reason != api.ReasonNotReported {
		t.Errorf("the audit log has %+v", told)
	}
	f.clock.Step(2 * time.Minute)
	f.reports(node, f.report(rec))
	f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
}

// Earlier releases remove the condition and retain the rest: it is restored as it was.
func TestMatchAfterRollback(t *testing.T) {
	f := newFleet(t)
	path := filepath.Join(t.TempDir(), "audit.log")
	f.audited(path)
	pool := f.pool("workers", "osp-m")
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	f.start()
	matching, differing, silent := f.join(f.machine(pool), says(rec)), f.join(f.machine(pool), says(rec)), f.join(f.machine(pool), says(rec))
	want := map[*corev1.Node]*api.NodeProvenance{}
	f.reports(matching, f.report(rec))
	f.reports(differing, f.report(rec, api.MatchDifference{Path: "/etc/a", Reason: api.DifferenceMode}))
	f.reports(silent, "{")
	for node, reason := range map[*corev1.Node]string{matching: api.ReasonUnchanged, differing: api.ReasonEdited, silent: api.ReasonNotReported} {
		want[node] = f.until(lineage.ProvenanceName(node.Name, node.UID), func(np *api.NodeProvenance) bool {
			c := apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition)
			return c != nil && c.Reason == reason
		})
	}
	f.quiet()
	f.said()
	f.stop()
	f.clock.Step(2 * time.Hour)
	for _, np := range want {
		earlier := np.DeepCopy()
		apimeta.RemoveStatusCondition(&earlier.Status.Conditions, api.MatchesCondition)
		f.do(f.client.Status().Update(t.Context(), earlier))
	}
	f.audited(path)
	f.start()
	for node, np := range want {
		got := f.until(np.Name, func(np *api.NodeProvenance) bool {
			return apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition) != nil
		})
		if diff := cmp.Diff(np.Status, got.Status); diff != "" {
			t.Errorf("%s (-before +after):\n%s", node.Name, diff)
		}
	}
	f.quiet()
	if said := f.said(); len(said) > 0 {
		t.Errorf("events %q", said)
	}
	if n := len(f.told(path, auditlog.NodeDiffers, differing)) + len(f.told(path, auditlog.NodeDiffers, silent)); n != 2 {
		t.Errorf("%d entries of the audit log", n)
	}
}

// A node's change is handled once a minute, however many others change.
func TestChangesOfManyNodes(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	r := &Reconciler{handled: apicache.NewLRUExpireCacheWithClock(maxNodes, clock)}
	for range 2 {
		for i := range 20_000 {
			if !oncePerMinute(r.handled, types.UID(fmt.Sprint(i))) {
				t.Fatalf("node %d has to wait", i)
			}
		}
		for i := range 20_000 {
			if oncePerMinute(r.handled, types.UID(fmt.Sprint(i))) {
				t.Fatalf("node %d is handled twice", i)
			}
		}
		clock.Step(later + time.Second)
	}
}

// A node that changes its report at any rate causes one status write a minute (security.md 47). A
// removed node keeps its last status. What a node says about another configuration is a difference of
// its own.
func TestMatchHostile(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	f.start()
	node := f.join(f.machine(pool), says(rec))
	f.provenance(node)
	f.reports(node, f.report(rec))
	np := f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
	f.clock.Step(2 * time.Minute)
	f.quiet()
	for i := range 100 {
		f.reports(node, f.report(rec, api.MatchDifference{Path: "/etc/a", Reason: api.DifferenceContent, Found: fmt.Sprintf("%012x", i)}))
	}
	f.matches(node, api.MatchStateDiffers, api.ReasonEdited)
	if n := f.quiet(); n != 1 {
		t.Errorf("%d writes for 100 changes", n)
	}
	f.clock.Step(2 * time.Minute)
	stranger := rec
	stranger.Digests.Input = "v1:sha256:" + strings.Repeat("e", 64)
	f.reports(node, f.report(stranger))
	f.eventually("the edited manifest is told", func() error {
		got := f.matches(node, api.MatchStateDiffers, api.ReasonEdited)
		if d := got.Status.Match.Differences; len(d) != 1 || d[0].Path != manifest.Path {
			return fmt.Errorf("it has %+v", got.Status.Match)
		}
		return nil
	})
	f.quiet()
	f.do(f.client.Delete(t.Context(), node))
	gone := f.until(np.Name, func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
	if gone.Status.Match == nil || gone.Status.Match.State != api.MatchStateDiffers {
		t.Errorf("it has %+v", gone.Status.Match)
	}
}

// A node that changes a report with an old time at any rate causes one read of its Node a minute
// (security.md 47).
func TestMatchOfOldTimes(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-m")
	rec := f.serveRecord(pool, f.matched(pool, "v1.0.0", nil, true))
	f.start()
	node := f.join(f.machine(pool), says(rec))
	f.ready(node, corev1.ConditionTrue, f.clock.Now())
	f.reports(node, f.report(rec))
	f.matches(node, api.MatchStateMatches, api.ReasonUnchanged)
	f.clock.Step(2 * time.Minute)
	f.quiet()
	f.reads.Store(0)
	old := func(found string) {
		t.Helper()
		text := f.report(rec, api.MatchDifference{Path: "/etc/a", Reason: api.DifferenceContent, Found: found})
		now := f.clock.Now().UTC()
		f.reports(node, strings.Replace(text, now.Format(time.RFC3339), now.Add(-48*time.Hour).Format(time.RFC3339), 1))
	}
	old("000000000000")
	f.matches(node, api.MatchStateDiffers, api.ReasonEdited)
	for i := range 100 {
		old(fmt.Sprintf("%012x", i+1))
	}
	if writes, reads := f.quiet(), f.reads.Load(); writes != 1 || reads != 1 {
		t.Errorf("%d writes and %d reads for 100 changes", writes, reads)
	}
	f.clock.Step(2 * time.Minute)
	old("0123456789ab")
	f.until(lineage.ProvenanceName(node.Name, node.UID), func(np *api.NodeProvenance) bool {
		return np.Status.Match != nil && len(np.Status.Match.Differences) == 1 && np.Status.Match.Differences[0].Found == "0123456789ab"
	})
}
