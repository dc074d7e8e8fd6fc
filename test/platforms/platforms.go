// Package platforms has the objects with which KubeOne and KKP (Kubermatic Kubernetes Platform)
// install operating-system-manager, as data for tests: Deployments, permissions and webhook
// configurations in the folders kubeone and kkp, and the CustomResourceDefinitions that both apply.
//
// Each file states facts about these products, such as names, commands, flags and users. The files
// have no CA, no certificates and nothing that tests do not use.
package platforms

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/test/program"
)

// Path returns the path of a file of this package, or of a folder.
func Path(elements ...string) (string, error) {
	root, err := program.Root()
	if err != nil {
		return "", err
	}
	return filepath.Join(slices.Concat([]string{root, "test", "platforms"}, elements)...), nil
}

// added are the fields of our CustomResourceDefinitions that those of operating-system-manager do
// not have: rules in CEL, columns, every subresource, and the category.
var added = []string{"x-kubernetes-validations", "additionalPrinterColumns", "subresources", "categories"}

// CRDs returns the CustomResourceDefinitions of operating-system-manager as KubeOne applies them at
// each "kubeone apply", and as KKP reconciles them: ours, which have the same schema,
// without what we add to it.
func CRDs() ([]*unstructured.Unstructured, error) {
	root, err := program.Root()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(root, "deploy", "crds", "operatingsystemmanager.k8c.io_*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) != 2 {
		return nil, fmt.Errorf("deploy/crds has %d kinds of operating-system-manager, want 2", len(files))
	}
	var out []*unstructured.Unstructured
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(b, &crd.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		removeAdded(crd.Object["spec"])
		out = append(out, crd)
	}
	return out, nil
}

// SeedCRD returns the CustomResourceDefinition of CustomOperatingSystemProfile, which KKP installs in
// a seed: that of OperatingSystemProfile with other names.
func SeedCRD() (*unstructured.Unstructured, error) {
	crds, err := CRDs()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(crds, func(crd *unstructured.Unstructured) bool {
		return strings.HasPrefix(crd.GetName(), "operatingsystemprofiles.")
	})
	if i < 0 {
		return nil, errors.New("deploy/crds has no OperatingSystemProfile")
	}
	crds[i].SetName("custom" + crds[i].GetName())
	return crds[i], unstructured.SetNestedMap(crds[i].Object, map[string]any{
		"kind": "CustomOperatingSystemProfile", "listKind": "CustomOperatingSystemProfileList",
		"plural": "customoperatingsystemprofiles", "singular": "customoperatingsystemprofile", "shortNames": []any{"cosp"},
	}, "spec", "names")
}

func removeAdded(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range added {
			delete(value, field)
		}
		for _, v := range value {
			removeAdded(v)
		}
	case []any:
		for _, v := range value {
			removeAdded(v)
		}
	}
}
