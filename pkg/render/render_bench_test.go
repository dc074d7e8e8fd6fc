package render_test

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// BenchmarkRender renders one pool: everything, and the templates alone.
func BenchmarkRender(b *testing.B) {
	b.Run("sample", func(b *testing.B) { benchmark(b, sampleInput(b)) })
	for _, name := range []string{"osp-ubuntu", "osp-flatcar"} {
		b.Run("our "+name, func(b *testing.B) { benchmark(b, ourInput(b, name)) })
	}
	for _, bench := range []struct{ name, folder string }{
		{"osp-ubuntu", "008-osp-ubuntu-kubevirt"},
		{"osp-flatcar", "031-osp-flatcar-kubevirt"}, // Ignition
	} {
		b.Run(bench.name, func(b *testing.B) {
			for _, c := range conformance.Cases(b) {
				if c.Name == bench.folder {
					in, err := c.Input(b)
					if err != nil {
						b.Fatal(err)
					}
					benchmark(b, in)
					return
				}
			}
			b.Fatalf("the corpus has no case %s", bench.folder)
		})
	}
}

// ourInput is the sample pool with one of the profiles that we ship.
func ourInput(b testing.TB, name string) render.Input {
	b.Helper()
	text, err := os.ReadFile("../../profiles/" + name + ".yaml")
	if err != nil {
		b.Fatal(err)
	}
	var osp osm.OperatingSystemProfile
	if err := yaml.UnmarshalStrict(text, &osp); err != nil {
		b.Fatal(err)
	}
	in := sampleInput(b)
	in.Profile.Spec, in.Profile.Digest = osp.Spec, "v1:sha256:"+name
	in.Pool.OperatingSystem, in.Pool.CloudProvider = osp.Spec.OSName, "kubevirt"
	return in
}

func benchmark(b *testing.B, in render.Input) {
	engine := render.NewEngine()
	if _, err := engine.Render(in); err != nil {
		b.Fatal(err)
	}
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := engine.Render(in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("templates", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := render.RealOSC(engine, in); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := render.NewEngine().Check(in.Profile); err != nil {
				b.Fatal(err)
			}
		}
	})
}
