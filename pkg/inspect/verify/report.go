package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Thing is an object of comparison.
type Thing string

// Things in the order of the report.
const (
	ThingNodeProvenance Thing = "NodeProvenance"
	ThingNodeFiles      Thing = "node's files"
	ThingRecord         Thing = "record"
	ThingSettings       Thing = "settings"
	ThingRepository     Thing = "repository"
	ThingSignature      Thing = "signature"
	ThingOSP            Thing = "OSP"
	ThingOSC            Thing = "OSC"
	ThingSecret         Thing = "Secret"
)

var order = []Thing{ThingNodeProvenance, ThingNodeFiles, ThingRecord, ThingSettings, ThingRepository, ThingSignature, ThingOSP, ThingOSC, ThingSecret}

// Result is the result of a comparison.
type Result string

// Each result completes the sentence "it ...".
const (
	// Agrees: equals the computed value.
	Agrees Result = "agrees"
	// Differs: does not equal it.
	Differs Result = "differs"
	// Missing: does not exist, but should.
	Missing Result = "missing"
	// Unproven: could not be compared, so the proof is incomplete.
	Unproven Result = "unproven"
	// Skipped: needs no comparison; the note gives the reason.
	Skipped Result = "skipped"
)

// Check is the comparison of one thing.
type Check struct {
	Thing Thing `json:"thing"`
	// Name identifies the thing: "kube-system/workers-kube-system-config".
	Name   string `json:"name"`
	Result Result `json:"result"`
	// Note says what it was compared with, or why it was not compared.
	Note string `json:"note,omitempty"`
	// Difference is the first difference.
	Difference *Difference `json:"difference,omitempty"`
}

// Difference is one unexpected value. It contains no credential.
type Difference struct {
	// Field is the place: a field, an annotation, a file on the node.
	Field string `json:"field"`
	// Line counts from 1 in the text of that place; 0 if it has no lines.
	Line     int    `json:"line,omitempty"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
}

// Where formats the place on one line.
func (d Difference) Where() string {
	if d.Line > 0 {
		return fmt.Sprintf("%s, line %d", d.Field, d.Line)
	}
	return d.Field
}

// Report is the result of verifying one subject.
type Report struct {
	// Subject is "node/NAME" or "machinedeployment/NAMESPACE/NAME".
	Subject string `json:"subject"`
	// Verdict is one line: "agrees", "OSC differs", "OSC and Secret differ", "unproven".
	Verdict string `json:"verdict"`
	// Origin of the subject, according to its record.
	Profile    string `json:"profile,omitempty"`
	Version    string `json:"version,omitempty"`
	Repository string `json:"repository,omitempty"`
	Commit     string `json:"commit,omitempty"`
	// InputDigest identifies the record.
	InputDigest string `json:"inputDigest,omitempty"`
	// Engine is set if another version of the rendering engine created the record.
	Engine string `json:"engine,omitempty"`
	// Checks are in the order of the things.
	Checks []Check `json:"checks"`
}

// VerdictAgrees is the only verdict of a complete proof.
const VerdictAgrees = "agrees"

// Agrees reports whether everything agrees.
func (r *Report) Agrees() bool { return r.Verdict == VerdictAgrees }

// NeedsOnlyOtherEngine reports whether the only obstacle is that the record needs another release.
func (r *Report) NeedsOnlyOtherEngine() bool { return r.Engine != "" && len(r.mismatchedThings()) == 0 }

// FirstDifference returns the first difference, or nil.
func (r *Report) FirstDifference() *Check {
	for i := range r.Checks {
		if r.Checks[i].Result == Differs || r.Checks[i].Result == Missing {
			return &r.Checks[i]
		}
	}
	return nil
}

// mismatchedThings lists the things that differ or are missing, without duplicates.
func (r *Report) mismatchedThings() []string {
	var out []string
	for _, c := range r.Checks {
		if (c.Result == Differs || c.Result == Missing) && !slices.Contains(out, string(c.Thing)) {
			out = append(out, string(c.Thing))
		}
	}
	return out
}

// cleanSortAndSetVerdict sorts the checks and sets the verdict.
func (r *Report) cleanSortAndSetVerdict() {
	for i := range r.Checks { // security.md 28
		c := &r.Checks[i]
		c.Name, c.Note = sanitizeAndMaskLine(c.Name), sanitizeAndMaskLine(c.Note)
	}
	for _, text := range []*string{&r.Subject, &r.Profile, &r.Version, &r.Repository, &r.Commit, &r.InputDigest, &r.Engine} {
		*text = sanitizeAndMaskLine(*text)
	}
	slices.SortStableFunc(r.Checks, func(a, b Check) int { return slices.Index(order, a.Thing) - slices.Index(order, b.Thing) })
	wrong := r.mismatchedThings()
	unproven := slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Result == Unproven })
	switch {
	case len(wrong) == 1:
		verb := "differs"
		switch first := r.FirstDifference(); {
		case first.Result == Missing:
			verb = "is missing"
			if wrong[0] == string(ThingSettings) {
				verb = "are missing"
			}
		case wrong[0] == string(ThingSettings), wrong[0] == string(ThingNodeFiles):
			verb = "differ"
		}
		r.Verdict = wrong[0] + " " + verb
	case len(wrong) > 1:
		last := len(wrong) - 1
		r.Verdict = strings.Join(wrong[:last], ", ") + " and " + wrong[last] + " differ"
	case r.Engine != "":
		r.Verdict = "another release is needed"
	case unproven:
		r.Verdict = "unproven"
	default:
		r.Verdict = VerdictAgrees
	}
}

// maxText bounds a text of a report, in bytes. Longer texts quote untrusted input.
const maxText = 4 << 10 // 4 KiB

// sanitizeAndMaskLine formats untrusted text on one line, without control characters and without the
// credentials of a URL (security.md 14, 28).
func sanitizeAndMaskLine(s string) string {
	s = strings.NewReplacer("\n", " ", "\r", " ").Replace(s)
	return redact.Shorten(userInfo.ReplaceAllString(redact.RemoveControlChars(s), "://"+hidden+"@"), maxText)
}

// addOrMerge records a check. If a thing was checked twice, the more severe result counts.
func (r *Report) addOrMerge(c Check) {
	i := slices.IndexFunc(r.Checks, func(had Check) bool { return had.Thing == c.Thing && had.Name == c.Name })
	switch {
	case i < 0:
		r.Checks = append(r.Checks, c)
	case c.Result == Skipped:
	case r.Checks[i].Result == Agrees && c.Result == Agrees:
		r.Checks[i].Note += "; " + c.Note
	case r.Checks[i].Result == Agrees || r.Checks[i].Result == Skipped || r.Checks[i].Result == Unproven && c.Result != Agrees:
		r.Checks[i] = c
	}
}

// withDifference turns a difference into a check; nil means agreement.
func (c Check) withDifference(d *Difference) Check {
	c.Result = Agrees
	if d != nil {
		c.Result, c.Difference = Differs, d
	}
	return c
}

// asUnproven returns the check with the result Unproven.
func (c Check) asUnproven(format string, args ...any) Check {
	c.Result, c.Note = Unproven, fmt.Sprintf(format, args...)
	return c
}

// asSkipped returns the check with the result Skipped.
func (c Check) asSkipped(format string, args ...any) Check {
	c.Result, c.Note = Skipped, fmt.Sprintf(format, args...)
	return c
}

// asMissing returns the check with the result Missing.
func (c Check) asMissing(note string) Check {
	c.Result, c.Note = Missing, note
	return c
}

// field is a value with its expected counterpart.
type field struct{ name, want, have string }

// firstMismatch returns the first field with an unexpected value.
func firstMismatch(fields ...field) *Difference {
	for _, f := range fields {
		if f.want != f.have {
			return newDifference(f.name, 0, f.want, f.have)
		}
	}
	return nil
}
