package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Thing is what is compared.
type Thing string

// The things there are, in the order in which they are told.
const (
	ThingNodeProvenance Thing = "NodeProvenance"
	ThingRecord         Thing = "record"
	ThingSettings       Thing = "settings"
	ThingRepository     Thing = "repository"
	ThingSignature      Thing = "signature"
	ThingOSP            Thing = "OSP"
	ThingOSC            Thing = "OSC"
	ThingSecret         Thing = "Secret"
)

var order = []Thing{ThingNodeProvenance, ThingRecord, ThingSettings, ThingRepository, ThingSignature, ThingOSP, ThingOSC, ThingSecret}

// Result is what came of a comparison.
type Result string

// The results there are. Each completes "it ...".
const (
	// Agrees with what was computed.
	Agrees Result = "agrees"
	// Differs from it.
	Differs Result = "differs"
	// Missing: is not there, and should be.
	Missing Result = "missing"
	// Unproven: could not be compared, so that not everything is proven.
	Unproven Result = "unproven"
	// Skipped: needs no comparison; the note says why.
	Skipped Result = "skipped"
)

// Check is one thing that was looked at.
type Check struct {
	Thing Thing `json:"thing"`
	// Name says which one: "kube-system/workers-kube-system-config".
	Name   string `json:"name"`
	Result Result `json:"result"`
	// Note says what it was compared with, or why it was not.
	Note string `json:"note,omitempty"`
	// Difference is the first one, where it differs.
	Difference *Difference `json:"difference,omitempty"`
}

// Difference is one place where something is not what it should be. It holds no
// credential.
type Difference struct {
	// Field is where: a field, an annotation, a file on the node.
	Field string `json:"field"`
	// Line counts from 1 in the text that stands there; 0 where it is no text.
	Line     int    `json:"line,omitempty"`
	Expected string `json:"expected"`
	Found    string `json:"found"`
}

// Where says the place in a line of text.
func (d Difference) Where() string {
	if d.Line > 0 {
		return fmt.Sprintf("%s, line %d", d.Field, d.Line)
	}
	return d.Field
}

// Report is what verifying one subject came to.
type Report struct {
	// Subject is "node/NAME" or "machinedeployment/NAMESPACE/NAME".
	Subject string `json:"subject"`
	// Verdict is one line: "agrees", "OSC differs", "OSC and Secret differ", "unproven".
	Verdict string `json:"verdict"`
	// What the subject was provisioned from, by its record.
	Profile    string `json:"profile,omitempty"`
	Version    string `json:"version,omitempty"`
	Repository string `json:"repository,omitempty"`
	Commit     string `json:"commit,omitempty"`
	// InputDigest names the record.
	InputDigest string `json:"inputDigest,omitempty"`
	// Engine is set where another version of the rendering made the record.
	Engine string `json:"engine,omitempty"`
	// Checks in the order of things.
	Checks []Check `json:"checks"`
}

// VerdictAgrees is the one verdict that says that everything agrees.
const VerdictAgrees = "agrees"

// Agrees reports whether everything does.
func (r *Report) Agrees() bool { return r.Verdict == VerdictAgrees }

// OtherEngine reports whether nothing stands against the subject but that another
// release is needed to render what is recorded.
func (r *Report) OtherEngine() bool { return r.Engine != "" && len(r.wrong()) == 0 }

// First is the first difference, nil where there is none.
func (r *Report) First() *Check {
	for i := range r.Checks {
		if r.Checks[i].Result == Differs || r.Checks[i].Result == Missing {
			return &r.Checks[i]
		}
	}
	return nil
}

// wrong are the things that differ or are missing, each once.
func (r *Report) wrong() []string {
	var out []string
	for _, c := range r.Checks {
		if (c.Result == Differs || c.Result == Missing) && !slices.Contains(out, string(c.Thing)) {
			out = append(out, string(c.Thing))
		}
	}
	return out
}

// conclude sorts the checks and says what they come to.
func (r *Report) conclude() {
	for i := range r.Checks { // security.md 28
		c := &r.Checks[i]
		c.Name, c.Note = oneLine(c.Name), oneLine(c.Note)
	}
	for _, text := range []*string{&r.Subject, &r.Profile, &r.Version, &r.Repository, &r.Commit, &r.InputDigest, &r.Engine} {
		*text = oneLine(*text)
	}
	slices.SortStableFunc(r.Checks, func(a, b Check) int { return slices.Index(order, a.Thing) - slices.Index(order, b.Thing) })
	wrong := r.wrong()
	unproven := slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Result == Unproven })
	switch {
	case len(wrong) == 1:
		verb := "differs"
		switch first := r.First(); {
		case first.Result == Missing:
			verb = "is missing"
			if wrong[0] == string(ThingSettings) {
				verb = "are missing"
			}
		case wrong[0] == string(ThingSettings):
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

// maxText bounds a text of a report, in bytes. What is longer quotes a stranger.
const maxText = 4 << 10 // 4 KiB

// oneLine makes a text that may quote a stranger one line without escapes, and without
// the user and password of a URL (security.md 14, 28).
func oneLine(s string) string {
	s = strings.NewReplacer("\n", " ", "\r", " ").Replace(s)
	return redact.Shorten(userInfo.ReplaceAllString(redact.Printable(s), "://"+hidden+"@"), maxText)
}

// add notes a check. Of one that was looked at twice, the graver result counts.
func (r *Report) add(c Check) {
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

// differs makes a check of a difference; nil is none.
func (c Check) with(d *Difference) Check {
	c.Result = Agrees
	if d != nil {
		c.Result, c.Difference = Differs, d
	}
	return c
}

func (c Check) unproven(format string, args ...any) Check {
	c.Result, c.Note = Unproven, fmt.Sprintf(format, args...)
	return c
}

func (c Check) skipped(format string, args ...any) Check {
	c.Result, c.Note = Skipped, fmt.Sprintf(format, args...)
	return c
}

func (c Check) missing(note string) Check {
	c.Result, c.Note = Missing, note
	return c
}

// field is one value that has a known counterpart.
type field struct{ name, want, have string }

// firstOf is the first field that is not what it should be.
func firstOf(fields ...field) *Difference {
	for _, f := range fields {
		if f.want != f.have {
			return differ(f.name, 0, f.want, f.have)
		}
	}
	return nil
}
