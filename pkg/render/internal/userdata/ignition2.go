package userdata

import "github.com/coreos/ignition/v2/config/v3_3/types"

// ignition2 is a document of Ignition 2.3.0 with the fields that we use, in the form that
// operating-system-manager writes:
// https://github.com/flatcar/ignition/blob/v0.36.2/doc/configuration-v2_3.md
type ignition2 struct {
	Ignition struct {
		Config   struct{} `json:"config"`
		Security struct {
			TLS struct{} `json:"tls"`
		} `json:"security"`
		Timeouts struct{} `json:"timeouts"`
		Version  string   `json:"version"`
	} `json:"ignition"`
	Networkd struct{} `json:"networkd"`
	Passwd   struct {
		Users []ignition2User `json:"users,omitempty"`
	} `json:"passwd"`
	Storage struct {
		Files []ignition2File `json:"files,omitempty"`
	} `json:"storage"`
	Systemd struct {
		Units []types.Unit `json:"units,omitempty"` // the same in both versions
	} `json:"systemd"`
}

type ignition2User struct {
	Name              string                   `json:"name"`
	SSHAuthorizedKeys []types.SSHAuthorizedKey `json:"sshAuthorizedKeys"`
}

// ignition2File overwrites an existing file by default.
type ignition2File struct {
	Filesystem string `json:"filesystem"`
	Path       string `json:"path"`
	Contents   struct {
		Source       string   `json:"source"`
		Verification struct{} `json:"verification"`
	} `json:"contents"`
	Mode int `json:"mode"`
}

// convertIgnition3To2 converts a valid configuration of version 3.3.0 to 2.3.0.
func convertIgnition3To2(config types.Config) ignition2 {
	var doc ignition2
	doc.Ignition.Version = "2.3.0"
	for _, u := range config.Passwd.Users {
		doc.Passwd.Users = append(doc.Passwd.Users, ignition2User{u.Name, u.SSHAuthorizedKeys})
	}
	for _, f := range config.Storage.Files {
		file := ignition2File{Filesystem: "root", Path: f.Path, Mode: *f.Mode}
		file.Contents.Source = *f.Contents.Source
		doc.Storage.Files = append(doc.Storage.Files, file)
	}
	doc.Systemd.Units = config.Systemd.Units
	return doc
}
