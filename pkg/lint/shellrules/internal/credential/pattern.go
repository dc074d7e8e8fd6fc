package credential

import (
	"regexp"
	"slices"
	"strings"
)

// pattern is a regular expression whose matches contain one of some words. Few texts have one of
// the words, and finding that out takes a fraction of the time of the expression.
type pattern struct {
	form  *regexp.Regexp
	words []string
}

func newPattern(form string, words ...string) pattern {
	return pattern{regexp.MustCompile(form), words}
}

func (p pattern) isPossible(text string) bool {
	return slices.ContainsFunc(p.words, func(word string) bool { return strings.Contains(text, word) })
}

// matches reports whether the text contains a match.
func (p pattern) matches(text string) bool { return p.isPossible(text) && p.form.MatchString(text) }

// first returns the position of the first match, nil if there is none.
func (p pattern) first(text string) []int {
	if !p.isPossible(text) {
		return nil
	}
	return p.form.FindStringIndex(text)
}

// all returns the positions of all matches.
func (p pattern) all(text string) [][]int {
	if !p.isPossible(text) {
		return nil
	}
	return p.form.FindAllStringIndex(text, -1)
}
