package importer_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer"
	"github.com/osm-gitops/osm-gitops/test/runner"
)

// cells matches the cells of a row: a bar after an even number of backslashes ends a cell.
var cells = regexp.MustCompile(`([^\\|]|\\.)+\|`)

// The README of a repository contains names, versions and messages of a cluster as plain
// text: no link, tag, mention, code, row or hidden character (security.md 45).
func TestReadmeOfHostileText(t *testing.T) {
	hostile := "a`` [fixed](https://evil.example) ![x][y] <img src=x onerror=alert(1)> </table> <!-- @everyone &#64;all &commat;all | b \\| d |\n| c\r\n\n# d\x1b[31m\u009b\u202e\u200b" +
		strings.Join(runner.Hostile, "\n")
	p := &importer.Plan{}
	p.Profiles = []importer.Outcome{{Name: hostile, Version: hostile, Why: hostile}}
	out := importer.Readme(p)
	var rows []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "|") {
			rows = append(rows, line)
		}
	}
	if len(rows) != 3 || len(cells.FindAllString(rows[2], -1)) != 4 || strings.Count(rows[2], "`") != 2 {
		t.Errorf("there are other rows or cells: %s", out)
	}
	for _, markup := range []string{"](", "][", "<img", "</", "<!--", "@everyone", "&#64;", "&commat;", "\n# d"} {
		if strings.Contains(out, markup) {
			t.Errorf("%q is in %s", markup, out)
		}
	}
	for _, r := range out {
		if r != '\n' && r != '\u200b' && !unicode.IsGraphic(r) {
			t.Errorf("%U is in %q", r, out)
		}
	}
}
