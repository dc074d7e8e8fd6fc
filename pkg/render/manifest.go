package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/settings"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

// MutablePathsFile is a file of a provisioning stage that lists paths which change by design, one on each
// line, in addition to those of its manifest. Lines that begin with "#" are comments.
const MutablePathsFile = "/etc/osm-gitops/mutable-paths"

// ManifestOf returns the manifest in a configuration. It is false if the profile has none.
func ManifestOf(osc *osm.OperatingSystemConfigSpec) (manifest.Manifest, bool, error) {
	f := lastFile(&osc.ProvisioningConfig, manifest.Path)
	if f == nil || f.Content.Inline == nil {
		return manifest.Manifest{}, false, nil
	}
	m, err := manifest.Parse([]byte(f.Content.Inline.Data))
	return m, true, err
}

// lastFile returns the file that a stage writes to a path, nil if there is none.
func lastFile(config *osm.OSCConfig, path string) *osm.File {
	for i := range slices.Backward(config.Files) {
		if config.Files[i].Path == path {
			return &config.Files[i]
		}
	}
	return nil
}

// unfilledManifest returns the file of a stage that asks for a manifest, nil if there is none.
func unfilledManifest(config *osm.OSCConfig) *osm.File {
	f := lastFile(config, manifest.Path)
	if f == nil || !strings.Contains("\n"+f.Content.Inline.Data+"\n", "\n"+manifest.Marker+"\n") {
		return nil
	}
	return f
}

// copyManifest fills the manifest of osc, which has the real values, with that of the rendering
// with placeholders, so that both and a later verification have the same text.
func copyManifest(osc, placeholders *osm.OperatingSystemConfigSpec) {
	if f := unfilledManifest(&osc.ProvisioningConfig); f != nil {
		f.Content.Inline.Data = lastFile(&placeholders.ProvisioningConfig, manifest.Path).Content.Inline.Data
	}
}

// fillManifest fills the manifest of osc, if the profile asks for one. in has placeholders, and
// osc was rendered with them.
func (in Input) fillManifest(c *compiled, osc *osm.OperatingSystemConfigSpec, inputDigest string) []*invalid.Error {
	problem := func(stage *compiledStage, path string, err error) []*invalid.Error {
		at := "spec." + stage.Name + "Config"
		for _, file := range stage.Files {
			if file.Path == path {
				at = file.Field
			}
		}
		return invalid.SetStage(stage.Name, &invalid.Error{Field: at, File: path, Err: err})
	}
	if unfilledManifest(&osc.BootstrapConfig) != nil {
		return problem(&c.bootstrap, manifest.Path, errors.New("the manifest has the files of both stages: move it to provisioningConfig"))
	}
	f := unfilledManifest(&osc.ProvisioningConfig)
	if f == nil {
		return nil
	}
	// What the profile itself says about units and paths has precedence.
	declared, err := manifest.Parse([]byte(f.Content.Inline.Data))
	if err != nil {
		return problem(&c.provisioning, f.Path, err)
	}
	m := manifest.Manifest{Config: declared.Config, Mutable: declared.Mutable}
	if list := lastFile(&osc.ProvisioningConfig, MutablePathsFile); list != nil {
		paths, err := parsePaths(list.Content.Inline.Data)
		if err != nil {
			return problem(&c.provisioning, list.Path, err)
		}
		m.Mutable = append(m.Mutable, paths...)
	}
	// A third rendering with other placeholders finds the files that depend on a credential.
	other := *c
	other.trace = nil
	otherOSC, _, problems := in.withOtherPlaceholders().render(&other, inputDigest)
	if len(problems) > 0 {
		return hideCauses(problems)
	}
	for _, s := range []manifestStage{{&c.bootstrap, &osc.BootstrapConfig, &otherOSC.BootstrapConfig}, {&c.provisioning, &osc.ProvisioningConfig, &otherOSC.ProvisioningConfig}} {
		files, units, err := in.manifestEntries(s)
		if err != nil {
			return problem(&c.provisioning, f.Path, err)
		}
		m.Files, m.Units = append(m.Files, files...), append(m.Units, units...)
	}
	m.Files = slices.DeleteFunc(append(m.Files, declared.Files...), func(f manifest.File) bool { return m.IsMutable(f.Path) })
	m.Units = slices.DeleteFunc(m.Units, func(u manifest.Unit) bool { return m.IsMutable(systemUnits + u.Name) })
	m.Units = append(m.Units, declared.Units...)
	f.Content.Inline.Data = m.Encode()
	return nil
}

// parsePaths reads the content of MutablePathsFile.
func parsePaths(text string) ([]string, error) {
	var paths []string
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
		case !manifest.IsPath(line):
			return nil, fmt.Errorf("line %d: %q is not an absolute path: write one on each line, such as /etc/motd, or /etc/update-motd.d/* for all below it", n, line)
		default:
			paths = append(paths, line)
		}
	}
	return paths, nil
}

// manifestStage is a stage, rendered with placeholders and with others.
type manifestStage struct {
	compiled      *compiledStage
	config, other *osm.OSCConfig
}

// systemUnits is the folder of units that administrators write.
const systemUnits = "/etc/systemd/system/"

// manifestEntries returns what a stage puts on a node: files in the order in which they are
// written, and units.
func (in Input) manifestEntries(s manifestStage) (files []manifest.File, units []manifest.Unit, err error) {
	written, err := in.nodeFiles(s.compiled, s.config)
	if err != nil {
		return nil, nil, err
	}
	others, err := in.nodeFiles(s.compiled, s.other)
	if err != nil {
		return nil, nil, err
	}
	flatcar := in.Pool.OperatingSystem == osm.OperatingSystemFlatcar
	masked := map[string]bool{}
	for _, u := range s.config.Units {
		if !manifest.IsUnit(u.Name) {
			continue
		}
		state := manifest.Any
		switch {
		case userdata.IsTrue(u.Mask):
			state = manifest.Masked
			masked[systemUnits+u.Name] = flatcar // a symbolic link there, and an empty file elsewhere
		case !flatcar: // a drop-in of a target enables it
		case userdata.IsTrue(u.Enable):
			state = manifest.Enabled
		case u.Enable != nil && in.Pool.utility() == osm.ProvisioningUtilityIgnition:
			state = manifest.Disabled
		}
		units = append(units, manifest.Unit{Name: u.Name, State: state})
	}
	for i, f := range written {
		at := f.Path
		if path.IsAbs(at) {
			at = path.Clean(at)
		}
		if at == manifest.Path || !manifest.IsPath(at) || masked[at] {
			continue
		}
		entry := manifest.File{Path: at, Mode: f.Mode, Owner: "root:root"}
		if f.Content == others[i].Content && (s.compiled.Name != stageBootstrap || !hasMachineName(f.Content)) {
			sum := sha256.Sum256([]byte(f.Content))
			entry.Digest = hex.EncodeToString(sum[:])
		}
		files = append(files, entry)
		// Units that a profile writes as files.
		if name, ok := strings.CutPrefix(at, systemUnits); ok {
			name, dropIn, below := strings.Cut(name, "/")
			if below && strings.HasSuffix(dropIn, ".conf") {
				name = strings.TrimSuffix(name, ".d")
			}
			if manifest.IsUnit(name) && !slices.ContainsFunc(units, func(u manifest.Unit) bool { return u.Name == name }) {
				units = append(units, manifest.Unit{Name: name, State: manifest.Any})
			}
		}
	}
	return files, units, nil
}

// hasMachineName reports whether machine-controller would replace a part of a text in user-data.
func hasMachineName(content string) bool {
	return strings.Contains(content, userdata.MachineName) || strings.Contains(content, "%3CMACHINE_NAME%3E")
}

// withOtherPlaceholders returns an input with placeholders with others in their place, which have
// the same form.
func (in Input) withOtherPlaceholders() Input {
	c := in.Credentials()
	if !c.Empty() {
		var other Credentials
		text := settings.OtherPlaceholders.Replace(string(mustJSON(c)))
		if err := json.Unmarshal([]byte(text), &other); err != nil {
			panic(fmt.Sprintf("decoding credentials: %v", err)) // the replaced texts have no character of JSON
		}
		in = in.WithCredentials(other)
	}
	hadKubeconfig := in.Cluster.BootstrapKubeconfig != ""
	settings.ReplaceNonEmpty(&in.Cluster.APIServerToken, strings.ToLower(placeholderNodeToken))
	settings.ReplaceNonEmpty(&in.Cluster.BootstrapToken, strings.ReplaceAll(placeholderBootstrapToken, "0", "1"))
	if hadKubeconfig {
		in.Cluster.BootstrapKubeconfig = BootstrapKubeconfig(in.Cluster.Server, in.Settings.KubernetesCACert, in.Cluster.BootstrapToken)
	}
	return in
}
