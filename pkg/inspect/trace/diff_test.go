package trace_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// The changes since a configuration are listed file by file, with placeholders.
func TestDiff(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	osp := clusterfixture.Get[*osm.OperatingSystemProfile](e, "osp-x-v1.2.0")
	tr := nodeTrail(t, e, "one")
	diff, err := e.Clusters().DiffWithCurrent(t.Context(), tr)
	if err != nil {
		t.Fatal(err)
	}
	if diff.From != "osp-x v1.0.0" || diff.To != "osp-x v1.2.0" || len(diff.Files) != 1 {
		t.Fatalf("got %+v", diff)
	}
	if f := diff.Files[0]; f.Stage != "bootstrap" || f.Path != "/opt/bin/bootstrap" || f.Change != "changed" || !strings.Contains(f.Diff, "-echo one\n+echo three\n") {
		t.Errorf("got %+v", f)
	}
	if text, _ := json.Marshal(diff); strings.Contains(string(text), "canary") {
		t.Error("a credential is in the diff")
	}
	if diff, err = e.Clusters().DiffWithCurrent(t.Context(), nodeTrail(t, e, "new")); err != nil || len(diff.Files) > 0 {
		t.Errorf("nothing changed: %+v (err %v)", diff, err)
	}
	clusterfixture.Delete[*osm.OperatingSystemProfile](e, osp.Name)
	if _, err = e.Clusters().DiffWithCurrent(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "OperatingSystemProfile kube-system/osp-x-v1.2.0 does not exist") {
		t.Errorf("without the profile: %v", err)
	}
}

// Files that come, go, and change their mode; security.md 28: what they hold does
// nothing to a terminal.
func TestCompare(t *testing.T) {
	e := clusterfixture.New(t)
	e.Push(0, "echo one")
	e.Pool("workers")
	e.Serve("workers", 0, clusterfixture.At(1))
	b := e.Push(1, "echo \x1b[2J")
	b.Spec.BootstrapConfig.Files[1].Permissions = 640
	b.Spec.ProvisioningConfig.Files[0].Path = "/etc/renamed"
	b.Spec.ProvisioningConfig.Units = []osm.Unit{{Name: "kubelet.service"}}
	e.Redigest(b)
	e.Write("workers", e.Join("workers", "one", clusterfixture.At(10), nil))
	e.Serve("workers", 1, clusterfixture.At(20))
	diff, err := e.Clusters().DiffWithCurrent(t.Context(), nodeTrail(t, e, "one"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range diff.Files {
		got = append(got, strings.TrimSpace(strings.Join([]string{f.Stage, f.Path, f.Change, f.OldMode, f.NewMode}, " ")))
		if strings.Contains(f.Diff, "\x1b") {
			t.Errorf("%s holds an escape", f.Path)
		}
	}
	want := []string{
		"bootstrap /opt/bin/bootstrap changed", "bootstrap /etc/token changed 0600 0640",
		"provisioning /etc/version removed", "provisioning (units, modules and ssh keys) changed", "provisioning /etc/renamed added",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}
