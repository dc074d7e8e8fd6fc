package filter

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// The kinds of tree entries: the first digits of their octal mode.
const (
	ModeKind    = 0o170000
	ModeFolder  = 0o040000
	ModeFile    = 0o100000
	ModeSymlink = 0o120000
	ModeGitlink = 0o160000
	ModeExec    = 0o000111
)

// ModeOf returns the mode with which Git would store the kind of an entry.
func ModeOf(mode fs.FileMode) uint32 {
	switch {
	case mode.IsRegular():
		return ModeFile
	case mode.IsDir():
		return ModeFolder
	case mode&fs.ModeSymlink != 0:
		return ModeSymlink
	}
	return 0o010000 // a pipe, a device, a socket: not supported by Git
}

// Class says how an entry is treated.
type Class int

const (
	ClassIgnored  Class = iota // ignored silently
	ClassFolder                // can contain profile files
	ClassFile                  // is a profile file or an ignore file
	ClassRejected              // must not be read, and is reported to the user
)

// Classify is the only rule for what is read, at Head and in history. The text is the
// reason of a rejection.
func Classify(name string, mode uint32) (Class, string) {
	switch {
	// Git rejects the name in any case, for file systems that ignore case.
	case name == "." || name == ".." || strings.EqualFold(name, ".git"):
		return ClassRejected, "odd name: Git allows no such entry"
	case strings.HasPrefix(name, ".") && name != IgnoreFile:
		return ClassIgnored, ""
	case mode&ModeKind == ModeSymlink:
		return ClassRejected, "symlink: links are not followed, commit the file itself"
	case mode&ModeKind == ModeGitlink:
		return ClassRejected, "submodule: submodules are not fetched, commit the files themselves"
	case mode&ModeKind == ModeFolder:
		if isAmbiguousName(name) {
			return ClassRejected, "odd name: folders with control characters, colons or backslashes are not entered"
		}
		return ClassFolder, ""
	case !IsProfileOrIgnoreFile(name):
		return ClassIgnored, ""
	case mode&ModeKind != ModeFile:
		return ClassRejected, fmt.Sprintf("mode %o is not a mode of Git", mode)
	case isAmbiguousName(name):
		return ClassRejected, "odd name: control characters, colons and backslashes are not read"
	}
	return ClassFile, ""
}

func IsProfileOrIgnoreFile(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml" || name == IgnoreFile
}

// gitShortName matches the short names of a folder .git on NTFS.
var gitShortName = regexp.MustCompile(`(?i)^git~[0-9]+$`)

// isAmbiguousName reports whether a name has another meaning on another system: a path, an NTFS
// stream, a short name of .git, or text that resembles another name.
func isAmbiguousName(name string) bool {
	if !utf8.ValidString(name) || strings.ContainsAny(name, `/\:`) || gitShortName.MatchString(name) {
		return true
	}
	if strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") {
		return true
	}
	return strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

// SplitPath splits a path inside a repository: relative, with forward slashes, without
// "..". "" and "." are the root.
func SplitPath(p string) ([]string, error) {
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
	if len(parts) > MaxDepth {
		return nil, fault.New(fault.ErrInvalid, "path %q has %d folders, at most %d are allowed", fault.Shorten(p), len(parts), MaxDepth)
	}
	return parts, nil
}
