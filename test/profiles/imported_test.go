package profiles_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
)

// quotedCommands are items of runcmd that were quoted for the reference. Each writes something
// that shows its words.
var quotedCommands = []string{
	`"echo a: b"`,
	`'echo "it''s": #1'`,
	`"printf '<%s>' \"two words\" $((1+1)); echo"`,
	`"echo one\necho two"`,
	`"echo" # a comment`,
	`  "echo c: d"`,
	`[sh, -c, "echo a"]`,
	`[printf, '<%s>\n', "a b", $HOME, "it's", 7, -12, -x, 10.0.0.1, 24h, "0755", 'yes', "", a;b, 'back\slash']`,
	`[ sh, -c, 'echo "$0" "$@"', "x: y", z ]`,
	`["sh", "-c", "for i in 1 2; do\n  echo $i\ndone"]`,
}

// TestImportedCommands imports each quoted item and runs cloud-init's result of it: it writes the
// same as cloud-init's result of the reference's document, in which the item has no additional
// quotes.
func TestImportedCommands(t *testing.T) {
	var reference, ours []string
	for _, item := range quotedCommands {
		rendered := renderImported(t, item)
		document := "#cloud-config\nhostname: <MACHINE_NAME>\nssh_pwauth: false\nwrite_files:\n- path: /etc/machine-name\n  permissions: \"0600\"\n  content: <MACHINE_NAME>\nruncmd:\n- " + item + "\n"
		reference, ours = append(reference, document), append(ours, rendered)
		differs, err := equivalence.Compare([]byte(document), []byte(rendered))
		// In a parsed document, quoted and unquoted items cannot be distinguished.
		if uncertain := strings.Contains(item, `'yes'`); err != nil || (len(differs) > 0) != uncertain {
			t.Errorf("%s: the documents differ in %v (err %v)", item, differs, err)
		}
	}
	for _, release := range releases {
		tree := cloudInit(t, release)
		scripts := runPython(t, "commands.py", tree, append(reference, ours...))
		for i, item := range quotedCommands {
			want, got := runScript(t, scripts[i][0]), runScript(t, scripts[len(quotedCommands)+i][0])
			if want != got {
				t.Errorf("cloud-init %s: %s writes %q with the reference, and %q imported:\n%s", release, item, want, got, ours[i])
			}
		}
	}
}

// runScript returns what a script writes, which is something.
func runScript(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.Output()
	if err != nil && len(out) == 0 {
		t.Errorf("%v: %s", err, script)
	}
	return string(out)
}

// renderImported is the bootstrap document of a profile with one item of runcmd, after import.
func renderImported(t *testing.T, item string) string {
	t.Helper()
	const name = "osp-quoted"
	object, err := json.Marshal(map[string]any{
		"apiVersion": osm.GroupVersion.String(), "kind": "OperatingSystemProfile",
		"metadata": map[string]any{"name": name, "namespace": "kube-system"},
		"spec": map[string]any{
			"osName": "ubuntu", "osVersion": "24.04", "version": "v1.0.0", "supportedCloudProviders": []any{map[string]any{"name": "hetzner"}},
			"bootstrapConfig": map[string]any{"modules": map[string]any{"runcmd": []string{item}}}, "provisioningConfig": map[string]any{},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Read("the cluster", bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := importer.New(t.Context(), importer.Input{Namespace: "kube-system", Objects: objects})
	if err != nil {
		t.Fatal(err)
	}
	o := plan.Profiles[0]
	docs, err := profile.Decode(o.Path, plan.Files[o.Path])
	if err != nil || len(docs) != 1 || len(o.Corrected) != 1 {
		t.Fatalf("%s: %d profiles, %v corrected: %v", item, len(docs), o.Corrected, err)
	}
	out, err := render.NewEngine().Render(render.Input{
		Profile: render.Profile{Spec: docs[0].Spec, Object: name, Digest: docs[0].Digest, Provenance: render.Provenance{Profile: name, Version: "v1.0.0"}},
		Pool:    render.Pool{Name: "web", Namespace: "shop", CloudProvider: "hetzner", OperatingSystem: osm.OperatingSystemUbuntu, KubeletVersion: "1.36.0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Bootstrap)
}
