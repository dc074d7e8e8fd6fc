package chart

import (
	"bytes"
	"context"
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

// renderer is the path of a program with the libraries of Helm and kustomize.
var renderer = sync.OnceValues(func() (string, error) {
	p := program.Program{Name: "chart-render", Sources: "test/chart/render", Package: ".", Args: []string{"-trimpath"}, Minutes: "a minute"}
	if err := program.DependOn("deploy"); err != nil {
		return "", err
	}
	return p.Path(context.Background(), os.Stderr) //nolint:forbidigo // no test: the program is built once for all
})

// render runs the renderer with values on its standard input.
func render(t *testing.T, values string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	path, err := renderer()
	if errors.Is(err, program.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err) // without the module proxy; CI fails below
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(values), &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
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
