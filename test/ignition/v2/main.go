// Command v2 says what Flatcar's Ignition 0.36 finds wrong with documents of
// version 2 of its specification. It is a module of its own, so that the product
// does not carry Ignition's parsers.
//
// It reads a JSON list of documents, each a string, and writes a list of the
// findings in each, warnings among them.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/flatcar/ignition/config/v2_4"
)

func main() {
	os.Exit(run(os.Stdin, os.Stdout, os.Stderr))
}

func run(stdin io.Reader, stdout, stderr io.Writer) int {
	var docs []string
	if err := json.NewDecoder(stdin).Decode(&docs); err != nil {
		fmt.Fprintln(stderr, "v2: reading documents:", err)
		return 1
	}
	findings := make([][]string, len(docs))
	for i, doc := range docs {
		findings[i] = check([]byte(doc))
	}
	if err := json.NewEncoder(stdout).Encode(findings); err != nil {
		fmt.Fprintln(stderr, "v2: writing findings:", err)
		return 1
	}
	return 0
}

// tolerated is the one warning about documents such as existing fleets boot with,
// whose ignition.security.tls is an empty object.
const tolerated = "Config has unrecognized key: tls"

// check parses a document of any version 2.
func check(doc []byte) []string {
	findings := []string{}
	_, rep, err := v2_4.Parse(doc)
	for _, entry := range rep.Entries {
		if entry.Message != tolerated {
			findings = append(findings, entry.String())
		}
	}
	if err != nil {
		findings = append(findings, err.Error())
	}
	return findings
}
