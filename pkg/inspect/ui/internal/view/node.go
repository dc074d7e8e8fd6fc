package view

import (
	"cmp"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Node is the page of an existing or deleted node: the chain to its commit, and the
// evidence for it.
type Node struct {
	About
	Name         string        `json:"name"`                   // of the Node
	Summary      string        `json:"answer"`                 // the chain in one sentence
	Trace        *trace.Result `json:"trail"`                  // as of `osm-gitops trace node/NAME -o json`
	Verification *Verification `json:"verification,omitempty"` // for ten minutes
	CanVerify    bool          `json:"canVerify"`              // parameter verify starts it
	Command      string        `json:"verifyCommand"`          // for the same verification
}

// Verification is the result of `osm-gitops verify node/NAME`.
type Verification struct {
	At     time.Time      `json:"at"`               // when it was verified
	Report *verify.Report `json:"report,omitempty"` // as of `osm-gitops verify node/NAME -o json`
	Error  string         `json:"error,omitempty"`  // why there is no report
}

// NewNode builds the page of a node.
func NewNode(at time.Time, name string, t *trace.Result) Node {
	v := Node{About: About{"Node", at}, Name: redact.PrintableLine(name), Trace: t, Command: "osm-gitops verify node/" + redact.PrintableLine(name)}
	v.Summary = summarizeOrigin(v.Name, t)
	return v
}

// summarizeOrigin states the origin of a node in one sentence.
func summarizeOrigin(name string, t *trace.Result) string {
	if t.Version == "" {
		return "The configuration from which " + name + " was provisioned is unknown."
	}
	is := " was provisioned from "
	if t.Node != nil && t.Node.Evidence == "Inferred" {
		is = " was most likely provisioned from "
	}
	s := name + is + t.Profile + " " + t.Version
	if t.Commit == nil || t.Commit.Commit == "" {
		return s + ", which comes from no repository."
	}
	s += ", commit " + redact.ShortCommit(t.Commit.Commit)
	if t.Commit.Author != "" {
		s += " by " + AuthorName(t.Commit.Author)
	}
	return s + "."
}

// maxAuthor bounds the shown name of an author, in bytes.
const maxAuthor = 80

// AuthorName returns the name in "Name <address>", or all of it if there is no name.
func AuthorName(author string) string {
	name, _, _ := strings.Cut(author, " <")
	return redact.Shorten(cmp.Or(name, author), maxAuthor)
}

// Differs reports whether an unexpected value was found; otherwise, what does not agree
// could not be compared.
func (v *Verification) Differs() bool { return v.Report != nil && v.Report.FirstDifference() != nil }
