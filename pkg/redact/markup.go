package redact

import "regexp"

// special is a link of Markdown, a tag of HTML or of Slack, a mention, or its "@" as an
// entity. Slack's are <!channel>, <@user>, <#channel> and <URL|text>:
// https://docs.slack.dev/messaging/formatting-message-text
var special = regexp.MustCompile(`\][(\[]|<[A-Za-z/!?#]|@[A-Za-z0-9]|&(#|commat;)`)

// BreakMarkup inserts a character without width so that a chat or a Markdown viewer shows plain
// text. Bare URLs are unchanged.
func BreakMarkup(s string) string {
	return special.ReplaceAllStringFunc(s, func(m string) string { return m[:1] + "\u200b" + m[1:] })
}
