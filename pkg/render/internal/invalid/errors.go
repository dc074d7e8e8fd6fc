package invalid

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Error says that a profile, a pool or a setting is wrong. Rendering
// again is pointless until it has changed.
type Error struct {
	// Profile, Version and Commit name the profile, if the error is about one.
	Profile, Version, Commit string
	// Pool is the MachineDeployment, "namespace/name", if the error is about one.
	Pool string
	// Path is the profile's file, if it is known.
	Path string
	// Line counts from 1. It is a line of Path if the profile has Lines, otherwise a line of
	// the text in Field. It is 0 if no line is known.
	Line int
	// Stage is "bootstrap" or "provisioning", if the error is about one.
	Stage string
	// File is the path on the node of the file that the error is about.
	File string
	// Field is the field to change: "spec.bootstrapConfig.files[3].content.inline.data",
	// "spec.template.spec.providerSpec.value.operatingSystem", "settings.nodeHTTPProxy".
	Field string
	// Err is the cause. It contains no credentials.
	Err error

	// LineOfPath is true if Line is a line of Path, and not of the text in Field.
	LineOfPath bool
}

// Limits on a message, in bytes: it is printed, logged, and part of an event, but the text that
// it quotes can have a megabyte.
const (
	MaxMessageBytes = 1000
	MaxNameBytes    = 250
)

// maxProblems is how many problems one error lists; users do not read more.
const maxProblems = 50

// Error returns "rendering profile "osp-x" v1.2.3 at 3f2a9c1: profiles/x.yaml:41:
// bootstrapConfig.files[3] "/opt/bin/x": cause", without the parts that are unknown.
func (e *Error) Error() string {
	if e.Profile == "" && e.Field == "" && e.Path == "" {
		return e.Err.Error()
	}
	var b strings.Builder
	switch {
	case e.Profile != "":
		fmt.Fprintf(&b, "rendering profile %q", e.Profile)
		if e.Version != "" {
			b.WriteString(" " + e.Version)
		}
		if e.Commit != "" {
			b.WriteString(" at " + shortCommit(e.Commit))
		}
		if e.Pool != "" {
			fmt.Fprintf(&b, " for %s", e.Pool)
		}
		b.WriteString(": ")
	case e.Pool != "":
		fmt.Fprintf(&b, "reading MachineDeployment %q: ", e.Pool)
	}
	if e.Path != "" {
		b.WriteString(e.Path)
		if line := e.PathLine(); line > 0 {
			b.WriteString(":" + strconv.Itoa(line))
		}
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(redact.ShortenWithCount(e.shortField(), MaxNameBytes))
		if e.File != "" {
			fmt.Fprintf(&b, " %q", redact.ShortenWithCount(e.File, MaxNameBytes))
		}
		b.WriteString(": ")
		if e.Line > 0 && !e.LineOfPath {
			b.WriteString("line " + strconv.Itoa(e.Line) + " of the template: ")
		}
	}
	b.WriteString(redact.ShortenWithCount(e.Err.Error(), MaxMessageBytes))
	return b.String()
}

// PathLine is the line of Path, 0 if that is unknown.
func (e *Error) PathLine() int {
	if !e.LineOfPath {
		return 0
	}
	return e.Line
}

func (e *Error) Unwrap() error { return e.Err }

// shortField omits the parts of the path that are the same for every file.
func (e *Error) shortField() string {
	if e.Stage == "" {
		return e.Field
	}
	return strings.TrimSuffix(strings.TrimPrefix(e.Field, "spec."), ".content.inline.data")
}

// shortCommit shortens a Git object name and returns other revisions unchanged.
func shortCommit(commit string) string {
	if len(commit) < 40 || strings.Trim(commit, "0123456789abcdef") != "" {
		return commit
	}
	return commit[:7]
}

// LineOf returns the line of an offset in a text; 1 is the first.
func LineOf(text string, offset int) int {
	return 1 + strings.Count(text[:min(max(offset, 0), len(text))], "\n")
}

// At returns an Error about one field of a stage or of the spec.
func At(field, format string, args ...any) *Error {
	return &Error{Field: field, Err: fmt.Errorf(format, args...)}
}

// SetStage sets the stage of problems.
func SetStage(stage string, problems ...*Error) []*Error {
	for _, p := range problems {
		p.Stage = stage
	}
	return problems
}

// AsSingleError returns one Error for all problems, and nil if there are none.
func AsSingleError(problems []*Error) error {
	switch len(problems) {
	case 0:
		return nil
	case 1:
		return problems[0]
	}
	return &Error{Err: Join(problems)}
}

// Join is errors.Join for the first maxProblems of problems.
func Join(problems []*Error) error {
	errs := make([]error, 0, len(problems))
	for i, p := range problems {
		if i == maxProblems {
			errs = append(errs, &Error{Err: fmt.Errorf("%d more problems: fix those above first", len(problems)-i)})
			break
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

// Problems returns the Errors in an error of Check or Render, one per
// thing to fix.
func Problems(err error) []*Error {
	switch e := err.(type) { //nolint:errorlint // this is the walk over the tree that errors.As would hide
	case nil:
		return nil
	case *Error:
		if inner := Problems(e.Err); len(inner) > 0 {
			return inner
		}
		return []*Error{e}
	case interface{ Unwrap() []error }:
		var out []*Error
		for _, err := range e.Unwrap() {
			out = append(out, Problems(err)...)
		}
		return out
	}
	return nil
}

// FromJSONError rewrites an error of encoding/json without quoting values.
func FromJSONError(field string, err error) *Error {
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if mismatch.Field != "" {
			field += "." + mismatch.Field
		}
		return At(field, "is of the wrong type: write a %s, not a %s", yamlTypeName(mismatch.Type), mismatch.Value)
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return At(field, "invalid JSON: %w", syntax)
	}
	return At(field, "cannot be decoded: %w", err)
}

// yamlTypeName returns what a user has to write for a Go type: the kind of value in JSON, in the words
// of YAML.
func yamlTypeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean (true or false)"
	case reflect.String:
		return "string"
	case reflect.Slice:
		return "list"
	default:
		return "mapping"
	}
}
