package render

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/nesting"
)

// commandFindings returns the commands that were written for operating-system-manager, which
// copies each into the document without quoting it: as a quoted text of YAML, or
// as a list.
func commandFindings(field string, commands []string) []*invalid.Error {
	var findings []*invalid.Error
	for i, command := range commands {
		meant, as, _ := CommandUnderOSM(command)
		same := meant == "" || as != asList && equivalence.IsPlainWord(meant)
		if as != "" && !same {
			findings = append(findings, invalid.At(field+"["+strconv.Itoa(i)+"]",
				"operating-system-manager reads this text as YAML, %s, but here the shell gets it unchanged: write %s", as, strconv.Quote(meant)))
		}
	}
	return findings
}

// valueFindings returns the values that were quoted for operating-system-manager, by their
// names in a module.
func valueFindings(field string, values map[string]string) []*invalid.Error {
	var findings []*invalid.Error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if meant, ok := QuotedValueUnderOSM(values[name]); ok {
			findings = append(findings, invalid.At(field+"["+name+"]",
				"operating-system-manager reads this text as YAML, without the quotes, and here they are part of it: write %s", strconv.Quote(meant)))
		}
	}
	return findings
}

const asList = "as a list"

// CommandUnderOSM returns what an item of runcmd or bootcmd does under operating-system-manager,
// which decodes the item as YAML once more. meant is a command that does the same here, and as
// describes what operating-system-manager decodes the item to. Both are empty if a shell does
// the same with the item unchanged. The result is exact unless a word of a list is a number, a
// boolean or a date for cloud-init: the command then contains that word as it is written.
func CommandUnderOSM(command string) (meant, as string, exact bool) {
	command = strings.TrimLeft(command, " ")
	if value, ok := QuotedValueUnderOSM(command); ok {
		return value, "without the quotes", true
	}
	node := decodeAsYAMLIfPrefixed(command, "[")
	if node == nil || len(node.Content) == 0 || len(node.Content) == 1 && strings.HasPrefix(command, "[ ") { // a test of the shell
		return "", "", false
	}
	var words []string
	exact = true
	for _, item := range node.Content {
		if item.Kind != yaml.ScalarNode {
			return "", "", false
		}
		words = append(words, item.Value)
		exact = exact && (item.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 || equivalence.IsText(item.Value))
	}
	return equivalence.CommandLine(words), asList, exact
}

// QuotedValueUnderOSM returns the value of a quoted text under operating-system-manager, which copies
// values of modules into the document without quoting them, so that the quotes belong to YAML.
// It reports false for other texts.
func QuotedValueUnderOSM(text string) (meant string, ok bool) {
	if node := decodeAsYAMLIfPrefixed(text, `"'`); node != nil {
		return node.Value, true
	}
	return "", false
}

// decodeAsYAMLIfPrefixed decodes a text that begins with one of the characters in first, after blanks, as
// YAML once more, like operating-system-manager. It returns nil for other texts and for invalid
// YAML.
func decodeAsYAMLIfPrefixed(text, first string) *yaml.Node {
	if text = strings.TrimLeft(text, " "); text == "" || !strings.ContainsRune(first, rune(text[0])) || len(text) > nesting.MaxTextBytes || nesting.IsDeepYAML(text) {
		return nil
	}
	var items []yaml.Node
	if yaml.Unmarshal([]byte("- "+text), &items) != nil || len(items) != 1 {
		return nil
	}
	// `"a": b` is a mapping, which no command can express.
	if kind := items[0].Kind; kind != yaml.ScalarNode && kind != yaml.SequenceNode {
		return nil
	}
	return &items[0]
}
