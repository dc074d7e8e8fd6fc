// Command render shows what Helm makes of a chart, and kustomize of a folder, by their
// own libraries:
//
//	render chart DIR NAMESPACE [KIND...] <values.yaml   the manifests; KINDs that the cluster has, as group/version/Kind
//	render chart DIR NAMESPACE/NAME <values.yaml        those of a release that is not called osm-gitops
//	render notes DIR NAMESPACE <values.yaml             what helm install would say
//	render lint DIR NAMESPACE <values.yaml              a finding of helm lint each line
//	render kustomize DIR                                the manifests
//
// It exits 1 with what Helm or kustomize say when they refuse.
package main

import (
	"errors"
	"fmt"
	"io"
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
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	switch {
	case len(args) >= 3 && args[0] == "chart":
		return manifests(args[1], args[2], args[3:], stdin, stdout)
	case len(args) == 3 && args[0] == "notes":
		files, err := rendered(args[1], args[2], nil, stdin)
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
		return linted(args[1], args[2], stdin, stdout)
	case len(args) == 2 && args[0] == "kustomize":
		return kustomized(args[1], stdout)
	}
	return errors.New("usage: render chart|notes|lint DIR NAMESPACE, or render kustomize DIR")
}

func manifests(dir, namespace string, kinds []string, stdin io.Reader, stdout io.Writer) error {
	files, err := rendered(dir, namespace, kinds, stdin)
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

func rendered(dir, namespace string, kinds []string, stdin io.Reader) (map[string]string, error) {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return nil, err
	}
	values, err := readValues(stdin)
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
	capabilities.APIVersions = append(capabilities.APIVersions, kinds...)
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

func readValues(stdin io.Reader) (chartutil.Values, error) {
	b, err := io.ReadAll(stdin)
	if err != nil {
		return nil, err
	}
	return chartutil.ReadValues(b)
}

// fits is the check that helm install makes of kubeVersion in Chart.yaml.
func fits(c *chart.Chart, version *chartutil.KubeVersion) error {
	if want := c.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, version.String()) {
		return fmt.Errorf("chart requires kubeVersion: %s, which is incompatible with Kubernetes %s", want, version)
	}
	return nil
}

func linted(dir, namespace string, stdin io.Reader, stdout io.Writer) error {
	values, err := readValues(stdin)
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
