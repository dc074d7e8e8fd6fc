package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// securityCases is the number of cases, each of which has a row.
const securityCases = 45

var (
	securityRow    = regexp.MustCompile("(?m)^\\| (\\d+) \\|.*\\| (`Test.*`) \\|$")
	securityNumber = regexp.MustCompile(`security\.md ([0-9]+(?:(?: \([a-z ]+\))?, [0-9]+)*)`)
	number         = regexp.MustCompile(`[0-9]+`)
)

// TestSecurity: every case has one row, and each test that a row names exists and carries
// the row's number.
func TestSecurity(t *testing.T) {
	carries := map[string]map[string]bool{}
	for _, root := range []string{"../pkg", "../test", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				test, ok := decl.(*ast.FuncDecl)
				if !ok || !strings.HasPrefix(test.Name.Name, "Test") {
					continue
				}
				begin := test.Pos()
				if test.Doc != nil {
					begin = test.Doc.Pos()
				}
				for _, c := range file.Comments {
					if c.Pos() < begin || c.End() > test.End() {
						continue
					}
					for _, m := range securityNumber.FindAllStringSubmatch(strings.Join(strings.Fields(c.Text()), " "), -1) {
						for _, n := range number.FindAllString(m[1], -1) {
							if carries[n] == nil {
								carries[n] = map[string]bool{}
							}
							carries[n][test.Name.Name] = true
						}
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rows := securityRow.FindAllStringSubmatch(string(read(t, "security.md")), -1)
	if len(rows) != securityCases {
		t.Errorf("found %d rows, want %d", len(rows), securityCases)
	}
	for i, row := range rows {
		if row[1] != strconv.Itoa(i+1) {
			t.Fatalf("row %d has the number %s: each case has one row, in order", i+1, row[1])
		}
		for _, name := range strings.Split(row[2], ", ") {
			if name = strings.Trim(name, "`"); !carries[row[1]][name] {
				t.Errorf("%s does not carry number %s; these do: %v", name, row[1], slices.Sorted(maps.Keys(carries[row[1]])))
			}
		}
	}
}

// TestSecurityForm: one form of reference, so that a search for it finds every test.
func TestSecurityForm(t *testing.T) {
	other := regexp.MustCompile(`(?i)security\s+(?://\s*)?(?:cases?|rows?)\s+(?://\s*)?[0-9]`)
	for _, root := range []string{"../pkg", "../test", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			b, err := os.ReadFile(path) //nolint:gosec // a file of this repository
			if found := other.Find(b); found != nil {
				t.Errorf("%s: %q: write \"security.md\" and the number", path, found)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
