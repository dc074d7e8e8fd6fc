package verification

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// signed is an object with the payload of its signature.
type signed struct {
	payload   []byte
	signature []byte // empty if there is none
	made      time.Time
	name      string // the name in a tag object
	about     string // for display: subject and author, quoted
}

// SplitCommit separates the signature from a commit as Git does: the payload is the
// object without the header gpgsig. https://git-scm.com/docs/gitformat-signature
//
// Headers are cut out of the bytes and never written again: what a parser ignores remains
// signed.
func SplitCommit(id plumbing.Hash, data []byte) (signed, error) {
	var s signed
	head, message, _ := bytes.Cut(data, []byte("\n\n"))
	rest := data[len(head):]
	inside, found := "", 0
	for line := range bytes.Lines(append(slices.Clone(head), '\n')) {
		switch continued := line[0] == ' '; {
		case continued && inside == "gpgsig":
			s.signature = append(s.signature, line[1:]...)
			continue
		case continued && inside != "":
			continue
		case !continued:
			inside = ""
			if name, value, ok := bytes.Cut(line, []byte(" ")); ok && (string(name) == "gpgsig" || string(name) == "gpgsig-sha256") {
				inside = string(name)
				if inside == "gpgsig" {
					found++
					s.signature = append(s.signature, value...)
				}
				continue
			}
		}
		s.payload = append(s.payload, line...)
	}
	s.payload = append(bytes.TrimSuffix(s.payload, []byte("\n")), rest...)
	commit, err := objectstore.ParseCommit(id, data)
	if err != nil {
		return s, err
	}
	inner, err := objectstore.ParseCommit(id, s.payload)
	if err != nil {
		return s, err
	}
	// A signature between the parsed lines would hide some of them from this program.
	if found > 1 || commit.Tree != inner.Tree || !slices.Equal(commit.Parents, inner.Parents) || commit.Author != inner.Author {
		return s, fault.New(fault.ErrInvalid, "commit %s is malformed: its signature is not where Git puts it", id)
	}
	s.made = commit.CommittedAt
	subject, _, _ := bytes.Cut(bytes.TrimLeft(message, "\n"), []byte("\n"))
	name, email, _ := objectstore.ParseIdentity(commit.Author)
	s.about = fmt.Sprintf("%q of %q", shortenText(removeAngleBrackets(string(subject))), shortenText(name+" <"+email+">"))
	return s, nil
}

// splitTag separates the signature from the end of a tag: it begins at the last line that
// can begin a signature.
func splitTag(id plumbing.Hash, data []byte) (signed, error) {
	var s signed
	at, end := 0, len(data)
	for line := range bytes.Lines(data) {
		for _, begin := range []string{"-----BEGIN PGP SIGNATURE-----", "-----BEGIN SSH SIGNATURE-----", "-----BEGIN SIGNED MESSAGE-----", "-----BEGIN PGP MESSAGE-----"} {
			if bytes.HasPrefix(line, []byte(begin)) {
				end = at
			}
		}
		at += len(line)
	}
	s.payload, s.signature = data[:end], data[end:]
	head, _, _ := strings.Cut(string(s.payload), "\n\n")
	lines := strings.Split(head, "\n")
	// object, type, tag, tagger: in this order, https://git-scm.com/docs/git-mktag
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "object ") || !strings.HasPrefix(lines[1], "type ") || !strings.HasPrefix(lines[2], "tag ") {
		return s, fault.New(fault.ErrInvalid, "tag %s is malformed: it has no object or no name", id)
	}
	s.name = strings.TrimPrefix(lines[2], "tag ")
	if len(lines) > 3 {
		if tagger, ok := strings.CutPrefix(lines[3], "tagger "); ok {
			name, email, at := objectstore.ParseIdentity(tagger)
			s.made, s.about = at, fmt.Sprintf("of %q", shortenText(name+" <"+email+">"))
		}
	}
	return s, nil
}

// removeAngleBrackets removes angle brackets from a subject, which is shown without markup.
func removeAngleBrackets(s string) string { return strings.NewReplacer("<", "", ">", "").Replace(s) }

// shortenText shortens a text of any content and length; it is quoted when it is shown
// (security.md 28).
func shortenText(s string) string {
	const most = 60 // characters
	s = strings.ToValidUTF8(s, "\uFFFD")
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}
