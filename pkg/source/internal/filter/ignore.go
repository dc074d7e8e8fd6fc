package filter

import (
	"path"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// IgnoreFile is the name of a file with patterns in gitignore syntax, which apply to its
// folder and below.
const IgnoreFile = ".osmignore"

// Scope is the part of a repository that is read.
type Scope struct {
	Parts []string // the folder of the profiles
	// Ignore has more patterns, as at the end of an ignore file of that folder; they come
	// after those of all other files.
	Ignore string
}

func (s Scope) Path() string { return strings.Join(s.Parts, "/") }

// Rules decides which files are ignored, as Git does: the last matching pattern counts,
// those of a folder come after those of the folders above it, and nothing is read below
// an ignored folder.
type Rules struct {
	top     string // the scope's folder: patterns above it do not count
	extra   []Pattern
	folders map[string][]Pattern // by the folder of the ignore file

	verdicts map[string]bool // of folders, cached
	Cost     int             // number of comparisons with patterns
}

// NewRules returns the rules of a scope, from its ignore files by path.
func NewRules(s Scope, files map[string][]Pattern) *Rules {
	r := &Rules{top: s.Path(), extra: parsePatterns([]byte(s.Ignore)), folders: map[string][]Pattern{}, verdicts: map[string]bool{}}
	for name, patterns := range files {
		r.folders[folderOf(name)] = patterns
	}
	return r
}

// empty reports whether the rules ignore nothing.
func (r *Rules) empty() bool { return len(r.extra) == 0 && len(r.folders) == 0 }

// CheckCost rejects rules that take too long to apply.
func (r *Rules) CheckCost() error {
	if r.Cost > MaxIgnoreCost {
		return fault.New(fault.ErrInvalid, "comparing files with the patterns of %s and of the source takes more than %d comparisons; write fewer patterns, or point the path at the folder of the profiles", IgnoreFile, MaxIgnoreCost)
	}
	return nil
}

// Ignores reports whether a file, or a folder itself, is ignored.
func (r *Rules) Ignores(name string) bool {
	if r.empty() || r.Cost > MaxIgnoreCost {
		return false // CheckCost reports it
	}
	return r.ignoresFolder(folderOf(name)) || r.excludes(name, false)
}

// ignoresFolder reports whether a folder, or one above it, is ignored.
func (r *Rules) ignoresFolder(name string) bool {
	if len(name) <= len(r.top) {
		return false
	}
	if isIgnored, ok := r.verdicts[name]; ok {
		return isIgnored
	}
	isIgnored := r.ignoresFolder(folderOf(name)) || r.excludes(name, true)
	r.verdicts[name] = isIgnored
	return isIgnored
}

// excludes matches the patterns with one name, last pattern first.
func (r *Rules) excludes(name string, isFolder bool) bool {
	// The last pattern wins, and the extra ones follow those of the repository.
	if isIgnored, ok := r.match(r.extra, r.top, name, isFolder); ok {
		return isIgnored
	}
	for at := folderOf(name); ; at = folderOf(at) {
		if isIgnored, ok := r.match(r.folders[at], at, name, isFolder); ok {
			return isIgnored
		}
		if at == "" || len(at) <= len(r.top) {
			return false
		}
	}
}

func (r *Rules) match(patterns []Pattern, at, name string, isFolder bool) (isIgnored, ok bool) {
	if at != "" {
		name = name[len(at)+1:]
	}
	for _, p := range slices.Backward(patterns) {
		r.Cost++
		if p.matches(name, isFolder) {
			return !p.include, true
		}
	}
	return false, false
}

func folderOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

func IsIgnoreFile(name string) bool { return path.Base(name) == IgnoreFile }

// Pattern is a line of gitignore(5). We do not use go-git's package gitignore, on which
// Flux's sourceignore is based: it does not match "a/x/a/b" with "**/a/b", and supports
// neither "[!a]" nor "[[:digit:]]". TestIgnoreIsGits compares with git.
type Pattern struct {
	include    bool // "!": do not ignore
	folderOnly bool // "/" at the end
	anchored   bool // "/" elsewhere: matches the whole path, not only the last name
	glob       string
	plain      bool // glob has no special characters
}

// parsePatterns parses the lines of a file.
func parsePatterns(data []byte) []Pattern {
	var out []Pattern
	text := strings.TrimPrefix(string(data), "\uFEFF")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if p, ok := parsePattern(trimSpaces(line)); ok {
			out = append(out, p)
		}
	}
	return out
}

// trimSpaces removes trailing spaces, except one after a backslash.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

func parsePattern(line string) (Pattern, bool) {
	var p Pattern
	line, p.include = strings.CutPrefix(line, "!")
	line, p.folderOnly = strings.CutSuffix(line, "/")
	p.anchored = strings.Contains(line, "/")
	p.glob = strings.TrimPrefix(line, "/")
	p.plain = !strings.ContainsAny(p.glob, `*?[\`)
	return p, p.glob != "" && len(p.glob) <= maxPathBytes
}

// matches reports whether a path, relative to the folder of the pattern, matches.
func (p Pattern) matches(name string, isFolder bool) bool {
	if p.folderOnly && !isFolder {
		return false
	}
	if !p.anchored {
		name = path.Base(name)
	}
	if p.plain {
		return name == p.glob
	}
	return matchGlob(p.glob, name)
}

// matchGlob matches as in gitignore(5): "*" and "?" match within a name, "**" between
// slashes or at an end matches any number of folders. Two positions for backtracking are
// enough, one for the last "*" and one for the last "**": the text before them was
// matched as early as possible, so the time is at most quadratic.
func matchGlob(glob, name string) bool {
	var star, deep struct {
		on      bool
		glob, i int
	}
	g, i := 0, 0
	for {
		if g == len(glob) && i == len(name) {
			return true
		}
		if next, ok := cutStars(glob, g); ok == deepStars {
			if next == len(glob) {
				return i < len(name)
			}
			star.on = false
			deep.on = true
			deep.glob = next
			deep.i = i
			g = next
			continue
		} else if ok == plainStars {
			star.on = true
			star.glob = next
			star.i = i
			g = next
			continue
		}
		if g < len(glob) && i < len(name) {
			if next, ok := matchByte(glob, g, name[i]); ok {
				g, i = next, i+1
				continue
			}
		}
		switch {
		case star.on && star.i < len(name) && name[star.i] != '/':
			star.i++
			g, i = star.glob, star.i
		case deep.on:
			slash := strings.IndexByte(name[deep.i:], '/')
			if slash < 0 {
				return false
			}
			star.on = false
			deep.i += slash + 1
			g, i = deep.glob, deep.i
		default:
			return false
		}
	}
}

type stars int

const (
	noStars    stars = iota
	plainStars       // any text in a name
	deepStars        // any number of folders
)

// cutStars parses stars at a position, and returns the position after them, and after the
// slash that belongs to "**".
func cutStars(glob string, at int) (next int, kind stars) {
	for next = at; next < len(glob) && glob[next] == '*'; {
		next++
	}
	switch {
	case next == at:
		return at, noStars
	case next == at+1 || at > 0 && glob[at-1] != '/':
		return next, plainStars
	case next == len(glob):
		return next, deepStars
	case glob[next] == '/':
		return next + 1, deepStars
	}
	return next, plainStars
}

// matchByte matches one byte, and returns the position in the pattern after its match.
func matchByte(glob string, at int, c byte) (next int, ok bool) {
	switch glob[at] {
	case '?':
		return at + 1, c != '/'
	case '[':
		next, ok = matchClassAfterBracket(glob, at+1, c)
		return next, ok && c != '/'
	case '\\':
		if at++; at == len(glob) {
			return at, false
		}
	}
	return at + 1, glob[at] == c
}

// matchClassAfterBracket matches "[...]", from after its opening bracket. Without a closing bracket
// it matches nothing.
func matchClassAfterBracket(glob string, at int, c byte) (next int, ok bool) {
	negated := at < len(glob) && (glob[at] == '!' || glob[at] == '^')
	if negated {
		at++
	}
	found := false
	for first := true; ; first = false {
		if at >= len(glob) {
			return at, false
		}
		if glob[at] == ']' && !first {
			return at + 1, found != negated
		}
		if strings.HasPrefix(glob[at:], "[:") {
			name, _, ends := strings.Cut(glob[at+2:], ":]")
			if !ends || classes[name] == nil {
				return at, false
			}
			found = found || classes[name](c)
			at += len(name) + len("[::]")
			continue
		}
		low, after := classByte(glob, at)
		high := low
		if after+1 < len(glob) && glob[after] == '-' && glob[after+1] != ']' {
			high, after = classByte(glob, after+1)
		}
		if after > len(glob) {
			return after, false
		}
		found = found || c == low || low <= c && c <= high // git compares the first one separately
		at = after
	}
}

func classByte(glob string, at int) (c byte, next int) {
	if glob[at] == '\\' {
		if at++; at == len(glob) {
			return 0, at + 1
		}
	}
	return glob[at], at + 1
}

// classes are the POSIX classes, for ASCII only as in git.
var classes = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < ' ' || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > ' ' && c < 0x7f },
	"lower":  func(c byte) bool { return c >= 'a' && c <= 'z' },
	"print":  func(c byte) bool { return c >= ' ' && c < 0x7f },
	"punct":  func(c byte) bool { return c > ' ' && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' },
	"upper":  func(c byte) bool { return c >= 'A' && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' },
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
