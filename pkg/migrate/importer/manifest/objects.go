package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Limits of input.
const (
	maxManifestBytes = 256 << 20 // 256 MiB, the output of kubectl for a thousand profiles and pools
	maxObjects       = 100_000
	maxListDepth     = 3 // a List can contain Lists; kubectl prints one level
)

// Object is one decoded object, with any schema.
type Object struct {
	// From is its origin, such as "osps.yaml" or "the cluster".
	From string
	// Content of it.
	Content map[string]any
}

func (o Object) Kind() string { return Text(o.Content["kind"]) }

func (o Object) Metadata() map[string]any { return Mapping(o.Content["metadata"]) }

// Name of the object.
func (o Object) Name() string { return Text(o.Metadata()["name"]) }

// Namespace of the object, empty if a file does not name it.
func (o Object) Namespace() string { return Text(o.Metadata()["namespace"]) }

// String identifies the object in messages.
func (o Object) String() string {
	if o.Namespace() == "" {
		return o.Kind() + " " + o.Name()
	}
	return o.Kind() + " " + o.Namespace() + "/" + o.Name()
}

func (o Object) IsProfile() bool {
	return o.Kind() == "OperatingSystemProfile" && Text(o.Content["apiVersion"]) == osm.GroupVersion.String()
}

func (o Object) IsPool() bool {
	return o.Kind() == "MachineDeployment" && Text(o.Content["apiVersion"]) == cluster.GroupVersion.String()
}

// Read reads the objects of a file of manifests: YAML documents or JSON, also lists as
// `kubectl get -o yaml` prints them. The error names the file and the document.
func Read(from string, r io.Reader) ([]Object, error) {
	limited := &io.LimitedReader{R: r, N: maxManifestBytes + 1}
	docs := utilyaml.NewYAMLReader(bufio.NewReader(limited))
	var out []Object
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if limited.N <= 0 {
			return nil, fmt.Errorf("%s: has more than %d bytes: split it", from, maxManifestBytes)
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", from, n, err)
		}
		if len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		var content any
		if err := yaml.UnmarshalStrict(doc, &content); err != nil {
			return nil, fmt.Errorf("%s: document %d: is invalid YAML: %s", from, n, CutOff(err.Error()))
		}
		found, err := flatten(Object{From: from}, content, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", from, n, err)
		}
		if out = append(out, found...); len(out) > maxObjects {
			return nil, fmt.Errorf("%s: has more than %d objects: split it", from, maxObjects)
		}
	}
}

// flatten expands lists. An item of a typed list has neither kind nor version.
func flatten(like Object, content any, depth int) ([]Object, error) {
	m, ok := content.(map[string]any)
	if !ok {
		if content == nil {
			return nil, nil
		}
		return nil, errors.New("is not an object: it is not a mapping")
	}
	o := Object{From: like.From, Content: m}
	if o.Kind() == "" {
		return nil, errors.New("is not an object: it has no kind")
	}
	items, isList := m["items"].([]any)
	if !isList || !strings.HasSuffix(o.Kind(), "List") {
		return []Object{o}, nil
	}
	if depth == maxListDepth {
		return nil, fmt.Errorf("contains nested lists, more than %d levels deep", maxListDepth)
	}
	var out []Object
	for i, item := range items {
		if m, ok := item.(map[string]any); ok && o.Kind() != "List" && m["kind"] == nil {
			m["kind"], m["apiVersion"] = strings.TrimSuffix(o.Kind(), "List"), o.Content["apiVersion"]
		}
		found, err := flatten(like, item, depth+1)
		if err != nil {
			return nil, fmt.Errorf("items[%d]: %w", i, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

// CutOff truncates a message that can quote a file.
func CutOff(message string) string {
	const most = 500
	if len(message) > most {
		return message[:most] + "..."
	}
	return message
}

func Mapping(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func Text(v any) string {
	s, _ := v.(string)
	return s
}

// ProfileSourceName returns the ProfileSource that created an object, empty for none.
func (o Object) ProfileSourceName() string {
	return Text(Mapping(o.Metadata()["labels"])[api.LabelSource])
}

// WithNamespace returns a copy of an object in a namespace.
func (o Object) WithNamespace(namespace string) Object {
	metadata := maps.Clone(o.Metadata())
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["namespace"] = namespace
	content := maps.Clone(o.Content)
	content["metadata"] = metadata
	return Object{From: o.From, Content: content}
}
