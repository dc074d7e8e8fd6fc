package output_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/output"
	"github.com/osm-gitops/osm-gitops/test/runner"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run has a finding of each severity, one that says everything and one that says
// little, a suppressed one, and text of a stranger's that would do harm.
func run() output.Run {
	return output.Run{
		Version: "v1.2.3",
		Rules: []lint.Rule{
			{Name: "insecure-download", Severity: lint.SeverityError, Summary: "a download that takes any certificate", Help: "Whoever is on the way decides what arrives. Leave `-k` out."},
			{Name: "version", Severity: lint.SeverityWarning, Summary: "the content changed and the version did not", Help: "Give it a new version."},
		},
		Report: &lint.Report{
			Profiles: 2, Renderings: 240, Contents: 1, Branches: 20, UnexecutedBranches: []lint.Branch{{Path: "profiles/b.yaml", Line: 3, Condition: "if .X"}},
			Missing: []lint.MissingTool{{Name: "shellcheck", Means: "scripts were only parsed; install it"}},
			Findings: []lint.Finding{
				{Rule: "insecure-download", Severity: lint.SeverityError, Path: "profiles/a b.yaml", Line: 12, Column: 3, Profile: "osp-a", Version: "v1.0.0",
					Field: "spec.bootstrapConfig.files[0].content.inline.data", File: "/opt/bin/setup", Where: "aws, kubelet 1.33.0",
					Message: "curl -k takes any certificate,\nso 100% of them: \x1b[31mred\x1b[0m <b>&\u202e", Fix: "leave -k out"},
				{Rule: "version", Severity: lint.SeverityWarning, Path: "profiles/a b.yaml", Message: "the content changed"},
				{Rule: "elsewhere", Severity: lint.SeverityNote, Path: "/abs/b.yaml", Line: 1, Message: "it is so"},
				{Rule: "elsewhere", Severity: lint.SeverityNote, Path: "/abs/b.yaml", Line: 9, Message: "it is so"},
			},
			Suppressed: []lint.Suppressed{{Finding: lint.Finding{Rule: "version", Severity: lint.SeverityWarning, Path: "c.yaml", Line: 2, Message: "as agreed"}, Justification: "for the demo"}},
		},
	}
}

func write(t *testing.T, name string, r output.Run) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := output.Write(&b, name, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestGolden shows each format. Untrusted text has no effect on a terminal and does not leave
// its field (security.md 28).
func TestGolden(t *testing.T) {
	for _, name := range output.Names() {
		got := write(t, name, run())
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if name != "json" && bytes.ContainsAny(got, "\x1b\u202e") {
			t.Errorf("%s holds what a terminal acts on", name)
		}
	}
}

// The last line of the text says what was checked, and counts only what was found.
func TestTextSummary(t *testing.T) {
	for want, report := range map[string]lint.Report{
		"1 profile, 0 renderings, 2 distinct texts: nothing found\n": {Profiles: 1, Contents: 2},
		"1 profile, 1 rendering, 1 distinct text, 1 of 1 branch: 1 warning\n": {
			Profiles: 1, Renderings: 1, Contents: 1, Branches: 1, Findings: []lint.Finding{{Severity: lint.SeverityWarning}},
		},
		"0 profiles, 0 renderings, 0 distinct texts: nothing found (1 suppressed)\n": {Suppressed: []lint.Suppressed{{}}},
	} {
		if got := string(write(t, "text", output.Run{Report: &report})); !strings.HasSuffix("\n"+got, "\n"+want) {
			t.Errorf("got %q, want %q in the end", got, want)
		}
	}
}

// TestSARIF: the output is valid for the schema of SARIF 2.1.0, and has no field that the
// format does not define.
func TestSARIF(t *testing.T) {
	empty, schema := output.Run{Report: &lint.Report{}}, sarifSchema(t)
	for _, r := range []output.Run{run(), empty} {
		out := write(t, "sarif", r)
		report, err := sarif.FromBytes(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, schema, out); err != nil {
			t.Error(err)
		}
		strict := json.NewDecoder(bytes.NewReader(out))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&sarif.Report{}); err != nil {
			t.Errorf("it has a field that SARIF has not: %v", err)
		}
		for _, run := range report.Runs {
			ids := map[string]bool{}
			for _, result := range run.Results {
				if got := *run.Tool.Driver.Rules[result.RuleIndex].ID; got != *result.RuleID {
					t.Errorf("the index of rule %s leads to %s", *result.RuleID, got)
				}
				id := result.PartialFingerprints["osmGitopsFinding/v1"]
				if ids[id] {
					t.Errorf("two findings have the fingerprint %s", id)
				}
				ids[id] = true
			}
		}
	}
}

// TestSARIFFinds: the check of the schema can fail.
func TestSARIFFinds(t *testing.T) {
	out := bytes.ReplaceAll(write(t, "sarif", run()), []byte(`"level": "warning"`), []byte(`"level": "loud"`))
	if validate(t, sarifSchema(t), out) == nil {
		t.Error("a level that SARIF does not know is valid")
	}
}

func validate(t *testing.T, schema *jsonschema.Schema, document []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(v)
}

// sarifSchema returns OASIS's schema, which go-sarif has in a constant. The output of that
// library after parsing is not valid for it, so this test validates the bytes.
func sarifSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const module = "github.com/owenrumney/go-sarif/v3"
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("go list -m %s: %v", module, err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "pkg/report/v210/sarif/schema.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constant := file.Scope.Lookup("schema").Decl.(*ast.ValueSpec).Values[0].(*ast.BasicLit)
	text, err := strconv.Unquote(constant.Value)
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("sarif.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("sarif.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestFingerprint: a finding is the same one when lines above it come or go, and when
// its profile gets a new version.
func TestFingerprint(t *testing.T) {
	moved := run()
	moved.Report.Findings[0].Line, moved.Report.Findings[0].Version = 99, "v1.0.1"
	other := run()
	other.Report.Findings[0].Message = "another one"
	if first, same, not := fingerprint(t, run()), fingerprint(t, moved), fingerprint(t, other); first != same || first == not {
		t.Errorf("fingerprints %s, %s when moved, %s of another finding", first, same, not)
	}
}

func fingerprint(t *testing.T, r output.Run) string {
	t.Helper()
	report, err := sarif.FromBytes(write(t, "sarif", r))
	if err != nil {
		t.Fatal(err)
	}
	return report.Runs[0].Results[0].PartialFingerprints["osmGitopsFinding/v1"]
}

// TestGitHubBounded: no more annotations than GitHub shows; the rest is in the log, and
// nothing of it is a command.
func TestGitHubBounded(t *testing.T) {
	r := output.Run{Report: &lint.Report{}}
	for i := range 25 {
		r.Report.Findings = append(r.Report.Findings, lint.Finding{Rule: "x", Severity: lint.SeverityError, Path: "::error::a.yaml", Line: i + 1, Message: "m\n::error::n"})
	}
	commands, text := 0, 0
	for line := range strings.Lines(string(write(t, "github", r))) {
		switch {
		case strings.HasPrefix(line, "::error file=%3A%3Aerror%3A%3Aa.yaml,"):
			commands++
		case strings.HasPrefix(line, "::"):
			t.Errorf("a command that is none of ours: %s", line)
		case strings.Contains(line, "a.yaml"):
			text++
		}
	}
	if commands != 10 || text != 15 {
		t.Errorf("%d commands and %d lines, want 10 and 15", commands, text)
	}
}

// Untrusted names and texts are not commands of any runner, in any format. The only commands of
// "github" are those for the findings (security.md 39).
func TestNoForeignCommands(t *testing.T) {
	r := output.Run{Report: &lint.Report{Missing: []lint.MissingTool{{Name: "x", Means: "##[error]y"}}}}
	for _, name := range slices.Repeat(runner.Hostile, 5) { // more than maxAnnotations
		f := lint.Finding{Rule: "x", Severity: lint.SeverityError, Path: name, Line: 1, Profile: name, Field: name, File: name, Where: name, Message: name + "\n" + name, Fix: name}
		r.Report.Findings = append(r.Report.Findings, f)
		r.Report.Suppressed = append(r.Report.Suppressed, lint.Suppressed{Finding: f, Justification: name})
	}
	for _, name := range output.Names() {
		ours := 0
		for _, command := range runner.Commands(string(write(t, name, r))) {
			if name != "github" || !strings.HasPrefix(command, "::error file=") && !strings.HasPrefix(command, "::notice title=not checked::") {
				t.Errorf("%s: command %q", name, command)
			}
			ours++
		}
		if name == "github" && ours != 11 {
			t.Errorf("%d commands of ours, want 11", ours)
		}
	}
}

// No text of SARIF has a link, a tag, a mention or a placeholder (security.md 45).
func TestSARIFText(t *testing.T) {
	hostile := `[fixed](https://evil.example) [a][b] <img src=x> </script> <!-- @everyone &#64;all &commat;all {0} <@all>`
	r := run()
	f := lint.Finding{Rule: "x", Severity: lint.SeverityError, Path: "a.yaml", Profile: hostile, File: hostile, Where: hostile, Message: hostile, Fix: hostile}
	r.Report.Findings, r.Report.Suppressed = []lint.Finding{f}, []lint.Suppressed{{Finding: f, Justification: hostile}}
	var log struct{ Runs []struct{ Results any } }
	if err := json.Unmarshal(write(t, "sarif", r), &log); err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprint(log.Runs[0].Results) // as people see it
	for _, markup := range []string{"](", "][", "<img", "</script", "<!--", "@everyone", "&#64;", "&commat;", "{0}", "@all"} {
		if strings.Contains(out, markup) {
			t.Errorf("%q is in %s", markup, out)
		}
	}
	if !strings.Contains(strings.ReplaceAll(out, "\u200b", ""), hostile) {
		t.Errorf("people do not see what it says: %s", out)
	}
}

// TestJUnit: the report is XML, and its counts are those of its tests.
func TestJUnit(t *testing.T) {
	for _, r := range []output.Run{run(), {Report: &lint.Report{}}} {
		out := write(t, "junit", r)
		failures, cases := 0, 0
		var want struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
		}
		if err := xml.Unmarshal(out, &want); err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(out))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if start, ok := token.(xml.StartElement); ok {
				switch start.Name.Local {
				case "testcase":
					cases++
				case "failure":
					failures++
				}
			}
		}
		if cases != want.Tests || failures != want.Failures || cases == 0 {
			t.Errorf("%d tests and %d failures, its head says %d and %d", cases, failures, want.Tests, want.Failures)
		}
	}
}

// TestUnknown: an unknown format is an error that lists the known ones.
func TestUnknown(t *testing.T) {
	err := output.Write(io.Discard, "html", run())
	if err == nil || !strings.Contains(err.Error(), "text, json, yaml, sarif, github, junit") {
		t.Errorf("got %v", err)
	}
}
