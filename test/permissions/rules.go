package permissions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Anywhere is the namespace of rights that hold in all of them, and of what has none.
const Anywhere = "*"

// Rule is one of a Role or ClusterRole.
type Rule struct {
	// File and Line are the place of the rule.
	File string
	Line int
	// Namespace is that of the Role, or Anywhere.
	Namespace string
	Groups    []string `yaml:"apiGroups"`
	Resources []string `yaml:"resources"`
	Names     []string `yaml:"resourceNames"`
	URLs      []string `yaml:"nonResourceURLs"`
	Verbs     []string `yaml:"verbs"`
	// Reason is the comment above the rule. Rules without one belong with the rule above,
	// and the first of a Role with what is said of the Role.
	Reason string
}

// Right is one verb on one kind of objects.
type Right struct {
	Namespace, Verb, Group, Resource string
	// Name is empty for all objects.
	Name string
}

func (r Right) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Name != "" {
		resource += " " + r.Name
	}
	return fmt.Sprintf("%s %s in %s", r.Verb, resource, r.Namespace)
}

// Allows says whether a request is allowed by the right.
func (r Right) Allows(q Request) bool {
	return (r.Namespace == Anywhere || r.Namespace == q.Namespace) && r.Verb == q.Verb && r.Group == q.Group && r.Resource == q.Resource &&
		(r.Name == "" || r.Name == q.Name)
}

// Rights are those that a rule gives, one by one.
func (r Rule) Rights() []Right {
	names := r.Names
	if len(names) == 0 {
		names = []string{""}
	}
	var out []Right
	for _, group := range r.Groups {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				for _, name := range names {
					out = append(out, Right{Namespace: r.Namespace, Verb: verb, Group: group, Resource: resource, Name: name})
				}
			}
		}
	}
	return out
}

// Read returns the rules of a manifest, in its order.
func Read(path string) ([]Rule, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Rule
	d := yaml.NewDecoder(bytes.NewReader(b))
	for {
		var document yaml.Node
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		rules, err := rulesOf(&document)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		for i := range rules {
			rules[i].File = path
		}
		out = append(out, rules...)
	}
}

func rulesOf(document *yaml.Node) ([]Rule, error) {
	var role struct {
		Kind     string
		Metadata struct{ Namespace string }
		Rules    yaml.Node
	}
	if err := document.Decode(&role); err != nil {
		return nil, err
	}
	namespace := role.Metadata.Namespace
	switch role.Kind {
	case "ClusterRole":
		namespace = Anywhere
	case "Role":
	default:
		return nil, nil
	}
	reason := sentence(headOf(document))
	var out []Rule
	for _, node := range role.Rules.Content {
		rule := Rule{Namespace: namespace, Line: node.Line}
		if err := node.Decode(&rule); err != nil {
			return nil, err
		}
		if own := headOf(node); own != "" {
			reason = sentence(own)
		}
		rule.Reason = reason
		out = append(out, rule)
	}
	return out, nil
}

// headOf is the comment above a node, which may hang on the first thing in it.
func headOf(node *yaml.Node) string {
	for node.HeadComment == "" && len(node.Content) > 0 && node.Kind != yaml.ScalarNode {
		node = node.Content[0]
	}
	return node.HeadComment
}

// sentence is a comment on one line.
func sentence(comment string) string {
	// A comment that is separated by an empty line belongs to something different.
	if i := strings.LastIndex(comment, "\n\n"); i >= 0 {
		comment = comment[i+2:]
	}
	var words []string
	for line := range strings.SplitSeq(comment, "\n") {
		words = append(words, strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "#"))...)
	}
	return strings.Join(words, " ")
}
