// Package templateerror rewrites errors of text/template for the authors of profiles: with the
// line, without the name of the template and without values of the data, and with a remedy for
// unbalanced blocks. It parses nothing. Start with FromTemplateError.
package templateerror

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// templateMessage matches the beginning of text/template's errors, after the name.
var templateMessage = regexp.MustCompile(`^:(\d+)(?::\d+)?: (?s)(.*)$`)

// FromTemplateError extracts the line from an error of text/template, and repeats the rest
// without the name: the field and the file are clearer.
func FromTemplateError(name, field string, err error) *invalid.Error {
	message := err.Error()
	p := &invalid.Error{Field: field, Err: err}
	rest, ok := strings.CutPrefix(message, "template: "+name)
	if !ok {
		return p
	}
	m := templateMessage.FindStringSubmatch(rest)
	if m == nil {
		return p
	}
	p.Line, _ = strconv.Atoi(m[1])
	message = strings.TrimPrefix(m[2], fmt.Sprintf("executing %q ", name))
	if context, cause, ok := strings.Cut(message, ">: "); ok { // "at <context>: cause"
		message = redact.ShortenWithCount(context, invalid.MaxNameBytes) + ">: " + removeQuotedValue(cause)
	}
	if better, ok := funcs.ExplainUndefinedFunction(message); ok {
		message = better
	}
	kind, _, _ := strings.Cut(message, " started at ") // behind that: the template, whose line is known
	if better, ok := unbalanced[kind]; ok {
		message = better
	}
	p.Err = errors.New(redact.ShortenWithCount(message, invalid.MaxMessageBytes))
	return p
}

// unbalanced has the remedy for errors of the parser of text/template about the ends of blocks,
// by its messages: https://pkg.go.dev/text/template/parse.
var unbalanced = map[string]string{
	"unexpected EOF":             "the template ends inside an {{ if }}, {{ range }}, {{ with }} or {{ define }}: write the {{ end }} that is missing above",
	"unexpected {{end}}":         "there is an {{ end }} without an {{ if }}, {{ range }} or {{ with }}: remove it, or write what it ends above",
	"unexpected {{else}}":        "there is an {{ else }} without an {{ if }}, {{ range }} or {{ with }}: remove it, or write the action that it belongs to above it",
	"unclosed action":            "a {{ is not closed: write }} on the same line",
	"unclosed comment":           "a {{/* is not closed: write */}}",
	"unterminated quoted string": `a string is not closed: write the quote " that is missing`,
	"missing value for if":       "{{ if }} has no condition: write one, such as {{ if .HTTPProxy }}",
	"missing value for range":    "{{ range }} has nothing to go over: write it, such as {{ range .ClusterDNSIPs }}",
	"missing value for with":     "{{ with }} has no value: write one, such as {{ with .HTTPProxy }}",
	"missing value for command":  "{{ }} is empty: write a field such as {{ .KubeVersion }}, or remove it",
}

// quotingValues are the beginnings of the messages in which text/template prints a value: that
// could be the whole data, with addresses that differ from run to run.
var quotingValues = []string{"range can't iterate over ", "if/with can't use ", "can't use ",
	"error calling eq: non-comparable type ", "error calling ne: non-comparable type "}

// removeQuotedValue drops the value that a message of text/template prints: see quotingValues.
func removeQuotedValue(message string) string {
	for _, begin := range quotingValues {
		if strings.HasPrefix(message, begin) {
			return begin + "this value"
		}
	}
	return message
}
