package chart

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
)

const (
	deploy   = "../../deploy"
	chartDir = deploy + "/chart/osm-gitops"
	// image is the one setting that has to be made.
	image = "image: {repository: registry.example.com/osm-gitops, tag: v1.0.0}\n"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m, cluster.Options{})
	if controllerDir != "" {
		_ = os.RemoveAll(controllerDir)
	}
	os.Exit(code)
}

// errUnavailable means that Helm's library cannot be had on this machine.
var errUnavailable = errors.New("the libraries of Helm and kustomize cannot be had on this machine")

// renderer has the libraries of Helm and kustomize.
var renderer = program.Program{Name: "chart-render", Sources: "test/chart/render", Package: ".", Args: []string{"-trimpath"}, Minutes: "a minute"}

// renderProcess is the renderer that answers all tests; it ends with this process.
var renderProcess struct {
	sync.Mutex
	requests  *json.Encoder
	responses *json.Decoder
}

// render has the renderer render with values, and returns what Helm or kustomize say if they refuse.
func render(t *testing.T, values string, args ...string) (output string, refused error) {
	t.Helper()
	if err := program.DependOn("deploy"); err != nil {
		t.Fatal(err)
	}
	renderProcess.Lock()
	defer renderProcess.Unlock()
	if renderProcess.requests == nil {
		startRenderer(t)
	}
	if err := renderProcess.requests.Encode(map[string]any{"args": args, "values": values}); err != nil {
		t.Fatal(err)
	}
	var response struct{ Output, Error string }
	if err := renderProcess.responses.Decode(&response); err != nil {
		t.Fatal(err)
	}
	if response.Error != "" {
		refused = errors.New(response.Error)
	}
	return response.Output, refused
}

func startRenderer(t *testing.T) {
	t.Helper()
	path, err := renderer.Path(t.Context(), os.Stderr)
	if errors.Is(err, program.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err) // without the module proxy; CI fails below
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path) //nolint:noctx // it ends when its standard input does
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	renderProcess.requests, renderProcess.responses = json.NewEncoder(in), json.NewDecoder(out)
}

// chart renders the chart for a namespace, as the release that docs/install.md makes.
func chart(t *testing.T, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	return release(t, "osm-gitops", namespace, values)
}

// release renders the chart as a release of a name.
func release(t *testing.T, name, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	out, err := render(t, values, "chart", chartDir, namespace+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, out)
}

func kustomize(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	out, err := render(t, "", "kustomize", filepath.Join(deploy, dir))
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, out)
}

func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
	if len(out) == 0 {
		t.Fatal("nothing was rendered")
	}
	return out
}

// byName returns objects by kind, namespace and name, and fails for duplicates.
func byName(t *testing.T, list []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, o := range list {
		name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if out[name] != nil {
			t.Errorf("%s is rendered twice", name)
		}
		out[name] = o.Object
	}
	return out
}
