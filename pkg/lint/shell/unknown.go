package shell

import "strings"

// An unknown part of a text is marked: its name is enclosed in two characters that occur
// in no script.
const (
	unknownBegins = "\uE000"
	unknownEnds   = "\uE001"
	unknownSpace  = "\uE002" // replaces a space in a name, so that the name is not split
)

// inUnknownName removes from a name what would end the mark or match as a pattern, and replaces blanks.
var inUnknownName = strings.NewReplacer(unknownBegins, "", unknownEnds, "", " ", unknownSpace, "\t", unknownSpace, "\n", unknownSpace, "*", "", "?", "", "[", "")

// UnknownText returns the mark for a text of which only the name is known.
func UnknownText(name string) string {
	const longest = 60
	name = inUnknownName.Replace(name)
	if r := []rune(name); len(r) > longest {
		name = string(r[:longest]) + "..."
	}
	return unknownBegins + name + unknownEnds
}

// HasUnknown reports whether a part of a text is unknown.
func HasUnknown(text string) bool { return strings.ContainsAny(text, unknownBegins+unknownEnds) }

// IsUnknown reports whether a whole text is unknown.
func IsUnknown(text string) bool {
	rest, ok := strings.CutPrefix(text, unknownBegins)
	return ok && strings.Index(rest, unknownEnds) == len(rest)-len(unknownEnds)
}

// DisplayText returns a text for messages, with "${name}" for unknown parts.
func DisplayText(text string) string {
	return strings.NewReplacer(unknownBegins, "${", unknownEnds, "}", unknownSpace, " ").Replace(text)
}

// UnknownAsVariables returns a script in which a variable of its name replaces each unknown part.
func UnknownAsVariables(text string) string {
	return strings.NewReplacer(unknownBegins, "${", unknownEnds, "}").Replace(text)
}

// KnownParts returns the known parts of a text.
func KnownParts(text string) string {
	var b strings.Builder
	for text != "" {
		before, rest, ok := strings.Cut(text, unknownBegins)
		b.WriteString(before)
		if !ok {
			break
		}
		_, text, _ = strings.Cut(rest, unknownEnds)
	}
	return b.String()
}
