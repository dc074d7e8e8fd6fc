package trace_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// A dump answers as the cluster does, and holds no credential: not of a Secret, a
// provider spec, a configuration of operating-system-manager, nor of what kubectl apply
// keeps (security.md 14 and 15).
func TestDump(t *testing.T) {
	e := clusterfixture.Fleet(t)
	foreign := clusterfixture.Get[*osm.OperatingSystemConfig](e, "others-kube-system-config")
	foreign.Annotations = map[string]string{api.AnnotationOSPVersion: "v1.0.0", "example.com/note": "canary"}
	foreign.Spec.BootstrapConfig.Files[0].Content.Inline.Data = "token canary"
	for _, obj := range e.Objects {
		if a := obj.GetAnnotations(); a != nil {
			a["kubectl.kubernetes.io/last-applied-configuration"] = `{"data":"canary"}`
		}
	}
	clusterfixture.Get[*corev1.Node](e, "one").Labels["example.com/note"] = "canary"
	if !bytes.Contains(e.Dump(), []byte("canary")) {
		t.Fatal("the estate holds no credential to be found")
	}
	from := e.Clusters()
	var b bytes.Buffer
	dumped, err := from.Dump(t.Context(), &b, clusterfixture.At(90))
	if err != nil || len(dumped.Unread) > 0 || dumped.Objects < 20 {
		t.Fatalf("got %+v (err %v)", dumped, err)
	}
	if i := bytes.Index(b.Bytes(), []byte("canary")); i >= 0 {
		t.Errorf("the dump holds a credential: %s", b.Bytes()[max(0, i-300):i+20])
	}
	for _, packed := range []bool{false, true} {
		file := &b
		if packed {
			file = &bytes.Buffer{}
			w := gzip.NewWriter(file)
			if _, err := w.Write(b.Bytes()); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		dump, err := trace.ReadDump(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if !dump.Written.Equal(clusterfixture.At(90)) || dump.Namespace != clusterfixture.Namespace {
			t.Errorf("got %+v", dump)
		}
		for _, node := range []string{"one", "two", "gone", "new"} {
			if diff := cmp.Diff(nodeTrail(t, e, node), follow(t, dump.Clusters(nil).Node, node)); diff != "" {
				t.Errorf("%s: the dump says something else (-cluster +dump):\n%s", node, diff)
			}
		}
	}
}

func follow(t *testing.T, by func(context.Context, string) (*trace.Trail, error), name string) *trace.Trail {
	t.Helper()
	tr, err := by(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// What could not be read when the dump was written cannot be read from it either, and
// two clusters stay two.
func TestDumpOfTwoClusters(t *testing.T) {
	e := clusterfixture.Fleet(t)
	e.Unread = []string{"Secret"}
	from := e.Clusters()
	from.Worker = e.Clusters().Worker
	var b bytes.Buffer
	dumped, err := from.Dump(t.Context(), &b, clusterfixture.At(90))
	if err != nil || len(dumped.Unread) != 1 || !strings.HasPrefix(dumped.Unread[0], "Secret: ") {
		t.Fatalf("got %+v (err %v)", dumped, err)
	}
	dump, err := trace.ReadDump(&b)
	if err != nil {
		t.Fatal(err)
	}
	c := dump.Clusters(nil)
	if c.Worker == c.Management {
		t.Error("the dump is of one cluster")
	}
	tr := follow(t, c.Node, "one")
	if step := tr.Step("Secret"); step.State != trace.Unreadable || tr.Version != "v1.0.0" {
		t.Errorf("got %+v, %+v", step, tr)
	}
	if err := c.Management.Get(t.Context(), types.NamespacedName{Namespace: clusterfixture.Namespace, Name: "workers"}, &machines.MachineDeployment{}); err == nil {
		t.Error("the management cluster has a pool of the worker cluster")
	}
}

// A file that was cut off, or is something else, is refused with the line.
func TestReadDump(t *testing.T) {
	dump := clusterfixture.Fleet(t).Dump()
	lines := bytes.SplitAfter(dump, []byte("\n"))
	change := func(line int, from, to string) []byte {
		out := bytes.Clone(dump)
		return bytes.Replace(out, lines[line-1], []byte(strings.Replace(string(lines[line-1]), from, to, 1)), 1)
	}
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":              {nil, "ends before its end"},
		"another file":         {[]byte("apiVersion: v1\n"), "line 1 of the dump: it is no JSON"},
		"another JSON":         {[]byte(`{"kind":"List"}` + "\n"), "not the header of a dump"},
		"another version":      {change(1, `"version":1`, `"version":9`), "the dump has version 9"},
		"cut off":              {bytes.Join(lines[:len(lines)-2], nil), "ends before its end"},
		"a line is missing":    {bytes.Join(append(append([][]byte{}, lines[:3]...), lines[4:]...), nil), "objects were written"},
		"an unknown cluster":   {change(3, `"cluster":"management"`, `"cluster":"moon"`), `line 3 of the dump: unknown cluster "moon"`},
		"something afterwards": {append(bytes.Clone(dump), lines[1]...), "it comes after the end"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := trace.ReadDump(bytes.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzReadDump(f *testing.F) {
	f.Add([]byte(`{"header":{"kind":"OSMGitopsDump","version":1}}` + "\n" + `{"cluster":"worker","object":{"kind":"Node","metadata":{"name":"a"}}}` + "\n" + `{"end":{"objects":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dump, err := trace.ReadDump(bytes.NewReader(text))
		if err != nil {
			return
		}
		if tr, err := dump.Clusters(nil).Node(t.Context(), "a"); err == nil {
			if _, err := json.Marshal(tr); err != nil {
				t.Error(err)
			}
		}
	})
}

// What changed since is told file by file, with placeholders.
func TestDiff(t *testing.T) {
	e := clusterfixture.Fleet(t)
	osp := clusterfixture.Get[*osm.OperatingSystemProfile](e, "osp-x-v1.2.0")
	tr := nodeTrail(t, e, "one")
	diff, err := e.Clusters().Diff(t.Context(), tr)
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
	if diff, err = e.Clusters().Diff(t.Context(), nodeTrail(t, e, "new")); err != nil || len(diff.Files) > 0 {
		t.Errorf("nothing changed: %+v (err %v)", diff, err)
	}
	clusterfixture.Delete[*osm.OperatingSystemProfile](e, osp.Name)
	if _, err = e.Clusters().Diff(t.Context(), tr); err == nil || !strings.Contains(err.Error(), "there is no OperatingSystemProfile kube-system/osp-x-v1.2.0") {
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
	diff, err := e.Clusters().Diff(t.Context(), nodeTrail(t, e, "one"))
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
