package metrics

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: name}
}

// gathered is what a scrape gets, by the metric's name.
func gathered(t *testing.T, m *Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry() // which compares with what Describe says
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range families {
		out[f.GetName()] = f
	}
	return out
}

// lines is the text of a scrape, without help and types.
func lines(t *testing.T, m *Metrics) []string {
	t.Helper()
	var b strings.Builder
	for _, f := range gathered(t, m) {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	slices.Sort(out)
	return out
}

// full has something for each metric.
func full() *Metrics {
	m := New()
	m.SetSource(key("osps"), SourceState{Kind: "git", Ready: "False", Reason: "Unreachable", Revision: "main@sha1:3f2a9c1"})
	m.SetWindows(key("osps"), []api.WindowStatus{{Applies: "Replace", Open: true}, {Applies: "Waves"}})
	m.ObserveFetch(key("osps"), time.Unix(1_700_000_000, 0), 20*time.Millisecond, "")
	m.ObserveFetch(key("osps"), time.Unix(1_700_000_060, 0), 5*time.Second, "Unreachable")
	m.SetPool(key("web"), PoolMetrics{Profile: "osp-ubuntu", Version: "v1.9.0", Commit: "3f2a9c1", UserData: 4000, Limit: 16384, TokenEnds: time.Unix(1_700_003_600, 0), NodeTokenEnds: time.Unix(1_700_086_400, 0)})
	m.SetPoolRejection(key("web"), "OperatingSystemProfileError")
	m.SetPoolRejection(key("new"), "Waiting")
	m.CountDocumentWrite(Created)
	m.EventDropped("ConfigRotated")
	m.ObserveRender(time.Millisecond)
	m.RegisterNodes(func() []NodeCount {
		return []NodeCount{
			{Evidence: "Reported", Behind: "No", Count: 3}, {Evidence: "Reported", Behind: "No", Disputed: true, Differing: "Edited", Count: 1},
			{Evidence: "Inferred", Behind: "Yes", Count: 2}, {Evidence: "Inferred", Behind: "Yes", Disputed: true, Differing: "Edited", Gone: true, Count: 5},
		}
	})
	m.ProvenanceReady(true)
	m.ProvenanceExpired()
	m.ExpiredProvenancesWaiting(7)
	m.BootCounted("shop/web", "v1.8.0", BootFailing)
	m.BootMeasured(90 * time.Second)
	m.AuditEntryWritten("NodeJoined")
	m.AuditWriteFailed()
	m.AuditEntriesWaiting(4)
	m.AuditEntryLost()
	m.RegisterCluster("worker", func() bool { return true })
	m.RegisterCluster("management", func() bool { return false })
	m.RegisterWebhookCertificate(func() time.Time { return time.Unix(1_707_776_000, 0) })
	return m
}

// Every metric of the table is exported with its type, its help and its labels, and no
// other is.
func TestTable(t *testing.T) {
	got := gathered(t, full())
	for _, want := range AllMetrics() {
		f := got[want.Name]
		if f == nil {
			t.Errorf("%s is not told", want.Name)
			continue
		}
		delete(got, want.Name)
		if f.GetHelp() != want.Help || strings.ToLower(f.GetType().String()) != want.Type {
			t.Errorf("%s is a %s: %s", want.Name, f.GetType(), f.GetHelp())
		}
		for _, series := range f.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if diff := cmp.Diff(slices.Sorted(slices.Values(want.Labels)), slices.Sorted(slices.Values(labels))); diff != "" {
				t.Errorf("%s: labels (-want +got):\n%s", want.Name, diff)
			}
		}
	}
	if len(got) > 0 {
		t.Errorf("not in the table: %v", got)
	}
}

func TestSeries(t *testing.T) {
	m := full()
	want := []string{
		`osm_gitops_audit_log_errors_total 1`,
		`osm_gitops_audit_log_lines_total{kind="NodeJoined"} 1`,
		`osm_gitops_audit_log_lost_total 1`,
		`osm_gitops_audit_log_waiting 4`,
		`osm_gitops_boot_seconds_count 1`,
		`osm_gitops_boot_seconds_sum 90`,
		`osm_gitops_boots_total{outcome="Failing",pool="shop/web",version="v1.8.0"} 1`,
		`osm_gitops_cluster_reachable{cluster="management"} 0`,
		`osm_gitops_cluster_reachable{cluster="worker"} 1`,
		`osm_gitops_events_dropped_total{reason="ConfigRotated"} 1`,
		`osm_gitops_maintenance_window_open{applies="Replace",name="osps",namespace="shop"} 1`,
		`osm_gitops_maintenance_window_open{applies="Waves",name="osps",namespace="shop"} 0`,
		`osm_gitops_node_provenance_ready 1`,
		`osm_gitops_node_provenances_dropped_total 1`,
		`osm_gitops_node_provenances_held 7`,
		`osm_gitops_node_provenances{node="gone"} 5`,
		`osm_gitops_node_provenances{node="there"} 6`,
		`osm_gitops_nodes_differing{reason="Disabled"} 0`,
		`osm_gitops_nodes_differing{reason="Edited"} 1`,
		`osm_gitops_nodes_differing{reason="NotReported"} 0`,
		`osm_gitops_nodes_differing{reason="OtherVersion"} 0`,
		`osm_gitops_nodes_disputed 1`,
		`osm_gitops_nodes{behind="No",evidence="Reported"} 4`,
		`osm_gitops_nodes{behind="Yes",evidence="Inferred"} 2`,
		`osm_gitops_pool_bootstrap_token_expiry_timestamp_seconds{name="web",namespace="shop"} 1.7000036e+09`,
		`osm_gitops_pool_info{commit="3f2a9c1",name="web",namespace="shop",profile="osp-ubuntu",version="v1.9.0"} 1`,
		`osm_gitops_pool_node_token_expiry_timestamp_seconds{name="web",namespace="shop"} 1.7000864e+09`,
		`osm_gitops_pool_ready{name="new",namespace="shop"} 0`,
		`osm_gitops_pool_ready{name="web",namespace="shop"} 0`,
		`osm_gitops_pool_refused{name="new",namespace="shop",reason="Waiting"} 1`,
		`osm_gitops_pool_refused{name="web",namespace="shop",reason="OperatingSystemProfileError"} 1`,
		`osm_gitops_pool_user_data_bytes{name="web",namespace="shop"} 4000`,
		`osm_gitops_pool_user_data_limit_bytes{name="web",namespace="shop"} 16384`,
		`osm_gitops_render_duration_seconds_count 1`,
		`osm_gitops_render_duration_seconds_sum 0.001`,
		`osm_gitops_rotations_total{reason="created"} 1`,
		`osm_gitops_source_failures_total{name="osps",namespace="shop",reason="Unreachable"} 1`,
		`osm_gitops_source_fetch_duration_seconds_count{name="osps",namespace="shop"} 2`,
		`osm_gitops_source_fetch_duration_seconds_sum{name="osps",namespace="shop"} 5.02`,
		`osm_gitops_source_info{kind="git",name="osps",namespace="shop",ready="False",reason="Unreachable",revision="main@sha1:3f2a9c1",suspended="false"} 1`,
		`osm_gitops_source_last_fetch_timestamp_seconds{name="osps",namespace="shop"} 1.7e+09`,
		`osm_gitops_webhook_certificate_expiry_timestamp_seconds 1.707776e+09`,
	}
	if diff := cmp.Diff(want, lines(t, m)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// What changes leaves nothing of what it was.
	m.SetPool(key("web"), PoolMetrics{Profile: "osp-ubuntu", Version: "v1.9.1", Commit: "4a2b"})
	m.SetSource(key("osps"), SourceState{Kind: "git", Ready: "True", Reason: "Succeeded", Revision: "main@sha1:4a2b"})
	text := strings.Join(lines(t, m), "\n")
	for _, gone := range []string{"v1.9.0", `ready="False"`, "OperatingSystemProfileError"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is still told:\n%s", gone, text)
		}
	}
	if !strings.Contains(text, `osm_gitops_source_last_fetch_timestamp_seconds{name="osps",namespace="shop"} 1.7e+09`) {
		t.Error("a change of the status forgets when the source was read")
	}

	// With a pool and a source their series go.
	m.PoolGone(key("web"))
	m.PoolGone(key("new"))
	m.SourceGone(key("osps"))
	m.SetWindows(key("osps"), nil)
	m.ForgetBoots("shop/web")
	for _, line := range lines(t, m) {
		if strings.Contains(line, "namespace=") || strings.Contains(line, "pool=") {
			t.Errorf("still told: %s", line)
		}
	}
}

// Without metrics nothing is counted, and nothing breaks.
func TestNil(*testing.T) {
	var m *Metrics
	m.SetSource(key("a"), SourceState{})
	m.ObserveFetch(key("a"), time.Time{}, 0, "")
	m.SourceGone(key("a"))
	m.SetPool(key("a"), PoolMetrics{})
	m.SetPoolRejection(key("a"), "x")
	m.PoolGone(key("a"))
	m.CountDocumentWrite(Pool)
	m.ObserveRender(0)
	m.RegisterNodes(nil)
	m.ProvenanceReady(true)
	m.ProvenanceExpired()
	m.ExpiredProvenancesWaiting(1)
	m.BootCounted("a", "", BootLost)
	m.BootMeasured(0)
	m.ForgetBoots("a")
	m.AuditEntryWritten("x")
	m.AuditWriteFailed()
	m.AuditEntriesWaiting(1)
	m.AuditEntryLost()
	m.RegisterWebhookCertificate(func() time.Time { return time.Time{} })
}

// While there is no certificate, its expiry is not exported.
func TestNoCertificateYet(t *testing.T) {
	m := New()
	m.RegisterWebhookCertificate(func() time.Time { return time.Time{} })
	if got := gathered(t, m)[webhookEnds.Name]; got != nil {
		t.Errorf("told is %v", got)
	}
}

// Ten thousand pools: six series each, seven if a pool is rejected. The test prints the
// memory between scrapes and the size of a scrape.
func TestTenThousandPools(t *testing.T) {
	const pools, refused = 10_000, 100
	before := heap()
	m := New()
	for i := range pools {
		name := fmt.Sprintf("pool-%05d", i)
		m.SetPool(key(name), PoolMetrics{
			Profile: "osp-ubuntu", Version: fmt.Sprintf("v1.9.%d", i%10), Commit: strings.Repeat(fmt.Sprint(i%10), 40),
			UserData: 4000, Limit: 16384, TokenEnds: time.Unix(1_700_000_000, 0), NodeTokenEnds: time.Unix(1_700_000_000, 0),
		})
		if i < refused {
			m.SetPoolRejection(key(name), "OperatingSystemProfileError")
		}
	}
	kept := heap() - before
	series, text := 0, 0
	for name, f := range gathered(t, m) {
		if strings.HasPrefix(name, prefix+"pool_") {
			series += len(f.GetMetric())
		}
		n, err := expfmt.MetricFamilyToText(discard{}, f)
		if err != nil {
			t.Fatal(err)
		}
		text += n
	}
	if want := 6*pools + refused; series != want {
		t.Errorf("%d series, want %d", series, want)
	}
	// A pool that changes again and again is the same number of series.
	for i := range 1000 {
		m.SetPool(key("pool-00000"), PoolMetrics{Profile: "p", Version: fmt.Sprintf("v1.0.%d", i)})
	}
	if n := len(gathered(t, m)[prefix+"pool_info"].GetMetric()); n != pools {
		t.Errorf("after 1000 changes of a pool there are %d series of pool_info", n)
	}
	t.Logf("%d pools: %d KiB between scrapes, %d series and %d KiB of text in a scrape", pools, kept>>10, series, text>>10)
	runtime.KeepAlive(m)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
