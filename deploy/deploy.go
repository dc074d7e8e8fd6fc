// Package deploy embeds the manifests of this folder, so that a program has those of its own
// release.
package deploy

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed crds/*.yaml two-clusters/*.yaml kkp/user-cluster.yaml kustomization.yaml cloud-init-settings.yaml rbac.yaml controller-policy.yaml controller.yaml admission.yaml webhook.yaml
var files embed.FS

// CRDs returns the files with our kinds.
func CRDs() ([]string, error) {
	names, err := fs.Glob(files, "crds/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("finding the CustomResourceDefinitions: %w", err)
	}
	return names, nil
}

// Installation returns the files of kustomization.yaml: everything for one cluster.
func Installation() ([]string, error) {
	list, err := Objects("kustomization.yaml")
	if err != nil {
		return nil, err
	}
	names, _, err := unstructured.NestedStringSlice(list[0].Object, "resources")
	return names, err
}

// Objects reads the manifests of a file, in their order.
func Objects(name string) ([]*unstructured.Unstructured, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4<<10) // bytes that are read to distinguish YAML from JSON
	for {
		u := &unstructured.Unstructured{}
		err := d.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("deploy/%s: %w", name, err)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}
