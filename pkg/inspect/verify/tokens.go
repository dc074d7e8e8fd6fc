package verify

import (
	"regexp"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// tokens are the node's and the kubelet's token in a document.
type tokens struct{ node, kubelet string }

const (
	// Shapes of the tokens that replace a placeholder, in our documents and in those with the
	// shared token of all pools.
	nodeShape    = `[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`
	kubeletShape = `[a-z0-9]{6}\.[a-z0-9]{16}`
	// around is the context on each side of a token that identifies its place, in bytes.
	around = 60
	// maxCandidates bounds the renderings for one document.
	maxCandidates = 8
)

// candidateTokens returns the tokens with which a document may have been rendered: values in the
// place of a placeholder, then values that look like a token, also in base64. Rendering
// with each decides.
func candidateTokens(want, have []entry, with render.Cluster) []tokens {
	node := valuesReplacing(want, have, with.APIServerToken, nodeShape)
	kubelet := valuesReplacing(want, have, with.BootstrapToken, kubeletShape)
	if len(node) == 0 {
		node = findTextsOfShape(have, regexp.MustCompile(nodeShape), "eyJ")
	}
	if len(kubelet) == 0 {
		kubelet = findTextsOfShape(have, regexp.MustCompile(kubeletShape), "")
	}
	var out []tokens
	for _, n := range orPlaceholder(node, with.APIServerToken) {
		for _, k := range orPlaceholder(kubelet, with.BootstrapToken) {
			// A document is rendered for each candidate.
			if len(out) < maxCandidates {
				out = append(out, tokens{n, k})
			}
		}
	}
	return out
}

// orPlaceholder returns the placeholder if the document has no token.
func orPlaceholder(found []string, placeholder string) []string {
	if len(found) == 0 {
		return []string{placeholder}
	}
	return found
}

// valuesReplacing finds the values that a document has in place of another's placeholder: between
// the same texts, on one line.
func valuesReplacing(want, have []entry, placeholder, shape string) []string {
	var out []string
	for _, w := range want {
		for line := range strings.SplitSeq(w.text, "\n") {
			for from := 0; ; {
				i := strings.Index(line[from:], placeholder)
				if i < 0 {
					break
				}
				i += from
				from = i + len(placeholder)
				before, after := line[max(0, i-around):i], line[from:min(len(line), from+around)]
				place, err := regexp.Compile(quoted(before) + "(" + shape + ")" + quoted(after))
				if err != nil {
					continue // binary content
				}
				out = append(out, findMatchesPreferPlace(place, w.where, have)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// quoted escapes a text for a regular expression; invalid UTF-8 is dropped.
func quoted(text string) string { return regexp.QuoteMeta(strings.ToValidUTF8(text, "")) }

// findMatchesPreferPlace searches the text of the same place, or all texts if that place has no match.
func findMatchesPreferPlace(place *regexp.Regexp, where string, have []entry) []string {
	var same, other []string
	for _, h := range have {
		for _, m := range place.FindAllStringSubmatch(h.text, maxCandidates) {
			if h.where == where {
				same = append(same, m[1])
			} else {
				other = append(other, m[1])
			}
		}
	}
	if len(same) > 0 {
		return same
	}
	return other
}

// base64Run is a run that is long enough for a token.
var base64Run = regexp.MustCompile(`[A-Za-z0-9+/]{24,}={0,2}`)

// findTextsOfShape finds texts of a shape anywhere.
func findTextsOfShape(have []entry, shape *regexp.Regexp, begins string) []string {
	var out []string
	search := func(text string) {
		for _, m := range shape.FindAllString(text, 100) {
			if strings.HasPrefix(m, begins) && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	for _, h := range have {
		search(h.text)
		for _, run := range base64Run.FindAllString(h.text, 1000) {
			if raw, err := decodeBase64(run); err == nil {
				search(string(raw))
			}
		}
	}
	return out
}
