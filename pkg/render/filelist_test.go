package render

import (
	"bytes"
	"encoding/base64"
	"testing"

	"go.yaml.in/yaml/v3"
)

// withFiles is a document with a list of files.
func withFiles(t *testing.T, list func(*document) *yaml.Node) string {
	t.Helper()
	doc := &document{}
	doc.root = *mapping("ssh_pwauth", boolean(false), "write_files", list(doc), "runcmd", stringList([]string{"true"}))
	out, err := doc.encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What is written here is what the library writes, to the byte.
func FuzzFileList(f *testing.F) {
	for _, content := range []string{
		"", "a", "yes", "12:30", " a", "a ", "it's", `a "b" \c`, "a: b", "# a", "-", "{}", "a\n", "a\nb", "a\n\nb\n", "a\n\n", "\na", " a\nb", "a\n  b\n",
		"a\n \nb", "\n", `\n`, "'", `"`, "''", "a\n\"b\"\\\n\n", "\tb", "a\n\tb\n", "é", "a\né\n", "a\x00b", "osm-gitops-text-0.", "a\nosm-gitops-text-1.\n",
		string(bytes.Repeat([]byte("long line of text "), 50)), string(bytes.Repeat([]byte("it's: long\n\n"), 50)), "a \nb", "a\nb ", "a\n b: \n", "é \nb\n",
		"a\t\nb\t", string(bytes.Repeat([]byte("trailing blanks  \n"), 5)), "!a", "&a", "*a", "%a", "@a", "`a", "|", ">", "? a", "---", "...", "a\n---\n", "~",
	} {
		for _, encoding := range []string{"", "b64", "text/plain"} {
			f.Add("/etc/"+content, "0644", encoding, content)
			f.Add(content, content, encoding, content)
		}
	}
	f.Fuzz(func(t *testing.T, path, permissions, encoding, content string) {
		if encoding == "b64" {
			content = base64.StdEncoding.EncodeToString([]byte(content))
		}
		files := []cloudFile{{path, permissions, encoding, content}, {"/etc/b", "0600", "", "b\n"}, {path, permissions, encoding, content}}
		if !isSimple(files) {
			return
		}
		got := withFiles(t, func(d *document) *yaml.Node { return d.fileList(files) })
		if want := withFiles(t, func(d *document) *yaml.Node { return d.fileNodes(files) }); got != want {
			t.Errorf("%q\nbecomes\n%s\nwant\n%s", files[0], got, want)
		}
	})
}
