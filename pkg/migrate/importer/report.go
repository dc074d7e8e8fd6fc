package importer

import (
	"fmt"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// String formats the rejection on one line.
func (r RenderRejection) String() string {
	var b strings.Builder
	if r.Path != "" {
		b.WriteString(r.Path)
		if r.Line > 0 {
			fmt.Fprintf(&b, ":%d", r.Line)
		}
		b.WriteString(": ")
	}
	b.WriteString(r.Object + ": ")
	if r.Field != "" {
		b.WriteString(r.Field + ": ")
	}
	b.WriteString(r.Message)
	if r.Where != "" {
		b.WriteString(" (" + r.Where + ")")
	}
	return b.String()
}

// String formats the note on one line.
func (n Note) String() string {
	if n.Field == "" {
		return n.Object + ": " + n.Message
	}
	return n.Object + ": " + n.Field + ": " + n.Message
}

// String formats the correction on one line.
func (c Correction) String() string {
	return fmt.Sprintf("%s: from %q to %q", c.Field, c.From, c.To)
}

// Readme describes the origin of the profiles of a repository in Markdown.
func Readme(p *Plan) string {
	var b strings.Builder
	b.WriteString("## Where the profiles come from\n\nFrom a cluster, by `osm-gitops import`:\n\n| profile | version | kept as | why |\n|---|---|---|---|\n")
	for _, o := range p.Profiles {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", escapeTableCell(o.Name), escapeTableCell(o.Version), o.Action, escapeTableCell(o.Why))
	}
	b.WriteString("\nOnce its pools use this repository, delete the objects that were imported: as long as they are there, the\n" +
		"controller leaves them alone, and people may take them for what is used.\n")
	return b.String()
}

// escapeTableCell formats text of the cluster for a table in Markdown: without links, tags, mentions
// and code.
func escapeTableCell(s string) string {
	var b strings.Builder
	_, _ = runnerlog.WithoutHidden(&b).Write([]byte(s)) // a Builder returns no error
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "\n", " ", "<", "&lt;", "`", "'").Replace(redact.BreakMarkup(b.String()))
}
