package source

import "strconv"

// printable escapes what a terminal or a page would not show as it is.
func printable(path string) string {
	quoted := strconv.Quote(path)
	return quoted[1 : len(quoted)-1]
}

// shorten keeps a stranger's text from filling a message.
func shorten(s string) string {
	const most = 200 // bytes
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
