package userdata

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Header identifies the format for cloud-init:
// https://cloudinit.readthedocs.io/en/latest/explanation/format.html
const Header = "#cloud-config\n"

// MachineName is the text in the document that machine-controller replaces when it creates a
// machine.
const MachineName = "<MACHINE_NAME>"

// MachineNameFile contains the node's name.
const MachineNameFile = "/etc/machine-name"

// File is an item of write_files.
type File struct {
	Path, permissions, encoding, Content string
}

// CloudConfig is the user-data of one stage for cloud-init. Its keys are in the order in which
// operating-system-manager writes them; empty ones are omitted.
type CloudConfig struct {
	// Hostname is written if it is not empty, also to MachineNameFile.
	Hostname string
	// Upgrade: the first boot upgrades all packages.
	Upgrade bool
	// StartsUnits: a command starts the units, as in the bootstrap stage.
	StartsUnits bool
	System      osm.OperatingSystem
	Config      *osm.OSCConfig
}

// Encode returns the document. Every text arrives unchanged: YAML 1.1 and 1.2 parsers decode
// the same strings.
func (c CloudConfig) Encode() ([]byte, error) {
	begin, end := newMapping(), newMapping() // before and after the files
	add := func(to *yaml.Node, key string, value *yaml.Node) {
		if value != nil {
			to.Content = append(to.Content, scalar(key), value)
		}
	}
	if c.Hostname != "" {
		add(begin, "hostname", scalar(c.Hostname))
	}
	if c.Upgrade {
		add(begin, "package_upgrade", newBoolean(true))
		add(begin, "package_reboot_if_required", newBoolean(true))
	}
	add(begin, "ssh_pwauth", newBoolean(false))
	add(begin, "ssh_authorized_keys", stringList(uniqueNonEmpty(c.Config.UserSSHKeys)))

	files, err := c.filesAndUnitFiles()
	if err != nil {
		return nil, err
	}
	if c.Hostname != "" {
		files = append(files, File{Path: MachineNameFile, permissions: "0600", Content: c.Hostname})
	}
	if c.System == osm.OperatingSystemFlatcar && len(c.Config.Units) > 0 {
		add(end, "coreos", newMapping("units", coreosUnits(c.Config.Units)))
	}

	modules := osm.CloudInitModule{}
	if c.Config.CloudInitModules != nil {
		modules = *c.Config.CloudInitModules
	}
	commands := modules.RunCMD
	if c.System != osm.OperatingSystemFlatcar && c.StartsUnits {
		if start := startUnitsCommand(c.Config.Units); start != "" {
			commands = append(slices.Clone(commands), start)
		}
	}
	add(end, "bootcmd", stringList(modules.BootCMD))
	add(end, "runcmd", stringList(commands))
	add(end, "rh_subscription", mappingWithBooleans(modules.RHSubscription, "auto-attach", "auto_attach"))
	add(end, "yum_repos", yumRepos(modules.YumRepos))
	if modules.YumRepoDir != "" {
		add(end, "yum_repo_dir", scalar(modules.YumRepoDir))
	}

	doc := &document{}
	doc.WriteString(Header)
	if err := doc.addMapping(begin); err != nil {
		return nil, err
	}
	if err := doc.addFiles(files); err != nil {
		return nil, err
	}
	if err := doc.addMapping(end); err != nil {
		return nil, err
	}
	return doc.Bytes(), nil
}

func (c CloudConfig) filesAndUnitFiles() ([]File, error) {
	var files []File
	for _, f := range c.Config.Files {
		mode, err := ParsePermissions(f.Permissions)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Path, err)
		}
		file := File{Path: f.Path, permissions: PermissionsText(mode), encoding: f.Content.Inline.Encoding, Content: f.Content.Inline.Data}
		if file.encoding == "b64" {
			file.Content = base64.StdEncoding.EncodeToString([]byte(file.Content))
		}
		files = append(files, file)
	}
	if c.System != osm.OperatingSystemFlatcar {
		files = append(files, UnitFiles(c.Config.Units)...)
	}
	return files, nil
}

// PermissionsText returns at least four octal digits, the first a zero or one of the special
// bits.
func PermissionsText(mode uint32) string {
	text := strconv.FormatUint(uint64(mode), 8)
	return strings.Repeat("0", max(4-len(text), 0)) + text
}

// uniqueNonEmpty trims strings, and drops empty ones and repetitions.
func uniqueNonEmpty(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// FileSizes returns how many bytes each file takes in the document, in the order in
// which they are written.
func (c CloudConfig) FileSizes() []FileSize {
	files, _ := c.filesAndUnitFiles() // they were encoded before
	sizes := make([]FileSize, 0, len(files))
	for _, f := range files {
		d := &document{}
		_ = d.addFile(f)
		sizes = append(sizes, FileSize{f.Path, d.Len()})
	}
	return sizes
}

// FileSize is a file with its size in a document.
type FileSize struct {
	Path string
	Size int
}

// coreosUnits returns the units for coreos-cloudinit, which only Flatcar has:
// https://github.com/flatcar/coreos-cloudinit/blob/flatcar-master/Documentation/cloud-config.md
func coreosUnits(units []osm.Unit) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, u := range units {
		item := newMapping("name", scalar(u.Name), "enable", newBoolean(IsTrue(u.Enable)))
		if IsTrue(u.Enable) {
			item.Content = append(item.Content, scalar("command"), scalar("start"))
		}
		item.Content = append(item.Content, scalar("mask"), newBoolean(IsTrue(u.Mask)))
		if u.Content != nil && *u.Content != "" {
			item.Content = append(item.Content, scalar("content"), text(*u.Content))
		}
		if len(u.DropIns) > 0 {
			dropIns := &yaml.Node{Kind: yaml.SequenceNode}
			for _, d := range u.DropIns {
				dropIns.Content = append(dropIns.Content, newMapping("name", scalar(d.Name), "content", text(d.Content)))
			}
			item.Content = append(item.Content, scalar("drop_ins"), dropIns)
		}
		list.Content = append(list.Content, item)
	}
	return list
}

// yumRepos returns the repositories for the document. In cloud-init's schema only `enabled` is
// a boolean, and the other keys are strings:
// https://github.com/canonical/cloud-init/blob/main/cloudinit/config/schemas/schema-cloud-config-v1.json
func yumRepos(repos map[string]map[string]string) *yaml.Node {
	if len(repos) == 0 {
		return nil
	}
	m := newMapping()
	for _, name := range slices.Sorted(maps.Keys(repos)) {
		repo := mappingWithBooleans(repos[name], "enabled")
		if repo == nil {
			repo = newMapping()
			repo.Style = yaml.FlowStyle
		}
		m.Content = append(m.Content, scalar(name), repo)
	}
	return m
}

// mappingWithBooleans returns a mapping of strings with sorted keys, in which booleanKeys are booleans
// if their values are.
func mappingWithBooleans(values map[string]string, booleanKeys ...string) *yaml.Node {
	if len(values) == 0 {
		return nil
	}
	m := newMapping()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := scalar(values[key])
		if slices.Contains(booleanKeys, key) {
			if b, ok := YamlBool(values[key]); ok {
				value = newBoolean(b)
			}
		}
		m.Content = append(m.Content, scalar(key), value)
	}
	return m
}

// YamlBool parses the texts that are booleans for a YAML 1.1 parser, or for the yum that reads
// the result.
func YamlBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}
