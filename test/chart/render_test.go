package chart

import (
	"context"
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

// renderer is a running program with the libraries of Helm and kustomize. It ends with the tests,
// when its standard input does.
var renderer = sync.OnceValues(func() (r struct {
	requests *json.Encoder
	answers  *json.Decoder
}, err error,
) {
	p := program.Program{Name: "chart-render", Sources: "test/chart/render", Package: ".", Args: []string{"-trimpath"}, Minutes: "a minute"}
	if err := program.DependOn("deploy"); err != nil {
		return r, err
	}
	path, err := p.Path(context.Background(), os.Stderr) //nolint:forbidigo // no test: the program is built once for all
	if err != nil {
		return r, err
	}
	cmd := exec.Command(path)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return r, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	r.requests, r.answers = json.NewEncoder(stdin), json.NewDecoder(stdout)
	return r, cmd.Start()
})

// render sends the renderer values and arguments.
func render(t *testing.T, values string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	r, err := renderer()
	if errors.Is(err, program.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err) // without the module proxy; CI fails below
	}
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Stdout, Stderr string
		Refused        bool
	}
	if err := errors.Join(r.requests.Encode(map[string]any{"args": args, "values": values}), r.answers.Decode(&answer)); err != nil {
		t.Fatalf("the renderer does not answer %q: %v", args, err)
	}
	if answer.Refused {
		err = errors.New("it is refused")
	}
	return answer.Stdout, answer.Stderr, err
}

// chart renders the chart for a namespace, as the release that docs/install.md makes.
func chart(t *testing.T, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	return release(t, "osm-gitops", namespace, values)
}

// release renders the chart as a release of a name.
func release(t *testing.T, name, namespace, values string) []*unstructured.Unstructured {
	t.Helper()
	out, errs, err := render(t, values, "chart", chartDir, namespace+"/"+name)
	if err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	return objects(t, out)
}

func kustomize(t *testing.T, dir string) []*unstructured.Unstructured {
	t.Helper()
	out, errs, err := render(t, "", "kustomize", filepath.Join(deploy, dir))
	if err != nil {
		t.Fatalf("%v\n%s", err, errs)
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
