package api_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// Machines write reports, so every field of them is bounded (security.md 46).
func TestReportsAreBounded(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	report := func(edits ...func(*api.MachineBoot)) *api.BootReport {
		out := &api.BootReport{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace(t), Name: "node-a-0123456789abcdef"}}
		out.Spec.Machines = []api.MachineBoot{{
			Machine: "a-b.c", Stage: api.BootStageJoin, Outcome: api.BootSucceeded, Attempt: 1_000_000, Config: "0123456789ab",
			File: strings.Repeat("/a", 128), Line: 1_000_000, Command: strings.Repeat("é", 512), ExitStatus: 255, Log: strings.Repeat("<", 4096),
			BootID: "01234567-89ab-cdef-0123-456789abcdef", Time: strings.Repeat("9", 32),
		}}
		for _, edit := range edits {
			edit(&out.Spec.Machines[0])
		}
		return out
	}
	full := report()
	for n := 1; n < 32; n++ {
		full.Spec.Machines = append(full.Spec.Machines, full.Spec.Machines[0])
		full.Spec.Machines[n].Machine = fmt.Sprint("m", n)
	}
	if err := cl.Create(t.Context(), full, client.DryRunAll); err != nil {
		t.Fatalf("the largest report: %v", err)
	}
	for _, file := range []string{"", "/opt/***/setup.sh"} {
		if err := cl.Create(t.Context(), report(func(m *api.MachineBoot) { m.File = file }), client.DryRunAll); err != nil {
			t.Errorf("a report with file %q: %v", file, err)
		}
	}
	full.Spec.Machines = append(full.Spec.Machines, full.Spec.Machines[0])
	full.Spec.Machines[32].Machine = "m32"
	for name, bad := range map[string]*api.BootReport{
		"33 entries":           full,
		"a name with a slash":  report(func(m *api.MachineBoot) { m.Machine = "a/b" }),
		"a long name":          report(func(m *api.MachineBoot) { m.Machine = strings.Repeat("a", 254) }),
		"another stage":        report(func(m *api.MachineBoot) { m.Stage = "Reboot" }),
		"another outcome":      report(func(m *api.MachineBoot) { m.Outcome = "Fine" }),
		"no attempt":           report(func(m *api.MachineBoot) { m.Attempt = 0 }),
		"too many attempts":    report(func(m *api.MachineBoot) { m.Attempt = 1_000_001 }),
		"a whole digest":       report(func(m *api.MachineBoot) { m.Config = strings.Repeat("0", 64) }),
		"a long file":          report(func(m *api.MachineBoot) { m.File = strings.Repeat("/a", 129) }),
		"a file with a space":  report(func(m *api.MachineBoot) { m.File = "/opt/bin/setup:1, see example.com" }),
		"a relative file":      report(func(m *api.MachineBoot) { m.File = "setup" }),
		"a file with markup":   report(func(m *api.MachineBoot) { m.File = "/<b>" }),
		"a file with newlines": report(func(m *api.MachineBoot) { m.File = "/opt\n" }),
		"a negative line":      report(func(m *api.MachineBoot) { m.Line = -1 }),
		"a late line":          report(func(m *api.MachineBoot) { m.Line = 1_000_001 }),
		"a long command":       report(func(m *api.MachineBoot) { m.Command = strings.Repeat("a", 513) }),
		"a large exit status":  report(func(m *api.MachineBoot) { m.ExitStatus = 256 }),
		"a long log":           report(func(m *api.MachineBoot) { m.Log = strings.Repeat("a", 4097) }),
		"a boot id with tags":  report(func(m *api.MachineBoot) { m.BootID = "<01234567-89ab-cdef-0123-456789abcdef>" }),
		"a long time":          report(func(m *api.MachineBoot) { m.Time = strings.Repeat("9", 33) }),
		"a name with newlines": report(func(m *api.MachineBoot) { m.Machine = "a\nb" }),
	} {
		if err := cl.Create(t.Context(), bad, client.DryRunAll); !apierrors.IsInvalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
