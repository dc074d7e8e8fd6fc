// Package wording_test counts phrases that read as translated in pages, comments, messages and
// manifests, and allows five per 1,000 words.
package wording_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	root = "../.."
	// perMille is the number of matches per 1,000 words that a page, and the comments or messages
	// of a package, can have. Some matches are correct.
	perMille = 5
	// shortPackage is the number of words below which the comments or messages of a package can
	// have three matches.
	shortPackage = 600
	// rules is made of the texts of lint's rules as a whole.
	rules = "lint-rules.md"
	// shortPage is the number of words below which a page can have two matches.
	shortPage = 400
)

// phrases have what to write instead. CONTRIBUTING.md has the rule.
var phrases = []struct{ pattern, instead string }{
	{`(?i)\bwhere (?:it|there|nobody|somebody|one|they|that|he|its|an?|the|no|this|all|nothing)\b`, `"if", unless it is about a place`},
	{`(?i)\b(?:some|no|any|every)body\b`, `the actor: a user, an operator, an attacker, no controller`},
	{`(?i)\b(?:tells?|told|telling)\b`, `report, log, say, name`},
	{`(?:^|[.:;] )Of (?:a|an|the|all|each|these|those|two|what|several)\b|\bof which\b|\bof whom\b`, `"with", "including", or a sentence of its own`},
	{`(?i)\b(?:a|each|every|next|last|first|new) looks?\b|\blooks? (?:at it )?again\b|\blooked at\b`, `reconciliation, read, request`},
	{`(?i)\b(?:who|what|which)(?:so)?ever\b`, `anyone who, the user who, any`},
	{`(?i)\bas (?:it is|they are|it was|they were)\b`, `unchanged`},
	{`(?i)\b(?:stands?|stood|standing)\b`, `be, exist, be stored`},
	{`(?i)\b(?:keeps?|kept|keeping)\b`, `store, retain, remain, continue`},
	{`(?i)\bmend(?:s|ed|ing)?\b`, `fix`},
	{`(?i)\b(?:is|are|was|were) no (?:[a-km-z]\w+|l[a-np-z]\w+)\b`, `"is not a", or "invalid"`},
	{`(?i)\b(?:is|are|was|were) (?:there|away|gone|back|due)\b`, `exist, be present, be deleted, not answer`},
	{`(?i)\b(?:comes?|came) to\b`, `reach, result in`},
	{`(?i)\b(?:anew|beside|besides|thereby|therefore|hitherto|whether or not|else)\b`, `again, next to, so, otherwise`},
	{`(?i)\bonce (?:there|it|they|all|nobody)\b`, `when, after, as soon as`},
	{`(?:^|[.:;] )What (?:is|was|are|has|had|a|an|the|it|they|nobody|somebody|cannot|stands|comes|goes)\b`, `the noun: a file that, values that`},
	{`(?i)\b(?:he|his|him)\b`, `they, their`},
	{`(?i)\bmay (?:be|have|read|write|not|do|go|ask|use)\b`, `can, must not`},
}

var compiled = func() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, p := range phrases {
		out = append(out, regexp.MustCompile(p.pattern))
	}
	return out
}()

// allowed are phrases of programs, names and quotations.
var allowed = regexp.MustCompile(`(?i)\bis no longer\b|\bare no longer\b`)

// exceptions are the numbers of matches in packages that have more than is allowed. Lower a number
// when a text is rewritten.
var exceptions = map[string]struct {
	matches int
	reason  string
}{
	"messages of pkg/render":           {5, "a script that nodes get, whose bytes must not change"},
	"messages of pkg/scaffold":         {15, "files that init writes into repositories"},
	"messages of pkg/migrate/importer": {4, "a file that import writes into repositories"},
}

var word = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)

// text is a line of a page, a comment or a message, with its place.
type text struct {
	place string
	line  string
}

// phrasesIn returns the number of words of texts, and a line for each phrase to replace.
func phrasesIn(texts []text) (words int, found []string) {
	for _, t := range texts {
		words += len(word.FindAllString(t.line, -1))
		line := allowed.ReplaceAllString(t.line, "")
		for i, p := range compiled {
			for _, match := range p.FindAllString(line, -1) {
				found = append(found, fmt.Sprintf("%s: %q: write %s", t.place, strings.TrimSpace(match), phrases[i].instead))
			}
		}
	}
	return words, found
}

func check(t *testing.T, name string, texts []text, short, allowedInShort int) {
	t.Helper()
	words, found := phrasesIn(texts)
	limit := words * perMille / 1000
	if words < short {
		limit = allowedInShort
	}
	if e, ok := exceptions[name]; ok {
		if len(found) < e.matches {
			t.Errorf("%s: %d phrases, and the exception is for %d: lower it", name, len(found), e.matches)
		}
		limit = e.matches
	}
	if len(found) > limit {
		t.Errorf("%s: %d phrases to replace in %d words, and %d are allowed:\n%s", name, len(found), words, limit, strings.Join(found, "\n"))
	}
}

func TestPages(t *testing.T) {
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) < 40 {
		t.Fatalf("found %d pages: %v", len(pages), err)
	}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(page) == rules {
			continue
		}
		var texts []text
		for n, line := range prose(string(content)) {
			texts = append(texts, text{fmt.Sprintf("line %d", n+1), line})
		}
		check(t, filepath.Base(page), texts, shortPage, 2)
	}
}

// TestSource checks the comments of every package, and the messages of those that are not tests.
func TestSource(t *testing.T) {
	packages := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); name == "testdata" || name == "bin" || name == "node_modules" || path != root && strings.HasPrefix(name, ".") {
			return filepath.SkipDir
		}
		comments, messages, err := textsOf(path)
		if err != nil || len(comments) == 0 {
			return err
		}
		packages++
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		check(t, "comments of "+name, comments, shortPackage, 3)
		check(t, "messages of "+name, messages, shortPackage, 3)
		return nil
	})
	if err != nil || packages < 100 {
		t.Fatalf("found %d packages: %v", packages, err)
	}
}

// TestManifests checks the comments of YAML and shell files. Those of profiles are omitted: they are
// part of scripts that nodes get, whose bytes must not change.
func TestManifests(t *testing.T) {
	for _, folder := range []string{"deploy", "examples", "hack"} {
		var comments []text
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "profiles":
				return filepath.SkipDir
			case d.IsDir():
				return nil
			}
			content, err := os.ReadFile(path)
			if err != nil || !manifest.MatchString(path) && !strings.HasPrefix(string(content), "#!") {
				return err
			}
			for n, line := range strings.Split(string(content), "\n") {
				if comment := manifestComment.FindString(line); comment != "" {
					comments = append(comments, text{fmt.Sprintf("%s:%d", path, n+1), comment})
				}
			}
			return nil
		})
		if err != nil || len(comments) < 100 {
			t.Fatalf("found %d comments in %s: %v", len(comments), folder, err)
		}
		check(t, "YAML and shell files of "+folder, comments, shortPackage, 3)
	}
}

var (
	manifest        = regexp.MustCompile(`\.(ya?ml|sh)$`)
	manifestComment = regexp.MustCompile(`(?:^|\s)# .*`)
)

// textsOf returns the comments of the Go files in a folder, and their string literals of at least
// three words, which are messages. Generated files, and the literals of tests, are omitted.
func textsOf(folder string) (comments, messages []text, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	for _, file := range files {
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			return nil, nil, err
		}
		if ast.IsGenerated(parsed) {
			continue
		}
		place := func(at token.Pos) string {
			position := set.Position(at)
			return fmt.Sprintf("%s:%d", filepath.Base(position.Filename), position.Line)
		}
		for _, group := range parsed.Comments {
			for _, c := range group.List {
				if !directive.MatchString(c.Text) {
					comments = append(comments, text{place(c.Pos()), strings.TrimPrefix(c.Text, "//")})
				}
			}
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				if value, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && strings.Count(value, " ") >= 2 {
					messages = append(messages, text{place(n.Pos()), value})
				}
			}
			return true
		})
	}
	return comments, messages, nil
}

// directive matches comments that are read by programs.
var directive = regexp.MustCompile(`^//(go:|nolint|\+|\s*Output:)`)

// prose returns the lines of a page without code: what is not prose is an empty line.
// Tables that are generated from the program's texts are left out as well.
func prose(text string) []string {
	code := regexp.MustCompile("`[^`]*`")
	lines := strings.Split(text, "\n")
	fenced, generated := false, false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(strings.TrimLeft(line, " "), "```"):
			fenced, lines[i] = !fenced, ""
		case strings.Contains(line, "generated by go test"):
			generated, lines[i] = true, ""
		case strings.HasPrefix(line, "<!-- end"):
			generated, lines[i] = false, ""
		case fenced || generated || strings.HasPrefix(line, "    "):
			lines[i] = ""
		default:
			lines[i] = code.ReplaceAllString(line, "")
		}
	}
	return lines
}
