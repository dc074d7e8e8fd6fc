package output

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// The part of SARIF 2.1.0 that a linter needs. The library of this format,
// github.com/owenrumney/go-sarif, writes two dozen empty lists with each result; the test
// parses this output with it. https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		ColumnKind  string            `json:"columnKind"`
		Results     []sarifResult     `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string       `json:"id"`
		ShortDescription     sarifText    `json:"shortDescription"`
		FullDescription      sarifText    `json:"fullDescription"`
		Help                 sarifText    `json:"help"`
		HelpURI              string       `json:"helpUri"`
		DefaultConfiguration sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifInvocation struct {
		ExecutionSuccessful        bool                `json:"executionSuccessful"`
		ToolExecutionNotifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
	sarifResult struct {
		RuleID              string             `json:"ruleId"`
		RuleIndex           int                `json:"ruleIndex"`
		Level               string             `json:"level"`
		Message             sarifText          `json:"message"`
		Locations           []sarifLocation    `json:"locations"`
		PartialFingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions        []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
	sarifLocation struct {
		PhysicalLocation sarifPhysical          `json:"physicalLocation"`
		LogicalLocations []sarifLogicalLocation `json:"logicalLocations,omitempty"`
	}
	sarifLogicalLocation struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
	}
	sarifPhysical struct {
		ArtifactLocation sarifArtifact `json:"artifactLocation"`
		Region           *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// home is the address of this project's pages.
const home = "https://github.com/osm-gitops/osm-gitops"

func writeSARIF(w io.Writer, run Run) error {
	out := sarifRun{
		Tool: sarifTool{Driver: sarifDriver{Name: "osm-gitops", Version: run.Version, InformationURI: home, Rules: []sarifRule{}}},
		// Columns of a Finding count bytes, which SARIF does not have. This kind is the same
		// for ASCII, of which profiles consist.
		ColumnKind:  "unicodeCodePoints",
		Invocations: []sarifInvocation{{ExecutionSuccessful: true}},
		Results:     []sarifResult{},
	}
	index := map[string]int{}
	add := func(r lint.Rule) {
		if _, ok := index[r.Name]; ok {
			return
		}
		index[r.Name] = len(out.Tool.Driver.Rules)
		out.Tool.Driver.Rules = append(out.Tool.Driver.Rules, sarifRuleOf(r))
	}
	for _, r := range run.Rules {
		add(r)
	}
	for _, m := range run.Report.Missing {
		n := sarifNotification{Level: "note", Message: sarifText{Text: escapeSARIFText(m.Name + " is not installed: " + m.Means)}}
		out.Invocations[0].ToolExecutionNotifications = append(out.Invocations[0].ToolExecutionNotifications, n)
	}
	seen := map[string]int{}
	result := func(f lint.Finding) sarifResult {
		add(lint.Rule{Name: f.Rule, Severity: f.Severity, Summary: f.Rule, Help: f.Rule})
		r := sarifResultOf(f, seen)
		r.RuleIndex = index[f.Rule]
		return r
	}
	for _, f := range run.Report.Findings {
		out.Results = append(out.Results, result(f))
	}
	for _, s := range run.Report.Suppressed {
		r := result(s.Finding)
		r.Suppressions = []sarifSuppression{{Kind: "external", Justification: escapeSARIFText(shortenToOneLine(s.Justification))}}
		out.Results = append(out.Results, r)
	}
	return encodeJSON(w, sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{out}})
}

func sarifRuleOf(r lint.Rule) sarifRule {
	return sarifRule{
		ID: r.Name, ShortDescription: sarifText{Text: r.Summary}, FullDescription: sarifText{Text: r.Help},
		Help:                 sarifText{Text: r.Help, Markdown: r.Help},
		HelpURI:              home + "/blob/main/docs/lint-rules.md#" + r.Name,
		DefaultConfiguration: sarifDefault{Level: string(r.Severity)},
	}
}

// placeholder matches the text that SARIF replaces by an argument (section 3.11.5).
var placeholder = regexp.MustCompile(`\{([0-9])`)

// escapeSARIFText prevents text from becoming a link of SARIF (section 3.11.6), markup or a
// placeholder.
func escapeSARIFText(s string) string {
	return placeholder.ReplaceAllString(redact.BreakMarkup(s), "{\u200b$1")
}

func sarifResultOf(f lint.Finding, seen map[string]int) sarifResult {
	text := shortenToOneLine(f.Message)
	if c := nodeFileAndPools(f); c != "" {
		text += " (on " + c + ")"
	}
	if f.Fix != "" {
		text += ". Fix: " + shortenToOneLine(f.Fix)
	}
	location := sarifLocation{PhysicalLocation: sarifPhysical{ArtifactLocation: sarifArtifact{URI: pathToURI(f.Path)}}}
	if f.Line > 0 {
		location.PhysicalLocation.Region = &sarifRegion{StartLine: f.Line, StartColumn: max(f.Column, 0)}
	}
	if name := strings.Join(slices.DeleteFunc([]string{f.Profile, f.Field}, func(s string) bool { return s == "" }), "/"); name != "" {
		location.LogicalLocations = []sarifLogicalLocation{{FullyQualifiedName: escapeSARIFText(shortenToOneLine(name))}}
	}
	return sarifResult{
		RuleID: f.Rule, Level: string(f.Severity), Message: sarifText{Text: escapeSARIFText(text)}, Locations: []sarifLocation{location},
		PartialFingerprints: map[string]string{"osmGitopsFinding/v1": fingerprint(f, seen)},
	}
}

// fingerprint identifies a finding across commits that change its line or the profile's
// version. Equal findings are numbered.
func fingerprint(f lint.Finding, seen map[string]int) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{f.Rule, f.Path, f.Profile, f.Field, f.File, f.Message}, "\x00")))
	id := hex.EncodeToString(sum[:16])
	seen[id]++
	return id + ":" + strconv.Itoa(seen[id])
}

// pathToURI returns a path as a URI reference: relative paths stay relative to the repository.
func pathToURI(name string) string {
	name = filepath.ToSlash(name)
	if path.IsAbs(name) {
		return (&url.URL{Scheme: "file", Path: name}).String()
	}
	return (&url.URL{Path: strings.TrimPrefix(path.Clean(name), "./")}).String()
}
