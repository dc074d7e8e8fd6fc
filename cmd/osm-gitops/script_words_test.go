package main

import (
	"encoding/base64"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// edit replaces one text of a file: `edit FILE OLD NEW`, where \n is a line break.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	lines := strings.NewReplacer(`\n`, "\n")
	text, before, after := ts.ReadFile(args[0]), lines.Replace(args[1]), lines.Replace(args[2])
	if n := strings.Count(text, before); n != 1 {
		ts.Fatalf("%s has %q %d times, want it once", args[0], before, n)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(text, before, after, 1)), 0o600))
}

// noise writes a file of lines that no compression makes much smaller, as certificates are:
// `noise FILE INDENT LINES`. They are the same on every run.
func noise(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: noise FILE INDENT LINES")
	}
	indent, err := strconv.Atoi(args[1])
	ts.Check(err)
	lines, err := strconv.Atoi(args[2])
	ts.Check(err)
	random := rand.NewChaCha8([32]byte{})
	text, line := "", make([]byte, 48)
	for range lines {
		_, err := random.Read(line)
		ts.Check(err)
		text += strings.Repeat(" ", indent) + base64.StdEncoding.EncodeToString(line) + "\n"
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// varying are words in output that change with the clock or with a built-in profile, each
// with its replacement.
var varying = []struct {
	words *regexp.Regexp
	with  string
}{
	{regexp.MustCompile(`\b[0-9a-f]{7,40}\b`), "COMMIT"},
	{regexp.MustCompile(`\b\d+ -> \d+ bytes`), "N -> N bytes"},
	{regexp.MustCompile(`\b\d+ (bytes|renderings|distinct texts)\b`), "N $1"},
	{regexp.MustCompile(`, which count as \d+ of`), ", which count as N of"},
	{regexp.MustCompile(`\b\d+ of \d+ branches\b`), "N of N branches"},
	{regexp.MustCompile(`\(\d+(%?)\)`), "(N$1)"},
	{regexp.MustCompile(`@@ .* @@`), "@@ N @@"},
	{regexp.MustCompile(`(builtin:\S+\.yaml):\d+`), "$1:N"},
}

// said writes what the last program printed to said.txt, standard output first, less what
// varies: `said`.
func said(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: said")
	}
	text := ts.ReadFile("stdout")
	if stderr := ts.ReadFile("stderr"); stderr != "" {
		text += "stderr:\n" + stderr
	}
	for _, v := range varying {
		text = v.words.ReplaceAllString(text, v.with)
	}
	ts.Check(os.WriteFile(ts.MkAbs("said.txt"), []byte(text), 0o600))
}
