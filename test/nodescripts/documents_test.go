package nodescripts_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

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
		config, err := parseCloudConfig(d.text)
		n.must(err)
		n.must(config.write(n, len(config.WriteFiles)))
		d.commands = config.RunCMD
		for _, command := range config.RunCMD {
			// They are commands of systemctl alone, which the scripts of our profiles
			// leave nothing else to.
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
		// coreos-cloudinit does all of it at every boot.
		config, err := parseCloudConfig(d.text)
		n.must(err)
		n.must(config.write(n, len(config.WriteFiles)))
		for _, u := range config.CoreOS.Units {
			n.must(writeUnit(n, u.Name, u.Content, u.DropIns))
			if u.Enable {
				n.enable(u.Name)
			}
			if u.Command == "start" {
				n.start(u.Name, []string{"--no-block"})
			}
		}
	}
}

// cloudConfig is what our documents have of cloud-init's format.
type cloudConfig struct {
	WriteFiles []struct {
		Path        string `json:"path"`
		Permissions string `json:"permissions"`
		Encoding    string `json:"encoding"`
		Content     string `json:"content"`
	} `json:"write_files"`
	RunCMD []string `json:"runcmd"`
	CoreOS struct {
		Units []struct {
			Name    string   `json:"name"`
			Enable  bool     `json:"enable"`
			Command string   `json:"command"`
			Content string   `json:"content"`
			DropIns []dropIn `json:"drop_ins"`
		} `json:"units"`
	} `json:"coreos"`
}

type dropIn struct {
	Name     string `json:"name"`
	Content  string `json:"content"`  // coreos-cloudinit
	Contents string `json:"contents"` // Ignition
}

func parseCloudConfig(text []byte) (*cloudConfig, error) {
	if !bytes.HasPrefix(text, []byte("#cloud-config\n")) {
		return nil, errors.New("the first line is not #cloud-config")
	}
	c := &cloudConfig{}
	return c, yaml.Unmarshal(text, c)
}

// write writes the first so many files.
func (c *cloudConfig) write(n *node, files int) error {
	for _, f := range c.WriteFiles[:files] {
		mode, err := strconv.ParseUint(f.Permissions, 8, 32)
		if err != nil {
			return fmt.Errorf("%s: permissions: %w", f.Path, err)
		}
		content := []byte(f.Content)
		switch f.Encoding {
		case "":
		case "b64":
			if content, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
		default:
			return fmt.Errorf("%s: encoding %q", f.Path, f.Encoding)
		}
		if err := writeFile(n, f.Path, content, fs.FileMode(mode)); err != nil {
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

func writeUnit(n *node, name, content string, dropIns []dropIn) error {
	if content != "" {
		if err := writeFile(n, unitDir+name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	for _, d := range dropIns {
		if err := writeFile(n, unitDir+name+".d/"+d.Name, []byte(d.Content+d.Contents), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// cloudInit is `cloud-init single`, which applies the file that --file names, in the
// place where the image's release wants it.
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
	config, err := parseCloudConfig(b)
	if err != nil {
		return failure(1, "%s: %v", path, err)
	}
	if module != "write_files" {
		return protocol.Reply{}
	}
	files := len(config.WriteFiles)
	if n.cloudInitDies > 0 {
		n.cloudInitDies--
		files /= 2
	}
	if err := config.write(n, files); err != nil {
		return failure(1, "%s: %v", path, err)
	}
	if files < len(config.WriteFiles) {
		return failure(1, "cloud-init: killed")
	}
	return protocol.Reply{}
}

// ignitionConfig is what our documents have of Ignition's format, 2.x and 3.x.
type ignitionConfig struct {
	Ignition struct {
		Version string `json:"version"`
	} `json:"ignition"`
	Storage struct {
		Files []struct {
			Path      string `json:"path"`
			Overwrite *bool  `json:"overwrite"`
			Mode      int    `json:"mode"`
			Contents  struct {
				Source      string `json:"source"`
				Compression string `json:"compression"`
			} `json:"contents"`
		} `json:"files"`
	} `json:"storage"`
	Systemd struct {
		Units []struct {
			Name     string   `json:"name"`
			Enabled  bool     `json:"enabled"`
			Contents string   `json:"contents"`
			DropIns  []dropIn `json:"dropins"`
		} `json:"units"`
	} `json:"systemd"`
}

// applyIgnition writes a document's files and units. A file that is there is only
// written over where the document says so:
// https://coreos.github.io/ignition/configuration-v3_3/ (storage.files.overwrite)
// Units are enabled by a preset, which systemd reads at a first boot alone: one
// without a machine id.
func applyIgnition(n *node, text []byte) error {
	var c ignitionConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return err
	}
	for _, f := range c.Storage.Files {
		overwrite := strings.HasPrefix(c.Ignition.Version, "2.")
		if f.Overwrite != nil {
			overwrite = *f.Overwrite
		}
		if n.exists(f.Path) && !overwrite {
			return fmt.Errorf("%s is there already, and overwrite is not set", f.Path)
		}
		content, err := readDataURL(f.Contents.Source)
		if err == nil && f.Contents.Compression == "gzip" {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(content)); err == nil {
				content, err = io.ReadAll(z)
			}
		}
		if err == nil {
			err = writeFile(n, f.Path, content, fs.FileMode(f.Mode))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	firstBoot := !n.exists("/etc/machine-id")
	for _, u := range c.Systemd.Units {
		if err := writeUnit(n, u.Name, u.Contents, u.DropIns); err != nil {
			return err
		}
		if u.Enabled && firstBoot {
			n.enable(u.Name)
		}
	}
	n.write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n", 0o444)
	return nil
}

func readDataURL(source string) ([]byte, error) {
	rest, ok := strings.CutPrefix(source, "data:")
	kind, data, comma := strings.Cut(rest, ",")
	switch {
	case source == "":
		return nil, nil
	case !ok || !comma:
		return nil, fmt.Errorf("%.20q is no data URL", source)
	case strings.HasSuffix(kind, ";base64"):
		return base64.StdEncoding.DecodeString(data)
	}
	text, err := url.PathUnescape(data)
	return []byte(text), err
}
