package render

import "strings"

// The list of files is most of a cloud-config, and the YAML library keeps an event of
// 264 bytes for every key and value until the document ends: half of what rendering
// allocated. So a list is written here where all of its scalars are such as isPlain,
// asBlock and isSimpleText know; a test compares it with what fileNodes makes of it.

// isSimple reports whether appendFiles can write a list.
func isSimple(files []cloudFile) bool {
	for _, f := range files {
		if !isSimpleText(f.path) || !isSimpleText(f.permissions) || !isSimpleText(f.encoding) || !asBlock(f.content) && !isSimpleText(f.content) {
			return false
		}
		// A mark is recognized in what the library wrote, and nowhere else.
		if strings.Contains(f.path, markPrefix) || strings.Contains(f.encoding, markPrefix) || strings.Contains(f.content, markPrefix) {
			return false
		}
	}
	return true
}

// isSimpleText reports whether a text can be written in quotes with no escapes but
// those of quotes, backslashes and line breaks.
func isSimpleText(s string) bool {
	for i := range len(s) {
		if (s[i] < ' ' || s[i] > '~') && s[i] != '\n' {
			return false
		}
	}
	return true
}

// asBlock reports whether content becomes a literal block: the library quotes what has
// blanks before a line break, and short texts were always left to it.
func asBlock(s string) bool {
	return isBlock(s) && (len(s) >= minMarked || !strings.Contains(s, " \n") && !strings.HasSuffix(s, " "))
}

// appendFiles writes the list, each item in lines that begin with indent blanks.
func appendFiles(out []byte, files []cloudFile, indent int) []byte {
	blanks := strings.Repeat(" ", indent)
	for _, f := range files {
		out = append(append(append(out, '\n'), blanks...), "- path: "...)
		out = appendScalar(out, f.path)
		out = append(append(append(out, '\n'), blanks...), "  permissions: "...)
		out = appendQuoted(out, f.permissions)
		if f.encoding != "" {
			out = append(append(append(out, '\n'), blanks...), "  encoding: "...)
			out = appendScalar(out, f.encoding)
		}
		out = append(append(append(out, '\n'), blanks...), "  content: "...)
		switch {
		case f.encoding == "b64":
			out = appendQuoted(out, f.content)
		case asBlock(f.content):
			out = appendBlock(out, f.content, indent+2*yamlIndent)
		case strings.Contains(f.content, "\n"):
			out = appendDoubleQuoted(out, f.content)
		default:
			out = appendScalar(out, f.content)
		}
	}
	return out
}

// appendScalar is scalar.
func appendScalar(out []byte, s string) []byte {
	if isPlain(s) {
		return append(out, s...)
	}
	return appendQuoted(out, s)
}

// appendQuoted is quoted.
func appendQuoted(out []byte, s string) []byte {
	if strings.Contains(s, "\n") {
		return appendDoubleQuoted(out, s)
	}
	out = append(out, '\'')
	out = append(out, strings.ReplaceAll(s, "'", "''")...)
	return append(out, '\'')
}

// appendDoubleQuoted writes in double quotes.
func appendDoubleQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for len(s) > 0 {
		i := strings.IndexAny(s, "\"\\\n")
		if i < 0 {
			out = append(out, s...)
			break
		}
		escape := s[i]
		if escape == '\n' {
			escape = 'n'
		}
		out, s = append(append(out, s[:i]...), '\\', escape), s[i+1:]
	}
	return append(out, '"')
}
