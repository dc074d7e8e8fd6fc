package source

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// The kinds of tree entries, as the first digits of their octal mode.
const (
	modeKind    = 0o170000
	modeFolder  = 0o040000
	modeFile    = 0o100000
	modeSymlink = 0o120000
	modeGitlink = 0o160000
	modeExec    = 0o000111
)

// class is what an entry is to us.
type class int

const (
	ignored class = iota // nothing to say about it
	folder               // may hold profile files
	file                 // is a profile file, or says which are ignored
	refused              // must not be read, and the user should know
)

// classify is the one rule for what is read, at Head and in history. The reason
// is that of a refusal.
func classify(name string, mode uint32) (class, string) {
	switch {
	case name == "." || name == ".." || strings.EqualFold(name, ".git"):
		return refused, "odd name: Git allows no such entry"
	case strings.HasPrefix(name, ".") && name != IgnoreFile:
		return ignored, ""
	case mode&modeKind == modeSymlink:
		return refused, "symlink: links are not followed, commit the file itself"
	case mode&modeKind == modeGitlink:
		return refused, "submodule: submodules are not fetched, commit the files themselves"
	case mode&modeKind == modeFolder:
		if odd(name) {
			return refused, "odd name: folders with control characters, colons or backslashes are not entered"
		}
		return folder, ""
	case !isProfileFile(name):
		return ignored, ""
	case mode&modeKind != modeFile:
		return refused, fmt.Sprintf("mode %o is none that Git knows", mode)
	case odd(name):
		return refused, "odd name: control characters, colons and backslashes are not read"
	}
	return file, ""
}

func isProfileFile(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml" || name == IgnoreFile
}

// gitShortName is what NTFS calls a folder .git.
var gitShortName = regexp.MustCompile(`(?i)^git~[0-9]+$`)

// odd tells a name that means something else to another system: a path, an NTFS
// stream, a short name of .git, or text that looks like another name.
func odd(name string) bool {
	if !utf8.ValidString(name) || strings.ContainsAny(name, `/\:`) || gitShortName.MatchString(name) {
		return true
	}
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return true
	}
	return strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// splitPath takes a path inside a repository apart: relative, with forward
// slashes, without "..". "" and "." are the root.
func splitPath(p string) ([]string, error) {
	if len(p) > maxPathBytes {
		return nil, fault.New(fault.ErrInvalid, "the path has %d bytes, at most %d are allowed", len(p), maxPathBytes)
	}
	if strings.HasPrefix(p, "/") {
		return nil, fault.New(fault.ErrInvalid, "path %q is absolute; write it relative to the repository's root", p)
	}
	var parts []string
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return nil, fault.New(fault.ErrInvalid, "path %q has a \"..\"; write it relative to the repository's root", p)
		case strings.ContainsAny(part, "\\\x00"):
			return nil, fault.New(fault.ErrInvalid, "path %q has a backslash or a NUL; use forward slashes", p)
		}
		parts = append(parts, part)
	}
	if len(parts) > maxDepth {
		return nil, fault.New(fault.ErrInvalid, "path %q has %d folders, at most %d are allowed", fault.Shorten(p), len(parts), maxDepth)
	}
	return parts, nil
}
