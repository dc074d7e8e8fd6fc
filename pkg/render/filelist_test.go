package render

import (
	"bytes"
	"testing"

	"go.yaml.in/yaml/v3"
)

// byLibrary is a document with a list of files as the YAML library writes it.
func byLibrary(t *testing.T, files []cloudFile) string {
	t.Helper()
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, f := range files {
		item := mapping("path", scalar(f.path), "permissions", quoted(f.permissions))
		if f.encoding != "" {
			item.Content = append(item.Content, scalar("encoding"), scalar(f.encoding))
		}
		content := text(f.content)
		if f.encoding == "b64" {
			content = quoted(f.content)
		}
		item.Content = append(item.Content, scalar("content"), content)
		list.Content = append(list.Content, item)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(yamlIndent)
	if err := enc.Encode(mapping("ssh_pwauth", boolean(false), "write_files", list, "runcmd", stringList([]string{"true"}))); err != nil {
		t.Fatal(err)
	}
	return cloudConfigHeader + b.String()
}

// What is written here is what the library writes, to the byte.
func FuzzFileList(f *testing.F) {
	for _, content := range []string{
		"", "a", "yes", "12:30", " a", "a ", "it's", `a "b" \c`, "a: b", "# a", "-", "{}", "a\n", "a\nb", "a\n\nb\n", "a\n\n", "\na", " a\nb", "a\n  b\n",
		"a\n \nb", "\n", `\n`, "'", `"`, "''", "a\n\"b\"\\\n\n", "\tb", "a\n\tb\n", "é", "a\né\n", "a\x00b", "osm-gitops-text-0.", "a\nosm-gitops-text-1.\n",
		string(bytes.Repeat([]byte("long line of text "), 50)), string(bytes.Repeat([]byte("it's: long\n\n"), 50)), "!a", "&a", "*a", "%a", "@a", "`a", "|", ">", "? a", "---", "...", "a\n---\n", "~",
	} {
		for _, encoding := range []string{"", "b64", "text/plain"} {
			f.Add("/etc/"+content, "0644", encoding, content)
			f.Add(content, content, encoding, content)
		}
	}
	f.Fuzz(func(t *testing.T, path, permissions, encoding, content string) {
		files := []cloudFile{{path, permissions, encoding, content}, {"/etc/b", "0600", "", "b\n"}, {path, permissions, encoding, content}}
		if !isSimple(files) {
			return
		}
		doc := &document{}
		doc.root = *mapping("ssh_pwauth", boolean(false), "write_files", doc.fileList(files), "runcmd", stringList([]string{"true"}))
		got, err := doc.encode()
		if err != nil {
			t.Fatal(err)
		}
		if want := byLibrary(t, files); string(got) != want {
			t.Errorf("%q\nbecomes\n%s\nwant\n%s", files[0], got, want)
		}
	})
}
