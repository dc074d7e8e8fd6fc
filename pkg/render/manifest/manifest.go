// Package manifest is the form of the file in which a node has what its configuration put on it:
// every file with digest, mode and owner, and the state of units. A script on the node compares
// the node with it, and the controller compares what the script found with other versions.
//
// It is text, a line for each entry, sorted:
//
//	osm-gitops-manifest 1 CONFIG
//	file DIGEST|present MODE OWNER PATH
//	mutable PATH
//	unit STATE NAME
//
// It computes nothing: package render fills a manifest. Start with Parse.
package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Path is where a node has its manifest.
const Path = "/etc/osm-gitops/manifest"

// Marker is the line in the file of a profile that rendering replaces by the entries.
const Marker = "# entries"

// header begins the first line, with the version of the form.
const header = "osm-gitops-manifest 1 "

// maxBytes limits the input of Parse to the size of a Secret.
const maxBytes = 1 << 20 // 1 MiB

// Manifest is what a configuration put on a node.
type Manifest struct {
	// Config are 12 hex digits of the input digest. The manifest of an Inspector has a fixed one.
	Config string
	// Files are sorted by path, each path once.
	Files []File
	// Mutable are paths that change by design, sorted. One that ends in "/*" stands for all
	// that is below it. None of Files is among them.
	Mutable []string
	// Units are sorted by name.
	Units []Unit
}

// File is a regular file on a node.
type File struct {
	// Path is absolute and clean, as IsPath says.
	Path string
	// Digest are the 64 hex digits of the SHA-256 of its content, empty if the content depends on
	// a credential or on the machine's name.
	Digest string
	// Mode are permission and special bits.
	Mode uint32
	// Owner is "user:group".
	Owner string
}

// Unit is a unit of systemd.
type Unit struct {
	Name  string
	State State
}

// State is what a unit has to be: the state is `enabled`.
type State string

// Any is the state of a unit that may be enabled or not, but not masked. A unit in any state must
// have no drop-in that is not among the files.
const (
	Enabled  State = "enabled"
	Disabled State = "disabled"
	Masked   State = "masked"
	Any      State = "-"
)

// IsMutable reports whether a path changes by design.
func (m Manifest) IsMutable(path string) bool {
	return slices.ContainsFunc(m.Mutable, func(p string) bool {
		below, all := strings.CutSuffix(p, "*")
		return p == path || all && strings.HasSuffix(below, "/") && strings.HasPrefix(path, below)
	})
}

// FileAt returns the file with a path.
func (m Manifest) FileAt(path string) (File, bool) {
	i, ok := slices.BinarySearchFunc(m.Files, path, func(f File, path string) int { return cmp.Compare(f.Path, path) })
	if !ok {
		return File{}, false
	}
	return m.Files[i], true
}

// Encode returns the text. Files, mutable paths and units can be in any order; the last of equal
// ones counts.
func (m Manifest) Encode() string {
	var b strings.Builder
	b.WriteString(header + m.Config + "\n")
	for _, f := range lastOfEach(m.Files, func(f File) string { return f.Path }) {
		fmt.Fprintf(&b, "file %s %04o %s %s\n", cmp.Or(f.Digest, "present"), f.Mode, f.Owner, f.Path)
	}
	for _, p := range lastOfEach(m.Mutable, func(p string) string { return p }) {
		b.WriteString("mutable " + p + "\n")
	}
	for _, u := range lastOfEach(m.Units, func(u Unit) string { return u.Name }) {
		fmt.Fprintf(&b, "unit %s %s\n", u.State, u.Name)
	}
	return b.String()
}

// lastOfEach returns a sorted copy with the last item of each name.
func lastOfEach[T any](items []T, name func(T) string) []T {
	sorted := slices.Clone(items)
	slices.Reverse(sorted)
	slices.SortStableFunc(sorted, func(a, b T) int { return cmp.Compare(name(a), name(b)) })
	return slices.CompactFunc(sorted, func(a, b T) bool { return name(a) == name(b) })
}

// Parse reads a manifest. Its lines can be in any order. Empty lines and those that begin with
// "#" say nothing. An error names the line.
func Parse(text []byte) (Manifest, error) {
	if len(text) > maxBytes {
		return Manifest{}, fmt.Errorf("the manifest has %d bytes: it can have %d", len(text), maxBytes)
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	config, ok := strings.CutPrefix(first, header)
	if !ok || !IsHex(config, 12) {
		return Manifest{}, fmt.Errorf("line 1 of the manifest is not %q and 12 hex digits", header)
	}
	m := Manifest{Config: config}
	n := 1
	for line := range strings.SplitSeq(rest, "\n") {
		n++
		if line == "" || line[0] == '#' {
			continue
		}
		if err := m.addLine(line); err != nil {
			return Manifest{}, fmt.Errorf("line %d of the manifest: %w", n, err)
		}
	}
	m.Files = lastOfEach(m.Files, func(f File) string { return f.Path })
	m.Mutable = lastOfEach(m.Mutable, func(p string) string { return p })
	m.Units = lastOfEach(m.Units, func(u Unit) string { return u.Name })
	return m, nil
}

func (m *Manifest) addLine(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "file":
		fields := strings.SplitN(rest, " ", 4)
		if len(fields) < 4 {
			return fmt.Errorf("a file needs a digest, a mode, an owner and a path")
		}
		f := File{Path: fields[3], Digest: fields[0], Owner: fields[2]}
		if f.Digest == "present" {
			f.Digest = ""
		} else if !IsHex(f.Digest, 64) {
			return fmt.Errorf("invalid digest %q: use 64 hex digits or present", f.Digest)
		}
		mode, err := strconv.ParseUint(fields[1], 8, 32)
		if err != nil || mode > 0o7777 || len(fields[1]) != 4 {
			return fmt.Errorf("invalid mode %q: use four octal digits", fields[1])
		}
		f.Mode = uint32(mode)
		if user, group, ok := strings.Cut(f.Owner, ":"); !ok || user == "" || group == "" {
			return fmt.Errorf("invalid owner %q: use USER:GROUP", f.Owner)
		}
		if !IsPath(f.Path) {
			return fmt.Errorf("invalid path %q", f.Path)
		}
		m.Files = append(m.Files, f)
	case "mutable":
		if !IsPath(rest) {
			return fmt.Errorf("invalid path %q", rest)
		}
		m.Mutable = append(m.Mutable, rest)
	case "unit":
		state, name, _ := strings.Cut(rest, " ")
		u := Unit{Name: name, State: State(state)}
		if !slices.Contains([]State{Enabled, Disabled, Masked, Any}, u.State) {
			return fmt.Errorf("invalid state %q: use enabled, disabled, masked or -", state)
		}
		if !IsUnit(u.Name) {
			return fmt.Errorf("invalid unit %q", u.Name)
		}
		m.Units = append(m.Units, u)
	default:
		return fmt.Errorf("it begins with %q: use file, mutable or unit", kind)
	}
	return nil
}

// IsPath reports whether a manifest can have a path: it is absolute, without ".", ".." and "//",
// at most 256 bytes of printable ASCII, and without the two characters that JSON escapes.
func IsPath(path string) bool {
	if !strings.HasPrefix(path, "/") || len(path) > 256 || strings.HasSuffix(path, "/") {
		return false
	}
	for _, part := range strings.Split(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
}

// unitSuffixes are the kinds of units that a profile can have.
var unitSuffixes = []string{".service", ".socket", ".device", ".mount", ".automount", ".swap", ".target", ".path", ".timer", ".slice", ".scope"}

// IsUnit reports whether a manifest can have a unit: its name has a suffix of systemd, and no
// character that has a meaning in a pattern.
func IsUnit(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return dot > 0 && len(name) < 256 && slices.Contains(unitSuffixes, name[dot:]) && !strings.ContainsFunc(name, func(r rune) bool {
		isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !isLetter && (r < '0' || r > '9') && !strings.ContainsRune(":_.@-", r)
	})
}

// IsHex reports whether s has n lower-case hex digits.
func IsHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
