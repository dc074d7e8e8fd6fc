package dryrun

import (
	"fmt"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Text returns the report for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	b.WriteString("Nothing was written. The controller would do this with these flags:\n")
	for _, w := range r.Settings {
		fmt.Fprintf(&b, "\nWARNING: %s\n", w)
	}
	for _, s := range r.Sources {
		state := "not ready"
		if s.Ready {
			state = "ready"
		}
		fmt.Fprintf(&b, "\nProfileSource %s: %s\n", s.Name, indented(strings.TrimSuffix(state+": "+s.Message, ": ")))
		s.writeText(&b)
	}
	for _, p := range r.Pools {
		fmt.Fprintf(&b, "\npool %s: %s\n", p.Name, p.stateText())
		for _, d := range p.Documents {
			fmt.Fprintf(&b, "  the %s document %s\n", d.Stage, d.changeText())
		}
		fmt.Fprintf(&b, "  machines notice: %s\n", p.Machines)
		p.writeText(&b)
	}
	if len(r.Nodes) > 0 {
		b.WriteString("\nnodes\n")
	}
	for _, n := range r.Nodes {
		n.writeText(&b)
	}
	if len(r.References) > 0 {
		fmt.Fprintf(&b, "\nPools refer to objects outside of their namespaces. To serve them run the controller with --%s=%s, or copy these objects into the namespaces of the pools, and refer to the copies\n",
			render.ReferencesFlag, strings.Join(r.References, ","))
	}
	fmt.Fprintf(&b, "\n%s\n", r.Summary())
	return b.String()
}

func (p Pool) stateText() string {
	switch {
	case p.Problem != "":
		return "COULD NOT BE CHECKED"
	case p.Waits:
		return "waits"
	case p.Rejected != "":
		return "REFUSED: " + indented(p.Rejected)
	case len(p.Writes) == 0:
		return "nothing to do"
	}
	return fmt.Sprintf("%d writes", len(p.Writes))
}

func (d Document) changeText() string {
	switch d.Change {
	case DocumentMissing:
		return "does not exist"
	case DocumentUntouched:
		return "does not change"
	case DocumentIdentical:
		return "has identical content: only labels and annotations change"
	case DocumentCreated:
		return "is created"
	case DocumentDeleted:
		return "is deleted"
	}
	out := "is written: it means " + d.Equivalence
	if d.Absent {
		out = "is deleted and created: it means " + d.Equivalence
	}
	if len(d.Differs) > 0 {
		out += ": " + phrase.First(d.Differs, mostNamed)
	}
	return out
}

func (s Subject) writeText(b *strings.Builder) {
	for _, w := range s.Writes {
		fmt.Fprintf(b, "  %s\n", w)
	}
	for _, e := range s.Events {
		fmt.Fprintf(b, "  event %s: %s\n", e.Reason, indented(e.Text))
	}
	if s.Problem != "" {
		fmt.Fprintf(b, "  PROBLEM: %s\n", indented(s.Problem))
	}
}

// String describes a request for users.
func (w Write) String() string {
	name := w.Name
	if w.Namespace != "" {
		name = w.Namespace + "/" + name
	}
	what := w.Kind
	switch w.Part {
	case "":
	case "token":
		what = "token of " + w.Kind
	default:
		what = w.Part + " of " + w.Kind
	}
	out := fmt.Sprintf("%s %s %s", w.Verb, what, name)
	if w.Cluster != "" {
		out += " in the " + w.Cluster + " cluster"
	}
	if len(w.What) > 0 {
		out += " (" + summarizeChanges(w.What) + ")"
	}
	return out
}

// summarizeChanges names changes, and counts them if there are many.
func summarizeChanges(what []string) string {
	const most = 3
	if len(what) <= most {
		return strings.Join(what, ", ")
	}
	counts := map[string]int{}
	order := []string{}
	alone := map[string]string{}
	for _, name := range what {
		kind, _, _ := strings.Cut(name, " ")
		if counts[kind] == 0 {
			order = append(order, kind)
		}
		counts[kind]++
		alone[kind] = name
	}
	for i, kind := range order {
		order[i] = alone[kind]
		if n := counts[kind]; n > 1 {
			order[i] = fmt.Sprintf("%d %ss", n, kind)
		}
	}
	return strings.Join(order, ", ")
}

func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n    ") }

// Summary returns the counts, in one line.
func (r *Report) Summary() string {
	var equivalent, changed, fresh, token, untouched, rejected, waiting, replaced, unknown int
	for _, p := range r.Pools {
		if p.Replaced {
			replaced++
		}
		switch {
		case p.Problem != "":
			unknown++
		case p.Waits:
			waiting++
		case p.Rejected != "":
			rejected++
		case p.hasEquivalence(EquivalenceOther):
			changed++
		case p.hasChange(DocumentCreated):
			fresh++
		case p.hasEquivalence(EquivalenceSameToken):
			token++
		case p.hasChange(DocumentIdentical), p.hasChange(DocumentWritten):
			equivalent++
		default:
			untouched++
		}
	}
	out := fmt.Sprintf("%d pools", len(r.Pools))
	for _, c := range []struct {
		n    int
		text string
	}{
		{untouched, "%d with nothing to do for their documents"}, {equivalent, "%d whose documents have the same meaning"}, {token, "%d whose documents get another token"},
		{fresh, "%d that get their first documents"}, {changed, "%d whose documents get another meaning"}, {replaced, "%d whose running machines are replaced"},
		{waiting, "%d that wait"}, {rejected, "%d refused"}, {unknown, "%d that could not be checked"},
	} {
		if c.n > 0 {
			out += fmt.Sprintf(", "+c.text, c.n)
		}
	}
	return out + fmt.Sprintf("; %d writes", r.Writes)
}

func (p Pool) hasEquivalence(equivalence string) bool {
	return slices.ContainsFunc(p.Documents, func(d Document) bool { return d.Equivalence == equivalence })
}

func (p Pool) hasChange(change string) bool {
	return slices.ContainsFunc(p.Documents, func(d Document) bool { return d.Change == change })
}
