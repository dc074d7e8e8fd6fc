package rebase

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
)

// WithVersions returns the file of an overlay with another version of its own and another
// base of the same profile: its version and, if the overlay names one, its digest.
// Nothing else changes, including comments and blanks. An error says why the file must be
// edited by hand.
func WithVersions(data []byte, o profile.Overlay, overlayVersion string, from api.ProfileOverlayBase) ([]byte, error) {
	root, err := overlayNode(data, o)
	if err != nil {
		return nil, err
	}
	spec := strictyaml.MappingOrEmpty(root, "spec")
	lines := bytes.SplitAfter(data, []byte("\n"))
	base := strictyaml.MappingOrEmpty(spec, "from")
	for _, edit := range []struct {
		in         *yaml.Node
		key, field string
		was, now   string
	}{
		{base, "version", "spec.from.version", o.Spec.From.Version, from.Version},
		{base, "digest", "spec.from.digest", o.Spec.From.Digest, from.Digest},
		{spec, "version", "spec.version", o.Spec.Version, overlayVersion},
	} {
		if edit.was == edit.now {
			continue
		}
		n := Value(edit.in, edit.key)
		if n == nil || n.Kind != yaml.ScalarNode || n.Value != edit.was {
			return nil, fmt.Errorf("%s:%d: %s: not found as plain text: edit it by hand", o.Path, o.Line(edit.field), edit.field)
		}
		if lines[n.Line-1], err = replaceValue(lines[n.Line-1], n, edit.now); err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", o.Path, n.Line, edit.field, err)
		}
	}
	out := bytes.Join(lines, nil)
	return out, verifyEdit(out, o, overlayVersion, from)
}

// overlayNode finds the document of an overlay.
func overlayNode(data []byte, o profile.Overlay) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: has no overlay %q", o.Path, o.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: invalid YAML: %w", o.Path, err)
		}
		if len(doc.Content) == 0 {
			continue
		}
		root := doc.Content[0]
		if strictyaml.Scalar(root, "kind") == api.KindProfileOverlay && strictyaml.Scalar(strictyaml.MappingOrEmpty(root, "metadata"), "name") == o.Name && strictyaml.Scalar(strictyaml.MappingOrEmpty(root, "spec"), "version") == o.Spec.Version {
			return root, nil
		}
	}
}

// Value returns the value of a key in a mapping, nil if it is absent.
func Value(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// replaceValue replaces a value within its line and preserves the quotes.
func replaceValue(line []byte, n *yaml.Node, now string) ([]byte, error) {
	at := 0
	for range n.Column - 1 { // counts characters
		_, size := utf8.DecodeRune(line[at:])
		at += size
	}
	quote := map[yaml.Style]string{yaml.DoubleQuotedStyle: `"`, yaml.SingleQuotedStyle: "'"}[n.Style]
	rest, ok := strings.CutPrefix(string(line[at:]), quote+n.Value+quote)
	if !ok {
		return nil, errors.New("has a notation that this command does not support: edit it by hand")
	}
	return []byte(string(line[:at]) + quote + now + quote + rest), nil
}

// verifyEdit checks that an edited file has exactly the intended changes.
func verifyEdit(data []byte, o profile.Overlay, overlayVersion string, from api.ProfileOverlayBase) error {
	in, err := profile.DecodeFile(o.Path, data)
	if err != nil {
		return err
	}
	want := o.Spec
	want.Version, want.From = overlayVersion, from
	for _, got := range in.Overlays {
		if got.Name == o.Name && reflect.DeepEqual(got.Spec, want) {
			return nil
		}
	}
	return fmt.Errorf("%s: editing would change more than the versions: edit spec.version and spec.from.version by hand", o.Path)
}
