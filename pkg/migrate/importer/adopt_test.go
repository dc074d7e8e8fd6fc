package importer_test

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/profiles"
)

// indexer reads repositories as the controller does.
func indexer() *catalog.Indexer {
	return &catalog.Indexer{Builtin: &source.Embedded{FS: profiles.FS(), Repository: profiles.Repository, Path: profiles.Path}}
}

// builtin returns the profiles of this repository.
func builtin(t *testing.T) []profile.Document {
	t.Helper()
	paths, err := fs.Glob(profiles.FS(), "*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d built-in profiles (err %v)", len(paths), err)
	}
	var out []profile.Document
	for _, path := range paths {
		text, err := fs.ReadFile(profiles.FS(), path)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := profile.Decode(path, text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, docs...)
	}
	return out
}

// small is a profile with placeholders for its file and for further fields.
const small = `apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-small
  namespace: kube-system
  uid: 3f2a9c1d-0000-0000-0000-000000000000
spec:
  osName: ubuntu
  osVersion: "24.04"
  version: v1.0.0
  supportedCloudProviders: [{name: aws}]
  bootstrapConfig:
    files:
    - path: /etc/example
      permissions: 644
      content: {inline: {data: "kubelet {{ .KubeVersion }}\n"}}
  provisioningConfig: {}
`

// web is a pool with this profile, with credentials in every possible field.
const web = `apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata:
  name: web
  namespace: shop
  annotations:
    k8c.io/operating-system-profile: osp-small
    kubectl.kubernetes.io/last-applied-configuration: canary-applied
    v1.kubelet-config.machine-controller.kubermatic.io/MaxPods: "50"
spec:
  template:
    spec:
      versions: {kubelet: 1.36.0}
      providerSpec:
        value:
          cloudProvider: aws
          cloudProviderSpec: {accessKeyId: canary-id, secretAccessKey: {value: canary-key}}
          operatingSystem: ubuntu
          operatingSystemSpec: {distUpgradeOnBoot: true, rhelSubscriptionManagerPassword: canary-rhel, rhelActivationKey: canary-activation}
          overwriteCloudConfig: canary-cloud
          sshPublicKeys: [ssh-ed25519 AAAA]
`

func plan(t *testing.T, manifests ...string) *importer.Plan {
	t.Helper()
	in := importer.Input{Namespace: "kube-system", Builtin: builtin(t)}
	for i, text := range manifests {
		found, err := manifest.Read(fmt.Sprintf("file %d", i), strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		in.Objects = append(in.Objects, found...)
	}
	p, err := importer.New(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// said is the complete text of a report.
func said(p *importer.Plan) string {
	var b strings.Builder
	for _, o := range p.Profiles {
		fmt.Fprintf(&b, "%s %s %s %s %s %v: %s\n", o.Namespace, o.Name, o.Version, o.Action, o.Path, o.Pools, o.Why)
	}
	for _, r := range p.Rejected {
		fmt.Fprintf(&b, "refused: %s\n", r)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// TestPlan: the report for each kind of object, which mentions every object.
func TestPlan(t *testing.T) {
	edit := func(old, now string) string {
		if !strings.Contains(small, old) {
			t.Fatalf("the profile has no %q", old)
		}
		return strings.Replace(small, old, now, 1)
	}
	for name, c := range map[string]struct {
		manifests []string
		want      []string // parts of the report
		files     []string
	}{
		"a profile becomes a file, and its pools are named": {[]string{small, web},
			[]string{"kube-system osp-small v1.0.0 copy profiles/osp-small.yaml [shop/web]: no other profile is similar enough"},
			[]string{"pools/shop-web.yaml", "profiles/osp-small.yaml"}},
		"unknown fields are named and left out": {[]string{edit("  osName: ubuntu", "  osName: ubuntu\n  colour: red") + "status: {ready: true}\n"},
			[]string{"OperatingSystemProfile kube-system/osp-small: spec.colour: is not a field of a profile", "osp-small: status: is not a field", "copy profiles/osp-small.yaml"},
			[]string{"profiles/osp-small.yaml"}},
		"what applies an object is named": {[]string{edit("  uid:", "  labels: {kustomize.toolkit.fluxcd.io/name: osps}\n  uid:")},
			[]string{"metadata.labels: kustomize.toolkit.fluxcd.io/name omitted", "Flux applies this object: stop that"}, []string{"profiles/osp-small.yaml"}},
		"a file without inline is refused": {[]string{edit("{inline: {data: \"kubelet {{ .KubeVersion }}\\n\"}}", "{}")},
			[]string{"refused refused/osp-small.yaml", "refused/osp-small.yaml:", "spec.bootstrapConfig.files[0].content: has no inline"}, []string{"refused/osp-small.yaml"}},
		"a version with something before it is refused": {[]string{edit("version: v1.0.0", "version: release-v1.0.0")},
			[]string{`spec.version: invalid version "release-v1.0.0"`}, []string{"refused/osp-small.yaml"}},
		"a function that is not there is refused": {[]string{edit(".KubeVersion", "env `HOME`")},
			[]string{"refused refused/osp-small.yaml", `"/etc/example": `, "env"}, []string{"refused/osp-small.yaml"}},
		"no value for a pool is refused, and the file kept": {[]string{edit("{{ .KubeVersion }}", "{{ .KubeletFeatureGates.X }}"), web},
			[]string{"copy profiles/osp-small.yaml", "<no value>", "(pool shop/web)"}, []string{"pools/shop-web.yaml", "profiles/osp-small.yaml"}},
		"an annotation that does not parse is refused, with the pool": {[]string{small, strings.Replace(web, `MaxPods: "50"`, `MaxPods: many`, 1)},
			[]string{"refused: MachineDeployment shop/web: metadata.annotations", "MaxPods"}, []string{"profiles/osp-small.yaml"}},
		"a profile of another namespace": {[]string{edit("namespace: kube-system", "namespace: team")},
			[]string{"team osp-small v1.0.0 not taken  []: is in namespace team: run the import with --namespace team"}, nil},
		"what a ProfileSource made": {[]string{edit("  uid:", "  labels: {gitops.k8c.io/source: platform, gitops.k8c.io/profile: osp-small}\n  uid:")},
			[]string{"left out  []: ProfileSource platform created it"}, nil},
		"a pool without a profile, one whose profile is not there, and other objects": {[]string{small, web, strings.Replace(web, "osp-small", "osp-gone", 1), "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n",
			strings.NewReplacer("k8c.io/operating-system-profile: osp-small", "a: b", "name: web", "name: plain").Replace(web),
			strings.NewReplacer("profile: osp-small", "profile: osp-gone", "name: web", "name: lost").Replace(web)},
			[]string{"is duplicated", "Secret of v1: 1 objects that are neither", "MachineDeployment shop/plain: metadata.annotations: has no annotation", `shop/lost: metadata.annotations[k8c.io/operating-system-profile]: names profile "osp-gone"`},
			[]string{"pools/shop-lost.yaml", "pools/shop-web.yaml", "profiles/osp-small.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, c.manifests...)
			report := said(p)
			for _, want := range c.want {
				if !strings.Contains(report, want) {
					t.Errorf("the report does not say %q:\n%s", want, report)
				}
			}
			if len(p.Files) > 0 && p.Files["pools/shop-web.yaml"] == nil && p.Files["profiles/osp-small.yaml"] != nil {
				c.files = append([]string{"pools/example.yaml"}, c.files...) // CI needs a pool to render
			}
			if got := slices.Sorted(maps.Keys(p.Files)); !slices.Equal(got, c.files) {
				t.Errorf("files %q, want %q", got, c.files)
			}
			if strings.Contains(report, "canary") {
				t.Errorf("the report has a credential:\n%s", report)
			}
			for name, text := range p.Files { // security.md 15
				if strings.Contains(string(text), "canary") {
					t.Errorf("%s has a credential:\n%s", name, text)
				}
			}
		})
	}
}

// TestCorrected: values that were quoted for the reference are written as equivalent
// strings, and each such field is reported; uncertain values are unchanged and reported as
// well.
func TestCorrected(t *testing.T) {
	const modules = `  bootstrapConfig:
    modules:
      bootcmd: ['"true"', "echo a: b", "[ -f /a ]"]
      runcmd: ["\"echo a: b\"", '[sh, -c, "echo a"]', '"/opt/my tool" --now', '[chmod, 0755, /x]', reboot]
      yum_repos: {epel: {name: "'EPEL: 9'", baseurl: "https://x/"}}
`
	p := plan(t, strings.Replace(small, "  bootstrapConfig:\n", modules, 1))
	o := p.Profiles[0]
	if o.Action != importer.ActionCopy {
		t.Fatal(said(p))
	}
	want := []importer.Correction{
		{Field: "spec.bootstrapConfig.modules.bootcmd[0]", From: `"true"`, To: "true"},
		{Field: "spec.bootstrapConfig.modules.runcmd[0]", From: `"echo a: b"`, To: "echo a: b"},
		{Field: "spec.bootstrapConfig.modules.runcmd[1]", From: `[sh, -c, "echo a"]`, To: "sh -c 'echo a'"},
		{Field: "spec.bootstrapConfig.modules.yum_repos[epel][name]", From: "'EPEL: 9'", To: "EPEL: 9"},
	}
	if diff := cmp.Diff(want, o.Corrected); diff != "" {
		t.Errorf("corrected (-want +got):\n%s", diff)
	}
	const note = `spec.bootstrapConfig.modules.runcmd[3]: unchanged, but with another effect: operating-system-manager decodes this text as YAML, ` +
		`as a list, with a value that is not a string for cloud-init, such as 0755 or yes: write the text for the shell, perhaps "chmod 0755 /x"`
	if report := said(p); !strings.Contains(report, note) || strings.Count(report, "unchanged, but") != 1 {
		t.Errorf("the report does not say once %q:\n%s", note, report)
	}
	docs, err := profile.Decode(o.Path, p.Files[o.Path])
	if err != nil {
		t.Fatal(err)
	}
	got := *docs[0].Spec.BootstrapConfig.CloudInitModules
	if diff := cmp.Diff(osm.CloudInitModule{
		BootCMD:  []string{"true", "echo a: b", "[ -f /a ]"},
		RunCMD:   []string{"echo a: b", "sh -c 'echo a'", `"/opt/my tool" --now`, "[chmod, 0755, /x]", "reboot"},
		YumRepos: map[string]map[string]string{"epel": {"name": "EPEL: 9", "baseurl": "https://x/"}},
	}, got); diff != "" {
		t.Errorf("the file (-want +got):\n%s", diff)
	}
}

// TestBuiltinIsLeftOut: a profile that is equivalent to the built-in one of its name needs
// no file; any other does.
func TestBuiltinIsLeftOut(t *testing.T) {
	for _, d := range builtin(t) {
		if d.Name != "osp-flatcar-cloud-init" && d.Name != "osp-amzn2" { // with one provider each
			continue
		}
		same := string(importer.ProfileYAML(d.Name, d.Spec))
		if p := plan(t, same); p.Profiles[0].Action != importer.ActionNone || len(p.Files) != 0 {
			t.Errorf("%s, which is built in: %s", d.Name, said(p))
		}
		spec := *d.Spec.DeepCopy()
		spec.BootstrapConfig.Files[0].Permissions = 640
		if p := plan(t, string(importer.ProfileYAML(d.Name, spec))); p.Profiles[0].Action == importer.ActionNone {
			t.Errorf("%s, with another mode of a file: %s", d.Name, said(p))
		}
	}
}

// TestYAML: the written file is readable, and decodes to the same profile.
func TestYAML(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		lines string // how it is written in the file
	}{
		"a script":                       {"#!/bin/bash\necho\n", "|\n          #!/bin/bash\n          echo\n"},
		"without a line's end":           {"a\nb", "|-\n          a\n          b\n"},
		"more ends of lines":             {"a\nb\n\n\n", "|+\n          a\n          b\n\n\n"},
		"blanks at ends of lines":        {"a \nb\t\n", "|\n          a \n          b\t\n"},
		"a line of blanks":               {"a\n   \nb\n", "|\n          a\n             \n          b\n"},
		"a blank first":                  {" a\nb\n", "|2\n           a\n          b\n"},
		"an empty line first":            {"\na\n", "|2\n\n          a\n"},
		"tabs first":                     {"\ta\nb\n", "|2\n          \ta\n          b\n"},
		"like a document's end":          {"---\n...\n", "|\n          ---\n          ...\n"},
		"like a number":                  {"24.04", `"24.04"`},
		"nothing":                        {"", `""`},
		"only ends of lines":             {"\n\n", `"\n\n"`},
		"an end of line of Windows":      {"a\r\nb\n", `"a\r\nb\n"`},
		"templates and signs":            {"{{ .X }}: # no comment\n- 'x'\n", "|\n          {{ .X }}: # no comment\n          - 'x'\n"},
		"a separator of lines":           {"a\u2028b\nc\n", `"a\Lb\nc\n"`},
		"letters of many":                {"größer 世界 🐧\nx\n", "|\n          größer 世界 🐧\n          x\n"},
		"true in a text":                 {"true", `"true"`},
		"a text that begins with a sign": {"@x", `'@x'`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := osm.OperatingSystemProfileSpec{
				OSName: "ubuntu", OSVersion: "24.04", Version: "v1.0.0", SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "aws"}},
				BootstrapConfig: osm.OSPConfig{Templates: map[string]string{"x": c.text}, CloudInitModules: &osm.CloudInitModule{RunCMD: []string{c.text}}},
			}
			text := importer.ProfileYAML("osp-x", spec)
			docs, err := profile.Decode("osp-x.yaml", text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if want := profile.Digest(spec); docs[0].Digest != want {
				t.Errorf("it reads as %q:\n%s", docs[0].Spec.BootstrapConfig.Templates["x"], text)
			}
			want := strings.ReplaceAll(c.lines, "\n          ", "\n        ")
			if !strings.Contains(string(text), "x: "+want) {
				t.Errorf("it is not written as\n%s\nbut as\n%s", want, text)
			}
		})
	}
}

// TestRead: manifests as kubectl prints them, and invalid input.
func TestRead(t *testing.T) {
	item := strings.ReplaceAll("\n"+strings.TrimSpace(small), "\n", "\n    ")
	list := "apiVersion: v1\nkind: List\nitems:\n  -" + item[4:] + "\n"
	for name, c := range map[string]struct {
		text string
		want int
		err  string
	}{
		"documents":                     {small + "---\n" + web, 2, ""},
		"empty documents":               {"---\n# nothing\n---\n" + small, 1, ""},
		"a List":                        {list, 1, ""},
		"JSON":                          {`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Secret"},{"apiVersion":"v1","kind":"Secret"}]}`, 2, ""},
		"a typed list names kinds once": {`{"apiVersion":"operatingsystemmanager.k8c.io/v1alpha1","kind":"OperatingSystemProfileList","items":[{"metadata":{"name":"a"}}]}`, 1, ""},
		"no YAML":                       {"a: [\n", 0, "x.yaml: document 1: is invalid YAML"},
		"no object":                     {"- a\n", 0, "x.yaml: document 1: is not an object"},
		"no kind":                       {"a: b\n", 0, "x.yaml: document 1: is not an object: it has no kind"},
		"a key given twice":             {"kind: A\nkind: B\n", 0, "already"},
		"lists in lists": {`{"kind":"List","items":[{"kind":"List","items":[{"kind":"List","items":[{"kind":"List","items":[]}]}]}]}`, 0,
			"items[0]: items[0]: items[0]: contains nested lists"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := manifest.Read("x.yaml", strings.NewReader(c.text))
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if len(found) != c.want {
				t.Errorf("%d objects, want %d", len(found), c.want)
			}
		})
	}
}
