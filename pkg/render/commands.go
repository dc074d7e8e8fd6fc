package render

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// commandFindings are the commands that were written for operating-system-manager, which
// puts each into the document without quoting it (contract 7.3): as a text of YAML in quotes,
// or as a list.
func commandFindings(field string, commands []string) []*invalid.Error {
	var findings []*invalid.Error
	for i, command := range commands {
		meant, as, _ := MeantCommand(command)
		same := meant == "" || as != asList && equivalence.IsPlainWord(meant)
		if as != "" && !same {
			findings = append(findings, invalid.At(field+"["+strconv.Itoa(i)+"]",
				"operating-system-manager reads this text as YAML, %s, and here the shell gets it as it stands: write %s", as, strconv.Quote(meant)))
		}
	}
	return findings
}

// valueFindings are the values that were quoted for it, by their names in a module.
func valueFindings(field string, values map[string]string) []*invalid.Error {
	var findings []*invalid.Error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if meant, ok := MeantValue(values[name]); ok {
			findings = append(findings, invalid.At(field+"["+name+"]",
				"operating-system-manager reads this text as YAML, without the quotes, and here they are part of it: write %s", strconv.Quote(meant)))
		}
	}
	return findings
}

const asList = "as a list"

// MeantCommand is what an item of runcmd or bootcmd does under operating-system-manager, which
// reads it as YAML once more, written so that it does the same here; and as what it is read there.
// Both are empty where that is nothing else than what a shell does with the item as it stands. It is
// exact unless a word of a list is a number, truth value or date for cloud-init: the line then has
// the word as it was written.
func MeantCommand(command string) (meant, as string, exact bool) {
	command = strings.TrimLeft(command, " ")
	if value, ok := MeantValue(command); ok {
		return value, "without the quotes", true
	}
	node := readAgain(command, "[")
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

// MeantValue is what a text in quotes is under operating-system-manager, which puts values of
// modules into the document as they stand, so that the quotes are YAML's. It reports false for others.
func MeantValue(text string) (meant string, ok bool) {
	if node := readAgain(text, `"'`); node != nil {
		return node.Value, true
	}
	return "", false
}

// readAgain reads a text that begins with one of these characters, blanks aside, as
// operating-system-manager does. It is nil for others, and for what is no YAML.
func readAgain(text, first string) *yaml.Node {
	if text = strings.TrimLeft(text, " "); text == "" || !strings.ContainsRune(first, rune(text[0])) || len(text) > funcs.MaxDecodedBytes || funcs.IsDeepYAML(text) {
		return nil
	}
	var items []yaml.Node
	if yaml.Unmarshal([]byte("- "+text), &items) != nil || len(items) != 1 {
		return nil
	}
	// `"a": b` is a mapping, for which nothing stands here.
	if kind := items[0].Kind; kind != yaml.ScalarNode && kind != yaml.SequenceNode {
		return nil
	}
	return &items[0]
}
