package settings

import (
	"encoding/hex"
	"maps"
	"net/url"
	"regexp"
	"slices"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// Names in the flags for downloads become part of shell scripts and file names.
var (
	publisherName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)
	downloadName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// checkDownloads rejects mirrors and digests that no node could use. URLs can contain
// credentials, so they are not quoted.
func (s Settings) checkDownloads() []*invalid.Error {
	var problems []*invalid.Error
	for _, name := range slices.Sorted(maps.Keys(s.DownloadMirrors)) {
		const flag, field = "--node-download-mirrors", "settings.downloadMirrors"
		if !publisherName.MatchString(name) {
			problems = append(problems, invalid.At(field, "%s: %q is not a publisher's name: write one like kubernetes, in lower case", flag, name))
			continue
		}
		u, err := url.Parse(s.DownloadMirrors[name])
		switch {
		case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
			problems = append(problems, invalid.At(field+"."+name, "%s: the mirror of %q is not an http or https URL", flag, name))
		case u.RawQuery != "" || u.Fragment != "":
			problems = append(problems, invalid.At(field+"."+name, "%s: the mirror of %q has a query or a fragment: paths are appended to it", flag, name))
		case !isSafeInDoubleQuotes(s.DownloadMirrors[name]):
			problems = append(problems, invalid.At(field+"."+name, "%s: the mirror of %q has characters that a URL has only percent-encoded", flag, name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.DownloadDigests)) {
		const flag, field = "--node-download-digests", "settings.downloadDigests"
		if !downloadName.MatchString(name) {
			problems = append(problems, invalid.At(field, "%s: %q is not the name of a downloaded file", flag, name))
		}
		if digest := s.DownloadDigests[name]; len(digest) != hex.EncodedLen(32) || !isLowerHex(digest) {
			problems = append(problems, invalid.At(field+"."+name, "%s: %q is not a SHA-256 digest: write 64 digits in lower-case hexadecimal", flag, digest))
		}
	}
	return problems
}

func isLowerHex(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

// isSafeInDoubleQuotes reports whether s is unchanged inside double quotes of a shell and of a systemd
// unit.
func isSafeInDoubleQuotes(s string) bool {
	for _, r := range s {
		switch {
		case r <= ' ', r > '~', r == '"', r == '`', r == '$', r == '\\', r == '\'':
			return false
		}
	}
	return true
}
