package output

import (
	"encoding/xml"
	"io"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// The parts of JUnit's XML that GitLab, Jenkins and Azure read; there is no standard for it:
// https://docs.gitlab.com/ci/testing/unit_test_reports/
// https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		Classname string        `xml:"classname,attr"`
		File      string        `xml:"file,attr,omitempty"`
		Skipped   *junitSkipped `xml:"skipped"`
		Failure   *junitFailure `xml:"failure"`
		SystemOut string        `xml:"system-out,omitempty"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit prints a suite for each file with findings, with a failed test for each finding.
// One more suite with a single passed test contains the summary: some readers reject a report
// without tests.
func writeJUnit(w io.Writer, run Run) error {
	r := run.Report
	out := junitSuites{Name: "osm-gitops lint"}
	out.Suites = []junitSuite{{Name: "osm-gitops lint", Cases: []junitCase{{Name: "profiles are rendered", Classname: "osm-gitops lint", SystemOut: formatSummary(r)}}}}
	suites := map[string]int{}
	add := func(f lint.Finding, c junitCase) {
		i, ok := suites[f.Path]
		if !ok {
			i = len(out.Suites)
			suites[f.Path] = i
			out.Suites = append(out.Suites, junitSuite{Name: shortenToOneLine(f.Path)})
		}
		out.Suites[i].Cases = append(out.Suites[i].Cases, c)
	}
	for _, f := range r.Findings {
		c := junitCaseOf(f)
		if f.Severity == lint.SeverityNote {
			c.SystemOut = formatFinding(f)
		} else {
			c.Failure = &junitFailure{Message: shortenToOneLine(f.Message), Type: string(f.Severity), Text: locationOf(f) + "\n" + findingText(f)}
		}
		add(f, c)
	}
	for _, s := range r.Suppressed {
		c := junitCaseOf(s.Finding)
		c.Skipped = &junitSkipped{Message: shortenToOneLine(s.Justification)}
		add(s.Finding, c)
	}
	for i := range out.Suites {
		s := &out.Suites[i]
		for _, c := range s.Cases {
			s.Tests++
			if c.Failure != nil {
				s.Failures++
			}
			if c.Skipped != nil {
				s.Skipped++
			}
		}
		out.Tests += s.Tests
		out.Failures += s.Failures
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(runnerlog.XML(w))
	e.Indent("", "  ")
	if err := e.Encode(out); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitCaseOf(f lint.Finding) junitCase {
	return junitCase{Name: f.Rule + " " + locationOf(f), Classname: f.Rule, File: shortenToOneLine(f.Path)}
}
