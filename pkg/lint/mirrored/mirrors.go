package mirrored

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
)

// Mirrors lists the mirrored items of a site. Its text is the output of downloads.List.Mirrors with
// optional additions:
//
//	https://dl.k8s.io/v1.36.2/bin/linux/amd64/kubelet sha256:...
//	https://github.com/containernetworking/plugins/releases/download/   (all below)
//	repository apt https://download.docker.com/linux/ubuntu noble stable
//	package apt jq
//	package yum containerd.io 2.2*
//	image registry.k8s.io/pause:3.10.1
//
// A "*" matches any text. Lines that begin with "#" are comments.
type Mirrors struct {
	entries []entry
}

// entry is one line.
type entry struct {
	kind                 downloads.Kind
	manager              string         // of packages and repositories, such as apt
	url                  string         // of KindURL, as written
	name, version, suite *regexp.Regexp // version and suite can be nil: any
	versionText          string
	sha256               string // 64 hex digits, "" for any
}

var (
	digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	scheme = regexp.MustCompile(`^(https?|ftp)://`)
)

// maxMirrorLine limits a line in bytes.
const maxMirrorLine = 64 << 10 // 64 KiB

// Parse parses such a text. The error names every invalid line.
func Parse(path string, data []byte) (Mirrors, error) {
	var m Mirrors
	var errs []error
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxMirrorLine)
	n := 0
	for lines.Scan() {
		n++
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		e, err := parseEntry(fields)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", path, n, err))
			continue
		}
		m.entries = append(m.entries, e)
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s:%d: %w", path, n+1, err))
	}
	return m, errors.Join(errs...)
}

func parseEntry(fields []string) (entry, error) {
	e := entry{kind: downloads.Kind(fields[0])}
	switch {
	case scheme.MatchString(fields[0]):
		e.kind = downloads.KindURL
		e.url = fields[0]
		e.name = compileGlob(downloads.WithoutUser(fields[0]))
		if len(fields) > 2 || len(fields) == 2 && !digest.MatchString(fields[1]) {
			return e, errors.New("only a digest can follow a URL: sha256: and 64 lower-case hexadecimal digits")
		}
		if len(fields) == 2 {
			e.sha256 = strings.TrimPrefix(fields[1], "sha256:")
		}
	case e.kind == downloads.KindImage && len(fields) == 2:
		e.name = compileGlob(fields[1])
	case e.kind == downloads.KindPackage && (len(fields) == 3 || len(fields) == 4):
		e.manager, e.name = fields[1], compileGlob(fields[2])
		if len(fields) == 4 {
			e.versionText, e.version = fields[3], compileGlob(fields[3])
		}
	case e.kind == downloads.KindRepository && len(fields) >= 3:
		e.manager, e.name = fields[1], compileGlob(strings.TrimSuffix(downloads.WithoutUser(fields[2]), "/"))
		if len(fields) > 3 {
			e.suite = compileGlob(strings.Join(fields[3:], " "))
		}
	default:
		return e, errors.New("expected one of: a URL with or without sha256:DIGEST; repository MANAGER URL [SUITE...]; package MANAGER NAME [VERSION]; image NAME")
	}
	return e, nil
}

// compileGlob compiles a name in which "*" matches any text; a trailing slash includes everything below.
func compileGlob(text string) *regexp.Regexp {
	expr := strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*")
	if strings.HasSuffix(text, "/") {
		expr += ".*"
	}
	return regexp.MustCompile("^(?:" + expr + ")$")
}

// MissingReason explains why an item is not mirrored, as a predicate such as "is not mirrored"; ""
// if it is. An entry without a SHA-256 covers every content. If all that cover the item have another
// SHA-256, the reason names the last one.
func (m Mirrors) MissingReason(i downloads.Item) string {
	mismatch := ""
	for _, e := range m.entries {
		if !e.covers(i) {
			continue
		}
		if e.sha256 == "" || i.SHA256 == "" || e.sha256 == i.SHA256 {
			return ""
		}
		mismatch = "is mirrored with the SHA-256 " + e.sha256 + ", and nodes expect " + i.SHA256
	}
	switch {
	case mismatch != "":
		return mismatch
	case i.Kind == downloads.KindUnresolved:
		return "cannot be compared with the mirrored items: " + i.Reason
	}
	return "is not mirrored"
}

// covers reports whether an entry names an item, regardless of its SHA-256.
func (e entry) covers(i downloads.Item) bool {
	switch {
	case e.kind == downloads.KindURL && i.Kind == downloads.KindURL:
		return e.name.MatchString(i.Name)
	case e.kind == downloads.KindURL && i.Kind == downloads.KindRepository:
		return e.name.MatchString(i.Name + "/")
	case e.kind == downloads.KindURL && i.Kind == downloads.KindUnresolved:
		// All values of the unknown part are below the known part.
		begin, _, ok := strings.Cut(strings.TrimPrefix(i.Name, "repository "), "${")
		return ok && scheme.MatchString(begin) && strings.HasSuffix(e.name.String(), ".*)$") && e.name.MatchString(begin)
	case e.kind != i.Kind || e.manager != i.Manager || !e.name.MatchString(i.Name):
		return false
	case e.suite != nil && !e.suite.MatchString(i.Suite):
		return false
	}
	return e.version == nil || i.Version == "" || e.version.MatchString(i.Version) || compileGlob(i.Version).MatchString(e.versionText)
}

var kubeletURL = regexp.MustCompile(`/v(\d+\.\d+\.\d+)/bin/linux/[a-z0-9]+/kubelet$`)

// KubeletVersions returns the versions of the kubelet that are mirrored by URL, such as "1.36.2".
func (m Mirrors) KubeletVersions() []string {
	var out []string
	for _, e := range m.entries {
		if found := kubeletURL.FindStringSubmatch(e.url); found != nil && e.kind == downloads.KindURL {
			out = append(out, found[1])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
