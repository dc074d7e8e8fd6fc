package impact

import (
	"fmt"
	"html"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/phrase"
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

// maxCellFiles bounds the named files in a row of the table.
const maxCellFiles = 3

// Markdown formats a report for a comment on a pull request. Names and contents of
// profiles, files and pools are code, fenced with more backticks than they contain, or
// escaped: they cannot end their block or cell, be markup, or mention users.
func (r *Report) Markdown() string { return r.markdown(maxComment) }

const closing = "</details>\n\n"

func (r *Report) markdown(limit int) string {
	c := comment{left: limit - 400} // for the note about omitted parts
	effect := strings.Join(r.describeCounts(), "; ")
	if effect != "" {
		effect = ": " + effect
	}
	c.addIfSpace(fmt.Sprintf("%s\n### %s\n\n%s → %s%s\n\n", CommentMarker, r.describeOutcome(), inlineCode(r.Base.String()), markdownLink(inlineCode(r.Head.String()), r.Head.URL), effect))
	c.addRejections(r)
	for _, p := range r.Profiles {
		c.addIfSpace("- " + p.sentence(inlineCode) + "\n")
	}
	for i, note := range r.Notes {
		if i == 0 {
			c.addIfSpace("\n**Notes**\n\n")
		}
		c.addIfSpace("- " + inlineCode(redact.Shorten(note, maxCommentMessage)) + "\n")
	}
	c.b.WriteString("\n")
	c.addTable(r.Changes)
	var sections []section
	for _, change := range r.Changes {
		if s := change.section(); c.reserveSpace(len(s.open) + len(closing)) {
			sections = append(sections, s)
		}
	}
	tail := c.reserveAndFormatUnchanged(r.Unchanged)
	c.writeSections(sections)
	c.b.WriteString(tail)
	if r.hasPlaceholder() {
		fmt.Fprintf(&c.b, "_%s._\n\n", placeholderNote)
	}
	if c.omitted > 0 {
		fmt.Fprintf(&c.b, "_%s omitted, since the size of a comment is limited: `osm-gitops diff -o text` prints everything._\n", phrase.Count(c.omitted, "part"))
	}
	return c.b.String()
}

// comment is text of a bounded length.
type comment struct {
	b       strings.Builder
	left    int
	omitted int
}

// reserveSpace reserves n bytes and reports whether there was space; otherwise it counts an
// omission.
func (c *comment) reserveSpace(n int) bool {
	if n > c.left {
		c.omitted++
		return false
	}
	c.left -= n
	return true
}

func (c *comment) addIfSpace(text string) {
	if c.reserveSpace(len(text)) {
		c.b.WriteString(text)
	}
}

// addRejections adds the rejected files and the rejected pools of the report.
func (c *comment) addRejections(r *Report) {
	for i, f := range r.RejectedFiles {
		if i == 0 {
			c.addIfSpace("**Refused files**\n\n")
		}
		message := redact.Shorten(f.Message, maxCommentMessage)
		if f.Field != "" {
			message = f.Field + ": " + message
		}
		c.addIfSpace(fmt.Sprintf("- %s: %s\n", markdownLink(inlineCode(f.formatLocation()), f.URL), inlineCode(message)))
	}
	for i, f := range r.Rejections {
		if i == 0 {
			c.addIfSpace("\n**Rejected pools**, which retain their configuration\n\n")
		}
		c.addIfSpace(fmt.Sprintf("- %s%s: %s\n", joinPoolNames(f.Pools, inlineCode), f.bothRevisionsSuffix(), inlineCode(redact.Shorten(f.Reason, maxCommentMessage))))
	}
	if len(r.RejectedFiles)+len(r.Rejections) > 0 && len(r.Profiles) > 0 {
		c.addIfSpace("\n**Changed profiles**\n\n")
	}
}

// addTable has a row for each changed pool, in at most half of the space, so that there are
// differences too.
func (c *comment) addTable(changes []Change) {
	if len(changes) == 0 {
		return
	}
	t := comment{left: c.left / 2}
	t.addIfSpace("| Pool | Version | Files that change | Running machines | User data |\n|---|---|---|---|---|\n")
	for _, change := range changes {
		rows := change.tableRows()
		for _, row := range rows[:min(len(rows), maxNames)] {
			t.addIfSpace(row)
		}
		if more := len(rows) - maxNames; more > 0 {
			t.addIfSpace(fmt.Sprintf("| and %s more | | | | |\n", phrase.Count(more, "pool")))
		}
	}
	t.addIfSpace("\n")
	c.b.WriteString(t.b.String())
	c.left -= t.b.Len()
	c.omitted += t.omitted
}

func (c Change) tableRows() []string {
	version, files := tableCell(c.Profile)+" "+tableCell(c.To), "all are new"
	if c.From != "" {
		version = fmt.Sprintf("%s %s → %s", tableCell(c.Profile), tableCell(c.From), tableCell(c.To))
		files = c.fileNames()
	}
	var out []string
	for _, p := range c.Pools {
		version := version
		if p.Has != "" {
			version += ", has " + tableCell(p.Has) + " now"
		}
		out = append(out, fmt.Sprintf("| %s | %s | %s | %s | %s |\n", tableCell(p.Name), version, files, p.describeMachines(tableCell), p.UserData.sentence(p.Provider, tableCell)))
	}
	return out
}

func (c Change) fileNames() string {
	if len(c.Files) == 0 {
		return "none, only the version"
	}
	var names []string
	for _, f := range c.Files {
		names = append(names, tableCell(f.Path))
	}
	return phrase.First(names, maxCellFiles)
}

// section is a collapsible part: a change with its files.
type section struct {
	open  string
	files []string
}

func (c Change) section() section {
	var b strings.Builder
	fmt.Fprintf(&b, "<details><summary>%s</summary>\n\n", c.title(escapedHTMLCode))
	var pools []string
	for _, p := range c.Pools {
		pools = append(pools, p.Name)
	}
	fmt.Fprintf(&b, "%s\n", joinPoolNames(pools, inlineCode))
	if len(c.Files) == 0 && c.From != "" {
		fmt.Fprintf(&b, "\n%s.\n", equalNote)
	}
	b.WriteString("\n")
	s := section{open: b.String()}
	for _, f := range c.Files {
		text := f.sentence(inlineCode) + "\n\n"
		if f.Diff != "" {
			text += fencedDiff(f.truncatedDiff(maxFileLines, maxFileBytes))
		}
		s.files = append(s.files, text)
	}
	return s
}

// writeSections writes changes; files are omitted if there is no room.
func (c *comment) writeSections(all []section) {
	for _, s := range all {
		c.b.WriteString(s.open)
		for _, f := range s.files {
			c.addIfSpace(f)
		}
		c.b.WriteString(closing)
	}
}

// reserveAndFormatUnchanged reserves space for the list of unchanged pools, the last part, and returns it.
func (c *comment) reserveAndFormatUnchanged(all []Unchanged) string {
	if len(all) == 0 {
		return ""
	}
	pools := 0
	for _, u := range all {
		pools += len(u.Pools)
	}
	title := fmt.Sprintf("<details><summary>%s not changed</summary>\n\n", phrase.Count(pools, "pool"))
	if !c.reserveSpace(len(title) + 1 + len(closing)) {
		return ""
	}
	list := comment{left: c.left}
	list.b.WriteString(title)
	for _, u := range all {
		list.addIfSpace(fmt.Sprintf("- %s: %s\n", inlineCode(u.Reason), joinPoolNames(u.Pools, inlineCode)))
	}
	c.left, c.omitted = list.left, c.omitted+list.omitted
	return list.b.String() + "\n" + closing
}

// inlineCode formats a text on one line as code, with more backticks than it contains.
func inlineCode(s string) string {
	s = strings.Join(strings.Fields(redact.RemoveControlChars(s)), " ")
	if s == "" {
		return "` `"
	}
	fence := codeFence(s, 0)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return fence + s + fence
}

// tableCell is code in a table: https://github.github.com/gfm/#tables-extension- splits a row before
// it recognizes code.
func tableCell(s string) string { return strings.ReplaceAll(inlineCode(s), "|", `\|`) }

// markdownLink makes formatted text a link to a page of the repository's host, whose address has no
// character that could end it. Markdown would decode "&lt;" in it.
func markdownLink(text, url string) string {
	if url == "" {
		return text
	}
	return "[" + text + "](" + html.EscapeString(url) + ")"
}

// fencedDiff formats a difference as a code block that its content cannot end.
func fencedDiff(s string) string {
	s = redact.RemoveControlChars(s)
	fence := codeFence(s, 2)
	return fence + "diff\n" + strings.TrimSuffix(s, "\n") + "\n" + fence + "\n\n"
}

// codeFence returns a run of backticks, one longer than the longest in a text and longer than
// least.
func codeFence(s string, least int) string {
	run := 0
	for _, r := range s {
		if run++; r != '`' {
			run = 0
		}
		least = max(least, run)
	}
	return strings.Repeat("`", least+1)
}

// escapedHTMLCode escapes for HTML. Code mentions no users.
func escapedHTMLCode(s string) string {
	return "<code>" + html.EscapeString(strings.Join(strings.Fields(redact.RemoveControlChars(s)), " ")) + "</code>"
}
