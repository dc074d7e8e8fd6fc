package nodefixture

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
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Document is what our documents say, in either format.
type Document struct {
	// Ignition is the version of its specification, empty: a document for cloud-init.
	Ignition string
	Files    []File
	// Units are those that Ignition and coreos-cloudinit write.
	Units []Unit
	// Commands are cloud-init's runcmd.
	Commands []string
}

// File is one that a document writes.
type File struct {
	Path    string
	Mode    fs.FileMode
	Content []byte
	// Overwrite allows Ignition to replace an existing file.
	Overwrite bool
}

// Unit is one of systemd. Without content it is the drop-ins only.
type Unit struct {
	Name, Content string
	DropIns       []DropIn
	// Enable it at a first boot; Start it at every one.
	Enable, Start bool
}

// DropIn is a drop-in file of a unit.
type DropIn struct{ Name, Content string }

// unitDir is where units are written.
const unitDir = "/etc/systemd/system/"

// Files are the unit and its drop-ins.
func (u Unit) Files() []File {
	var all []File
	if u.Content != "" {
		all = append(all, File{Path: unitDir + u.Name, Mode: 0o644, Content: []byte(u.Content)})
	}
	for _, d := range u.DropIns {
		all = append(all, File{Path: unitDir + u.Name + ".d/" + d.Name, Mode: 0o644, Content: []byte(d.Content)})
	}
	return all
}

// Parse reads a document of either format.
func Parse(text []byte) (*Document, error) {
	if bytes.HasPrefix(text, []byte("{")) {
		return parseIgnition(text)
	}
	if !bytes.HasPrefix(text, []byte("#cloud-config\n")) {
		return nil, errors.New("the first line is not #cloud-config")
	}
	return parseCloudConfig(text)
}

func parseCloudConfig(text []byte) (*Document, error) {
	var c struct {
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
				DropIns []DropIn `json:"drop_ins"`
			} `json:"units"`
		} `json:"coreos"`
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	d := &Document{Commands: c.RunCMD}
	for _, f := range c.WriteFiles {
		mode, err := strconv.ParseUint(f.Permissions, 8, 12)
		if err != nil {
			return nil, fmt.Errorf("%s: permissions: %w", f.Path, err)
		}
		content := []byte(f.Content)
		switch f.Encoding {
		case "":
		case "b64":
			if content, err = base64.StdEncoding.DecodeString(f.Content); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		default:
			return nil, fmt.Errorf("%s: encoding %q", f.Path, f.Encoding)
		}
		d.Files = append(d.Files, File{Path: f.Path, Mode: fs.FileMode(mode), Content: content, Overwrite: true})
	}
	for _, u := range c.CoreOS.Units {
		d.Units = append(d.Units, Unit{Name: u.Name, Content: u.Content, DropIns: u.DropIns, Enable: u.Enable, Start: u.Command == "start"})
	}
	return d, nil
}

// Ignition is what we write of a document for Ignition.
type Ignition struct {
	Ignition struct {
		Version string `json:"version"`
	} `json:"ignition"`
	Storage struct {
		Files []struct {
			Path      string   `json:"path"`
			Overwrite *bool    `json:"overwrite"`
			Mode      *int     `json:"mode"`
			Contents  Contents `json:"contents"`
		} `json:"files"`
	} `json:"storage"`
	Systemd struct {
		Units []struct {
			Name     string `json:"name"`
			Enabled  bool   `json:"enabled"`
			Mask     bool   `json:"mask"`
			Contents string `json:"contents"`
			DropIns  []struct {
				Name     string `json:"name"`
				Contents string `json:"contents"`
			} `json:"dropins"`
		} `json:"units"`
	} `json:"systemd"`
	Passwd struct {
		Users []struct {
			Name string   `json:"name"`
			Keys []string `json:"sshAuthorizedKeys"`
		} `json:"users"`
	} `json:"passwd"`
}

// Contents are those of a file of Ignition's.
type Contents struct {
	Source      string `json:"source"`
	Compression string `json:"compression"`
}

func parseIgnition(text []byte) (*Document, error) {
	var c Ignition
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, err
	}
	d := &Document{Ignition: c.Ignition.Version}
	for _, f := range c.Storage.Files {
		// Version 2 replaces existing files unless the document forbids it.
		overwrite := strings.HasPrefix(d.Ignition, "2.")
		if f.Overwrite != nil {
			overwrite = *f.Overwrite
		}
		content, err := f.Contents.Read()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		file := File{Path: f.Path, Content: content, Overwrite: overwrite}
		if f.Mode != nil {
			file.Mode = fs.FileMode(*f.Mode)
		}
		d.Files = append(d.Files, file)
	}
	for _, u := range c.Systemd.Units {
		unit := Unit{Name: u.Name, Content: u.Contents, Enable: u.Enabled}
		for _, in := range u.DropIns {
			unit.DropIns = append(unit.DropIns, DropIn{in.Name, in.Contents})
		}
		d.Units = append(d.Units, unit)
	}
	return d, nil
}

// Read reads the data URL, see RFC 2397. An empty one is an empty file.
func (c Contents) Read() ([]byte, error) {
	if c.Source == "" && c.Compression == "" {
		return nil, nil
	}
	rest, ok := strings.CutPrefix(c.Source, "data:")
	kind, data, comma := strings.Cut(rest, ",")
	if !ok || !comma {
		return nil, fmt.Errorf("%.20q is not a data URL: a node may have no network yet", c.Source)
	}
	var content []byte
	var err error
	if strings.HasSuffix(kind, ";base64") {
		content, err = base64.StdEncoding.DecodeString(data)
	} else {
		var text string
		text, err = url.PathUnescape(data)
		content = []byte(text)
	}
	if err != nil || c.Compression != "gzip" {
		return content, err
	}
	return Gunzip(content)
}

// Gunzip decompresses.
func Gunzip(content []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
