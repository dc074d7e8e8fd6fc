package verify

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// again returns what verify has of an input: the record, the settings and the stored
// credentials.
func again(t *testing.T, engine *render.Engine, in render.Input) (*bootRenderer, *render.Output) {
	t.Helper()
	out, err := engine.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	s := &target{pool: types.NamespacedName{Namespace: in.Pool.Namespace, Name: in.Pool.Name}, gen: &lineage.StoredRecord{Record: out.Record}}
	v := &Verifier{Engine: engine}
	r, why := v.renderAgain(s, &origin{doc: &profile.Document{Spec: in.Profile.Spec}}, in.RedactedSettingsJSON())
	if why != "" {
		t.Fatal(why)
	}
	if d := compareDigests("digests", r.out.Record.Digests, out.Record.Digests); d != nil {
		t.Errorf("rendering again differs: %+v", d)
	}
	if d := compareValues("spec", withSchemaDefaults(r.out.OSC), withSchemaDefaults(out.OSC)); d != nil {
		t.Errorf("rendering again differs: %+v", d)
	}
	_, credentials := in.ReplaceSecrets()
	kubeconfig := cmp.Or(in.Cluster.BootstrapKubeconfig, render.BootstrapKubeconfig(in.Cluster.Server, in.Settings.KubernetesCACert, in.Cluster.BootstrapToken))
	b := &bootRenderer{engine: engine, in: r.in.WithCredentials(credentials), placeholders: r.out, secrets: credentialStrings(credentials)}
	b.in.Cluster.BootstrapKubeconfig = withToken(kubeconfig, r.in.Cluster.BootstrapToken)
	return b, out
}

// Every document of the corpus agrees, with its credentials and with a record that has
// none; an edited file is named without showing a credential (security.md 15).
func TestDocuments(t *testing.T) {
	engine := render.NewEngine()
	compared := 0
	for _, c := range conformance.Cases(t) {
		in, err := c.Input(t)
		if err != nil || c.WantError != "" {
			continue
		}
		in.Cluster.APIServerToken = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2RlIn0.c2lnbmF0dXJl"
		in.Cluster.BootstrapToken = "abcdef.0123456789abcdef"
		in.Cluster.BootstrapKubeconfig = ""
		const path = "/opt/told"
		in.Profile.Spec, in.Profile.Digest = *in.Profile.Spec.DeepCopy(), "v1:sha256:"+c.Name
		stage := &in.Profile.Spec.ProvisioningConfig
		stage.Files = append(stage.Files, osm.File{Path: path, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "one\ntwo\nthree"}}})
		compared++
		t.Run(c.Name, func(t *testing.T) {
			b, out := again(t, engine, in)
			edited := in
			edited.Profile.Spec, edited.Profile.Digest = *in.Profile.Spec.DeepCopy(), ""
			files := edited.Profile.Spec.ProvisioningConfig.Files
			files[len(files)-1].Content.Inline.Data = "one\nevil\nthree"
			evil, err := engine.Render(edited)
			if err != nil {
				t.Fatal(err)
			}
			for _, stage := range []string{"bootstrap", "provisioning"} {
				if d, err := b.compareDocument(documentOfStage(out, stage), stage); d != nil || err != nil {
					t.Errorf("%s: %+v (%v)", stage, d, err)
				}
			}
			d, err := b.compareDocument(evil.Provisioning, "provisioning")
			if want := newDifference(fmt.Sprintf("file %q", path), 2, "two", "evil"); err != nil || d == nil || *d != *want {
				t.Fatalf("an edited file: %+v (%v)", d, err)
			}
			for _, secret := range append(b.secrets, in.Cluster.APIServerToken, in.Cluster.BootstrapToken) {
				if len(secret) > 3 && strings.Contains(d.Expected+d.Found, secret) {
					t.Errorf("a credential is told: %+v", d)
				}
			}
		})
	}
	if compared < 50 {
		t.Errorf("compared %d cases", compared)
	}
}

// A token is found if a profile encodes it or if it is in the middle of a line; a token
// that was replaced in only one place is a difference.
func TestTokens(t *testing.T) {
	engine := render.NewEngine()
	for _, c := range conformance.Cases(t) {
		in, err := c.Input(t)
		if err != nil || c.WantError != "" || c.Ignition {
			continue
		}
		in.Profile.Spec, in.Profile.Digest = *in.Profile.Spec.DeepCopy(), "v1:sha256:"+strings.Repeat("0", 64)
		in.Cluster.APIServerToken, in.Cluster.BootstrapToken, in.Cluster.BootstrapKubeconfig = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJub2RlIn0.c2lnbmF0dXJl", "abcdef.0123456789abcdef", ""
		stage := &in.Profile.Spec.BootstrapConfig
		for i := range stage.Files {
			*stage.Files[i].Content.Inline = osm.FileContentInline{Data: "nothing of interest"}
		}
		for name, text := range map[string]string{
			"in base64":           "{{ b64enc .Token }}",
			"in base64 of a line": `{{ printf "token=%s;" .Token | b64enc }}`,
			"in the middle":       "a='{{ .Token }}' b={{ .ServerURL }}",
			"twice":               "{{ .Token }} {{ .Token }}",
			"both":                "{{ .Token }}\n{{ .BootstrapKubeconfig }}",
		} {
			in.Profile.Digest = "" // compile templates again
			stage.Files[0].Content.Inline.Data = text
			b, out := again(t, engine, in)
			if d, err := b.compareDocument(out.Bootstrap, "bootstrap"); d != nil || err != nil {
				t.Errorf("%s: %+v (%v)", name, d, err)
			}
			if name != "twice" {
				continue
			}
			other := strings.Replace(string(out.Bootstrap), in.Cluster.APIServerToken, "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJldmlsIn0.c2lnbmF0dXJl", 1)
			d, err := b.compareDocument([]byte(other), "bootstrap")
			if err != nil || d == nil || strings.Contains(d.Found, "eyJ") {
				t.Errorf("two tokens: %+v (%v)", d, err)
			}
		}
		return
	}
	t.Error(errors.New("the corpus has no case to try this with"))
}
