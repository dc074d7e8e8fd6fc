package userdata

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// The list of files has the bytes that the YAML library writes.
func TestFilesAreWrittenAsByTheLibrary(t *testing.T) {
	texts := []string{
		"", " ", "a", "a b", "/etc/a", "a b ", " a", "it's", "'", "''", "a: b", "a #b", "# a", "- a", "-", "yes", "0755", "12:30", "~", "<MACHINE_NAME>", "a <MACHINE_NAME>\n",
		"a\n", "\n", "a\n\n", "a\nb", "a\n b\n", " a\nb\n", "a\n \nb\n", "a\n\nb\n", "a\tb", "a\n\tb\n", "a\r\nb\n", "ü", "ü\nb\n", "a\x00b", "a\u2028b\n", "😀 😀\n", "\"", "\\", "a\"b\n",
		"---", "---\n", "...\na\n", "{{ .X }}", "[a]", "%a", "a \nb\n", "a\nb ", strings.Repeat("long ", 100), strings.Repeat("x", 500) + "\n" + strings.Repeat("y z", 300), strings.Repeat("ü ", 200),
	}
	for _, path := range texts {
		for _, content := range texts {
			files := []File{{Path: path, permissions: "0644", Content: content}, {Path: path, permissions: "1755", encoding: content, Content: path}}
			var got document
			if err := got.addFiles(files); err != nil {
				t.Fatal(err)
			}
			list := &yaml.Node{Kind: yaml.SequenceNode}
			for _, f := range files {
				item := newMapping("path", scalar(f.Path), "permissions", scalarOf(f.permissions, yaml.SingleQuotedStyle))
				if f.encoding != "" {
					item.Content = append(item.Content, scalar("encoding"), scalar(f.encoding))
				}
				item.Content = append(item.Content, scalar("content"), text(f.Content))
				list.Content = append(list.Content, item)
			}
			var want document
			if err := want.writeNode(newMapping("write_files", list)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Fatalf("path %q, content %q (-want +got):\n%s", path, content, diff)
			}
		}
	}
}

// A long text is a block, with any line endings.
func TestLongTextsAreBlocks(t *testing.T) {
	line := strings.Repeat("x", 62)
	for content, want := range map[string]string{
		line + " ":      "'" + line + " '",
		line + " \n":    "|\n      " + line + " ",
		line + "\na ":   "|-\n      " + line + "\n      a ",
		line + " \na\n": "|\n      " + line + " \n      a",
	} {
		var got document
		if err := got.addFile(File{Path: "/a", permissions: "0644", Content: content}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("  - path: /a\n    permissions: '0644'\n    content: "+want+"\n", got.String()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", content, diff)
		}
	}
}
