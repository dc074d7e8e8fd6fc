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

// DefaultIgnitionVersion is read by every Flatcar since 3185.0.0:
// https://www.flatcar.org/docs/latest/provisioning/ignition/specification/
const DefaultIgnitionVersion = "3.3.0"

// IgnitionVersions are the versions of the Ignition specification a document may
// have, the default first. 2.3.0 is what the reference implementation writes, and
// for images before Flatcar 3185.
var IgnitionVersions = []string{DefaultIgnitionVersion, "3.4.0", "2.3.0"}

// CheckIgnitionVersion takes an empty version for none. What it says begins with
// a flag where one is meant.
func CheckIgnitionVersion(field, flag, version string) []*invalid.Error {
	if version == "" || slices.Contains(IgnitionVersions, version) {
		return nil
	}
	return []*invalid.Error{invalid.At(field, "%s%q is no version of Ignition's specification that can be written: use 3.3.0, 3.4.0, or 2.3.0 for images before Flatcar 3185", flag, version)}
}

// Ignition is the user-data of one stage for Ignition, which is Flatcar's alone
// (contract 7.4). The modules of cloud-init have no counterpart there.
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
	// source is the file's place in the stage's files, -1 for a file of our own.
	source int
}

// Encode returns the document. Files are in the stage's order behind
// MachineNameFile, each with its content as a data URL of text, in which
// machine-controller finds the machine's name to replace; the same goes for units
// and keys, which stand there as they are.
func (i Ignition) Encode() ([]byte, []*invalid.Error) {
	files, contents, err := i.files()
	if err != nil {
		return nil, []*invalid.Error{err}
	}
	var keys []types.SSHAuthorizedKey
	for _, key := range distinct(i.Config.UserSSHKeys) {
		keys = append(keys, types.SSHAuthorizedKey(key))
	}
	config, problems := i.Stage.translated(skeleton{files: files, units: i.Config.Units})
	if len(problems) > 0 {
		return nil, problems
	}
	config.Storage.Files = slices.Clone(config.Storage.Files) // the translation is shared
	for n := range config.Storage.Files {
		config.Storage.Files[n].Contents.Source = ptr("data:," + escape(contents[n]))
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

// files returns the document's files and their contents. Of files with one path
// the last counts, as it does where Ignition writes one over the other; those
// before it are left out.
func (i Ignition) files() ([]ignitionFile, []string, *invalid.Error) {
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
	kept := 0
	for n, f := range files {
		if last[f.path] == n {
			files[kept], contents[kept] = f, contents[n]
			kept++
		}
	}
	return files[:kept], contents[:kept], nil
}

// MachineNameMode is the mode of MachineNameFile.
const MachineNameMode = 0o600

// nameFile tells a node its name.
var nameFile = ignitionFile{path: MachineNameFile, mode: MachineNameMode, source: -1}

// newIgnitionFile writes a path as Ignition 3 wants it, without "." and "..", or
// "/" twice. A relative one stays what it is, which is refused later.
func newIgnitionFile(name string, mode uint32, source int) ignitionFile {
	if path.IsAbs(name) {
		name = path.Clean(name)
	}
	return ignitionFile{path: name, mode: mode, source: source}
}

// upperHex are the digits of percent-encoding as the reference writes them.
const upperHex = "0123456789ABCDEF"

// dataURLText are the bytes that stand for themselves in a data URL, RFC 2396's
// unreserved characters.
var dataURLText = func() (text [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()") {
		text[c] = true
	}
	return text
}()

// escape returns a content as the text of a data URL.
func escape(content string) string {
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

// jsonText encodes a value on one line. It leaves "<" alone, which encoding/json
// would escape: machine-controller looks for MachineName in the text.
func jsonText(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
