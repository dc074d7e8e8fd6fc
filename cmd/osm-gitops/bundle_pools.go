package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// readPools reads the MachineDeployments below a folder, by "namespace/name". Other
// documents are passed over.
func readPools(dir string) (map[string]*cluster.MachineDeployment, error) {
	pools, files := map[string]*cluster.MachineDeployment{}, map[string]string{}
	var errs []error
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) && path != dir {
			return err
		}
		list, err := readPoolFile(path)
		errs = append(errs, err)
		for _, md := range list {
			name := md.Namespace + "/" + md.Name
			if other, ok := files[name]; ok {
				errs = append(errs, fmt.Errorf("MachineDeployment %s is in %s and in %s: name a folder with the pools of one cluster", name, other, path))
			}
			pools[name], files[name] = md, path
		}
		return nil
	})
	return pools, errors.Join(append(errs, err)...)
}

func readPoolFile(path string) ([]*cluster.MachineDeployment, error) {
	b, err := readInput(path, nil)
	if err != nil {
		return nil, err
	}
	var out []*cluster.MachineDeployment
	for doc := range bytes.SplitSeq(append([]byte("\n"), b...), []byte("\n---")) {
		if !bytes.Contains(doc, []byte("MachineDeployment")) {
			continue
		}
		// A line behind "---" is a comment or a document; both are YAML.
		md := &cluster.MachineDeployment{}
		if err := yaml.Unmarshal(doc, md); err != nil {
			// What the parser quotes may be a credential (security.md 15).
			return out, fmt.Errorf("%s: a document that names a MachineDeployment is no valid one: check it with osm-gitops render", path)
		}
		if md.Kind != "MachineDeployment" || md.APIVersion != cluster.GroupVersion.String() {
			continue
		}
		if md.Annotations[api.AnnotationOSP] == "" {
			// As the webhook does.
			name, err := render.DefaultProfile(md)
			if err != nil {
				return out, fmt.Errorf("%s: MachineDeployment %s/%s: %w", path, md.Namespace, md.Name, err)
			}
			if md.Annotations == nil {
				md.Annotations = map[string]string{}
			}
			md.Annotations[api.AnnotationOSP] = name
		}
		out = append(out, md)
	}
	return out, nil
}
