package lint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
)

// ConfigName is the name of the file in which a repository sets the folders of its profiles and
// pools, how profiles are checked, and which findings are accepted, with the reasons.
const ConfigName = ".osm-gitops.yaml"

// ConfigFile is .osm-gitops.yaml. It is read strictly: a misspelt or repeated key is an
// error. Paths in it are relative to the folder that it is in.
type ConfigFile struct {
	// Profiles is the folder of the profiles, such as "profiles". The commands lint, diff, bundle
	// and render read it if no other folder is given. Default: none.
	Profiles string `json:"profiles,omitempty"`
	// Pools is the folder with manifests of pools, such as "pools". The commands diff, bundle and
	// render read it if no other pools are given, and lint uses it to name the pools that use a
	// removed profile. Default: none.
	Pools string `json:"pools,omitempty"`
	// Lint is how "osm-gitops lint" checks profiles.
	Lint ConfigLint `json:"lint,omitempty"`
}

// ConfigLint is how "osm-gitops lint" checks profiles.
type ConfigLint struct {
	// Providers are the cloud providers for which profiles are rendered, of those that
	// a profile supports, such as aws or vsphere. A profile that supports none of these
	// is rendered for all that it does. Default: all of them.
	Providers []osm.CloudProvider `json:"providers,omitempty"`
	// KubeletVersions are the minor releases of the kubelet for which profiles are
	// rendered, such as "1.34" (in quotes: 1.30 is the number 1.3). Default: all that
	// osm-gitops supports.
	KubeletVersions []string `json:"kubeletVersions,omitempty"`
	// Shellcheck says whether shellcheck reads the scripts: "auto" if it is installed,
	// "require" makes it an error that it is not, "off" leaves it out. The flag
	// --shellcheck comes first. Default: auto.
	Shellcheck string `json:"shellcheck,omitempty"`
	// ShellcheckSeverity is the least grave level of shellcheck that is a finding:
	// error, warning, info or style. Default: info.
	ShellcheckSeverity string `json:"shellcheckSeverity,omitempty"`
	// Severity gives rules another severity: error, warning or note. A rule cannot be
	// turned off here; a suppression says why.
	Severity map[string]string `json:"severity,omitempty"`
	// Suppress lists findings that are accepted.
	Suppress []Suppression `json:"suppress,omitempty"`
}

// Suppression accepts findings of a rule. All that it says must hold for a finding.
type Suppression struct {
	// Rule whose findings are accepted, such as eval.
	Rule string `json:"rule"`
	// Reason explains to later readers why the findings are accepted.
	Reason string `json:"reason"`
	// Path is a glob for the file, such as "profiles/osp-ubuntu*.yaml"; "**" matches any
	// number of folders. Default: every file.
	Path string `json:"path,omitempty"`
	// Profile is the name of the profile. Default: every profile.
	Profile string `json:"profile,omitempty"`
	// File is a glob for the path on the node, such as "/opt/bin/*". Default: every
	// file.
	File string `json:"file,omitempty"`
	// Message is a part of the finding's message, such as SC2086. Default: any message.
	Message string `json:"message,omitempty"`
	// Until is the last day on which the suppression applies, such as 2027-03-31. After
	// that the findings are reported again, with one about the suppression. Default: no end.
	Until string `json:"until,omitempty"`
}

// Config is a valid file.
type Config struct {
	ConfigFile
	// Path of the file as errors name it, "" if there is no file.
	Path string

	until []time.Time // of each suppression; the zero time means no end
	lines strictyaml.Lines
}

const dateLayout = "2006-01-02"

// ParseConfig reads a file. The error is one or more *strictyaml.Problem joined, each with its
// line.
func ParseConfig(path string, data []byte) (*Config, error) {
	c := &Config{Path: path}
	var err error
	if c.lines, err = strictyaml.DecodeFile(path, data, &c.ConfigFile); err != nil {
		return nil, err
	}
	var problems []error
	report := func(field, format string, args ...any) {
		problems = append(problems, &strictyaml.Problem{Path: path, Line: c.lines.Line(field), Field: field, Err: fmt.Errorf(format, args...)})
	}
	for field, folder := range map[string]string{"profiles": c.Profiles, "pools": c.Pools} {
		if folder != "" && (!filepath.IsLocal(filepath.FromSlash(folder)) || strings.Contains(folder, "\\")) {
			report(field, "%q is not a folder below the folder of this file: write a relative path such as %s, with forward slashes", folder, field)
		}
	}
	oneOf := func(field, value string, values ...string) {
		if value != "" && !slices.Contains(values, value) {
			report(field, "invalid value %q: use one of %s", value, strings.Join(values, ", "))
		}
	}
	oneOf("lint.shellcheck", c.Lint.Shellcheck, "auto", "require", "off")
	oneOf("lint.shellcheckSeverity", c.Lint.ShellcheckSeverity, "error", "warning", "info", "style")
	for i, minor := range c.Lint.KubeletVersions {
		supported := matrix.Kubelets()
		if !slices.ContainsFunc(supported, func(v string) bool { return strings.HasPrefix(v, minor+".") && strings.Count(minor, ".") == 1 }) {
			report(fmt.Sprintf("lint.kubeletVersions[%d]", i), "%q is not a supported minor release: write one such as \"1.34\"; supported releases are %s", minor, strings.Join(supported, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Lint.Severity)) {
		field := "lint.severity[" + name + "]"
		oneOf(field, c.Lint.Severity[name], string(SeverityError), string(SeverityWarning), string(SeverityNote))
		if msg := unknownRule(name); msg != "" {
			report(field, "%s", msg)
		}
	}
	for i, s := range c.Lint.Suppress {
		c.until = append(c.until, time.Time{})
		c.checkAndParseSuppression(i, s, report)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) checkAndParseSuppression(i int, s Suppression, report func(field, format string, args ...any)) {
	field := fmt.Sprintf("lint.suppress[%d]", i)
	if msg := unknownRule(s.Rule); msg != "" {
		report(field+".rule", "%s", msg)
	}
	if strings.TrimSpace(s.Reason) == "" {
		report(field+".reason", "is empty: state why the finding is accepted")
	}
	for name, glob := range map[string]string{"path": s.Path, "file": s.File} {
		if !doublestar.ValidatePattern(glob) {
			report(field+"."+name, "invalid glob %q: a bracket is not closed", glob)
		}
	}
	if s.Until != "" {
		until, err := time.Parse(dateLayout, s.Until)
		if err != nil {
			report(field+".until", "invalid date %q: use the form 2027-03-31", s.Until)
		}
		c.until[i] = until
	}
}

// unknownRule says that there is no such rule, "" when there is.
func unknownRule(name string) string {
	var known []string
	for _, r := range Rules() {
		known = append(known, r.Name)
	}
	if slices.Contains(known, name) {
		return ""
	}
	return fmt.Sprintf("unknown rule %q%s", name, cmp.Or(phrase.DidYouMean(name, known), ": docs/lint-rules.md lists all rules"))
}

// Apply sets the severities of the file and removes the findings that it suppresses. Findings
// of RuleIncomplete remain unchanged. The date today is compared with "until". Relative
// converts the path of a finding to one relative to the file's folder.
func (c *Config) Apply(findings []Finding, today time.Time, relative func(path string) string) (remaining []Finding, suppressed []Suppressed) {
	remaining, suppressed, used := c.suppress(findings, today, relative)
	return SortAndCompact(append(remaining, c.staleSuppressions(used, today)...)), suppressed
}

// Filter is Apply for a part of the findings: it does not report what no finding of them needs.
func (c *Config) Filter(findings []Finding, today time.Time, relative func(path string) string) []Finding {
	remaining, _, _ := c.suppress(findings, today, relative)
	return remaining
}

// suppress also returns which suppressions match a finding.
func (c *Config) suppress(findings []Finding, today time.Time, relative func(path string) string) (remaining []Finding, suppressed []Suppressed, used []bool) {
	used = make([]bool, len(c.Lint.Suppress))
	for _, f := range findings {
		if f.Rule == RuleIncomplete {
			remaining = append(remaining, f) // an unchecked file cannot be accepted
			continue
		}
		if s, ok := c.Lint.Severity[f.Rule]; ok {
			f.Severity = Severity(s)
		}
		accepted := -1
		for i, s := range c.Lint.Suppress {
			if !s.matches(f, relative(f.Path)) {
				continue
			}
			used[i] = true
			if accepted < 0 && !c.expired(i, today) {
				accepted = i
			}
		}
		if accepted < 0 {
			remaining = append(remaining, f)
			continue
		}
		suppressed = append(suppressed, Suppressed{Finding: f, Justification: c.Lint.Suppress[accepted].Reason})
	}
	return remaining, suppressed, used
}

// staleSuppressions returns findings about suppressions that are expired or match no finding.
func (c *Config) staleSuppressions(used []bool, today time.Time) []Finding {
	var out []Finding
	for i, s := range c.Lint.Suppress {
		field := fmt.Sprintf("lint.suppress[%d]", i)
		about := Finding{Path: c.Path, Line: c.lines.Line(field + ".rule"), Field: field}
		switch {
		case !used[i]:
			about.Rule, about.Severity = RuleUnused, SeverityNote
			about.Message, about.Fix = fmt.Sprintf("the suppression of %q matches no finding", s.Rule), "remove it"
		case c.expired(i, today):
			about.Rule = RuleExpired
			about.Severity = SeverityWarning
			about.Line = c.lines.Line(field + ".until")
			about.Message = fmt.Sprintf("the suppression of %q expired after %s: %s", s.Rule, s.Until, s.Reason)
			about.Fix = "fix what it suppresses and remove it, or set a later until"
		default:
			continue
		}
		if severity, ok := c.Lint.Severity[about.Rule]; ok {
			about.Severity = Severity(severity)
		}
		out = append(out, about)
	}
	return out
}

// expired reports whether the last day of a suppression is over.
func (c *Config) expired(i int, today time.Time) bool {
	return !c.until[i].IsZero() && today.Format(dateLayout) > c.until[i].Format(dateLayout)
}

func (s Suppression) matches(f Finding, path string) bool {
	glob := func(pattern, name string) bool {
		ok, err := doublestar.Match(pattern, filepath.ToSlash(name))
		return pattern == "" || err == nil && ok
	}
	return s.Rule == f.Rule && glob(s.Path, path) && glob(s.File, f.File) &&
		(s.Profile == "" || s.Profile == f.Profile) && strings.Contains(f.Message, s.Message)
}
