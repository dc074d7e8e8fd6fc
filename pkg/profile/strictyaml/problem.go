package strictyaml

import (
	"errors"
	"strconv"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// ErrSyntax is the Err of a Problem of a file that is not YAML.
var ErrSyntax = errors.New("invalid YAML")

// Problem is one problem of a file.
type Problem struct {
	// Path of the file.
	Path string
	// Line in it, starting at 1; 0 for the whole file.
	Line int
	// Field, such as "spec.version"; empty if the file is not valid YAML.
	Field string
	// Err says what is wrong and how to fix it.
	Err error
}

func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Path)
	if p.Line > 0 {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(p.Line))
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(redact.ShortenWithCount(p.Field, MaxFieldBytes))
		b.WriteString(": ")
	}
	b.WriteString(redact.ShortenWithCount(p.Err.Error(), maxMessageBytes))
	return b.String()
}

func (p *Problem) Unwrap() error { return p.Err }

// Problems returns the problems in an error of Decode, in the order of the file.
func Problems(err error) []*Problem {
	var out []*Problem
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // this is the walk over the tree that errors.As would hide
		case nil:
		case *Problem:
			out = append(out, e)
		case interface{ Unwrap() []error }:
			for _, err := range e.Unwrap() {
				walk(err)
			}
		}
	}
	walk(err)
	return out
}

// ProblemList collects the problems of one file, up to a limit.
type ProblemList struct {
	Path     string
	problems []error
}

// Add adds a problem.
func (l *ProblemList) Add(line int, field string, err error) {
	if len(l.problems) > maxProblems {
		return
	}
	if len(l.problems) == maxProblems {
		field, err = "", errors.New("more problems follow: fix those above first")
	}
	l.problems = append(l.problems, &Problem{Path: l.Path, Line: line, Field: field, Err: err})
}

// Len returns the number of problems.
func (l *ProblemList) Len() int { return len(l.problems) }

// Err joins the problems; nil if there are none.
func (l *ProblemList) Err() error { return errors.Join(l.problems...) }
