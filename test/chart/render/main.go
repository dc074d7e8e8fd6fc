// Command render shows what Helm makes of a chart, and kustomize of a folder, by their
// own libraries. Each request on its standard input, in JSON, has the text of a values.yaml and
// arguments:
//
//	chart DIR NAMESPACE         the manifests
//	chart DIR NAMESPACE/NAME    those of a release that is not called osm-gitops
//	notes DIR NAMESPACE         what helm install would say
//	lint DIR NAMESPACE          a finding of helm lint each line
//	kustomize DIR               the manifests
//
// The answer says whether Helm or kustomize refuse, and what they write. One process answers all
// requests of a test binary, because its start takes as much CPU as a rendering.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kubeVersion is that of test/controlplane.
const kubeVersion = "v1.36.3"

// standardRelease is the name that docs/install.md gives it.
const standardRelease = "osm-gitops"

func main() {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var q struct {
			Args   []string
			Values string
		}
		if err := requests.Decode(&q); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		log.SetOutput(&stderr) // warnings of Helm
		err := run(q.Args, q.Values, &stdout)
		if err != nil {
			fmt.Fprintln(&stderr, err)
		}
		if err := answers.Encode(map[string]any{"stdout": stdout.String(), "stderr": stderr.String(), "refused": err != nil}); err != nil {
			panic(err)
		}
	}
}

func run(args []string, values string, stdout io.Writer) error {
	switch {
	case len(args) == 3 && args[0] == "chart":
		return manifests(args[1], args[2], values, stdout)
	case len(args) == 3 && args[0] == "notes":
		files, err := rendered(args[1], args[2], values)
		if err != nil {
			return err
		}
		for name, text := range files {
			if path.Base(name) == "NOTES.txt" {
				fmt.Fprint(stdout, text)
			}
		}
		return nil
	case len(args) == 3 && args[0] == "lint":
		return linted(args[1], args[2], values, stdout)
	case len(args) == 2 && args[0] == "kustomize":
		return kustomized(args[1], stdout)
	}
	return fmt.Errorf("unknown request %q", args)
}

func manifests(dir, namespace, text string, stdout io.Writer) error {
	files, err := rendered(dir, namespace, text)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".yaml" && strings.TrimSpace(files[name]) != "" {
			fmt.Fprintf(stdout, "---\n# %s\n%s\n", name, files[name])
		}
	}
	return nil
}

func rendered(dir, namespace, text string) (map[string]string, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	values, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		return nil, err
	}
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, err
	}
	if err := fits(c, version); err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	namespace, release, named := strings.Cut(namespace, "/")
	if !named {
		release = standardRelease
	}
	o := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, o, capabilities) // checks values.schema.json
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// fits is the check that helm install makes of kubeVersion in Chart.yaml.
func fits(c *chart.Chart, version *chartutil.KubeVersion) error {
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, version.String()) {
		return fmt.Errorf("chart requires kubeVersion: %s, which is incompatible with Kubernetes %s", want, version)
	}
	return nil
}

func linted(dir, namespace, text string, stdout io.Writer) error {
	values, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		return err
	}
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return err
	}
	for _, m := range lint.AllWithKubeVersion(dir, values, namespace, version).Messages {
		if m.Severity > support.InfoSev {
			fmt.Fprintln(stdout, m)
		}
	}
	return nil
}

func kustomized(dir string, stdout io.Writer) error {
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return err
	}
	b, err := found.AsYaml()
	if err != nil {
		return err
	}
	_, err = stdout.Write(b)
	return err
}
