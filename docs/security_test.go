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

// securityCases is the number of cases; each has a row.
const securityCases = 47

var (
	securityRow    = regexp.MustCompile("(?m)^\\| (\\d+) \\|.*\\| (`Test.*`) \\|$")
	securityNumber = regexp.MustCompile(`security\.md ([0-9]+(?:(?: \([a-z ]+\))?, [0-9]+)*)`)
	number         = regexp.MustCompile(`[0-9]+`)
)

// test is a test of this repository.
type test struct {
	*ast.FuncDecl

	pkg  string // its folder, such as "pkg/render"
	file *ast.File
}

// tests are all that there are.
func tests(t *testing.T) []test {
	t.Helper()
	var out []test
	for _, root := range []string{"../pkg", "../test", "../cmd", "../docs"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
					out = append(out, test{f, strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../"), file})
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestSecurity: every case has one row, and each test that a row names exists and carries
// the row's number.
func TestSecurity(t *testing.T) {
	carries := map[string]map[string]bool{}
	for _, test := range tests(t) {
		begin := test.Pos()
		if test.Doc != nil {
			begin = test.Doc.Pos()
		}
		for _, c := range test.file.Comments {
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

// A row of compatibility.md, and a test in its last cell.
var (
	differenceRow  = regexp.MustCompile(`^\| (.+) \| (.+) \| (.+) \| (.+) \|$`)
	differenceTest = regexp.MustCompile("^`([a-z0-9/-]+)\\.(Test[A-Za-z0-9]+)`$")
)

// TestCompatibility: every difference has a reason, an effect, and tests that exist or a page
// with a table of its own; and the page calls the other program by its name.
func TestCompatibility(t *testing.T) {
	exist := map[string]bool{}
	for _, test := range tests(t) {
		exist[test.pkg+"."+test.Name.Name] = true
	}
	page := string(read(t, "compatibility.md"))
	rows, area, seen := 0, "", map[string]bool{}
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			area = title
		}
		if area == "Platforms" || !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| difference |") {
			continue
		}
		rows++
		cells := differenceRow.FindStringSubmatch(line)
		if cells == nil || strings.Count(line, " | ") != 3 {
			t.Errorf("%s: a row does not have four cells: %s", area, line)
			continue
		}
		if seen[cells[1]] {
			t.Errorf("%s: there twice: %s", area, cells[1])
		}
		seen[cells[1]] = true
		if link.MatchString(cells[4]) && !strings.Contains(cells[4], "`") {
			continue
		}
		for _, cell := range strings.Split(cells[4], ", ") {
			if m := differenceTest.FindStringSubmatch(cell); m == nil || !exist[m[1]+"."+m[2]] {
				t.Errorf("%s: %s: there is no test %s", area, cells[1], cell)
			}
		}
	}
	if rows < 70 {
		t.Errorf("found %d rows", rows)
	}
	if strings.Contains(strings.ToLower(page), "the reference") {
		t.Error("the page says \"the reference\": it is called OSM here")
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
