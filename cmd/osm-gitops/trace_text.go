package main

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// traceText is a trail for people: the answer, the chain, and what there is to list.
func traceText(t *tracing) string {
	var b strings.Builder
	fmt.Fprintln(&b, t.Asked)
	answer(&b, t.Trail)
	for _, d := range t.Disagreements {
		field(&b, "DISAGREES", d)
	}
	chain(&b, t.Steps)
	versionLines(&b, t.Versions)
	poolLines(&b, t.Pools)
	bornLines(&b, t.Born)
	diffLines(&b, t.Diff)
	return redact.Printable(b.String()) // security.md 28
}

// field prints what has a name; nothing where it is empty.
func field(b *strings.Builder, name, value string) {
	if value != "" {
		fmt.Fprintf(b, "  %-11s %s\n", name, value)
	}
}

func answer(b *strings.Builder, t *trace.Trail) {
	if t.Version != "" {
		field(b, "profile", t.Profile+" "+t.Version)
	} else if len(t.Versions) > 0 {
		field(b, "profile", t.Profile)
	} else if t.Commit == nil && t.Born == nil {
		field(b, "profile", "not known")
	}
	switch {
	case t.Commit != nil:
		commitLines(b, t.Commit)
	case t.Version != "":
		field(b, "commit", "none: the profile comes from no repository that is known")
	}
	if n := t.Node; n != nil {
		field(b, "evidence", joined(": ", string(n.Evidence), n.Explanation))
		if n.Evidence != "" && n.Provenance == "" {
			field(b, "", "(concluded now, and not yet written down by the controller)")
		}
		if a := n.Agreed; a != nil && a.Status == metav1.ConditionUnknown { // or the evidence says it
			field(b, "its word", a.Message)
		}
		for _, p := range n.Possible {
			field(b, "possible", fmt.Sprintf("%s %s of %s", p.Profile, p.Version, between(p.From, p.Until)))
		}
		if p := n.Bootstrap; p != nil {
			field(b, "bootstrap", fmt.Sprintf("%s %s: its bootstrap document is older than the other", p.Profile, p.Version))
		}
		field(b, "others", strings.Join(n.Others, " "))
	}
	behindLines(b, t.Behind)
}

func commitLines(b *strings.Builder, c *trace.Commit) {
	field(b, "commit", c.Commit)
	field(b, "", c.Link)
	if c.LinkGuessed {
		field(b, "", "(the kind of host was guessed from its name: --git-hosts says it)")
	}
	if c.Change != c.Commit {
		field(b, "change", joined(" ", c.Change, c.ChangeLink))
	}
	if c.SelectedBy != c.Commit {
		field(b, "selected by", c.SelectedBy)
	}
	field(b, "file", joined(" of ", c.Path, c.Repository))
	field(b, "", c.FileLink)
	field(b, "author", joined(", ", c.Author, c.CommittedAt))
	switch {
	case c.Signature != "":
		field(b, "signature", c.Signature)
	case c.Author == "":
		field(b, "signature", "not known, and neither is the author")
	default:
		field(b, "signature", "none is recorded")
	}
}

func behindLines(b *strings.Builder, of *trace.Behind) {
	if of == nil {
		return
	}
	switch {
	case of.State == api.BehindNo:
		field(b, "behind", "no")
	case of.State == api.BehindUnknown:
		field(b, "behind", "not known"+strings.TrimSuffix("; the pool has "+of.Current+" now", "; the pool has  now"))
	case len(of.Versions) == 0: // it went on while the machine booted
		field(b, "behind", fmt.Sprintf("yes; the pool has %s now", of.Current))
	default:
		field(b, "behind", fmt.Sprintf("%s; the pool has %s now", plural(len(of.Versions), "version"), of.Current))
		for _, v := range of.Versions {
			field(b, "", fmt.Sprintf("%s %s since %s %s", v.Profile, v.Version, stamped(v.Since), v.Commit))
		}
	}
}

// chain prints the steps, each with what there is to say about it.
func chain(b *strings.Builder, steps []trace.Step) {
	for i, s := range steps {
		branch, below := "├─", "│ "
		if i == len(steps)-1 {
			branch, below = "└─", "  "
		}
		fmt.Fprintf(b, "%s %s", branch, s.Object)
		if s.State != trace.Found {
			fmt.Fprintf(b, ": %s", strings.ToUpper(string(s.State)))
		}
		if s.Note != "" {
			fmt.Fprintf(b, ": %s", s.Note)
		}
		fmt.Fprintln(b)
		var facts []string
		for _, f := range s.Facts {
			value := f.Value
			if strings.HasSuffix(f.Name, "digest") {
				value = render.ShortDigest(value)
			}
			facts = append(facts, f.Name+" "+value)
		}
		if len(facts) > 0 {
			fmt.Fprintf(b, "%s    %s\n", below, strings.Join(facts, ", "))
		}
	}
}

func versionLines(b *strings.Builder, versions []trace.ProfileVersion) {
	if len(versions) > 0 {
		fmt.Fprintln(b, "versions")
	}
	for _, v := range versions {
		object := v.Object
		if object == "" {
			object = "no object is left"
		}
		current := ""
		if v.Current {
			current = "current"
		}
		fmt.Fprintf(b, "  %s: %s\n", v.Version, joined(", ", current, object, v.Commit, v.Author, v.CommittedAt, plural(v.Pools, "pool"), plural(v.Nodes, "node")))
	}
}

func poolLines(b *strings.Builder, uses []trace.PoolUse) {
	if len(uses) > 0 {
		fmt.Fprintln(b, "pools")
	}
	for _, p := range uses {
		fmt.Fprintf(b, "  %s: %s %s, %s\n", p.Pool, p.Profile, p.Version, between(p.From, p.Until))
	}
}

func bornLines(b *strings.Builder, of *trace.Born) {
	if of == nil {
		return
	}
	if of.Unread != "" {
		fmt.Fprintf(b, "nodes: NodeProvenances cannot be read: %s\n", of.Unread)
		return
	}
	fmt.Fprintf(b, "nodes: %d, of which %d are there and %d behind\n", of.Total, of.Present, of.Behind)
	if len(of.Versions) > 1 {
		for _, v := range of.Versions {
			fmt.Fprintf(b, "  %6d %s\n", v.Nodes, joined(" ", v.Profile, v.Version, v.Commit))
		}
	}
	for _, n := range of.Nodes {
		is := string(n.Evidence)
		if n.Behind == api.BehindYes {
			is += ", behind"
		}
		if n.Removed != nil {
			is += ", gone since " + stamped(*n.Removed)
		}
		fmt.Fprintf(b, "  %s  %s  %s  joined %s  %s\n", n.Name, n.Pool, joined(" ", n.Profile, n.Version), stamped(n.Joined), is)
	}
	if of.Next != "" {
		fmt.Fprintf(b, "  more with --after %s\n", of.Next)
	}
}

func diffLines(b *strings.Builder, d *trace.Diff) {
	if d == nil {
		return
	}
	if len(d.Files) == 0 {
		fmt.Fprintf(b, "nothing changed since in the files of the node\n")
		return
	}
	fmt.Fprintf(b, "from %s to %s\n", d.From, d.To)
	for _, f := range d.Files {
		fmt.Fprintf(b, "--- %s of %s\n+++ %s of %s, %s", f.Path, d.From, f.Path, d.To, f.Stage)
		if f.Change != "changed" {
			fmt.Fprintf(b, ", %s", f.Change)
		}
		if f.OldMode != "" {
			fmt.Fprintf(b, ", mode %s to %s", f.OldMode, f.NewMode)
		}
		fmt.Fprintf(b, "\n%s", f.Diff)
	}
}

// joined joins what is not empty.
func joined(by string, texts ...string) string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, by)
}

func stamped(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

func between(from metav1.Time, until *metav1.Time) string {
	if until == nil {
		return "since " + stamped(from)
	}
	return stamped(from) + " to " + stamped(*until)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
