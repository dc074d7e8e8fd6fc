package userdata

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"

	"github.com/coreos/ignition/v2/config/v3_3/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// DefaultIgnitionVersion is supported by every Flatcar since 3185.0.0:
// https://www.flatcar.org/docs/latest/provisioning/ignition/specification/
const DefaultIgnitionVersion = "3.3.0"

// IgnitionVersions are the supported versions of the Ignition specification, the default first.
// 2.3.0 is the version that operating-system-manager writes, and for images before Flatcar
// 3185.
var IgnitionVersions = []string{DefaultIgnitionVersion, "3.4.0", "2.3.0"}

// CheckIgnitionVersion accepts an empty version as unset. Its message begins with flag, if that
// is not empty.
func CheckIgnitionVersion(field, flag, version string) []*invalid.Error {
	if version == "" || slices.Contains(IgnitionVersions, version) {
		return nil
	}
	return []*invalid.Error{invalid.At(field, "%s%q is not a supported version of Ignition's specification: use 3.3.0, 3.4.0, or 2.3.0 for images before Flatcar 3185", flag, version)}
}

// Ignition is the user-data of one stage for Ignition, which only Flatcar uses.
// It has no counterpart for the modules of cloud-init.
type Ignition struct {
	Version string
	// Hostname is written to MachineNameFile if it is not empty.
	Hostname string
	Stage    *IgnitionStage
	Config   *osm.OSCConfig
}

// ignitionFile is a file without its content.
type ignitionFile struct {
	path string
	mode uint32
	// source is the file's index in the stage's files, -1 for a file of our own.
	source int
}

// Encode returns the document. Files are in the stage's order, after MachineNameFile, each with
// its content as a data URL of text, in which machine-controller can find and replace the
// machine's name. The same applies to units and keys, whose text is not encoded.
func (i Ignition) Encode() ([]byte, []*invalid.Error) {
	files, contents, err := i.ignitionFiles()
	if err != nil {
		return nil, []*invalid.Error{err}
	}
	var keys []types.SSHAuthorizedKey
	for _, key := range uniqueNonEmpty(i.Config.UserSSHKeys) {
		keys = append(keys, types.SSHAuthorizedKey(key))
	}
	config, problems := i.Stage.cachedTranslation(skeleton{files: files, units: i.Config.Units})
	if len(problems) > 0 {
		return nil, problems
	}
	config.Storage.Files = slices.Clone(config.Storage.Files) // the translation is shared
	for n := range config.Storage.Files {
		config.Storage.Files[n].Contents.Source = ptr("data:," + escapeDataURL(contents[n]))
	}
	if len(keys) > 0 {
		config.Passwd.Users = []types.PasswdUser{{Name: "core", SSHAuthorizedKeys: keys}}
	}
	doc, encodeErr := marshalIgnition(config, i.Version)
	if encodeErr != nil {
		return nil, []*invalid.Error{i.Stage.problem("encoding the Ignition document: %w", encodeErr)}
	}
	return doc, nil
}

// ignitionFiles returns the document's files and their contents. If files have the same path, only the
// last is returned, since Ignition would overwrite the others with it.
func (i Ignition) ignitionFiles() ([]ignitionFile, []string, *invalid.Error) {
	files := make([]ignitionFile, 0, len(i.Config.Files)+1)
	contents := make([]string, 0, len(i.Config.Files)+1)
	if i.Hostname != "" {
		files, contents = append(files, nameFile), append(contents, i.Hostname)
	}
	for n, f := range i.Config.Files {
		mode, err := ParsePermissions(f.Permissions)
		if err != nil {
			return nil, nil, &invalid.Error{Stage: i.Stage.name, Field: i.Stage.fileField(n, "mode"), File: f.Path, Err: err}
		}
		files, contents = append(files, newIgnitionFile(f.Path, mode, n)), append(contents, f.Content.Inline.Data)
	}
	last := make(map[string]int, len(files))
	for n, f := range files {
		last[f.path] = n
	}
	if len(last) == len(files) {
		return files, contents, nil
	}
	retained := 0
	for n, f := range files {
		if last[f.path] == n {
			files[retained], contents[retained] = f, contents[n]
			retained++
		}
	}
	return files[:retained], contents[:retained], nil
}

// MachineNameMode is the mode of MachineNameFile.
const MachineNameMode = 0o600

// nameFile contains the node's name.
var nameFile = ignitionFile{path: MachineNameFile, mode: MachineNameMode, source: -1}

// newIgnitionFile returns a file with the path in the form that Ignition 3 requires, without
// "." and "..", or "/" twice. A relative path is not changed, and is rejected later.
func newIgnitionFile(name string, mode uint32, source int) ignitionFile {
	if path.IsAbs(name) {
		name = path.Clean(name)
	}
	return ignitionFile{path: name, mode: mode, source: source}
}

// upperHex are the digits of percent-encoding that operating-system-manager writes.
const upperHex = "0123456789ABCDEF"

// dataURLText are the bytes that need no escape in a data URL, RFC 2396's unreserved
// characters.
var dataURLText = func() (text [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()") {
		text[c] = true
	}
	return text
}()

// escapeDataURL returns a content as the text of a data URL.
func escapeDataURL(content string) string {
	b := make([]byte, 0, len(content)+len(content)/2) // text grows by a third and more
	for n := range len(content) {
		if c := content[n]; dataURLText[c] {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

// jsonText encodes a value on one line. It does not escape "<", as encoding/json would do:
// machine-controller searches the text for MachineName.
func jsonText(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
