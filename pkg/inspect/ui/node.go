package ui

import (
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
)

// Node is the page of a node, alive or gone: the chain to its commit, and how that is
// known.
type Node struct {
	About
	Name         string        `json:"name"`                   // of the Node
	Answer       string        `json:"answer"`                 // the chain in a sentence
	Trail        *trace.Trail  `json:"trail"`                  // what `osm-gitops trace node/NAME -o json` prints
	Verification *Verification `json:"verification,omitempty"` // once somebody asked for it, for ten minutes
	CanVerify    bool          `json:"canVerify"`              // the parameter verify does it
	Command      string        `json:"verifyCommand"`          // does it elsewhere
}

// Verification is what `osm-gitops verify node/NAME` found.
type Verification struct {
	At     time.Time      `json:"at"`               // when it was verified
	Report *verify.Report `json:"report,omitempty"` // what `osm-gitops verify node/NAME -o json` prints
	Error  string         `json:"error,omitempty"`  // why there is no report
}

// ViewNode makes the page of a node.
func ViewNode(at time.Time, name string, t *trace.Trail) Node {
	v := Node{About: About{"Node", at}, Name: clean(name), Trail: t, Command: "osm-gitops verify node/" + clean(name)}
	v.Answer = answer(v.Name, t)
	return v
}

// answer says where a node comes from in a sentence.
func answer(name string, t *trace.Trail) string {
	if t.Version == "" {
		return "Which configuration " + name + " was provisioned from is not known."
	}
	is := " was provisioned from "
	if t.Node != nil && t.Node.Evidence == "Inferred" {
		is = " was most likely provisioned from "
	}
	s := name + is + t.Profile + " " + t.Version
	if t.Commit == nil || t.Commit.Commit == "" {
		return s + ", which is from no repository."
	}
	s += ", commit " + short(t.Commit.Commit)
	if t.Commit.Author != "" {
		s += " by " + authorName(t.Commit.Author)
	}
	return s + "."
}

// authorName is the name of "Name <address>".
func authorName(author string) string {
	name, _, _ := strings.Cut(author, " <")
	return name
}

// Differs reports whether something is not what it should be; otherwise what does not
// agree could not be compared.
func (v *Verification) Differs() bool { return v.Report != nil && v.Report.First() != nil }
