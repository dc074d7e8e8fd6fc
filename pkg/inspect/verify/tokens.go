package verify

import (
	"regexp"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// tokens are those that a document holds: of the node, and of the kubelet.
type tokens struct{ node, kubelet string }

const (
	// tokenShape is what a placeholder may stand for, in a document of ours and in one
	// with the token that all pools share.
	nodeShape    = `[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`
	kubeletShape = `[a-z0-9]{6}\.[a-z0-9]{16}`
	// around is how much on each side of a token tells where it belongs, in bytes.
	around = 60
	// maxCandidates bounds the renderings for one document.
	maxCandidates = 8
)

// candidates are the tokens that a document may have been rendered with: what stands
// where rendering puts them, and else what looks like one, in base64 too. Which one it
// was, rendering with it tells.
func candidates(want, have []leaf, with render.Cluster) []tokens {
	node := standing(want, have, with.APIServerToken, nodeShape)
	kubelet := standing(want, have, with.BootstrapToken, kubeletShape)
	if len(node) == 0 {
		node = lookalikes(have, regexp.MustCompile(nodeShape), "eyJ")
	}
	if len(kubelet) == 0 {
		kubelet = lookalikes(have, regexp.MustCompile(kubeletShape), "")
	}
	var out []tokens
	for _, n := range orNone(node, with.APIServerToken) {
		for _, k := range orNone(kubelet, with.BootstrapToken) {
			if len(out) < maxCandidates {
				out = append(out, tokens{n, k})
			}
		}
	}
	return out
}

// orNone is the placeholder where a document holds no token.
func orNone(found []string, placeholder string) []string {
	if len(found) == 0 {
		return []string{placeholder}
	}
	return found
}

// standing finds what stands in a document where another one has a placeholder: between
// the same texts, on one line.
func standing(want, have []leaf, placeholder, shape string) []string {
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
					continue // bytes that are no text
				}
				out = append(out, matches(place, w.where, have)...)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// quoted is a text that stands for itself, but for tokens in it.
func quoted(text string) string { return regexp.QuoteMeta(strings.ToValidUTF8(text, "")) }

// matches are the finds in the text of the same place, or in any if that has none.
func matches(place *regexp.Regexp, where string, have []leaf) []string {
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

// base64Run is long enough to hold a token.
var base64Run = regexp.MustCompile(`[A-Za-z0-9+/]{24,}={0,2}`)

// lookalikes finds texts of a shape wherever they stand.
func lookalikes(have []leaf, shape *regexp.Regexp, begins string) []string {
	var out []string
	look := func(text string) {
		for _, m := range shape.FindAllString(text, 100) {
			if strings.HasPrefix(m, begins) && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
	}
	for _, h := range have {
		look(h.text)
		for _, run := range base64Run.FindAllString(h.text, 1000) {
			if raw, err := decodeBase64(run); err == nil {
				look(string(raw))
			}
		}
	}
	return out
}
