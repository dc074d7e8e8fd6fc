package fault

import "strconv"

// EscapeUnprintable escapes characters that a terminal or a page does not show unchanged.
func EscapeUnprintable(path string) string {
	quoted := strconv.Quote(path)
	return quoted[1 : len(quoted)-1]
}

// Shorten limits the length of foreign text in a message.
func Shorten(s string) string {
	const most = 200 // bytes
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
