package offline_test

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
	"github.com/osm-gitops/osm-gitops/pkg/inspect/offline"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/lineage/dump"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// A snapshot answers as the cluster does and contains no credential: not of a Secret, a provider
// spec, a configuration of operating-system-manager, nor of kubectl's last-applied annotation
// (security.md 14 and 15).
func TestSnapshot(t *testing.T) {
	e := clusterfixture.TwoPools(t)
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
	dumped, err := offline.Write(t.Context(), from, &b, clusterfixture.At(90))
	if err != nil || len(dumped.ReadErrors) > 0 || dumped.Objects < 20 {
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
		snapshot, err := dump.Read(bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if !snapshot.Written.Equal(clusterfixture.At(90)) || snapshot.Namespace != clusterfixture.Namespace {
			t.Errorf("got %+v", snapshot)
		}
		for _, node := range []string{"one", "two", "gone", "new"} {
			if diff := cmp.Diff(follow(t, from.Node, node), follow(t, clusters(t, snapshot).Node, node)); diff != "" {
				t.Errorf("%s: the dump says something else (-cluster +dump):\n%s", node, diff)
			}
		}
	}
}

func clusters(t *testing.T, snapshot *dump.Snapshot) trace.Clusters {
	t.Helper()
	c, err := offline.NewClusters(snapshot, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func follow(t *testing.T, by func(context.Context, string) (*trace.Result, error), name string) *trace.Result {
	t.Helper()
	tr, err := by(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// What could not be read when the dump was written cannot be read from it either, and
// two clusters stay two.
func TestSnapshotOfTwoClusters(t *testing.T) {
	e := clusterfixture.TwoPools(t)
	e.ReadErrors = []string{"Secret"}
	from := e.Clusters()
	from.Worker = e.Clusters().Worker
	var b bytes.Buffer
	dumped, err := offline.Write(t.Context(), from, &b, clusterfixture.At(90))
	if err != nil || len(dumped.ReadErrors) != 1 || !strings.HasPrefix(dumped.ReadErrors[0], "Secret: ") {
		t.Fatalf("got %+v (err %v)", dumped, err)
	}
	snapshot, err := dump.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	c := clusters(t, snapshot)
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

// A file that is truncated or has a different format is rejected with the line.
func TestReadSnapshot(t *testing.T) {
	text := clusterfixture.TwoPools(t).Dump()
	lines := bytes.SplitAfter(text, []byte("\n"))
	change := func(line int, from, to string) []byte {
		out := bytes.Clone(text)
		return bytes.Replace(out, lines[line-1], []byte(strings.Replace(string(lines[line-1]), from, to, 1)), 1)
	}
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"nothing":              {nil, "the dump is incomplete"},
		"another file":         {[]byte("apiVersion: v1\n"), "line 1 of the dump: invalid JSON"},
		"another JSON":         {[]byte(`{"kind":"List"}` + "\n"), "not the header of a dump"},
		"another version":      {change(1, `"version":1`, `"version":9`), "the dump has version 9"},
		"cut off":              {bytes.Join(lines[:len(lines)-2], nil), "the dump is incomplete"},
		"a line is missing":    {bytes.Join(append(append([][]byte{}, lines[:3]...), lines[4:]...), nil), "objects were written"},
		"an unknown cluster":   {change(3, `"cluster":"management"`, `"cluster":"moon"`), `line 3 of the dump: unknown cluster "moon"`},
		"something afterwards": {append(bytes.Clone(text), lines[1]...), "it is after the end"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := dump.Read(bytes.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add([]byte(`{"header":{"kind":"OSMGitopsDump","version":1}}` + "\n" + `{"cluster":"worker","object":{"kind":"Node","metadata":{"name":"a"}}}` + "\n" + `{"end":{"objects":1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		snapshot, err := dump.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		if tr, err := clusters(t, snapshot).Node(t.Context(), "a"); err == nil {
			if _, err := json.Marshal(tr); err != nil {
				t.Error(err)
			}
		}
	})
}
