package shell

import "strings"

// An unknown part of a text is marked: its name is enclosed in two characters that occur
// in no script.
const (
	holeBegins = "\uE000"
	holeEnds   = "\uE001"
	holeSpace  = "\uE002" // replaces a space in a name, so that the name is not split
)

// Hole returns the mark for a text of which only the name is known.
func Hole(name string) string {
	const longest = 60
	name = strings.NewReplacer(holeBegins, "", holeEnds, "", " ", holeSpace, "\t", holeSpace, "\n", holeSpace, "*", "", "?", "", "[", "").Replace(name)
	if r := []rune(name); len(r) > longest {
		name = string(r[:longest]) + "..."
	}
	return holeBegins + name + holeEnds
}

// HasHole reports whether a part of a text is unknown.
func HasHole(text string) bool { return strings.ContainsAny(text, holeBegins+holeEnds) }

// IsHole reports whether a whole text is unknown.
func IsHole(text string) bool {
	rest, ok := strings.CutPrefix(text, holeBegins)
	return ok && strings.Index(rest, holeEnds) == len(rest)-len(holeEnds)
}

// Shown returns a text for messages, with "${name}" for unknown parts.
func Shown(text string) string {
	return strings.NewReplacer(holeBegins, "${", holeEnds, "}", holeSpace, " ").Replace(text)
}

// Known returns the known parts of a text.
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
