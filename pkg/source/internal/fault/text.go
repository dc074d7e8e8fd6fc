package fault

import "strconv"

// Printable escapes what a terminal or a page would not show as it is.
func Printable(path string) string {
	quoted := strconv.Quote(path)
	return quoted[1 : len(quoted)-1]
}

// Shorten keeps a stranger's text from filling a message.
func Shorten(s string) string {
	const most = 200 // bytes
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
