package profile

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

func TestDecode(t *testing.T) {
	docs, err := Decode("profiles/a.yaml", []byte(profiletest.Small))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 1 || docs[0].Name != "osp-test" || docs[0].Path != "profiles/a.yaml" {
		t.Fatalf("got %+v", docs)
	}
	d := docs[0]
	if got := d.Spec.ProvisioningUtility; got != osm.ProvisioningUtilityCloudInit {
		t.Errorf("provisioningUtility = %q, want the schema's default", got)
	}
	for field, want := range map[string]int{
		"spec.version": 8,
		"spec.bootstrapConfig.files[0].content.inline.data": 22,
		"spec.bootstrapConfig.templates[hello]":             14,
		"spec.bootstrapConfig.files[0].nothing":             16,
		"nothing":                                           1,
	} {
		if got := d.Line(field); got != want {
			t.Errorf("Line(%q) = %d, want %d", field, got, want)
		}
	}
}

// The file is that of the field's text, and an unknown line remains unknown.
func TestPosition(t *testing.T) {
	d := Document{Path: "a.yaml", Lines: strictyaml.Lines{"spec.a": 10, "spec.b": 20}, Origins: map[string]string{"spec.b": "base.yaml"}}
	for field, want := range map[string]string{"spec.a": "a.yaml:12", "spec.b.c": "base.yaml:22", "spec.c": "a.yaml:0"} {
		if file, line := d.Position(field, 3); file+":"+strconv.Itoa(line) != want {
			t.Errorf("Position(%q, 3) = %s:%d, want %s", field, file, line, want)
		}
	}
}

func TestDecodeSeveralDocuments(t *testing.T) {
	file := "# only a comment\n---\n" + profiletest.Small + "---\n" + strings.ReplaceAll(profiletest.Small, "osp-test", "osp-other") +
		"---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n---\n"
	docs, err := Decode("a.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) != 2 || docs[0].Name != "osp-test" || docs[1].Name != "osp-other" {
		t.Fatalf("got %d documents", len(docs))
	}
	if got, want := docs[1].Line("spec.version"), 3+strings.Count(profiletest.Small, "\n")+8; got != want {
		t.Errorf("line of the second document's version = %d, want %d", got, want)
	}
}

// Users read the messages in a condition or in a pull request.
// TestDecodeSavedFromCluster reads what "kubectl get -o yaml" prints.
// Other documents of a repository are ignored and listed with their kind; a profile next
// to them is read.
func TestDecodePassesOver(t *testing.T) {
	const source = "apiVersion: gitops.k8c.io/v1alpha1\nkind: ProfileSource\nspec: {typo: 1}\n"
	const pool = "apiVersion: cluster.k8s.io/v1alpha1\nkind: MachineDeployment\n"
	in, err := DecodeFile("f.yaml", []byte(source+"---\n"+pool+"---\ncluster: {server: x}\n---\n"+profiletest.Small))
	want := []Other{{"a ProfileSource", 1}, {"a MachineDeployment", 5}, {"a cluster file of osm-gitops render", 8}}
	if diff := cmp.Diff(want, in.Others); diff != "" || err != nil || len(in.Profiles) != 1 || in.Empty {
		t.Errorf("%v, %d profiles, empty %v\n%s", err, len(in.Profiles), in.Empty, diff)
	}
	for text, empty := range map[string]bool{"": true, "# nothing\n---\n": true, pool: false, "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n": false} {
		if in, err := DecodeFile("f.yaml", []byte(text)); err != nil || in.Empty != empty || len(in.Profiles) > 0 {
			t.Errorf("%q: %v, empty %v", text, err, in.Empty)
		}
	}
	for _, text := range []string{"apiVersion: gitops.k8c.io/v1alpha1\nkind: ConfigMap\n", "settings: {}\nmore: 1\n", "profile: {}\n"} {
		if in, err := DecodeFile("f.yaml", []byte(text)); err == nil {
			t.Errorf("%q is taken for %v", text, in.Others)
		}
	}
}

func TestDecodeSavedFromCluster(t *testing.T) {
	plain, err := Decode("f.yaml", []byte(profiletest.Small))
	if err != nil {
		t.Fatal(err)
	}
	saved := strings.Replace(profiletest.Small, "metadata:\n", `metadata:
  creationTimestamp: null
  finalizers: [a]
  generation: 3
  managedFields:
  - manager: kubectl
    fieldsV1: {"f:spec": {}}
  resourceVersion: "12"
  uid: 0000
`, 1) + "status: {}\n"
	docs, err := Decode("f.yaml", []byte(saved))
	if err != nil {
		t.Fatal(err)
	}
	if docs[0].Digest != plain[0].Digest {
		t.Error("what the API server has written changes the digest")
	}
}

// The highest mode there is has all the bits: set-user-ID, set-group-ID, sticky and rwx for all.
func TestDecodeTakesEveryMode(t *testing.T) {
	for _, mode := range []string{"1", "644", "7777"} {
		docs, err := Decode("f.yaml", []byte(strings.Replace(profiletest.Small, "755", mode, 1)))
		if err != nil {
			t.Errorf("permissions %s: %v", mode, err)
			continue
		}
		if got := strconv.Itoa(int(docs[0].Spec.BootstrapConfig.Files[0].Permissions)); got != mode {
			t.Errorf("permissions %s are read as %s", mode, got)
		}
	}
}

// A value without a schema is not changed.
func TestDecodeFreeForm(t *testing.T) {
	docs, err := Decode("f.yaml", []byte(strings.Replace(profiletest.Small, "- name: aws\n", "- name: aws\n    spec: {zones: [a, 1, &b {c: 1.5}], other: *b, none: null}\n", 1)))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"none":null,"other":{"c":1.5},"zones":["a",1,{"c":1.5}]}`
	if got := docs[0].Spec.SupportedCloudProviders[0].Spec; got == nil || string(got.Raw) != want {
		t.Errorf("got %+v, want %s", got, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"a file that is no YAML":     {"a: [1\nb: 2\n", []string{"f.yaml:2: invalid YAML"}},
		"a tab for indentation":      {"a:\n\tb: 1\n", []string{"f.yaml:2: invalid YAML: found a tab: YAML requires spaces for indentation"}},
		"a tab after spaces":         {strings.Replace(profiletest.Small, "  osName:", "\tosName:", 1), []string{"found a tab: YAML requires spaces"}},
		"a tab in a text block":      {"a: |\n  x\n\ty\n", []string{"f.yaml:3: invalid YAML: found a tab"}},
		"a slip deep in a file":      {strings.Replace(profiletest.Small, "    files:", "   files:", 1), []string{"f.yaml:15: invalid YAML"}},
		"a list":                     {"- a\n", []string{"f.yaml:1: is not an OperatingSystemProfile: the document is not a mapping"}},
		"another kind":               {"apiVersion: v1\nkind: ConfigMap\n", []string{`f.yaml:1: is not an OperatingSystemProfile: expected apiVersion "operatingsystemmanager.k8c.io/v1alpha1" and kind "OperatingSystemProfile", found "v1" and "ConfigMap"`}},
		"a misspelt field":           {strings.Replace(profiletest.Small, "osVersion:", "osVersoin:", 1), []string{`f.yaml:7: spec.osVersoin: is not a field of spec: did you mean "osVersion"?`, "f.yaml:6: spec.osVersion: is required"}},
		"a field given twice":        {strings.Replace(profiletest.Small, "  version: v1.0.0\n", "  version: v1.0.0\n  version: v1.0.1\n", 1), []string{"f.yaml:9: spec.version: is given twice, first on line 8"}},
		"a number for a text":        {strings.Replace(profiletest.Small, `"24.04"`, "24.04", 1), []string{"f.yaml:7: spec.osVersion: must be text, but YAML reads 24.04 as a number: quote it"}},
		"a wrong version":            {strings.Replace(profiletest.Small, "v1.0.0", "1.0", 1), []string{`f.yaml:8: spec.version: invalid version 1.0, which YAML reads as a number: write v1.0.0`}},
		"a version with zeros":       {strings.Replace(profiletest.Small, "v1.0.0", "1.10", 1), []string{`f.yaml:8: spec.version: invalid version 1.10, which YAML reads as a number: write v1.10.0`}},
		"a version in quotes":        {strings.Replace(profiletest.Small, "v1.0.0", `"1.0"`, 1), []string{`f.yaml:8: spec.version: invalid version "1.0": write v1.0.0`}},
		"a version without v":        {strings.Replace(profiletest.Small, "v1.0.0", "1.2.3", 1), []string{`f.yaml:8: spec.version: invalid version "1.2.3": write v1.2.3`}},
		"a word for a version":       {strings.Replace(profiletest.Small, "v1.0.0", "one", 1), []string{`f.yaml:8: spec.version: invalid version "one": write one such as "v1.2.3"`}},
		"a mode that is not octal":   {strings.Replace(profiletest.Small, "755", "0999", 1), []string{`invalid file mode 0999: 9 is not an octal digit; write digits as for chmod, such as 644`}},
		"a mode in quotes":           {strings.Replace(profiletest.Small, "755", `"0644"`, 1), []string{`must be an integer, but "0644" is text: write 644, without quotes`}},
		"a misspelt kind":            {strings.Replace(profiletest.Small, "kind: OperatingSystemProfile", "kind: OperatingSytemProfile", 1), []string{`kind: unknown kind "OperatingSytemProfile": did you mean "OperatingSystemProfile"?`}},
		"a misspelt overlay":         {"apiVersion: gitops.k8c.io/v1alpha1\nkind: ProfilOverlay\n", []string{`f.yaml:1: kind: unknown kind "ProfilOverlay": did you mean "ProfileOverlay"?`}},
		"another API of the kind":    {strings.Replace(profiletest.Small, "operatingsystemmanager.k8c.io/v1alpha1", "operatingsystemmanager.k8c.io/v1", 1), []string{`is not an OperatingSystemProfile: expected apiVersion "operatingsystemmanager.k8c.io/v1alpha1", found "operatingsystemmanager.k8c.io/v1"`}},
		"a version with a prefix":    {strings.Replace(profiletest.Small, "v1.0.0", "release-v1.0.0", 1), []string{`f.yaml:8: spec.version: invalid version "release-v1.0.0": write one such as "v1.2.3"`}},
		"an unknown system":          {strings.Replace(profiletest.Small, "ubuntu", "sles", 1), []string{`f.yaml:6: spec.osName: is "sles", but must be one of flatcar, rhel`}},
		"an unknown provider":        {strings.Replace(profiletest.Small, "name: aws", "name: awz", 1), []string{`f.yaml:10: spec.supportedCloudProviders[0].name: is "awz", but must be one of aws`}},
		"octal permissions":          {strings.Replace(profiletest.Small, "755", "0755", 1), []string{"f.yaml:17: spec.bootstrapConfig.files[0].permissions: YAML reads 0755 as octal: write the digits without a leading zero, 755"}},
		"permissions with 8":         {strings.Replace(profiletest.Small, "755", "788", 1), []string{"f.yaml:17: spec.bootstrapConfig.files[0].permissions: invalid file mode 788"}},
		"no inline":                  {strings.Replace(profiletest.Small, "        inline:\n          encoding: b64\n          data: |\n            one\n            two\n", "        {}\n", 1), []string{"files[0].content: has no inline: set content.inline.data"}},
		"a bad object name":          {strings.Replace(profiletest.Small, "osp-test", "OSP_test", 1), []string{`f.yaml:4: metadata.name: invalid object name "OSP_test"`}},
		"no spec":                    {"apiVersion: operatingsystemmanager.k8c.io/v1alpha1\nkind: OperatingSystemProfile\nmetadata: {name: a}\n", []string{"f.yaml:1: spec: is required"}},
		"the same profile twice":     {profiletest.Small + "---\n" + profiletest.Small, []string{`profile "osp-test" v1.0.0 is in this file twice, first on line 4`}},
		"control characters":         {strings.Replace(profiletest.Small, "one", "o\x00e", 1), []string{"f.yaml:22: is not UTF-8 text"}},
		"bytes that are no UTF-8":    {strings.Replace(profiletest.Small, "one", "o\xffe", 1), []string{"f.yaml:22: is not UTF-8 text"}},
		"more than a mebibyte":       {profiletest.Small + "#" + strings.Repeat("x", strictyaml.MaxFileBytes), []string{"f.yaml: has ", "split it"}},
		"too many levels":            {strings.Replace(profiletest.Small, "  - name: aws\n", "  - name: aws\n    spec: "+strings.Repeat("[", 100)+strings.Repeat("]", 100)+"\n", 1), []string{"is nested more than 64 levels deep"}},
		"an alias bomb":              {bomb(), []string{"once its aliases are expanded"}},
		"an alias to itself":         {strings.Replace(profiletest.Small, "  - name: aws\n", "  - name: aws\n    spec: &a [*a]\n", 1), []string{"f.yaml"}},
		"a number JSON lacks":        {strings.Replace(profiletest.Small, "  - name: aws\n", "  - name: aws\n    spec: {a: .nan}\n", 1), []string{"f.yaml:11: spec.supportedCloudProviders[0].spec: "}},
		"several faults, all named":  {strings.NewReplacer("ubuntu", "sles", "v1.0.0", "vX").Replace(profiletest.Small), []string{"f.yaml:6: spec.osName", "f.yaml:8: spec.version"}},
		"permissions of 64 bits":     {strings.Replace(profiletest.Small, "755", "99999999999", 1), []string{`f.yaml:17: spec.bootstrapConfig.files[0].permissions: must be an integer, not "99999999999"`}},
		"permissions above 7777":     {strings.Replace(profiletest.Small, "755", "7778", 1), []string{"f.yaml:17: spec.bootstrapConfig.files[0].permissions: invalid file mode 7778"}},
		"permissions of five digits": {strings.Replace(profiletest.Small, "755", "10000", 1), []string{"f.yaml:17: spec.bootstrapConfig.files[0].permissions: invalid file mode 10000"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode("f.yaml", []byte(c.file))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\ndoes not say\n%s", err, want)
				}
			}
			if len(strictyaml.Problems(err)) == 0 {
				t.Errorf("error %v holds no Problem", err)
			}
		})
	}
}

// security.md 11: aliases that expand to gigabytes.
func bomb() string {
	var b strings.Builder
	b.WriteString("    a0: &a0 [x]\n")
	for i := 1; i < 12; i++ {
		b.WriteString("    a" + string(rune('0'+i)) + "x: &a" + string(rune('a'+i)) + " [" + strings.TrimSuffix(strings.Repeat("*a"+prev(i)+",", 10), ",") + "]\n")
	}
	return strings.Replace(profiletest.Small, "  - name: aws\n", "  - name: aws\n    spec:\n"+strings.ReplaceAll(b.String(), "    a", "      a"), 1)
}

func prev(i int) string {
	if i == 1 {
		return "0"
	}
	return string(rune('a' + i - 1))
}

func TestDigestIsTheSameForWhatTheServerTreatsAlike(t *testing.T) {
	base, err := Decode("a.yaml", []byte(profiletest.Small))
	if err != nil {
		t.Fatal(err)
	}
	var fromServer osm.OperatingSystemProfileSpec
	raw, err := json.Marshal(base[0].Spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &fromServer); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(base[0].Digest, Digest(fromServer)); diff != "" {
		t.Error(diff)
	}
	for name, edit := range map[string]string{
		"comments and order": "# hello\n" + strings.Replace(profiletest.Small, "  osName: ubuntu\n  osVersion: \"24.04\"\n", "  osVersion: '24.04'\n  osName: ubuntu # the best\n", 1),
		"a default written":  strings.Replace(profiletest.Small, "  version:", "  provisioningUtility: cloud-init\n  version:", 1),
		"an empty list":      strings.Replace(profiletest.Small, "provisioningConfig: {}", "provisioningConfig: {files: []}", 1),
	} {
		docs, err := Decode("a.yaml", []byte(edit))
		if err != nil {
			t.Fatal(name, err)
		}
		if docs[0].Digest != base[0].Digest {
			t.Errorf("%s: another digest", name)
		}
	}
	changed, err := Decode("a.yaml", []byte(strings.Replace(profiletest.Small, "two", "three", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if changed[0].Digest == base[0].Digest {
		t.Error("other content has the same digest")
	}
}

// An error is short regardless of the problem of a file. security.md 11
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 500_000)
	for name, file := range map[string]string{
		"a long key":         profiletest.Small + "  " + long + ": 1\n",
		"a long value":       strings.Replace(profiletest.Small, "osName: ubuntu", "osName: "+long, 1),
		"a long name":        strings.Replace(profiletest.Small, "name: osp-test", "name: "+long, 1),
		"a long version":     strings.Replace(profiletest.Small, "version: v1.0.0", "version: "+long, 1),
		"a long kind":        "apiVersion: v1\nkind: " + long + "\n",
		"many unknown keys":  profiletest.Small + strings.Repeat("  "+long[:5000]+": 1\n", 100),
		"what is no YAML":    long + "\n\t: [",
		"a long anchor":      "a: *" + long,
		"text for a mapping": "spec: " + long,
	} {
		docs, err := Decode("a.yaml", []byte(file))
		if err == nil {
			t.Errorf("%s: %d profiles and no error", name, len(docs))
		} else if len(err.Error()) > maxErrorBytes {
			t.Errorf("%s: the error has %d bytes: %.200s", name, len(err.Error()), err)
		}
	}
}

// A file can have exactly the documented number of bytes.
func TestLargestFile(t *testing.T) {
	largest := []byte(profiletest.Small + "#" + strings.Repeat("x", strictyaml.MaxFileBytes-len(profiletest.Small)-1))
	if got, err := Decode("f.yaml", largest); err != nil || len(got) != 1 {
		t.Errorf("%d bytes: got %d profiles and the error %v", len(largest), len(got), err)
	}
	if got, err := Decode("f.yaml", append(largest, 'x')); err == nil {
		t.Errorf("one byte more: got %d profiles", len(got))
	}
}
