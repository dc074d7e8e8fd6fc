package impact

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// hostile is text of a profile that would be interpreted in a comment.
const hostile = "</code></details>```\n````\n<script>@everyone</script> [x](https://evil.example) \x1b[31m\u202e#1 | **b**"

func wide(pools, files, lines int) *Report {
	r := &Report{Base: Revision{Name: "main"}, Head: Revision{Name: hostile}, Pools: pools}
	for i := range pools {
		c := Change{Profile: fmt.Sprintf("osp-%d", i), From: "v1.0.0", To: hostile, Pools: []Affected{{Name: "shop/" + hostile, Provider: "aws", UserData: UserData{After: 1, Counted: 1, Limit: 2}}}}
		for j := range files {
			c.Files = append(c.Files, FileDiff{Stage: "bootstrap", Path: fmt.Sprint(hostile, j), Change: "changed", Diff: strings.Repeat("+"+hostile+"\n", lines)})
		}
		r.Changes = append(r.Changes, c)
		r.RejectedFiles = append(r.RejectedFiles, RejectedFile{Path: hostile, Line: 1, Message: hostile})
		r.Rejections = append(r.Rejections, PoolRejection{Reason: hostile, Pools: []string{hostile}})
		r.Unchanged = append(r.Unchanged, Unchanged{Reason: hostile + fmt.Sprint(i), Pools: []string{hostile}})
	}
	return r
}

// A comment has a bounded length, and says what it omits.
func TestMarkdownIsBounded(t *testing.T) {
	for _, r := range []*Report{wide(1, 1, 1), wide(3, 3, 3), wide(40, 3, 100), wide(1, 300, 50), wide(2000, 1, 1), wide(1, 1, 100_000)} {
		text := r.Markdown()
		if len(text) > 65536 {
			t.Errorf("%d bytes for %d pools", len(text), r.Pools)
		}
		if open, closed := strings.Count(text, "\n<details>"), strings.Count(text, "\n</details>\n"); open != closed {
			t.Errorf("%d parts begin and %d end for %d pools", open, closed, r.Pools)
		}
		if left := strings.Contains(text, "omitted, since the size of a comment is limited"); left != (r.Pools >= 40 || len(r.Changes[0].Files) >= 300) {
			t.Errorf("of %d pools something is left out: %v", r.Pools, left)
		}
	}
}

// The text of a profile is not markup, does not end its block, and mentions no users
// (security.md 28, 45).
func TestMarkdownHoldsText(t *testing.T) {
	text := wide(2, 2, 2).Markdown()
	outside := outsideOfCode(t, text)
	for _, bad := range []string{"@", "<script", "evil", "**b**", "\x1b", "\u202e"} {
		if strings.Contains(outside, bad) {
			t.Errorf("%q stands outside of code:\n%s", bad, outside)
		}
	}
	if !strings.Contains(text, "<script>") {
		t.Fatal("the content is gone")
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("what does something to a terminal is there")
	}
}

var tick = regexp.MustCompile("`+")

// outsideOfCode removes fenced blocks, code spans and <code> according to CommonMark:
// https://spec.commonmark.org/0.31.2/#fenced-code-blocks and #code-spans.
func outsideOfCode(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	fence := ""
	for line := range strings.SplitSeq(text, "\n") {
		run := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		switch {
		case fence != "":
			if len(run) >= len(fence) && strings.TrimSpace(line) == run {
				fence = ""
			}
			continue
		case len(run) >= 3 && !strings.Contains(line[len(run):], "`"):
			fence = run
			continue
		}
		if before, rest, ok := strings.Cut(line, "<code>"); ok {
			for ok {
				var code string
				code, rest, _ = strings.Cut(rest, "</code>")
				if strings.ContainsAny(code, "<>") {
					t.Errorf("HTML is not escaped: %q", code)
				}
				out.WriteString(before)
				before, rest, ok = strings.Cut(rest, "<code>")
			}
			line = before
		}
		out.WriteString(withoutSpans(line) + "\n")
	}
	if fence != "" {
		t.Error("a block of code does not end")
	}
	return out.String()
}

func withoutSpans(line string) string {
	var out strings.Builder
	for {
		at := tick.FindStringIndex(line)
		if at == nil {
			return out.String() + line
		}
		out.WriteString(line[:at[0]])
		run, rest := line[at[0]:at[1]], line[at[1]:]
		end := -1
		for _, m := range tick.FindAllStringIndex(rest, -1) {
			if m[1]-m[0] == len(run) {
				end = m[1]
				break
			}
		}
		if end < 0 {
			return out.String() + run + rest
		}
		line = rest[end:]
	}
}
