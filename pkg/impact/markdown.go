package impact

import (
	"fmt"
	"html"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

const (
	// maxComment leaves room for text that a workflow adds: GitHub accepts 65,536 characters.
	maxComment = 60_000
	// Limits for one file.
	maxFileLines, maxFileBytes = 150, 8 << 10
	// maxCommentMessage bounds a message in a comment, in bytes.
	maxCommentMessage = 600
)

// CommentMarker is the first line of Markdown, so that a workflow can find and replace the
// comment.
const CommentMarker = "<!-- osm-gitops diff -->"

// Markdown formats a report for a comment on a pull request. Names and contents of
// profiles, files and pools are code, fenced with more backticks than they contain, or
// escaped: they cannot end their block, be markup, or mention users.
func (r *Report) Markdown() string { return r.markdown(maxComment) }

const closing = "</details>\n\n"

func (r *Report) markdown(limit int) string {
	c := comment{left: limit - 400} // for the note about omitted parts
	c.add(CommentMarker + "\n" + fmt.Sprintf("**%s**\n\n%s → %s\n\n", r.Summary, code(r.Base.String()), code(r.Head.String())))
	for _, p := range r.Profiles {
		c.add("- " + p.sentence(code) + "\n")
	}
	c.addRejectedFiles(r)
	for i, note := range r.Notes {
		if i == 0 {
			c.add("\n**Notes**\n\n")
		}
		c.add("- " + code(redact.Shorten(note, maxCommentMessage)) + "\n")
	}
	c.b.WriteString("\n")
	var sections []section
	for _, change := range r.Changes {
		if s := change.section(); c.hasSpace(len(s.open) + len(closing)) {
			sections = append(sections, s)
		}
	}
	tail := c.unchanged(r.Unchanged)
	c.sections(sections)
	c.b.WriteString(tail)
	if r.hasPlaceholder() {
		fmt.Fprintf(&c.b, "_%s._\n\n", placeholderNote)
	}
	if c.omitted > 0 {
		fmt.Fprintf(&c.b, "_%s omitted, since the size of a comment is limited: `osm-gitops diff -o text` prints everything._\n", counted(c.omitted, "part"))
	}
	return c.b.String()
}

// comment is text of a bounded length.
type comment struct {
	b       strings.Builder
	left    int
	omitted int
}

// hasSpace reserves n bytes, if they are available.
func (c *comment) hasSpace(n int) bool {
	if n > c.left {
		c.omitted++
		return false
	}
	c.left -= n
	return true
}

func (c *comment) add(text string) {
	if c.hasSpace(len(text)) {
		c.b.WriteString(text)
	}
}

// addRejectedFiles lists errors at head.
func (c *comment) addRejectedFiles(r *Report) {
	for i, f := range r.RejectedFiles {
		if i == 0 {
			c.add("\n**Refused files**\n\n")
		}
		f.Message = redact.Shorten(f.Message, maxCommentMessage)
		c.add("- " + code(f.String()) + "\n")
	}
	for i, f := range r.Rejections {
		if i == 0 {
			c.add("\n**Rejected pools**, which retain their configuration\n\n")
		}
		c.add(fmt.Sprintf("- %s%s: %s\n", names(f.Pools, code), f.since(), code(redact.Shorten(f.Reason, maxCommentMessage))))
	}
}

// section is a collapsible part: a change with its files.
type section struct {
	open  string
	files []string
}

func (c Change) section() section {
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n", c.title(escaped))
	for _, p := range c.Pools[:min(len(c.Pools), maxNames)] {
		fmt.Fprintf(&b, "- %s\n", p.sentence(code))
	}
	if more := len(c.Pools) - maxNames; more > 0 {
		fmt.Fprintf(&b, "- and %s more\n", counted(more, "pool"))
	}
	if len(c.Files) == 0 && c.From != "" {
		fmt.Fprintf(&b, "\n%s.\n", equalNote)
	}
	b.WriteString("\n")
	s := section{open: b.String()}
	for _, f := range c.Files {
		text := f.sentence(code) + "\n\n"
		if f.Diff != "" {
			text += fenced(f.cut(maxFileLines, maxFileBytes))
		}
		s.files = append(s.files, text)
	}
	return s
}

// sections writes changes; files are omitted if there is no room.
func (c *comment) sections(all []section) {
	for _, s := range all {
		c.b.WriteString(s.open)
		for _, f := range s.files {
			c.add(f)
		}
		c.b.WriteString(closing)
	}
}

// unchanged reserves room for the last part, and returns it.
func (c *comment) unchanged(all []Unchanged) string {
	if len(all) == 0 {
		return ""
	}
	pools := 0
	for _, u := range all {
		pools += len(u.Pools)
	}
	title := fmt.Sprintf("<details><summary>%s not changed</summary>\n\n", counted(pools, "pool"))
	if !c.hasSpace(len(title) + 1 + len(closing)) {
		return ""
	}
	list := comment{left: c.left}
	list.b.WriteString(title)
	for _, u := range all {
		list.add(fmt.Sprintf("- %s: %s\n", code(u.Reason), names(u.Pools, code)))
	}
	c.left, c.omitted = list.left, c.omitted+list.omitted
	return list.b.String() + "\n" + closing
}

// code formats a text on one line as code, with more backticks than it contains.
func code(s string) string {
	s = strings.Join(strings.Fields(redact.Printable(s)), " ")
	if s == "" {
		return "` `"
	}
	fence := backticks(s, 0)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// fenced formats a difference as a code block that its content cannot end.
func fenced(s string) string {
	s = redact.Printable(s)
	fence := backticks(s, 2)
	return fence + "diff\n" + strings.TrimSuffix(s, "\n") + "\n" + fence + "\n\n"
}

// backticks returns one more than the longest run in a text, and more than least.
func backticks(s string, least int) string {
	run := 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		least = max(least, run)
	}
	return strings.Repeat("`", least+1)
}

// escaped escapes for HTML. Code mentions no users.
func escaped(s string) string {
	return "<code>" + html.EscapeString(strings.Join(strings.Fields(redact.Printable(s)), " ")) + "</code>"
}
