package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ignition is a parsed document of any version: what a node has after it.
type ignition struct {
	files map[string]file
	// units by name, and keys of core, in their order.
	units map[string]unit
	keys  []string
}

type unit struct {
	Enabled *bool
	Mask    bool
	Content string
	DropIns map[string]string
}

func compareIgnition(t testing.TB, want, got []byte) {
	t.Helper()
	w, err := parseIgnition(want)
	if err != nil {
		t.Errorf("the expected user-data: %v", err)
		return
	}
	g, err := parseIgnition(got)
	if err != nil {
		t.Errorf("our user-data: %v", err)
		return
	}
	if diff := cmp.Diff(w.units, g.units); diff != "" {
		t.Errorf("units differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(w.keys, g.keys); diff != "" {
		t.Errorf("keys of core differ (-want +got):\n%s", diff)
	}
	compareFiles(t, w.files, g.files)
}

// document has what the reference implementation writes, and what version 3 has
// in its place.
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

// parseIgnition takes no key it does not know: what is not compared must not be
// there.
func parseIgnition(doc []byte) (*ignition, error) {
	var d ignitionDocument
	dec := json.NewDecoder(strings.NewReader(string(doc)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return nil, err
	}
	// Deliberate difference: ours is version 3 by default, which every Flatcar since
	// 2022 reads, and where the file system of a file is no longer named.
	version2 := strings.HasPrefix(d.Ignition.Version, "2.")
	if !version2 && !strings.HasPrefix(d.Ignition.Version, "3.") {
		return nil, fmt.Errorf("its version is %q", d.Ignition.Version)
	}
	g := &ignition{files: map[string]file{}, units: map[string]unit{}}
	for _, f := range d.Storage.Files {
		content, err := f.content(version2)
		if err != nil {
			return nil, fmt.Errorf("file %q: %w", f.Path, err)
		}
		// Of files with one path the last counts: version 2 writes one over the other.
		g.files[f.Path] = file{mode: uint64(*f.Mode), content: content} //nolint:gosec // content has refused negative ones
	}
	for _, u := range d.Systemd.Units {
		if _, twice := g.units[u.Name]; twice {
			return nil, fmt.Errorf("unit %q is there twice", u.Name)
		}
		parsed := unit{Enabled: u.Enabled, Mask: u.Mask, Content: strings.TrimRight(u.Contents, "\n"), DropIns: map[string]string{}}
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

// content decodes a file's data URL, and checks what decides whether the file is
// written where and as it should be.
func (f ignitionFile) content(version2 bool) (string, error) {
	switch {
	case f.Mode == nil || *f.Mode < 0:
		return "", errors.New("has no mode")
	case version2 && f.Filesystem != "root":
		return "", fmt.Errorf("is in file system %q", f.Filesystem)
	case !version2 && (f.Overwrite == nil || !*f.Overwrite):
		// Version 2 overwrites what is there unless it says otherwise; with version 3
		// such a file fails the boot.
		return "", errors.New("does not overwrite what is there")
	}
	text, ok := strings.CutPrefix(f.Contents.Source, "data:,")
	if !ok {
		return "", fmt.Errorf("its source %.40q is no text as data URL", f.Contents.Source)
	}
	return url.PathUnescape(text)
}
