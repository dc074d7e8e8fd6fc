package overlay

import (
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

// Any overlay results in a valid profile, all of whose texts have a line, or it is
// rejected with a short error. security.md 11
func FuzzApply(f *testing.F) {
	for _, spec := range []string{
		"", "  bootstrapConfig: {files: {replace: [{path: /opt/first, permissions: 600}], remove: [/opt/second]}}\n",
		"  bootstrapConfig: {modules: {append: {runcmd: [a, b]}, remove: [bootcmd]}, templates: {remove: [hello, bye]}}\n",
		"  supportedCloudProviders: {add: [{name: gce, spec: {a: 1}}], remove: [aws, hetzner]}\n",
		"  provisioningConfig: {supportedContainerRuntimes: [{name: containerd, files: {remove: [/etc/containerd/config.toml]}}]}\n",
	} {
		f.Add([]byte(profiletest.Overlay + spec))
	}
	base := decodeBase(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		in, err := profile.DecodeFile("a.yaml", file)
		if err != nil {
			return // FuzzDecode's
		}
		for _, o := range in.Overlays {
			doc, err := Apply(o, base)
			if err != nil {
				if n := len(err.Error()); n > 64<<10 || len(strictyaml.Problems(err)) == 0 {
					t.Errorf("the error has %d bytes and %d problems", n, len(strictyaml.Problems(err)))
				}
				continue
			}
			for field := range doc.Lines {
				if doc.Line(field) < 1 {
					t.Errorf("%s has no line", field)
				}
			}
			if doc.Digest != profile.Digest(doc.Spec) || doc.Spec.Version != o.Spec.Version {
				t.Errorf("%s: digest or version is another one", doc.Name)
			}
		}
	})
}
