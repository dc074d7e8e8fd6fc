package render

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

// cloudConfigHeader tells cloud-init what it reads:
// https://cloudinit.readthedocs.io/en/latest/explanation/format.html
const cloudConfigHeader = "#cloud-config\n"

// machineName is replaced by machine-controller, in the text of the document,
// when it creates a machine.
const machineName = "<MACHINE_NAME>"

// machineNameFile tells a node its name.
const machineNameFile = "/etc/machine-name"

// cloudFile is an item of write_files.
type cloudFile struct {
	path, permissions, encoding, content string
}

// cloudConfig is the user-data of one stage for cloud-init. Its keys are in the
// contract's order (7.3), empty ones are left out.
type cloudConfig struct {
	stage  string
	pool   *Pool
	system osm.OperatingSystem
	config *osm.OSCConfig
}

// encode returns the document. Everything arrives as it is: YAML 1.1 and 1.2
// readers see the same strings.
func (c cloudConfig) encode() ([]byte, error) {
	doc := &document{}
	doc.root.Kind = yaml.MappingNode
	add := func(key string, value *yaml.Node) {
		if value != nil {
			doc.root.Content = append(doc.root.Content, scalar(key), value)
		}
	}
	name := c.pool.wrapperName(c.stage)
	if name != "" {
		add("hostname", scalar(name))
	}
	if c.pool.OperatingSystemSpec.DistUpgradeOnBoot {
		add("package_upgrade", boolean(true))
		add("package_reboot_if_required", boolean(true))
	}
	add("ssh_pwauth", boolean(false))
	add("ssh_authorized_keys", stringList(distinct(c.config.UserSSHKeys)))

	files, err := c.files()
	if err != nil {
		return nil, err
	}
	if name != "" {
		files = append(files, cloudFile{path: machineNameFile, permissions: "0600", content: name})
	}
	add("write_files", doc.fileList(files))
	if c.system == osm.OperatingSystemFlatcar && len(c.config.Units) > 0 {
		add("coreos", mapping("units", coreosUnits(c.config.Units)))
	}

	modules := osm.CloudInitModule{}
	if c.config.CloudInitModules != nil {
		modules = *c.config.CloudInitModules
	}
	commands := modules.RunCMD
	if c.system != osm.OperatingSystemFlatcar && c.stage == stageBootstrap {
		if start := startUnits(c.config.Units); start != "" {
			commands = append(slices.Clone(commands), start)
		}
	}
	add("bootcmd", stringList(modules.BootCMD))
	add("runcmd", stringList(commands))
	add("rh_subscription", typedMap(modules.RHSubscription, "auto-attach", "auto_attach"))
	add("yum_repos", yumRepos(modules.YumRepos))
	if modules.YumRepoDir != "" {
		add("yum_repo_dir", scalar(modules.YumRepoDir))
	}
	return doc.encode()
}

// wrapperName is what stands for the machine's name in a stage's document, empty
// where that does not set it. An edge machine is called like its pool.
func (p *Pool) wrapperName(stage string) string {
	switch {
	case stage != stageBootstrap || p.CloudProvider == osm.CloudProviderAWS:
		return ""
	case p.CloudProvider == osm.CloudProviderEdge:
		return p.Name
	}
	return machineName
}

func (c cloudConfig) files() ([]cloudFile, error) {
	var files []cloudFile
	for _, f := range c.config.Files {
		mode, err := parsePermissions(f.Permissions)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Path, err)
		}
		file := cloudFile{path: f.Path, permissions: permissionsText(mode), encoding: f.Content.Inline.Encoding, content: f.Content.Inline.Data}
		if file.encoding == "b64" {
			file.content = base64.StdEncoding.EncodeToString([]byte(file.content))
		}
		files = append(files, file)
	}
	if c.system != osm.OperatingSystemFlatcar {
		files = append(files, unitFiles(c.config.Units)...)
	}
	return files, nil
}

// permissionsText has at least four octal digits, the first a zero or one of the
// special bits.
func permissionsText(mode uint32) string {
	text := strconv.FormatUint(uint64(mode), 8)
	return strings.Repeat("0", max(4-len(text), 0)) + text
}

// distinct trims strings, and drops empty ones and repetitions.
func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func (d *document) fileList(files []cloudFile) *yaml.Node {
	if len(files) == 0 {
		return nil
	}
	if isSimple(files) {
		return d.mark(markedText{files: files})
	}
	return d.fileNodes(files)
}

// fileNodes leaves the list to the YAML library.
func (d *document) fileNodes(files []cloudFile) *yaml.Node {
	// The same nodes as keys of every item: they are only read.
	path, permissions, encoding, content := scalar("path"), scalar("permissions"), scalar("encoding"), scalar("content")
	list := &yaml.Node{Kind: yaml.SequenceNode, Content: make([]*yaml.Node, 0, len(files))}
	for _, f := range files {
		var value *yaml.Node
		if f.encoding == "b64" {
			value = d.base64Text(f.content)
		} else {
			value = d.text(f.content)
		}
		item := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{path, scalar(f.path), permissions, quoted(f.permissions), content, value}}
		if f.encoding != "" {
			item.Content = slices.Insert(item.Content, 4, encoding, scalar(f.encoding))
		}
		list.Content = append(list.Content, item)
	}
	return list
}

// coreosUnits is for coreos-cloudinit, which only Flatcar has:
// https://github.com/flatcar/coreos-cloudinit/blob/flatcar-master/Documentation/cloud-config.md
func coreosUnits(units []osm.Unit) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	for _, u := range units {
		item := mapping("name", scalar(u.Name), "enable", boolean(isTrue(u.Enable)))
		if isTrue(u.Enable) {
			item.Content = append(item.Content, scalar("command"), scalar("start"))
		}
		item.Content = append(item.Content, scalar("mask"), boolean(isTrue(u.Mask)))
		if u.Content != nil && *u.Content != "" {
			item.Content = append(item.Content, scalar("content"), text(*u.Content))
		}
		if len(u.DropIns) > 0 {
			dropIns := &yaml.Node{Kind: yaml.SequenceNode}
			for _, d := range u.DropIns {
				dropIns.Content = append(dropIns.Content, mapping("name", scalar(d.Name), "content", text(d.Content)))
			}
			item.Content = append(item.Content, scalar("drop_ins"), dropIns)
		}
		list.Content = append(list.Content, item)
	}
	return list
}

// yumRepos passes repositories on. Of their keys cloud-init's schema types only
// `enabled` as boolean and takes strings for the rest:
// https://github.com/canonical/cloud-init/blob/main/cloudinit/config/schemas/schema-cloud-config-v1.json
func yumRepos(repos map[string]map[string]string) *yaml.Node {
	if len(repos) == 0 {
		return nil
	}
	m := mapping()
	for _, name := range slices.Sorted(maps.Keys(repos)) {
		repo := typedMap(repos[name], "enabled")
		if repo == nil {
			repo = mapping()
			repo.Style = yaml.FlowStyle
		}
		m.Content = append(m.Content, scalar(name), repo)
	}
	return m
}

// typedMap is a map of strings with sorted keys, in which the named keys are
// booleans as far as their values are.
func typedMap(values map[string]string, booleans ...string) *yaml.Node {
	if len(values) == 0 {
		return nil
	}
	m := mapping()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := scalar(values[key])
		if slices.Contains(booleans, key) {
			if b, ok := yamlBool(values[key]); ok {
				value = boolean(b)
			}
		}
		m.Content = append(m.Content, scalar(key), value)
	}
	return m
}

// yamlBool reads what a YAML 1.1 reader, or the yum that reads the result, takes
// for a boolean.
func yamlBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}
