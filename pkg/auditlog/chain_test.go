package auditlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 123_456_789, time.UTC)

// joined is an event about a node.
func joined(n int) Event {
	return Event{
		Kind: NodeJoined, Object: Object{Kind: "Node", Name: fmt.Sprintf("node-%d", n), UID: fmt.Sprintf("uid-%d", n)}, Key: "np",
		Since: "2026-11-21T11:59:58Z", Evidence: "Reported", Message: `it says "so" <&> ` + "\u2028",
		Is: &Configuration{Profile: "osp-x", Version: "v1.0.0", Author: "Ada <ada@example.com>"},
	}
}

// chain is a text of n lines.
func chain(t testing.TB, n int) []byte {
	t.Helper()
	var head Head
	var out []byte
	for i := range n {
		line, next, err := head.EncodeNext(joined(i), noon.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		out, head = append(append(out, line...), '\n'), next
	}
	return out
}

// Auditors rely on the format of a line: another format needs another recipe.
func TestLine(t *testing.T) {
	f := joined(7)
	f.Message, f.Since, f.Is = "", "", nil
	line, head, err := Head{}.EncodeNext(f, noon)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"recipe":"v1","sequence":1,"time":"2026-11-21T12:00:00.123Z","before":"","id":"8e8ee6cc1e9ebececa5154bc6a5dc988","kind":"NodeJoined","object":{"kind":"Node","name":"node-7","uid":"uid-7"},"occasion":"np","evidence":"Reported"}`
	if diff := cmp.Diff(want, string(line)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if head.Sequence != 1 || !strings.HasPrefix(head.Hash, "sha256:") {
		t.Errorf("the head is %+v", head)
	}
}

// No line contains terminal control characters, whatever its source: not even text of an
// object of another owner that is stored completely. security.md 28
func TestTerminal(t *testing.T) {
	const evil = "a\x1b[31m\x07\u009b31m\u202e\u2066\u200b\ufeff\u2028\U000e0041\x7fz<&>"
	f := joined(1)
	f.Message = evil
	record, err := json.Marshal(map[string]string{"providerID": evil})
	if err != nil {
		t.Fatal(err)
	}
	f.Record = record
	line, _, err := Head{}.EncodeNext(f, noon)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range string(line) {
		if !unicode.IsGraphic(r) || r == 0x2028 {
			t.Errorf("%U is at %d", r, i)
		}
	}
	e, _, err := Head{}.Check(line)
	if err != nil || e.Message != evil {
		t.Errorf("it became %q (%v)", e.Message, err)
	}
	var kept map[string]string
	if err := json.Unmarshal(e.Record, &kept); err != nil || kept["providerID"] != evil {
		t.Errorf("the record became %q (%v)", kept, err)
	}
}

// write writes files and returns their paths.
func write(t *testing.T, texts ...[]byte) []string {
	t.Helper()
	dir := t.TempDir()
	var out []string
	for i, text := range texts {
		path := filepath.Join(dir, fmt.Sprintf("audit.log.%d", i))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, path)
	}
	return out
}

// For any edit of a line, the first line that does not fit is named.
func TestTampering(t *testing.T) {
	good := chain(t, 5)
	lines := bytes.SplitAfter(good, []byte("\n"))[:5]
	join := func(of ...[]byte) []byte { return bytes.Join(of, nil) }
	replaced := func(i int, from, to string) []byte {
		out := bytes.Clone(good)
		changed := bytes.Replace(lines[i], []byte(from), []byte(to), 1)
		if bytes.Equal(changed, lines[i]) {
			t.Fatalf("%q is not in line %d", from, i+1)
		}
		return bytes.Replace(out, lines[i], changed, 1)
	}
	other := func() []byte { // a complete chain with one changed event, and all later hashes computed again
		var head Head
		var out []byte
		for i := range 5 {
			f := joined(i)
			if i == 2 {
				f.Is.Author = "Eve <eve@example.com>"
			}
			line, next, err := head.EncodeNext(f, noon.Add(time.Duration(i)*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			out, head = append(append(out, line...), '\n'), next
		}
		return out
	}()
	otherLines := bytes.SplitAfter(other, []byte("\n"))
	for name, c := range map[string]struct {
		text []byte
		line int
		says string
	}{
		"another author":                      {replaced(2, "Ada", "Eve"), 4, "the previous line was changed"},
		"the last line changed":               {replaced(4, "Reported", "Inferred"), 0, ""}, // not detectable without a stored hash
		"a line left out":                     {join(lines[0], lines[1], lines[3], lines[4]), 3, "1 lines between are missing"},
		"the first line left out":             {join(lines[1:]...), 0, ""}, // it could be in a file that was moved away
		"two lines swapped":                   {join(lines[0], lines[2], lines[1], lines[3]), 2, "missing"},
		"a line twice":                        {join(lines[0], lines[1], lines[1], lines[2]), 3, "repeated"},
		"a line of another chain":             {join(lines[0], lines[1], otherLines[2], lines[3]), 4, "changed"},
		"a chain that begins anew":            {join(good, good), 6, "another chain begins"},
		"a blank line":                        {join(lines[0], []byte("\n"), lines[1]), 2, "not a line of an audit log"},
		"text of a stranger":                  {join(lines[0], []byte("hello\n"), lines[1]), 2, "not a line of an audit log"},
		"another spelling of the same":        {replaced(1, `"kind":"NodeJoined"`, `"kind": "NodeJoined"`), 2, "not in the controller's format"},
		"an escape where none is needed":      {replaced(1, "Ada", `\u0041da`), 2, "not in the controller's format"},
		"a field twice":                       {replaced(1, `"sequence":2`, `"sequence":3,"sequence":2`), 2, "not in the controller's format"},
		"a field that there is not":           {replaced(1, `"recipe":"v1"`, `"recipe":"v1","x":1`), 2, "unknown field"},
		"another id":                          {replaced(1, `"id":"`, `"id":"0`), 2, "its id is"},
		"a line of another release":           {replaced(1, `"recipe":"v1"`, `"recipe":"v2"`), 2, "another release"},
		"a line that was cut off":             {good[:len(good)-1], 5, "truncated"},
		"two values in a line":                {replaced(1, "\n", "{}\n"), 2, "after top-level value"},
		"a second line that begins the chain": {replaced(1, `"sequence":2`, `"sequence":1`), 2, "changed"},
		"nothing but whole":                   {good, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			paths := write(t, c.text)
			sum, err := Verify(paths, "", nil)
			if c.line == 0 {
				if err != nil || sum.Lines == 0 {
					t.Errorf("%+v, %v", sum, err)
				}
				return
			}
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.Line != c.line || broken.File != paths[0] || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want line %d and %q", err, c.line, c.says)
			}
		})
	}

	// A stored hash reveals a recomputed chain, and a changed end.
	anchor := hashOf(bytes.TrimSuffix(lines[4], []byte("\n")))
	for name, c := range map[string]struct {
		text     []byte
		anchored bool
	}{
		"as it was": {good, true}, "made anew": {other, false}, "its end is gone": {join(lines[:4]...), false},
	} {
		if sum, err := Verify(write(t, c.text), anchor, nil); err != nil || sum.Anchored != c.anchored {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
}

// Decoding a line and encoding it again gives the same bytes.
func FuzzLine(f *testing.F) {
	for _, line := range bytes.SplitAfter(chain(f, 3), []byte("\n")) {
		f.Add(bytes.TrimSuffix(line, []byte("\n")))
	}
	f.Add([]byte(`{"recipe":"v1","sequence":1,"time":"2026-11-21T12:00:00+01:00","before":"","id":"","kind":"x","object":{"kind":"","name":""},"record":{"a": 1}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parse(line)
		if err != nil {
			return
		}
		again, err := encodeJSON(e)
		if err != nil || !bytes.Equal(again, line) {
			t.Errorf("%q became %q (%v)", line, again, err)
		}
		if bytes.ContainsRune(line, '\n') {
			t.Errorf("%q is more than a line", line)
		}
	})
}

// The line of any event can be read back unchanged. Otherwise it would be reported as
// edited, and no controller would continue the file.
func TestLineOfAnyText(t *testing.T) {
	for _, s := range []string{"a\xffb", "\xff\xfe", "\\\xff", `\ufffd`, "\ufffd", "\u2028\u200b\x00\x7f\"<>&\U000e0001"} {
		f := Event{Kind: NodeJoined, Object: Object{Kind: "Node", Name: s}, Key: s, Message: s, Record: []byte(`{"a":"\ufffd \u200b <x>"}`)}
		line, _, err := Head{}.EncodeNext(f, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		e, _, err := Head{}.Check(line)
		if err != nil || e.Message != strings.ToValidUTF8(s, "\ufffd") && e.Message != string([]rune(s)) || e.ID != f.ID() {
			t.Errorf("%q: %v, read as %q", s, err, e.Message)
		}
	}
}

// Escaping is part of the recipe: a line with another set of escaped characters has another
// hash, and would not verify with another release.
func TestEscapedCharacters(t *testing.T) {
	escaped := [][2]rune{
		{0x7f, 0x9f}, {0xad, 0xad}, {0x61c, 0x61c}, {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},
		{0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
	}
	for _, of := range escaped {
		for r, want := range map[rune]bool{of[0] - 1: false, of[0]: true, of[1]: true, of[1] + 1: false} {
			text := string(canonicalJSON(Object{Name: string(r)}))
			if got := !strings.ContainsRune(text, r); got != want {
				t.Errorf("%U is escaped: %t, want %t in %s", r, got, want, text)
			}
			var o Object
			if err := json.Unmarshal([]byte(text), &o); err != nil || o.Name != string(r) {
				t.Errorf("%U is read as %q (%v)", r, o.Name, err)
			}
		}
	}
}

// A line has at most the maximum length, which readers rely on.
func TestLongestLine(t *testing.T) {
	of := func(n int) Event {
		f := joined(1)
		f.Message = strings.Repeat("x", n)
		return f
	}
	line, _, err := Head{}.EncodeNext(of(1), noon)
	if err != nil {
		t.Fatal(err)
	}
	room := maxLine - len(line) + 1
	if line, _, err = (Head{}).EncodeNext(of(room), noon); err != nil || len(line) != maxLine {
		t.Errorf("a line of %d bytes: %v", len(line), err)
	}
	if _, _, err = (Head{}).EncodeNext(of(room+1), noon); err == nil || !strings.Contains(err.Error(), "for a line") {
		t.Errorf("a line of one byte more: %v", err)
	}
}
