package shell

import "strings"

// What is not known of a text is marked in it: the name of what would be there
// between two characters that no script has.
const (
	holeBegins = "\uE000"
	holeEnds   = "\uE001"
	holeSpace  = "\uE002" // in a name, so that nothing splits it
)

// Hole stands for a text of which the name is known alone.
func Hole(name string) string {
	const longest = 60
	name = strings.NewReplacer(holeBegins, "", holeEnds, "", " ", holeSpace, "\t", holeSpace, "\n", holeSpace, "*", "", "?", "", "[", "").Replace(name)
	if r := []rune(name); len(r) > longest {
		name = string(r[:longest]) + "..."
	}
	return holeBegins + name + holeEnds
}

// HasHole reports whether a part of a text is not known.
func HasHole(text string) bool { return strings.ContainsAny(text, holeBegins+holeEnds) }

// IsHole reports whether nothing of a text is known.
func IsHole(text string) bool {
	rest, ok := strings.CutPrefix(text, holeBegins)
	return ok && strings.Index(rest, holeEnds) == len(rest)-len(holeEnds)
}

// Shown is a text for people: "${name}" for what is not known.
func Shown(text string) string {
	return strings.NewReplacer(holeBegins, "${", holeEnds, "}", holeSpace, " ").Replace(text)
}

// Known is what of a text is known.
func Known(text string) string {
	var b strings.Builder
	for text != "" {
		before, rest, ok := strings.Cut(text, holeBegins)
		b.WriteString(before)
		if !ok {
			break
		}
		_, text, _ = strings.Cut(rest, holeEnds)
	}
	return b.String()
}
