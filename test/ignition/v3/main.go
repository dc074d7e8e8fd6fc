// Command v3 says what Ignition 2.26 finds wrong with documents of version 3 of
// its specification. It is a module of its own, so that the product does not
// carry Ignition's parsers.
//
// It reads a JSON list of documents, each a string, and writes a list of the
// findings in each, warnings among them.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/coreos/ignition/v2/config"
)

func main() {
	os.Exit(run(os.Stdin, os.Stdout, os.Stderr))
}

func run(stdin io.Reader, stdout, stderr io.Writer) int {
	var docs []string
	if err := json.NewDecoder(stdin).Decode(&docs); err != nil {
		fmt.Fprintln(stderr, "v3: reading documents:", err)
		return 1
	}
	findings := make([][]string, len(docs))
	for i, doc := range docs {
		findings[i] = check([]byte(doc))
	}
	if err := json.NewEncoder(stdout).Encode(findings); err != nil {
		fmt.Fprintln(stderr, "v3: writing findings:", err)
		return 1
	}
	return 0
}

// check parses a document of any version 3.
func check(doc []byte) []string {
	findings := []string{}
	_, rep, err := config.Parse(doc)
	for _, entry := range rep.Entries {
		findings = append(findings, entry.String())
	}
	if err != nil {
		findings = append(findings, err.Error())
	}
	return findings
}
