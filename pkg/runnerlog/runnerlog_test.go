package runnerlog_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
	"github.com/osm-gitops/osm-gitops/test/runner"
)

// Nothing that is written is a command, in pieces of any size, and what is none is
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
	if got := strings.ReplaceAll(runnerlog.Line(log), "\u200b", ""); got != log {
		t.Errorf("people read %q", got)
	}
}

// JSON and XML keep their meaning (security.md 39).
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
