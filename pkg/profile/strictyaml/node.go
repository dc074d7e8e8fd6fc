package strictyaml

import "go.yaml.in/yaml/v3"

// MappingOrEmpty returns a field that is a mapping, or an empty mapping.
func MappingOrEmpty(m *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name && m.Content[i+1].Kind == yaml.MappingNode {
			return m.Content[i+1]
		}
	}
	return &yaml.Node{}
}

func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// Scalar returns the text of a top-level field, "" if it is absent.
func Scalar(m *yaml.Node, name string) string {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name && m.Content[i+1].Kind == yaml.ScalarNode {
			return m.Content[i+1].Value
		}
	}
	return ""
}
