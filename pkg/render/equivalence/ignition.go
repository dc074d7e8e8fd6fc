package equivalence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// ignitionDocument has the fields that operating-system-manager writes, and those of version 3
// that replace them.
type ignitionDocument struct {
	Ignition struct {
		Version  string `json:"version"`
		Config   struct{}
		Security struct{ TLS struct{} }
		Timeouts struct{}
	} `json:"ignition"`
	Networkd struct{} `json:"networkd"`
	Passwd   struct {
		Users []struct {
			Name              string   `json:"name"`
			SSHAuthorizedKeys []string `json:"sshAuthorizedKeys"`
		} `json:"users"`
	} `json:"passwd"`
	Storage struct {
		Files []ignitionFile `json:"files"`
	} `json:"storage"`
	Systemd struct {
		Units []struct {
			Name     string `json:"name"`
			Enabled  *bool  `json:"enabled"`
			Mask     bool   `json:"mask"`
			Contents string `json:"contents"`
			Dropins  []struct {
				Name     string `json:"name"`
				Contents string `json:"contents"`
			} `json:"dropins"`
		} `json:"units"`
	} `json:"systemd"`
}

type ignitionFile struct {
	Filesystem string `json:"filesystem"`
	Path       string `json:"path"`
	Overwrite  *bool  `json:"overwrite"`
	Mode       *int   `json:"mode"`
	Contents   struct {
		Source       string `json:"source"`
		Verification struct{}
	} `json:"contents"`
}

// parseIgnition rejects unknown keys: a key that is not compared must not occur.
func parseIgnition(text []byte) (*document, error) {
	var d ignitionDocument
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("it is not what Ignition reads: %w", err)
	}
	// Deliberate difference: ours is version 3 by default, which every Flatcar since 2022
	// reads, and which no longer names the file system of a file.
	version2 := strings.HasPrefix(d.Ignition.Version, "2.")
	if !version2 && !strings.HasPrefix(d.Ignition.Version, "3.") {
		return nil, fmt.Errorf("its version is %q", d.Ignition.Version)
	}
	g := &document{files: map[string]file{}, units: map[string]Unit{}}
	for _, f := range d.Storage.Files {
		content, err := f.content(version2)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Path, err)
		}
		// If files have the same path, the last counts: version 2 overwrites the others.
		g.files[f.Path] = file{mode: uint64(*f.Mode), content: content} //nolint:gosec // content has refused negative ones
	}
	for _, u := range d.Systemd.Units {
		if _, twice := g.units[u.Name]; twice {
			return nil, fmt.Errorf("unit %q occurs twice", u.Name)
		}
		parsed := Unit{Enabled: u.Enabled, Mask: u.Mask, Content: strings.TrimRight(u.Contents, "\n"), DropIns: map[string]string{}}
		for _, d := range u.Dropins {
			parsed.DropIns[d.Name] = strings.TrimRight(d.Contents, "\n")
		}
		g.units[u.Name] = parsed
	}
	for _, user := range d.Passwd.Users {
		if user.Name != "core" {
			return nil, fmt.Errorf("there is a user %q", user.Name)
		}
		g.keys = append(g.keys, user.SSHAuthorizedKeys...)
	}
	return g, nil
}

// content decodes a file's data URL, and checks the fields that decide whether and where the
// file is written.
func (f ignitionFile) content(version2 bool) (string, error) {
	switch {
	case f.Mode == nil || *f.Mode < 0:
		return "", errors.New("has no mode")
	case version2 && f.Filesystem != "root":
		return "", fmt.Errorf("is in file system %q", f.Filesystem)
	case !version2 && (f.Overwrite == nil || !*f.Overwrite):
		// Version 2 overwrites an existing file by default; with version 3 such a file fails
		// the boot.
		return "", errors.New("does not overwrite an existing file")
	}
	text, ok := strings.CutPrefix(f.Contents.Source, "data:,")
	if !ok {
		return "", errors.New("its source is not a text in a data URL")
	}
	content, err := url.PathUnescape(text)
	if err != nil {
		return "", errors.New("its source is not a text in a data URL") // the cause would quote it
	}
	return content, nil
}
