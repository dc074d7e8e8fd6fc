package render_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// noise is text that does not compress well, the same in every run.
func noise(n int) string {
	b := make([]byte, n)
	r := rand.New(rand.NewSource(1)) //nolint:gosec // no secret
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[r.Intn(64)]
	}
	return string(b)
}

// sized is an input whose bootstrap document has one file of n bytes and a few
// small ones.
func sized(t testing.TB, provider osm.CloudProvider, n int) render.Input {
	t.Helper()
	in := smallInput(t, "x", nil)
	in.Pool.CloudProvider, in.Pool.Name = provider, "web"
	in.Profile.Spec.SupportedCloudProviders = []osm.CloudProviderSpec{{Name: provider}}
	in.Profile.Spec.BootstrapConfig = osm.OSPConfig{Files: []osm.File{
		inline("/small", strings.Repeat("s", 1000)), inline("/large", noise(n)), inline("/tiny", "t"), inline("/middle", strings.Repeat("m\n", 1000)),
	}}
	return in
}

// Each provider accepts a bootstrap document up to its limit. One more byte is rejected with
// the size, the limit and the largest files.
func TestUserDataLimits(t *testing.T) {
	limits := render.UserDataLimits()
	if len(limits) == 0 {
		t.Fatal("no limits")
	}
	// what of a document counts, with a machine called web-0123456789-01234
	named := func(doc []byte) []byte {
		return bytes.ReplaceAll(doc, []byte("<MACHINE_NAME>"), []byte("web-0123456789-01234"))
	}
	measure := map[string]func([]byte) int{
		"as it is":  func(doc []byte) int { return len(named(doc)) },
		"in base64": func(doc []byte) int { return len(base64.StdEncoding.EncodeToString(named(doc))) },
		"compressed": func(doc []byte) int {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			if _, err := z.Write(doc); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			return b.Len()
		},
	}
	for provider, limit := range limits {
		t.Run(string(provider), func(t *testing.T) {
			if !strings.HasPrefix(limit.Source, "https://") {
				t.Errorf("the limit has no source")
			}
			// The longest file that is accepted.
			fits, not := 0, 2*limit.Bytes
			var last error
			for not-fits > 1 {
				n := (fits + not) / 2
				out, err := render.NewEngine().Render(sized(t, provider, n))
				if err != nil {
					not, last = n, err
					continue
				}
				fits = n
				if size := measure[limit.Measured](out.Bootstrap); size > limit.Bytes {
					t.Fatalf("%d bytes %s are accepted, the limit is %d", size, limit.Measured, limit.Bytes)
				}
			}
			out, err := render.NewEngine().Render(sized(t, provider, fits))
			if err != nil {
				t.Fatal(err)
			}
			if size := measure[limit.Measured](out.Bootstrap); size < limit.Bytes-8 {
				t.Errorf("%d bytes are all that is accepted, the limit is %d", size, limit.Bytes)
			}
			for _, want := range []string{
				fmt.Sprintf("bytes %s, but %s takes %d: its largest files", limit.Measured, provider, limit.Bytes),
				`"/large" (`, `, "/middle" (`, `, "/small" (`, "bootstrapConfig.files", `profile "osp-sample"`,
			} {
				if !strings.Contains(last.Error(), want) {
					t.Errorf("error %q, want %q in it", last, want)
				}
			}
			if strings.Contains(last.Error(), "/tiny") {
				t.Errorf("error %q names more than three files", last)
			}
		})
	}
}

// The sizes of the files are those in the document, and the message is the same whether a
// credential makes the document too long or not.
func TestUserDataLimitMessage(t *testing.T) {
	in := sized(t, "hetzner", 32<<10)
	in.Profile.Spec.BootstrapConfig.Files[0].Content.Inline.Encoding = "b64"
	_, err := render.NewEngine().Render(in)
	// 32 KiB of text on a line of its own; 1000 lines indented by 6; 1000 bytes as 1336 in base64.
	want := `its largest files are "/large" (` + fmt.Sprint(32<<10+len("  - path: /large\n    permissions: '0644'\n    content: \n")) + `), ` +
		`"/middle" (` + fmt.Sprint(8000+len("  - path: /middle\n    permissions: '0644'\n    content: |\n")) + `), ` +
		`"/small" (` + fmt.Sprint(1336+len("  - path: /small\n    permissions: '0644'\n    encoding: b64\n    content: ''\n")) + `); move`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q in it", err, want)
	}

	in = sized(t, "hetzner", 0)
	in.Profile.Spec.BootstrapConfig.Files[1].Content.Inline.Data = "{{ .Token }}"
	in.Cluster.APIServerToken = "secret-" + noise(32<<10)
	_, err = render.NewEngine().Render(in)
	if err == nil || !strings.Contains(err.Error(), "but hetzner takes 32768") || strings.Contains(err.Error(), "secret-") {
		t.Errorf("error %.2000v", err)
	}
}

// A document that is sent in another way, or not at all, has the limit of its Secret.
func TestSecretLimit(t *testing.T) {
	for _, provider := range []osm.CloudProvider{"kubevirt", "vsphere", "edge", "nutanix"} {
		in := sized(t, provider, 500_000)
		if _, err := render.NewEngine().Render(in); err != nil {
			t.Errorf("%s: %v", provider, err)
		}
		in.Profile.Spec.BootstrapConfig.Files[0].Content.Inline = in.Profile.Spec.BootstrapConfig.Files[1].Content.Inline
		in.Profile.Spec.BootstrapConfig.Files[1].Content.Inline.Data = noise(600_000)
		in.Profile.Spec.ProvisioningConfig = in.Profile.Spec.BootstrapConfig
		_, err := render.NewEngine().Render(in)
		problems := render.Problems(err)
		if len(problems) != 2 {
			t.Fatalf("%s: %d problems: %.3000v", provider, len(problems), err)
		}
		for i, stage := range []string{"bootstrap", "provisioning"} {
			if p := problems[i]; p.Stage != stage || !strings.Contains(p.Error(), "but a Secret holds 1048576: its largest files are ") {
				t.Errorf("%s: %v", provider, p)
			}
		}
	}
}

// The second stage is fetched from its Secret, so no provider limits it. Flatcar's document is
// sent to AWS uncompressed.
func TestUserDataLimitStages(t *testing.T) {
	in := sized(t, "hetzner", 10)
	in.Profile.Spec.ProvisioningConfig.Files = []osm.File{inline("/large", noise(500_000))}
	if _, err := render.NewEngine().Render(in); err != nil {
		t.Error(err)
	}
	in = sized(t, "aws", 0)
	in.Profile.Spec.BootstrapConfig.Files[0].Content.Inline.Data = strings.Repeat("x", 100_000)
	if _, err := render.NewEngine().Render(in); err != nil {
		t.Error(err)
	}
	in.Profile.Spec.OSName, in.Pool.OperatingSystem = osm.OperatingSystemFlatcar, osm.OperatingSystemFlatcar
	in.Profile.Spec.ProvisioningUtility = osm.ProvisioningUtilityCloudInit
	in.Pool.OperatingSystemSpec.Flatcar = &render.FlatcarSpec{ProvisioningUtility: osm.ProvisioningUtilityCloudInit}
	if _, err := render.NewEngine().Render(in); err == nil || !strings.Contains(err.Error(), "bytes as it is, but aws takes 16384") {
		t.Errorf("error %v", err)
	}
	in.Profile.Spec.ProvisioningUtility = osm.ProvisioningUtilityIgnition
	in.Pool.OperatingSystemSpec.Flatcar = nil
	if _, err := render.NewEngine().Render(in); err == nil || !strings.Contains(err.Error(), `its largest files are "/small" (`) {
		t.Errorf("error %v", err)
	}
}

// TestUserDataLimitOfKeys: files are not the only thing that takes room.
func TestUserDataLimitOfKeys(t *testing.T) {
	in := sized(t, "aws", 100)
	key := noise(26_000)
	in.Pool.SSHPublicKeys = []string{"ssh-rsa " + key[:12_000], "ssh-rsa " + key[12_000:]}
	_, err := render.NewEngine().Render(in)
	if err == nil || !strings.Contains(err.Error(), "and the pool's 2 SSH keys take 26016") {
		t.Errorf("error %v, want one that names the keys", err)
	}
}
