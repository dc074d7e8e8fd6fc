package impact

import (
	"fmt"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// maxNames bounds the named pools in text; JSON has all.
const maxNames = 20

// Text formats a report for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s -> %s\n", r.Summary, r.Base, r.Head)
	for _, p := range r.Profiles {
		fmt.Fprintf(&b, "  %s\n", p.sentence(plain))
	}
	for i, f := range r.RejectedFiles {
		if i == 0 {
			b.WriteString("refused files\n")
		}
		fmt.Fprintf(&b, "  %s\n", indented(f.String()))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	for _, f := range r.Rejections {
		fmt.Fprintf(&b, "\nREFUSED%s: %s\n  %s\n", f.bothRevisionsSuffix(), joinPoolNames(f.Pools, plain), indented(f.Reason))
	}
	for _, c := range r.Changes {
		c.writeText(&b)
	}
	if r.hasPlaceholder() {
		fmt.Fprintf(&b, "\nnote: %s\n", placeholderNote)
	}
	for i, u := range r.Unchanged {
		if i == 0 {
			b.WriteString("\nunchanged\n")
		}
		fmt.Fprintf(&b, "  %s: %s\n", u.Reason, joinPoolNames(u.Pools, plain))
	}
	return b.String()
}

// String returns the name with the commit.
func (r Revision) String() string {
	const digits = 12
	if r.Commit == "" || strings.HasPrefix(r.Commit, r.Name) {
		return r.Name
	}
	return fmt.Sprintf("%s (%s)", r.Name, r.Commit[:min(digits, len(r.Commit))])
}

// formatLocation names the file, and the line if it is known.
func (f RejectedFile) formatLocation() string {
	if f.Line > 0 {
		return fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	return f.Path
}

func (f RejectedFile) String() string {
	where := f.formatLocation()
	if f.Field != "" {
		where += ": " + f.Field
	}
	return where + ": " + f.Message
}

func (f PoolRejection) bothRevisionsSuffix() string {
	if f.Before {
		return " at both"
	}
	return ""
}

// quote makes a value safe for the output format.
type quote func(string) string

func plain(s string) string { return s }

func (p ProfileChange) sentence(q quote) string {
	switch p.Change {
	case ProfileAdded:
		return fmt.Sprintf("%s %s added: %s", q(p.Name), q(p.To), q(p.Path))
	case ProfileRemoved:
		return fmt.Sprintf("%s removed, which was %s: %s", q(p.Name), q(p.From), q(p.Path))
	}
	return fmt.Sprintf("%s %s -> %s %s: %s", q(p.Name), q(p.From), q(p.To), p.Change, q(p.Path))
}

// placeholderNote explains placeholders.
const placeholderNote = PlaceholderCommit + ", " + placeholderRepository + " and " + placeholderDigest + " are placeholders: their values are known after the merge"

// hasPlaceholder reports whether a difference shows a placeholder.
func (r *Report) hasPlaceholder() bool {
	for _, c := range r.Changes {
		for _, f := range c.Files {
			for _, p := range []string{PlaceholderCommit, placeholderRepository, placeholderDigest} {
				if strings.Contains(f.Diff, p) {
					return true
				}
			}
		}
	}
	return false
}

// summarize says whether head can be merged, and what it changes.
func (r *Report) summarize() string {
	return strings.Join(append([]string{r.describeOutcome()}, r.describeCounts()...), "; ")
}

// describeOutcome says whether head can be merged: the problems if not, otherwise how many pools
// change.
func (r *Report) describeOutcome() string {
	var wrong []string
	if n := len(r.RejectedFiles); n > 0 {
		wrong = append(wrong, phrase.Count(n, "mistake")+" in files")
	}
	pools := 0
	for _, f := range r.Rejections {
		// Pools that were rejected before are not affected by this change.
		if !f.Before {
			pools += len(f.Pools)
		}
	}
	if pools > 0 {
		wrong = append(wrong, phrase.Count(pools, "pool")+" without what they request")
	}
	changed, _ := r.countAffected()
	switch {
	case len(wrong) > 0:
		return "Cannot be merged: " + strings.Join(wrong, ", ")
	case changed == 0 && len(r.Profiles) > 0:
		return fmt.Sprintf("Changes %s, no pool", phrase.Count(len(r.Profiles), "profile"))
	case r.Differs():
		return fmt.Sprintf("Changes %d of %s", changed, phrase.Count(r.Pools, "pool"))
	}
	return "No change"
}

// describeCounts says what happens to how many pools, apart from the verdict.
func (r *Report) describeCounts() []string {
	changed, replaced := r.countAffected()
	rejected := r.countRejected()
	var out []string
	if r.BlocksMerge() {
		out = append(out, fmt.Sprintf("changes %d of %s", changed, phrase.Count(r.Pools, "pool")))
	}
	switch {
	case replaced > 0:
		out = append(out, fmt.Sprintf("running machines of %d are replaced", replaced))
	case changed > 0:
		out = append(out, "running machines stay")
	}
	if rejected > 0 {
		out = append(out, fmt.Sprintf("%d cannot have what they request", rejected))
	}
	if same := r.Pools - changed - rejected; same > 0 && (r.BlocksMerge() || changed > 0) {
		out = append(out, fmt.Sprintf("%d do not change", same))
	}
	return out
}

// joinPoolNames lists the first pools.
func joinPoolNames(pools []string, q quote) string {
	var out []string
	for _, p := range pools {
		out = append(out, q(p))
	}
	return phrase.First(out, maxNames)
}

func indented(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }

// title describes a change and its pools.
func (c Change) title(q quote) string {
	title := fmt.Sprintf("%s %s -> %s: ", q(c.Profile), q(c.From), q(c.To))
	if c.From == "" {
		title = fmt.Sprintf("%s %s, the first valid version: ", q(c.Profile), q(c.To))
	}
	title += phrase.Count(len(c.Pools), "pool") + ", "
	switch {
	case c.From == "":
		return title + "everything is new"
	case len(c.Files) == 0:
		return title + "with equal files"
	}
	return title + phrase.Count(len(c.Files), "file")
}

// equalNote explains a change without files.
const equalNote = "nodes get the same content except the version, the commit and the digest in it"

func (c Change) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n", c.title(plain))
	for _, p := range c.Pools[:min(len(c.Pools), maxNames)] {
		fmt.Fprintf(b, "  %s\n", p.sentence(plain))
	}
	if more := len(c.Pools) - maxNames; more > 0 {
		fmt.Fprintf(b, "  and %s more\n", phrase.Count(more, "pool"))
	}
	if len(c.Files) == 0 && c.From != "" {
		fmt.Fprintf(b, "  %s\n", equalNote)
	}
	for _, f := range c.Files {
		fmt.Fprintf(b, "  %s\n", f.sentence(plain))
		for line := range strings.SplitSeq(strings.TrimSuffix(f.Diff, "\n"), "\n") {
			if line != "" {
				fmt.Fprintf(b, "    %s\n", line)
			}
		}
	}
}

// sentence describes a pool.
func (a Affected) sentence(q quote) string {
	text := q(a.Name) + ": running machines " + a.describeMachines(q)
	if a.Has != "" {
		text += ", has " + q(a.Has) + " now"
	}
	return text + ", user-data " + a.UserData.sentence(a.Provider, q)
}

// describeMachines says what happens to running machines, and when.
func (a Affected) describeMachines(q quote) string {
	text := "stay"
	if a.Replaced {
		text = "are replaced"
	}
	if len(a.Windows) > 0 { // only of machines that are replaced
		var windows []string
		for _, w := range a.Windows {
			windows = append(windows, q(w))
		}
		text += " in maintenance windows " + strings.Join(windows, " and ")
	}
	if a.Wave != nil {
		text += fmt.Sprintf(", wave %d", *a.Wave)
	}
	return text
}

func (u UserData) sentence(provider string, q quote) string {
	text := ""
	if u.Before > 0 {
		text += fmt.Sprintf("%d -> ", u.Before)
	}
	text += phrase.Count(u.After, "byte")
	if u.Counted != u.After {
		text += fmt.Sprintf(", which count as %d", u.Counted)
	}
	return text + fmt.Sprintf(" of %d for %s (%d%%)", u.Limit, q(provider), u.Counted*100/max(u.Limit, 1))
}

// sentence describes a file.
func (f FileDiff) sentence(q quote) string {
	text := fmt.Sprintf("%s %s %s", f.Stage, q(f.Path), f.Change)
	switch {
	case f.Mode != "":
		text += ", mode " + f.Mode
	case f.OldMode != f.NewMode:
		text += fmt.Sprintf(", mode %s -> %s", f.OldMode, f.NewMode)
	}
	if f.Diff == "" && f.OldMode == f.NewMode && f.Change == "changed" {
		text += " in text that is hidden as a possible credential"
	}
	return text
}

// truncatedDiff returns the beginning of a difference, for limited space.
func (f FileDiff) truncatedDiff(lines, size int) string {
	all := strings.SplitAfter(f.Diff, "\n")
	included, n := 0, 0
	for _, line := range all {
		if n += len(line); included == lines || n > size {
			break
		}
		included++
	}
	if included == len(all) {
		return f.Diff
	}
	if included == 0 { // one long line
		return redact.Shorten(f.Diff, size) + "\n"
	}
	return strings.Join(all[:included], "") + fmt.Sprintf("… %s more\n", phrase.Count(len(all)-included, "line"))
}
