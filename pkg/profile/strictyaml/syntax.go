package strictyaml

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	goyaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
)

// Limits on one file. A profile has a few dozen files of a few KiB; the built-in ones
// have less than 30 KiB in total.
const (
	MaxFileBytes     = 1 << 20 // 1 MiB, what etcd takes for one object is 1.5 MiB
	maxExpandedNodes = 200_000 // YAML nodes of one document with aliases expanded
	maxDepth         = 64      // levels of nesting
	maxProblems      = 50      // listed per file; longer lists are not read
	maxMessageBytes  = 1000    // per problem, which can quote a megabyte
	MaxFieldBytes    = 250     // of the name of a field
)

// InvalidTextOffset returns the offset of the first byte that is not valid UTF-8 text, or -1.
// The parser accepts a byte order mark.
func InvalidTextOffset(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size <= 1 || r == 0 {
			return i
		}
		i += size
	}
	return -1
}

// nestedDeeply reports whether a text can have far more levels than any profile: by the
// number of brackets open at once, or by the beginning of a line.
func nestedDeeply(data []byte) bool {
	const most = 4 * maxDepth
	open := 0
	lead := 0
	leading := true
	for _, c := range data {
		switch c {
		case '\n':
			lead, leading = 0, true
			continue
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0)
		}
		if leading = leading && strings.IndexByte(" -?:", c) >= 0; leading {
			lead++
		}
		if open > most || lead > most {
			return true
		}
	}
	return false
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// LocateSyntaxError returns the line of a syntax error. The parser that reads profiles names
// the line on which the innermost mapping begins; another parser names the exact line, so
// it is used after an error.
func LocateSyntaxError(data []byte, err error) (int, error) {
	var syntax goyaml.Error
	if nestedDeeply(data) {
		// The other parser has no nesting limit: 300,000 times "[" took minutes.
	} else if _, where := parser.ParseBytes(data, 0); errors.As(where, &syntax) && syntax.GetToken() != nil {
		message := syntax.GetMessage()
		if strings.Contains(message, "\t") || strings.Contains(message, "tab character") {
			message = "found a tab: YAML requires spaces for indentation" // a tab looks like them
		}
		return syntax.GetToken().Position.Line, fmt.Errorf("%w: %s", ErrSyntax, message)
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	line, _ := strconv.Atoi(m[1]) // empty if the parser names no line
	return line, fmt.Errorf("%w: %s", ErrSyntax, strings.TrimPrefix(err.Error(), m[0]))
}
