package profiles_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/osm-gitops/osm-gitops/test/nodefixture"
)

// unitDir is where units end up on every system here.
const unitDir = "/etc/systemd/system/"

// stage is one document, read.
type stage struct {
	ignition bool
	version  string // of Ignition
	files    map[string]file
	units    []unit
	// commands are runcmd and bootcmd.
	commands []string
	users    map[string][]string // SSH keys by user; "" is the image's own
	document []byte
}

type file struct {
	mode    uint32
	content string
}

type unit struct {
	name, content string
	enabled, mask bool
	dropIns       []dropIn
}

type dropIn struct{ name, content string }

// parse reads a document with parsers that rendering does not use.
func parse(document []byte) (*stage, error) {
	if bytes.HasPrefix(document, []byte("{")) {
		return parseIgnition(document)
	}
	return parseCloudConfig(document)
}

// nodeFiles are the files on a node, units among them.
func (s *stage) nodeFiles() map[string]file {
	out := map[string]file{}
	for path, f := range s.files {
		out[path] = f
	}
	for _, u := range s.units {
		if u.content != "" {
			out[unitDir+u.name] = file{mode: 0o644, content: u.content}
		}
		for _, d := range u.dropIns {
			out[unitDir+u.name+".d/"+d.name] = file{mode: 0o644, content: d.content}
		}
	}
	return out
}

type cloudConfigDocument struct {
	WriteFiles []struct {
		Path        string `yaml:"path"`
		Permissions string `yaml:"permissions"`
		Encoding    string `yaml:"encoding"`
		Content     string `yaml:"content"`
	} `yaml:"write_files"`
	CoreOS struct {
		Units []struct {
			Name    string `yaml:"name"`
			Enable  bool   `yaml:"enable"`
			Mask    bool   `yaml:"mask"`
			Content string `yaml:"content"`
			DropIns []struct {
				Name    string `yaml:"name"`
				Content string `yaml:"content"`
			} `yaml:"drop_ins"`
		} `yaml:"units"`
	} `yaml:"coreos"`
	SSHAuthorizedKeys []string `yaml:"ssh_authorized_keys"`
	RunCMD            []string `yaml:"runcmd"`
	BootCMD           []string `yaml:"bootcmd"`
}

func parseCloudConfig(document []byte) (*stage, error) {
	if !bytes.HasPrefix(document, []byte("#cloud-config\n")) {
		return nil, fmt.Errorf("its first line is not #cloud-config")
	}
	var doc cloudConfigDocument
	if err := yaml.Unmarshal(document, &doc); err != nil {
		return nil, err
	}
	s := &stage{files: map[string]file{}, document: document, users: map[string][]string{"": doc.SSHAuthorizedKeys}}
	s.commands = append(append(s.commands, doc.BootCMD...), doc.RunCMD...)
	for _, f := range doc.WriteFiles {
		mode, err := strconv.ParseUint(f.Permissions, 8, 32)
		if err != nil {
			return nil, fmt.Errorf("%s: permissions %q: %w", f.Path, f.Permissions, err)
		}
		content, err := decodeContent(f.Encoding, f.Content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if _, twice := s.files[f.Path]; twice {
			return nil, fmt.Errorf("%s is written twice", f.Path)
		}
		s.files[f.Path] = file{mode: uint32(mode), content: content}
	}
	for _, u := range doc.CoreOS.Units {
		out := unit{name: u.Name, content: u.Content, enabled: u.Enable, mask: u.Mask}
		for _, d := range u.DropIns {
			out.dropIns = append(out.dropIns, dropIn{d.Name, d.Content})
		}
		s.units = append(s.units, out)
	}
	return s, nil
}

// decodeContent knows the encodings of cloud-init's write_files:
// https://cloudinit.readthedocs.io/en/latest/reference/modules.html#write-files
func decodeContent(encoding, content string) (string, error) {
	switch encoding {
	case "":
		return content, nil
	case "b64", "gz+b64":
		raw, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(content, "\n", ""))
		if err != nil || encoding == "b64" {
			return string(raw), err
		}
		raw, err = nodefixture.Gunzip(raw)
		return string(raw), err
	}
	return "", fmt.Errorf("encoding %q", encoding)
}

func parseIgnition(document []byte) (*stage, error) {
	var doc nodefixture.Ignition
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, err
	}
	if doc.Ignition.Version == "" {
		return nil, fmt.Errorf("ignition.version is missing")
	}
	s := &stage{ignition: true, version: doc.Ignition.Version, files: map[string]file{}, document: document, users: map[string][]string{}}
	for _, f := range doc.Storage.Files {
		content, err := f.Contents.Read()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		if f.Mode == nil {
			return nil, fmt.Errorf("%s has no mode", f.Path)
		}
		if _, twice := s.files[f.Path]; twice {
			return nil, fmt.Errorf("%s is written twice", f.Path)
		}
		s.files[f.Path] = file{mode: uint32(*f.Mode), content: string(content)}
	}
	for _, u := range doc.Systemd.Units {
		out := unit{name: u.Name, content: u.Contents, enabled: u.Enabled, mask: u.Mask}
		for _, d := range u.DropIns {
			out.dropIns = append(out.dropIns, dropIn{d.Name, d.Contents})
		}
		s.units = append(s.units, out)
	}
	for _, u := range doc.Passwd.Users {
		s.users[u.Name] = append(s.users[u.Name], u.Keys...)
	}
	return s, nil
}
