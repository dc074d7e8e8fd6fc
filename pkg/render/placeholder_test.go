package render_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// secretInput has a canary in every credential there is.
func secretInput(t testing.TB) render.Input {
	t.Helper()
	in := sampleInput(t)
	in.Profile.Digest = ""
	in.Profile.Spec.OSName = osm.OperatingSystemRHEL
	in.Pool.OperatingSystem = osm.OperatingSystemRHEL
	overwrite := "canary-cloud-config"
	in.Pool.OverwriteCloudConfig = &overwrite
	in.Pool.OperatingSystemSpec.RHEL = &render.RHELSpec{
		RHELSubscriptionManagerUser: "canary-user", RHELSubscriptionManagerPassword: "canary-password", RHSMOfflineToken: "canary-offline",
		RHELOrganizationName: "canary-org", RHELActivationKey: "canary-key", RHELSatelliteServer: "satellite.example.com",
	}
	in.Settings.NodeHTTPProxy = "http://canary-proxy:canary-pw@proxy.example.com:3128"
	in.Settings.NodeNoProxy = ".svc,canary-np:canary@host,10.0.0.0/8"
	in.Settings.NodeContainerdRegistryMirrors = []string{"quay.io=https://canary:canary@q.example.com/x?kubermatic=override_path%3Dtrue", "reg:5000=canary@m.example.com", "plain=https://plain.example.com"}
	in.Settings.NodeRegistryMirrors = " https://canary:canary@d.example.com/p , gcr.io=canary:canary@g.example.com"
	in.Settings.RegistryCredentials = map[string]render.RegistryCredential{
		"a.example.com": {Username: "canary", Password: "canary", Auth: "canary", IdentityToken: "canary"}, "b.example.com": {Auth: "canary"},
	}
	in.Cluster = render.Cluster{Server: "https://api.example.com", APIServerToken: "canary-node-token", BootstrapToken: "canary.bootstrap"}
	in.Profile.Spec.ProvisioningConfig.Files = append(in.Profile.Spec.ProvisioningConfig.Files, inline("/everything", strings.Join([]string{
		"{{ .Token }}{{ .BootstrapKubeconfig }}{{ .CloudConfig }}{{ .HTTPProxy }}{{ .NoProxy }}{{ .ContainerRuntimeConfig }}{{ toJson .RhelConfig }}{{ toJson . }}",
	}, "")))
	return in
}

// builtInInput is secretInput with the configuration of a provider that is built
// into the kubelet, in place of one that overwrites it.
func builtInInput(t testing.TB) render.Input {
	t.Helper()
	in := secretInput(t)
	in.Pool.CloudProvider, in.Pool.KubeletVersion, in.Pool.OverwriteCloudConfig = "aws", "1.28.9", nil
	in.Pool.CloudConfig = "[global]\nZone=\"canary-cloud-config\"\n"
	return in
}

// Nothing that is recorded or displayed contains a credential; the documents do.
func TestNoCredentialLeaks(t *testing.T) {
	t.Run("a configuration that overwrites", func(t *testing.T) { testNoCredentialLeaks(t, secretInput(t)) })
	t.Run("one of a provider", func(t *testing.T) { testNoCredentialLeaks(t, builtInInput(t)) })
}

func testNoCredentialLeaks(t *testing.T, in render.Input) {
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	record, err := render.MarshalRecord(out.Record)
	if err != nil {
		t.Fatal(err)
	}
	osc, err := json.Marshal(out.OSC)
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString([]byte("canary"))[:6]
	for name, text := range map[string]string{"OSC": string(osc), "record": string(record), "settings": string(in.RedactedSettingsJSON())} {
		if strings.Contains(text, "canary") || strings.Contains(text, encoded) {
			t.Errorf("the %s holds a credential:\n%s", name, text)
		}
		if name != "record" && !strings.Contains(text, "proxy.example.com:3128") {
			t.Errorf("the %s lost the proxy's address", name)
		}
	}
	if out.OSC.CloudProvider.Spec != nil {
		t.Error("the provider's spec is in the OSC")
	}
	for _, want := range []string{"canary-node-token", "canary.bootstrap", "canary-password", "canary-proxy", "canary-cloud-config", "canary-np"} {
		if !strings.Contains(string(out.Provisioning), want) {
			t.Errorf("the provisioning document lacks %q", want)
		}
	}
}

// Errors contain no credentials, even if only the credentials cause them.
func TestErrorsHoldNoCredentials(t *testing.T) {
	for name, text := range map[string]string{
		"a template that quotes them":        `{{ fail (printf "%s %s" .Token .CloudConfig) }}`,
		"one that fails on a real one only":  `{{ if contains "canary" .Token }}{{ fail .Token }}{{ end }}`,
		"one that misses a value for them":   `{{ if contains "canary" .Token }}{{ .KubeletFeatureGates.Nope }}{{ end }}`,
		"one that is too long for them":      `{{ if contains "canary" .Token }}{{ repeat 2000000 .Token }}{{ end }}`,
		"one that real ones make too long":   `{{ range until 6 }}{{ range until 10000 }}{{ $.CloudConfig }}{{ end }}{{ end }}`,
		"one that makes no text out of them": `{{ if contains "canary" .Token }}{{ b64dec "/w==" }}{{ .Token }}{{ end }}`,
	} {
		t.Run(name, func(t *testing.T) {
			in := secretInput(t)
			in.Profile.Spec.BootstrapConfig.Files = []osm.File{inline("/f", text)}
			_, err := render.NewEngine().Render(in)
			var invalid *render.InvalidError
			if !errors.As(err, &invalid) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Split and WithCredentials are each other's inverse, and change no argument.
func TestSplit(t *testing.T) {
	inputs := map[string]render.Input{"everything": secretInput(t), "a provider's configuration": builtInInput(t), "the sample": sampleInput(t), "nothing": {}}
	empty := ""
	inputs["an empty cloud configuration"] = render.Input{Pool: render.Pool{OverwriteCloudConfig: &empty, OperatingSystemSpec: render.OperatingSystemSpec{RHEL: &render.RHELSpec{RHELUseSatelliteServer: true}}}}
	proxy := sampleInput(t)
	proxy.Settings.NodeContainerdRegistryMirrors = nil
	inputs["a proxy's user alone"] = proxy
	mirror := sampleInput(t)
	mirror.Settings.NodeHTTPProxy, mirror.Settings.NodeContainerdRegistryMirrors = "", []string{"q=https://canary@m"}
	inputs["a mirror's user alone"] = mirror
	kubeconfig := secretInput(t)
	kubeconfig.Cluster.BootstrapKubeconfig = render.BootstrapKubeconfig("https://api.example.com", "ca", "canary")
	inputs["a kubeconfig"] = kubeconfig
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Lines" }, cmp.Ignore())
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			before := mustJSON(t, in)
			redacted, credentials := in.ReplaceSecrets()
			if after := mustJSON(t, in); after != before {
				t.Errorf("Split changed its argument from\n%s\nto\n%s", before, after)
			}
			if text := mustJSON(t, redacted); strings.Contains(text, "canary") {
				t.Errorf("a credential is left: %s", text)
			}
			again, placeholders := redacted.ReplaceSecrets()
			if mustJSON(t, again) != mustJSON(t, redacted) || placeholders.Empty() != credentials.Empty() {
				t.Errorf("splitting twice gives %+v and %+v", again, placeholders)
			}

			var recorded render.Credentials
			if err := json.Unmarshal([]byte(mustJSON(t, credentials)), &recorded); err != nil {
				t.Fatal(err)
			}
			back := redacted.WithCredentials(recorded)
			back.Cluster = in.Cluster // the tokens live elsewhere
			if diff := cmp.Diff(in, back, ignore); diff != "" {
				t.Errorf("(-original +put back):\n%s", diff)
			}
			if credentials.Empty() != (mustJSON(t, credentials) == "{}") {
				t.Errorf("Empty is %v of %s", credentials.Empty(), mustJSON(t, credentials))
			}
		})
	}
}

// Other credentials give the same configuration and digests.
func TestCredentialsAreNoInput(t *testing.T) {
	one, other := secretInput(t), secretInput(t)
	text := strings.ReplaceAll(mustJSON(t, other), "canary", "second")
	var changed struct {
		Pool     render.Pool
		Settings render.Settings
		Cluster  render.Cluster
	}
	if err := json.Unmarshal([]byte(text), &changed); err != nil {
		t.Fatal(err)
	}
	other.Pool, other.Settings, other.Cluster = changed.Pool, changed.Settings, changed.Cluster
	other.Profile.SelectedBy = "another commit"
	engine := render.NewEngine()
	a, err := engine.Render(one)
	if err != nil {
		t.Fatal(err)
	}
	b, err := engine.Render(other)
	if err != nil {
		t.Fatal(err)
	}
	a.Record.SelectedBy, b.Record.SelectedBy = "", ""
	if diff := cmp.Diff(a.Record, b.Record); diff != "" {
		t.Errorf("the records differ:\n%s", diff)
	}
	if diff := cmp.Diff(a.OSC, b.OSC); diff != "" {
		t.Errorf("the configurations differ:\n%s", diff)
	}
	if string(a.Bootstrap) == string(b.Bootstrap) || string(a.Provisioning) == string(b.Provisioning) {
		t.Error("the documents do not differ")
	}
}

// The input digest covers everything that rendering reads, and nothing else.
func TestInputDigest(t *testing.T) {
	base := sampleInput(t).InputDigest()
	if !strings.HasPrefix(base, "v1:sha256:") || len(base) != len("v1:sha256:")+64 {
		t.Errorf("digest %q", base)
	}
	for name, change := range map[string]func(*render.Input){
		"the profile's digest": func(in *render.Input) { in.Profile.Digest += "x" },
		"commit":               func(in *render.Input) { in.Profile.Provenance.Commit += "x" },
		"change":               func(in *render.Input) { in.Profile.Provenance.Change += "x" },
		"path":                 func(in *render.Input) { in.Profile.Provenance.Path += "x" },
		"repository":           func(in *render.Input) { in.Profile.Provenance.Repository += "x" },
		"version":              func(in *render.Input) { in.Profile.Provenance.Version += "x" },
		"a key":                func(in *render.Input) { in.Pool.SSHPublicKeys = nil },
		"the kubelet":          func(in *render.Input) { in.Pool.KubeletVersion = "1.35.0" },
		"the server":           func(in *render.Input) { in.Cluster.Server += "x" },
		"the CA":               func(in *render.Input) { in.Settings.KubernetesCACert += "x" },
		"a gate":               func(in *render.Input) { in.Settings.KubeletFeatureGates = nil },
		"the proxy's host":     func(in *render.Input) { in.Settings.NodeHTTPProxy = "http://u:p@other" },
		"an unusual Secret":    func(in *render.Input) { in.Cluster.BootstrapKubeconfigSecretName = "x" },
	} {
		in := sampleInput(t)
		change(&in)
		if in.InputDigest() == base {
			t.Errorf("%s does not change the digest", name)
		}
	}
	for name, change := range map[string]func(*render.Input){
		"selected by":       func(in *render.Input) { in.Profile.SelectedBy = "x" },
		"a token":           func(in *render.Input) { in.Cluster.APIServerToken = "x" },
		"the proxy's user":  func(in *render.Input) { in.Settings.NodeHTTPProxy = "http://u:p@proxy.example.com:3128" },
		"the object's name": func(in *render.Input) { in.Profile.Object = "x" },
		"the Secret's name": func(in *render.Input) {
			in.Cluster.BootstrapKubeconfigSecretName = "kube-system-workers-kubelet-bootstrap-config"
		},
		"the file in messages": func(in *render.Input) { in.Profile.File = "x" },
	} {
		in := sampleInput(t)
		change(&in)
		if in.InputDigest() != base {
			t.Errorf("%s changes the digest", name)
		}
	}
}

// Equal inputs give equal bytes, in another process too, and rendering changes no
// argument. The digests are pinned: when one of them changes, fleets roll, so
// EngineVersion or the recipe has to change with it.
func TestRenderIsPure(t *testing.T) {
	in := sampleInput(t)
	before := mustJSON(t, in)
	engine := render.NewEngine()
	print := func() string {
		out, err := engine.Render(in)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v\n%s\n%s", out.Record.Digests, out.Bootstrap, out.Provisioning)
	}
	got := print()
	if os.Getenv("OSM_PRINT_RENDERING") != "" {
		fmt.Printf("\n<<<%s>>>\n", got)
		return
	}
	if print() != got || mustJSON(t, in) != before {
		t.Error("the second rendering differs, or the input was changed")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRenderIsPure$", "-test.count=1")
	cmd.Env = append(os.Environ(), "OSM_PRINT_RENDERING=1", "TZ=Asia/Tokyo", "LANG=C")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	_, other, _ := strings.Cut(string(out), "<<<")
	other, _, _ = strings.Cut(other, ">>>")
	if other != got {
		t.Errorf("another process renders\n%s\nthis one\n%s", other, got)
	}
	golden(t, "digests.golden", strings.SplitAfterN(got, "\n", 2)[0])
}

// Many goroutines can use one engine at once.
func TestConcurrentRendering(t *testing.T) {
	engine, in := render.NewEngine(), sampleInput(t)
	want, err := engine.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				pool := in
				pool.Profile.Digest = fmt.Sprint("v1:sha256:", (i+j)%3)
				out, err := engine.Render(pool)
				if err != nil || string(out.OSC.BootstrapConfig.Files[0].Content.Inline.Data) != want.OSC.BootstrapConfig.Files[0].Content.Inline.Data {
					t.Errorf("rendering %d/%d: %v", i, j, err)
				}
				if j%5 == 0 {
					_ = engine.Check(pool.Profile)
				}
			}
		})
	}
	wg.Wait()
}

func TestMarshalRecord(t *testing.T) {
	in := sampleInput(t)
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	b, err := render.MarshalRecord(out.Record)
	if err != nil {
		t.Fatal(err)
	}
	var back render.Record
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out.Record, back); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out.Record.Pool.SSHPublicKeys = []string{strings.Repeat("x", 64<<10)}
	if _, err := render.MarshalRecord(out.Record); err == nil || !strings.Contains(err.Error(), "shorten its SSH keys") {
		t.Errorf("error %v of a record that no annotation can hold", err)
	}
}

// A generation is rendered again from its stored record.
func TestRecordInput(t *testing.T) {
	t.Run("a configuration that overwrites", func(t *testing.T) { testRecordInput(t, secretInput(t)) })
	t.Run("one of a provider", func(t *testing.T) { testRecordInput(t, builtInInput(t)) })
}

func testRecordInput(t *testing.T, in render.Input) {
	in.Profile.Digest = "v1:sha256:secret"
	engine := render.NewEngine()
	first, err := engine.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	_, credentials := in.ReplaceSecrets()
	again, err := first.Record.RebuildInput(in.Profile.Spec, in.Profile.Digest, in.RedactedSettingsJSON())
	if err != nil {
		t.Fatal(err)
	}
	again = again.WithCredentials(credentials)
	again.Cluster.APIServerToken, again.Cluster.BootstrapToken = in.Cluster.APIServerToken, in.Cluster.BootstrapToken
	second, err := engine.Render(again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
	if _, err := first.Record.RebuildInput(in.Profile.Spec, "v1:sha256:other", in.RedactedSettingsJSON()); err == nil {
		t.Error("another profile was accepted")
	}
	if _, err := first.Record.RebuildInput(in.Profile.Spec, in.Profile.Digest, []byte("{}")); err == nil {
		t.Error("other settings were accepted")
	}
}

// The kubeconfig is the corpus's: ordinary, with the CA byte for byte.
func TestBootstrapKubeconfig(t *testing.T) {
	const want = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Y2EK
    server: https://[fd00::1]:443
  name: c
contexts:
- context:
    cluster: c
    user: c
  name: c
current-context: c
kind: Config
users:
- name: c
  user:
    token: abcdef.0123456789abcdef
`
	if diff := cmp.Diff(want, render.BootstrapKubeconfig("https://[fd00::1]:443", "ca\n", "abcdef.0123456789abcdef")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of every case of the corpus: no credential in the OSC.
func TestCorpusCanaries(t *testing.T) {
	engine := render.NewEngine()
	rendered := 0
	for _, c := range conformance.Cases(t) {
		in, err := c.Input(t)
		if err != nil {
			continue
		}
		secrets := secretInput(t)
		in.Cluster.APIServerToken, in.Cluster.BootstrapToken = "canary-node", "canary-bootstrap"
		if in.Settings.NodeHTTPProxy != "" {
			in.Settings.NodeHTTPProxy = secrets.Settings.NodeHTTPProxy
		}
		for name := range in.Settings.RegistryCredentials {
			in.Settings.RegistryCredentials[name] = render.RegistryCredential{Username: "canary", Password: "canary", Auth: "canary", IdentityToken: "canary"}
		}
		if in.Pool.OverwriteCloudConfig != nil {
			in.Pool.OverwriteCloudConfig = secrets.Pool.OverwriteCloudConfig
		}
		if in.Pool.OperatingSystemSpec.RHEL != nil {
			rhel := *secrets.Pool.OperatingSystemSpec.RHEL
			rhel.RHELUseSatelliteServer = in.Pool.OperatingSystemSpec.RHEL.RHELUseSatelliteServer
			in.Pool.OperatingSystemSpec.RHEL = &rhel
		}
		out, err := engine.Render(in)
		if err != nil {
			continue
		}
		rendered++
		if text := mustJSON(t, out.OSC) + mustJSON(t, out.Record); strings.Contains(text, "canary") {
			t.Errorf("%s: a credential is in the OSC or in the record", c.Name)
		}
		if !strings.Contains(string(out.Bootstrap)+string(out.Provisioning), base64.StdEncoding.EncodeToString([]byte("canary"))[:4]) {
			t.Logf("%s: the documents hold no credential in base64", c.Name)
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(out.Provisioning, &doc); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	if rendered < 50 {
		t.Errorf("only %d cases rendered", rendered)
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	if in, ok := v.(render.Input); ok {
		in.Profile.Lines = nil
		v = struct {
			Spec       osm.OperatingSystemProfileSpec
			Provenance render.Provenance
			Pool       render.Pool
			Settings   render.Settings
			Cluster    render.Cluster
		}{in.Profile.Spec, in.Profile.Provenance, in.Pool, in.Settings, in.Cluster}
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
