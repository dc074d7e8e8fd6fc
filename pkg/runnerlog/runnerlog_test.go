package runnerlog_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
	"github.com/osm-gitops/osm-gitops/test/runner"
)

// The output contains no command, for input in pieces of any size, and other text is
// unchanged (security.md 39).
func TestWriter(t *testing.T) {
	texts := append([]string{"## a heading\n", "a::b ## [x] #[y] [::1]:80\n", "::1 is loopback\n", "one\n\t::group::two\n"}, runner.Hostile...)
	log := strings.Join(texts, "\n")
	if len(runner.Commands(log)) < len(runner.Hostile) {
		t.Fatalf("the log has the commands %q only", runner.Commands(log))
	}
	for name, make := range map[string]func(io.Writer) *runnerlog.Writer{"text": runnerlog.Text, "xml": runnerlog.XML} {
		for piece, read := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader} {
			var b bytes.Buffer
			if _, err := io.Copy(make(&b), read(strings.NewReader(log))); err != nil {
				t.Fatal(err)
			}
			if got := runner.Commands(b.String()); len(got) > 0 {
				t.Errorf("%s, %s: commands %q", name, piece, got)
			}
			if !strings.HasPrefix(b.String(), strings.Join(texts[:2], "\n")) {
				t.Errorf("%s: text that is no command became %q", name, b.String())
			}
		}
	}
	var b bytes.Buffer
	if _, err := io.WriteString(runnerlog.Text(&b), log); err != nil || strings.ReplaceAll(b.String(), "\u200b", "") != log {
		t.Errorf("people read %q: %v", b.String(), err)
	}
}

// JSON and XML preserve their value (security.md 39).
func TestData(t *testing.T) {
	for _, name := range runner.Hostile {
		in := map[string]string{"path": name, "##[set-output name=a]b": `\##[error]`}
		text, err := json.MarshalIndent(in, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := runnerlog.JSON(&b).Write(text); err != nil {
			t.Fatal(err)
		}
		var out map[string]string
		if err := json.Unmarshal(b.Bytes(), &out); err != nil || out["path"] != name || out["##[set-output name=a]b"] != in["##[set-output name=a]b"] {
			t.Errorf("%s became %s: %v", text, b.Bytes(), err)
		}
		if got := runner.Commands(b.String()); len(got) > 0 {
			t.Errorf("commands %q", got)
		}
		type element struct {
			Name string `xml:"name,attr"`
			Text string `xml:",chardata"`
		}
		if text, err = xml.Marshal(element{name, "x\n" + name}); err != nil {
			t.Fatal(err)
		}
		b.Reset()
		if _, err := runnerlog.XML(&b).Write(text); err != nil {
			t.Fatal(err)
		}
		var e element
		if err := xml.Unmarshal(b.Bytes(), &e); err != nil || e.Name != name || e.Text != "x\n"+name {
			t.Errorf("%s became %s: %v", text, b.Bytes(), err)
		}
	}
}

// Invisible characters, with a visible neighbor for each kind: C1 controls, DEL,
// bidirectional marks, zero-width and ignorable characters, tags, variation selectors,
// private use.
const (
	hidden  = "\u0080\u0085\u009b\u009f\x7f\u061c\u200b\u200d\u200e\u200f\u202a\u202e\u2028\u2060\u2066\u2069\ufeff\u00ad\u115f\u3164\ufe0f\U000e0001\U000e0041\U000e0100\ue000\U0010ffff"
	visible = "é\u00a0漢🙂\ufffd"
)

// JSON, XML and YAML preserve their value and show every character, for input in pieces of
// any size, and YAML of usual values has the usual bytes (security.md 39, 45).
func TestHiddenCharacters(t *testing.T) {
	in := map[string]any{"a" + hidden: "x" + hidden + visible, "list": []any{"\u202e", "\n  ::error::x\n", map[string]any{"::warning::k": "##[error]"}}, "z": visible}
	for _, name := range runner.Hostile {
		in[name] = name
	}
	text, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := io.Copy(runnerlog.JSON(&b), iotest.OneByteReader(bytes.NewReader(text))); err != nil {
		t.Fatal(err)
	}
	decode := map[string]func([]byte, any) error{"JSON": json.Unmarshal, "YAML": func(text []byte, to any) error { return yaml.Unmarshal(text, to) }}
	for form, text := range map[string][]byte{"JSON": b.Bytes(), "YAML": yamlOf(t, in)} {
		var out map[string]any
		if err := decode[form](text, &out); err != nil || !reflect.DeepEqual(out, in) {
			t.Errorf("%s: %s\nbecame %q: %v", form, text, out, err)
		}
		isShown(t, form, string(text))
		if !strings.Contains(string(text), visible[:2]) {
			t.Errorf("%s: %s has no é", form, text)
		}
	}
	type element struct {
		Name string `xml:"name,attr"`
		Text string `xml:",chardata"`
	}
	b.Reset()
	if err := xml.NewEncoder(runnerlog.XML(&b)).Encode(element{"x" + hidden, hidden + visible}); err != nil {
		t.Fatal(err)
	}
	isShown(t, "XML", b.String())
	var e element
	if err := xml.Unmarshal(b.Bytes(), &e); err != nil || e.Name != "x"+hidden || e.Text != hidden+visible {
		t.Errorf("%s became %q: %v", b.Bytes(), e, err)
	}
	b.Reset()
	if _, err := io.Copy(runnerlog.WithoutHidden(&b), iotest.OneByteReader(strings.NewReader("a\t"+hidden+visible+"\xff\r\n"))); err != nil || b.String() != "a\t"+visible+"\n" {
		t.Errorf("text became %q: %v", b.String(), err)
	}
	usual := map[string]any{"a": []any{map[string]any{"b": "c ## [x]\nd::e 🙂\n", "é": "::1"}}}
	if want, err := yaml.Marshal(usual); err != nil || string(yamlOf(t, usual)) != string(want) {
		t.Errorf("%s became %s: %v", want, yamlOf(t, usual), err)
	}
}

func yamlOf(t *testing.T, v any) []byte {
	t.Helper()
	text, err := runnerlog.YAML(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// isShown checks that no character of text is hidden and none of its lines is a command.
func isShown(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) || strings.ContainsRune(hidden, r) {
			t.Errorf("%s has %U: %q", what, r, text)
		}
	}
	if got := runner.Commands(text); len(got) > 0 {
		t.Errorf("%s has the commands %q", what, got)
	}
}

// FuzzData encodes any text in JSON and YAML (security.md 39, 45).
func FuzzData(f *testing.F) {
	for _, name := range append([]string{hidden, visible}, runner.Hostile...) {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "")
		in := map[string]any{s: []any{s, "x\n" + s}}
		text := yamlOf(t, in)
		var out map[string]any
		if err := yaml.Unmarshal(text, &out); err != nil || !reflect.DeepEqual(out, in) {
			t.Errorf("%q became %q: %v", in, out, err)
		}
		if got := runner.Commands(string(text)); len(got) > 0 {
			t.Errorf("commands %q", got)
		}
	})
}
