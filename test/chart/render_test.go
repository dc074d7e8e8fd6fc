package chart

import (
	"bytes"
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
)

const (
	deploy   = "../../deploy"
	chartDir = deploy + "/chart/osm-gitops"
	// image is the one setting that has to be made.
	image = "image: {repository: registry.example.com/osm-gitops, tag: v1.0.0}\n"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m, cluster.Options{})
	for _, dir := range []string{rendererDir, controllerDir} {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// rendererDir is the folder of the renderer's binary, for TestMain to remove.
var rendererDir string

// errUnavailable means that Helm's library cannot be had on this machine.
var errUnavailable = errors.New("the libraries of Helm and kustomize cannot be had on this machine")

// renderer builds the module render, once for all tests.
var renderer = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "osm-gitops-render-")
	if err != nil {
		return "", err
	}
	rendererDir = dir
	if err := cluster.DependOn("test/chart/render", "deploy"); err != nil {
		return "", err
	}
	command := func(args ...string) ([]byte, error) {
		cmd := exec.Command("go", args...)
		cmd.Dir = "render"
		// The settings of a contributor make no second build.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		return cmd.CombinedOutput()
	}
	if out, err := command("list", "-deps", "."); err != nil {
		return "", errors.Join(errUnavailable, err, errors.New(string(out)))
	}
	program := filepath.Join(dir, "render")
	if out, err := command("build", "-trimpath", "-o", program, "."); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return program, nil
})

// render runs the renderer with values on its standard input.
func render(t *testing.T, values string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program, err := renderer()
	if errors.Is(err, errUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err) // without the module proxy; CI fails below
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
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
