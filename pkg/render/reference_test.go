package render

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// osmFields are the fields that templates of operating-system-manager can read.
var osmFields = strings.Fields(`KubeVersion ClusterDNSIPs KubernetesCACert HostCACert CloudConfig CloudProviderName
	ExternalCloudProvider InTreeCCMAvailable ContainerRuntime ContainerRuntimeConfig ContainerRuntimeAuthConfig PauseImage
	InitialTaints HTTPProxy NoProxy KubeletFeatureGates NetworkConfig NetworkIPFamily BootstrapKubeconfig Token ServerURL
	SecretName BootstrapKubeconfigSecretName KubeReserved SystemReserved EvictionHard MaxPods ContainerLogMaxSize
	ContainerLogMaxFiles ImageGCHighThresholdPercent ImageGCLowThresholdPercent ImageMinimumGCAge ImageMaximumGCAge
	UbuntuConfig AmazonLinuxConfig RockyLinuxConfig FlatcarConfig RhelConfig KubeletConfiguration KubeletSystemdUnit
	CNIVersion ServerAddress RHSubscription`)

// Every field and method that templates can read is one of operating-system-manager or in
// fieldsOSMLacks: a new one has to be added there.
func TestOwnData(t *testing.T) {
	var own []string
	typ := reflect.TypeFor[data]()
	for _, f := range reflect.VisibleFields(typ) {
		if f.IsExported() && !slices.Contains(osmFields, f.Name) {
			own = append(own, f.Name)
		}
	}
	for m := range reflect.PointerTo(typ).Methods() {
		if m.Name != "String" { // which prints {{ . }}
			own = append(own, m.Name)
		}
	}
	slices.Sort(own)
	if diff := cmp.Diff(fieldsOSMLacks, own); diff != "" {
		t.Errorf("data that operating-system-manager does not have (-listed +found):\n%s", diff)
	}
}

// Data that operating-system-manager does not have is found wherever a template reads it, with
// the line.
func TestCheckReference(t *testing.T) {
	file := func(text string) osm.File {
		return osm.File{Path: "/etc/a", Content: osm.FileContent{Inline: &osm.FileContentInline{Data: text}}}
	}
	for name, c := range map[string]struct {
		config osm.OSPConfig
		want   []string // "line field: message"
	}{
		"none": {osm.OSPConfig{Files: []osm.File{file("{{ .KubeVersion }} {{ .NetworkConfig | toJson }} Provenance")}}, nil},
		"a field of it": {
			osm.OSPConfig{Files: []osm.File{file("one\n{{ .Provenance.Commit }}\n")}},
			[]string{"2 spec.bootstrapConfig.files[0].content.inline.data: .Provenance.Commit is not"},
		},
		"in a condition, a pipeline and a branch that is not executed": {
			osm.OSPConfig{Files: []osm.File{file("{{ if false }}\n{{ with .DownloadMirrors.kubernetes }}x{{ end }}\n{{ (index .DownloadDigests \"a\") | quote }}{{ end }}\n{{ range .RegistryHosts }}{{ .Path }}{{ end }}")}},
			[]string{"2 spec.bootstrapConfig.files[0].content.inline.data: .DownloadMirrors.kubernetes is not", "3 spec.bootstrapConfig.files[0].content.inline.data: .DownloadDigests is not", "4 spec.bootstrapConfig.files[0].content.inline.data: .RegistryHosts is not"},
		},
		"of a variable, in a with and in a definition": {
			osm.OSPConfig{Files: []osm.File{file("{{ $all := . }}{{ $all.Provenance.Path }}\n{{ with . }}{{ .Provenance.Path }}{{ end }}\n{{ define \"a\" }}{{ .Provenance.Path }}{{ end }}{{ (.).Provenance.Path }}")}},
			[]string{"1 ", "2 ", "3 ", "3 "},
		},
		"in a named template": {
			osm.OSPConfig{Templates: map[string]string{"a": "\n\n{{ $.Provenance.Version }}"}},
			[]string{"3 spec.bootstrapConfig.templates[a]: .Provenance.Version is not"},
		},
		"of the runtime": {
			osm.OSPConfig{SupportedContainerRuntimes: []osm.ContainerRuntimeSpec{{Name: osm.ContainerRuntimeContainerd, Files: []osm.File{file("{{ .RegistryHosts | toJson }}")}}}},
			[]string{"1 spec.bootstrapConfig.supportedContainerRuntimes[0].files[0].content.inline.data: .RegistryHosts is not"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := NewEngine().CheckOSMCompatibility(Profile{Spec: osm.OperatingSystemProfileSpec{OSName: osm.OperatingSystemUbuntu, BootstrapConfig: c.config}})
			problems := Problems(err)
			if len(problems) != len(c.want) {
				t.Fatalf("got %v, want %q", err, c.want)
			}
			for i, p := range problems {
				if got := strings.Join([]string{string(rune('0' + p.Line)), p.Field + ": " + p.Err.Error()}, " "); !strings.HasPrefix(got, c.want[i]) || !strings.Contains(got, "template data of operating-system-manager") {
					t.Errorf("got %q, want %q", got, c.want[i])
				}
			}
		})
	}
	// What Check finds is an error here, too.
	bad := osm.OperatingSystemProfileSpec{OSName: osm.OperatingSystemUbuntu, BootstrapConfig: osm.OSPConfig{Files: []osm.File{file("{{ .Nonsense }}")}}}
	if err := NewEngine().CheckOSMCompatibility(Profile{Spec: bad}); err == nil || !strings.Contains(err.Error(), ".Nonsense does not exist") {
		t.Errorf("got %v", err)
	}
}
