package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// ClusterFile is the file for --cluster.
type ClusterFile struct {
	// Profile is ignored: files of the conformance corpus contain it.
	Profile  string          `json:"profile,omitempty"`
	Settings render.Settings `json:"settings"`
	Cluster  clusterValues   `json:"cluster"`

	Lines map[string]int `json:"-"` // lines of keys and of list items
}

// clusterValues is what a controller reads from its cluster and environment.
type clusterValues struct {
	render.Cluster
	render.ClusterValues
}

// ReadClusterFile reads the file strictly: a misspelt key is an error with its
// line.
func ReadClusterFile(path string, stdin io.Reader) (ClusterFile, error) {
	var file ClusterFile
	b, err := File(path, stdin)
	if err != nil {
		return file, err
	}
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(b, &doc); err != nil {
		return file, fmt.Errorf("%s: %w", path, err)
	}
	lines := map[string]int{}
	file.Lines = lines
	if len(doc.Content) > 0 {
		if err := recordKeyLines(path, doc.Content[0], reflect.TypeFor[ClusterFile](), "", lines); err != nil {
			return file, err
		}
	}
	if err := yaml.UnmarshalStrict(b, &file); err != nil {
		if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			// encoding/json puts the names of Go types into the path, which the file does not have.
			field := strings.NewReplacer("cluster.Cluster.", "cluster.", "cluster.ClusterValues.", "cluster.").Replace(mismatch.Field)
			if lines[field] > 0 {
				return file, fmt.Errorf("%s:%d: %s: expected %[5]s, found %[4]s", path, lines[field], field, mismatch.Value, mismatch.Type.Kind())
			}
		}
		return file, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// PrintWarnings reports settings that are valid but are probably a mistake.
func (f ClusterFile) PrintWarnings(stderr io.Writer) {
	for _, w := range f.Settings.Warnings() {
		cli.Warn(stderr, errors.New(w.String()))
	}
}

// DecodePool decodes a pool with the settings of the file.
func (f ClusterFile) DecodePool(md *cluster.MachineDeployment) (render.Pool, error) {
	pool, err := render.DecodePool(md)
	if err != nil {
		return pool, err
	}
	return pool.WithCloudConfig(md, f.Settings, f.Cluster.ClusterValues)
}

// recordKeyLines reports every key of a mapping that the type lacks, and records the lines of
// the others.
func recordKeyLines(path string, n *yamlv3.Node, t reflect.Type, prefix string, lines map[string]int) error {
	if n.Kind != yamlv3.MappingNode || t.Kind() != reflect.Struct {
		return nil // the decoder reports the error
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		typ, ok := fields[key.Value]
		if !ok {
			errs = append(errs, fmt.Errorf("%s:%d: unknown key %q", path, key.Line, prefix+key.Value))
			continue
		}
		lines[prefix+key.Value] = key.Line
		if list := n.Content[i+1]; list.Kind == yamlv3.SequenceNode {
			for j, item := range list.Content {
				lines[fmt.Sprintf("%s[%d]", prefix+key.Value, j)] = item.Line
			}
		}
		errs = append(errs, recordKeyLines(path, n.Content[i+1], typ, prefix+key.Value+".", lines))
	}
	return errors.Join(errs...)
}
