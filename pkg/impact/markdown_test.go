package impact

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	renderer "github.com/yuin/goldmark/renderer/html"

	"github.com/osm-gitops/osm-gitops/pkg/githost"
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

// Of many changes, a comment shows pools and titles of differences.
func TestMarkdownOfManyChanges(t *testing.T) {
	r := wide(2000, 1, 1)
	r.RejectedFiles, r.Rejections = nil, nil
	text := r.Markdown()
	if !strings.Contains(text, "\n| `") || strings.Count(text, "\n<details>") < 10 {
		t.Errorf("pools or titles are missing:\n%.2000s", text)
	}
}

// The text of a profile is not markup, does not end its block or cell, and mentions no users
// (security.md 28, 45).
func TestMarkdownHoldsText(t *testing.T) {
	r := wide(2, 2, 2)
	text := r.Markdown()
	if !strings.Contains(text, "<script>") {
		t.Fatal("the content is gone")
	}
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Error("there are control characters")
	}
	page := renderMarkdown(t, text)
	if n := strings.Count(page, "<td>"); n != 5*r.Pools {
		t.Errorf("the tables of %d pools have %d cells, want 5 for each", r.Pools, n)
	}
	if opened, closed := strings.Count(page, "<details>"), strings.Count(page, "</details>"); opened != closed || opened != len(r.Changes)+1 {
		t.Errorf("%d parts begin and %d end", opened, closed)
	}
	outside := inCode.ReplaceAllString(page, "")
	for _, bad := range []string{"@", "<script", "evil", "<strong>b", "<a "} {
		if strings.Contains(outside, bad) {
			t.Errorf("%q is outside of code:\n%s", bad, outside)
		}
	}
}

// Addresses of a repository and its files are links, and nothing else.
func TestMarkdownLinks(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for _, repository := range []string{"https://github.com/example/osps", "https://gitlab.com/a)@everyone/<b>&quot;\"'[x](y)|"} {
		links := githost.LinksOf(repository, nil)
		r := &Report{Head: Revision{Name: "HEAD", Commit: commit, URL: links.CommitURL(commit)}}
		for _, path := range []string{"osps/small.yaml", "a)@team `|`[x](https://evil.example)&gt;<b>.yaml"} {
			r.RejectedFiles = append(r.RejectedFiles, RejectedFile{Path: path, Line: 7, Message: "wrong", URL: links.LineURL(commit, path, 7)})
		}
		page := renderMarkdown(t, r.Markdown())
		var got []string
		for _, m := range anchor.FindAllStringSubmatch(page, -1) {
			got = append(got, html.UnescapeString(m[1]))
		}
		if want := []string{r.Head.URL, r.RejectedFiles[0].URL, r.RejectedFiles[1].URL}; !slices.EqualFunc(got, want, sameURL) {
			t.Errorf("links are\n%s\nwant\n%s\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), page)
		}
		if outside := anchor.ReplaceAllString(inCode.ReplaceAllString(page, ""), ""); strings.ContainsAny(outside, "@[|") {
			t.Errorf("there is more than links:\n%s", outside)
		}
	}
}

var (
	inCode = regexp.MustCompile(`(?s)<code[^>]*>[^<]*</code>`)
	anchor = regexp.MustCompile(`<a href="([^"]*)">`)
)

// sameURL compares what addresses mean: a renderer may escape more characters.
func sameURL(a, b string) bool {
	x, err := url.Parse(a)
	y, err2 := url.Parse(b)
	return err == nil && err2 == nil && x.Host == y.Host && x.Path == y.Path && x.Fragment == y.Fragment && x.RawQuery == y.RawQuery
}

// renderMarkdown returns the page that GitHub would sanitize: HTML in the text stays.
func renderMarkdown(t *testing.T, text string) string {
	t.Helper()
	var page strings.Builder
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(renderer.WithUnsafe()))
	if err := md.Convert([]byte(text), &page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}
