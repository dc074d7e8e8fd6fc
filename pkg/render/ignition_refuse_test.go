package render

import (
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// A profile for Ignition is checked as Ignition would read it, before any pool
// uses it, and each problem names its field.
func TestCheckIgnition(t *testing.T) {
	yes := true
	unit := func(name, content string, dropIns ...string) osm.Unit {
		u := osm.Unit{Name: name, Enable: &yes, Content: &content}
		for _, name := range dropIns {
			u.DropIns = append(u.DropIns, osm.DropIn{Name: name, Content: "[Unit]\n"})
		}
		return u
	}
	const installed = "[Service]\nExecStart=/a\n[Install]\nWantedBy=multi-user.target\n"
	file := func(path string, permissions int32) osm.File {
		f := inlineFile(path, "{{ .KubeVersion }}")
		f.Permissions = permissions
		return f
	}
	tests := map[string]struct {
		files []osm.File
		units []osm.Unit
		want  []string
	}{
		"nothing": {files: []osm.File{file("/a", 644), file("/a", 755)}, units: []osm.Unit{unit("a.service", installed, "10-a.conf"), unit("b.timer", "", "x.conf")}},
		"a relative path": {files: []osm.File{file("/a", 644), file("etc/a", 644)},
			want: []string{`provisioningConfig.files[1].path "etc/a": is relative: write the path from the root`}},
		"special bits": {files: []osm.File{file("/a", 4755)},
			want: []string{`provisioningConfig.files[0].permissions "/a": Ignition before 3.6.0 cannot set the setuid, setgid and sticky bits`}},
		"a unit elsewhere": {units: []osm.Unit{unit("../../etc/a.service", installed)},
			want: []string{`provisioningConfig.units[0].name: "../../etc/a.service" is not the name of a systemd unit`}},
		"a drop-in elsewhere": {units: []osm.Unit{unit("a.service", installed, "../a.conf")},
			want: []string{`provisioningConfig.units[0].dropIns[0].name: "../a.conf" is not the name of a drop-in`}},
		"an enabled unit that nothing would start": {units: []osm.Unit{unit("a.service", installed), unit("b.service", "[Service]\nExecStart=/b\n")},
			want: []string{`provisioningConfig.units[1].content: the unit is enabled but has no [Install] section, so that nothing would start it: add one`}},
		"a unit that is none": {units: []osm.Unit{unit("a.service", "[Service\n")},
			want: []string{`provisioningConfig.units[0].content: invalid unit content`}},
		"names twice": {units: []osm.Unit{unit("a.service", installed, "a.conf", "a.conf"), unit("a.service", installed)},
			want: []string{`provisioningConfig.units[1]: occurs twice`, `provisioningConfig.units[0].dropIns[1]: occurs twice`}},
		"a file where a unit goes": {files: []osm.File{file("/etc/systemd/system/a.service", 644)}, units: []osm.Unit{unit("a.service", installed)},
			want: []string{`provisioningConfig.files[0].path "/etc/systemd/system/a.service": a unit or drop-in of this stage is written to the same path`}},
		"all at once": {files: []osm.File{file("a", 644), file("b", 1755)},
			want: []string{`files[0].path "a"`, `files[1].path "b"`, `files[1].permissions "b"`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := Profile{Object: "osp", Spec: osm.OperatingSystemProfileSpec{
				OSName: osm.OperatingSystemFlatcar, ProvisioningUtility: osm.ProvisioningUtilityIgnition,
				ProvisioningConfig: osm.OSPConfig{Files: test.files, Units: test.units},
			}}
			problems := invalid.Problems(NewEngine().Check(p))
			if len(problems) != len(test.want) {
				t.Errorf("problems %v, want %q", problems, test.want)
			}
			for _, want := range test.want {
				if !strings.Contains(invalid.Join(problems).Error(), want) {
					t.Errorf("problems %v, want %q", problems, want)
				}
			}
			// The same profile for cloud-init is another matter: files, not Ignition.
			p.Spec.ProvisioningUtility = osm.ProvisioningUtilityCloudInit
			if err := NewEngine().Check(p); err != nil && strings.Contains(err.Error(), "Ignition") {
				t.Errorf("with cloud-init: %v", err)
			}
		})
	}
}

// Files from the settings are checked when they are rendered: the error names the settings.
func TestIgnitionFileOfSettings(t *testing.T) {
	stage := userdata.NewIgnitionStage(stageProvisioning, nil)
	doc := userdata.Ignition{Version: "3.3.0", Stage: stage, Config: &osm.OSCConfig{Files: []osm.File{inlineFile("hosts.toml", "")}}}
	_, problems := doc.Encode()
	if len(problems) != 1 || problems[0].Field != "settings" || problems[0].File != "hosts.toml" {
		t.Errorf("problems %+v", problems)
	}
}

// The version is the pool's, otherwise the settings', otherwise the default, and one of three.
func TestIgnitionVersion(t *testing.T) {
	flatcar := `{"cloudProvider":"aws","operatingSystem":"flatcar","operatingSystemSpec":{"provisioningUtility":"UTILITY"}}`
	for name, test := range map[string]struct {
		value, annotation, settings string
		want, wantErr               string
	}{
		"the default":               {value: flatcar, want: DefaultIgnitionVersion},
		"the setting":               {value: flatcar, settings: "2.3.0", want: "2.3.0"},
		"the annotation wins":       {value: flatcar, settings: "2.3.0", annotation: "3.4.0", want: "3.4.0"},
		"an empty annotation":       {value: flatcar, settings: "2.3.0", annotation: "", want: "2.3.0"},
		"an unknown annotation":     {value: flatcar, annotation: "3.5.0", wantErr: `metadata.annotations[gitops.k8c.io/ignition-version]: "3.5.0" is not a supported version`},
		"an unknown setting":        {value: flatcar, settings: "v3.3.0", wantErr: `settings.ignitionVersion: --ignition-version: "v3.3.0" is not a supported version`},
		"no fact of other systems":  {value: `{"cloudProvider":"aws","operatingSystem":"ubuntu"}`, annotation: "3.4.0", want: DefaultIgnitionVersion},
		"no fact of cloud-init":     {value: strings.ReplaceAll(flatcar, "UTILITY", "cloud-init"), annotation: "3.4.0", want: DefaultIgnitionVersion},
		"but wrong everywhere else": {value: `{"cloudProvider":"aws","operatingSystem":"ubuntu"}`, annotation: "3", wantErr: `ignition-version]: "3" is not a supported version`},
	} {
		t.Run(name, func(t *testing.T) {
			md := machineDeployment(strings.ReplaceAll(test.value, "UTILITY", ""), nil)
			md.Annotations["gitops.k8c.io/ignition-version"] = test.annotation
			pool, err := DecodePool(md)
			in := Input{Pool: pool, Settings: Settings{IgnitionVersion: test.settings}}
			if err == nil {
				err = in.Settings.Validate()
			}
			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("error %v, want %q", err, test.wantErr)
				}
				return
			}
			if got := in.ignitionVersion(); err != nil || got != test.want {
				t.Errorf("version %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
