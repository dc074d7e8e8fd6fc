package nodescripts_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/osm-gitops/osm-gitops/test/nodefixture"
	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

// document is a machine's user-data, and what reads it at a boot.
type document struct {
	text []byte
	// commands are runcmd, of the first boot.
	commands []string
	booted   bool
}

// oemConfig is where Ignition looks for a document before it asks the platform:
// https://www.flatcar.org/docs/latest/provisioning/ignition/boot-process/
const oemConfig = "/usr/share/oem/config.ign"

// atBoot does what an image does with its user-data before it starts services. The
// caller holds mu.
func (d *document) atBoot(n *node) {
	switch {
	case n.system.name != "flatcar":
		if d.booted {
			return // cloud-init writes files once for an instance
		}
		d.booted = true
		config, err := nodefixture.Parse(d.text)
		n.must(err)
		n.must(writeFiles(n, config.Files))
		d.commands = config.Commands
		for _, command := range config.Commands {
			// They call nothing but systemctl: our profiles put all other work into
			// scripts.
			words := strings.Fields(command)
			if r := n.program(protocol.Call{Argv: words}); r.Exit != 0 {
				n.t.Errorf("runcmd: %q ends with status %d: %s", command, r.Exit, r.Stderr)
			}
		}
	case bytes.HasPrefix(d.text, []byte("{")):
		if !n.exists("/boot/flatcar/first_boot") {
			return
		}
		text := d.text
		if n.exists(oemConfig) {
			text = []byte(n.read(oemConfig))
		}
		if err := applyIgnition(n, text); err != nil {
			n.t.Errorf("Ignition: %v", err)
		}
		n.must(os.Remove(n.path("/boot/flatcar/first_boot")))
	default:
		n.must(n.applyCoreOS(d.text))
	}
}

// applyCoreOS does what coreos-cloudinit does with a document, at every boot with the user-data.
func (n *node) applyCoreOS(text []byte) error {
	config, err := nodefixture.Parse(text)
	if err != nil {
		return err
	}
	if err := writeFiles(n, config.Files); err != nil {
		return err
	}
	for _, u := range config.Units {
		if err := writeFiles(n, u.Files()); err != nil {
			return err
		}
		if u.Enable {
			n.enable(u.Name)
		}
		if u.Start {
			n.start(u.Name, []string{"--no-block"})
		}
	}
	return nil
}

// coreOSCloudInit imitates `coreos-cloudinit --from-file=FILE`:
// https://github.com/flatcar/coreos-cloudinit/blob/flatcar-master/coreos-cloudinit.go
func (n *node) coreOSCloudInit(args []string) protocol.Reply {
	path, ok := strings.CutPrefix(strings.Join(args, " "), "--from-file=")
	if !ok {
		return failure(2, "coreos-cloudinit: unknown arguments %q", args)
	}
	text, err := os.ReadFile(n.path(path))
	if err == nil {
		err = n.applyCoreOS(text)
	}
	if err != nil {
		return failure(1, "coreos-cloudinit: %v", err)
	}
	return protocol.Reply{}
}

// writeFiles writes files, each at once.
func writeFiles(n *node, files []nodefixture.File) error {
	for _, f := range files {
		if err := writeFile(n, f.Path, f.Content, f.Mode); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces a file by another at once.
func writeFile(n *node, path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(n.path(filepath.Dir(path)), 0o755); err != nil {
		return err
	}
	part := n.path(protocol.Dir, "part")
	if err := os.WriteFile(part, content, mode); err != nil {
		return err
	}
	if err := os.Chmod(part, mode); err != nil {
		return err
	}
	return os.Rename(part, n.path(path))
}

// cloudInit imitates `cloud-init single`: it applies the file that --file names, and checks that
// it is at the path of the image's release.
func (n *node) cloudInit(args []string) protocol.Reply {
	line := strings.Join(args, " ")
	if line == "single --help" {
		if n.system.oldCloudInit {
			return protocol.Reply{Stdout: "usage: cloud-init single [-h] --name NAME [--frequency {once,instance,always}] [--report] [module_args ...]\n"}
		}
		return protocol.Reply{Stdout: "usage: cloud-init single [-h] --name NAME [--frequency {once,instance,always}] [--report] [--file FILES] [module_args ...]\n"}
	}
	var path, module, frequency string
	fields := strings.Fields(line)
	if n.system.oldCloudInit && len(fields) == 7 && fields[0] == "--file" && fields[2] == "single" {
		fields = append([]string{"single", "--file", fields[1]}, fields[3:]...)
	} else if n.system.oldCloudInit {
		return failure(2, "cloud-init: error: unrecognized arguments: %s", line)
	}
	if len(fields) != 7 || fields[0] != "single" {
		return failure(2, "cloud-init: error: unrecognized arguments: %s", line)
	}
	for i := 1; i < len(fields); i += 2 {
		switch fields[i] {
		case "--file":
			path = fields[i+1]
		case "--name":
			module = fields[i+1]
		case "--frequency":
			frequency = fields[i+1]
		}
	}
	if frequency != "always" {
		return protocol.Reply{} // it has run for this instance
	}
	b, err := os.ReadFile(n.path(path))
	if err != nil {
		return failure(1, "%v", err)
	}
	config, err := nodefixture.Parse(b)
	if err != nil {
		return failure(1, "%s: %v", path, err)
	}
	if module != "write_files" {
		return protocol.Reply{}
	}
	files := len(config.Files)
	if n.cloudInitDies > 0 {
		n.cloudInitDies--
		files /= 2
	}
	if err := writeFiles(n, config.Files[:files]); err != nil {
		return failure(1, "%s: %v", path, err)
	}
	if files < len(config.Files) {
		return failure(1, "cloud-init: killed")
	}
	return protocol.Reply{}
}

// applyIgnition writes a document's files and units. An existing file is only overwritten if the
// document says so:
// https://coreos.github.io/ignition/configuration-v3_3/ (storage.files.overwrite)
// Units are enabled by a preset. Entries of an earlier document remain: another run of Ignition
// appends to the file.
func applyIgnition(n *node, text []byte) error {
	d, err := nodefixture.Parse(text)
	if err != nil {
		return err
	}
	for _, f := range d.Files {
		if n.exists(f.Path) && !f.Overwrite {
			return fmt.Errorf("%s is there already, and overwrite is not set", f.Path)
		}
	}
	if err := writeFiles(n, d.Files); err != nil {
		return err
	}
	var presets string
	if n.exists(ignitionPreset) {
		presets = n.read(ignitionPreset)
	}
	for _, u := range d.Units {
		if err := writeFiles(n, u.Files()); err != nil {
			return err
		}
		if u.Enable {
			presets += "enable " + u.Name + "\n"
		}
	}
	n.write(ignitionPreset, presets, 0o644)
	return nil
}
