package render_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// TestConformance renders the cases of the corpus and compares them with the
// reference implementation's output.
func TestConformance(t *testing.T) {
	engine := render.NewEngine()
	for _, c := range conformance.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			in, err := c.Input(t)
			if c.WantError != "" {
				if err == nil {
					_, err = engine.Render(in)
				}
				var invalid *render.InvalidError
				if !errors.As(err, &invalid) {
					t.Fatalf("error %v, but the reference refuses it with %q", err, c.WantError)
				}
				t.Logf("refused: %v", err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			reason := ""
			if c.Ignition {
				reason = "this release renders cloud-init only"
			}
			out, err := engine.Render(in)
			if reason != "" {
				var invalid *render.InvalidError
				if !errors.As(err, &invalid) {
					t.Fatalf("rendered with error %v, but it is listed as not supported: %s", err, reason)
				}
				t.Skipf("%s: %v", reason, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if name := in.Pool.Name + "-" + in.Pool.Namespace + "-config"; c.WantOSC.Name != name || c.WantOSC.Namespace != in.Settings.Namespace {
				t.Errorf("OperatingSystemConfig is called %s/%s, want %s/%s", in.Settings.Namespace, name, c.WantOSC.Namespace, c.WantOSC.Name)
			}
			conformance.CompareUserData(t, c.WantBootstrap, out.Bootstrap)
			conformance.CompareUserData(t, c.WantProvisioning, out.Provisioning)
			osc, err := render.RealOSC(engine, in)
			if err != nil {
				t.Fatal(err)
			}
			conformance.CompareOSC(t, c.WantOSC.Spec, *osc)
			for i, f := range out.OSC.ProvisioningConfig.Files {
				if want := osc.ProvisioningConfig.Files[i]; f.Path != want.Path || f.Permissions != want.Permissions {
					t.Errorf("with placeholders file %d is %q %d, want %q %d", i, f.Path, f.Permissions, want.Path, want.Permissions)
				}
			}
			if strings.Contains(string(out.Bootstrap)+string(out.Provisioning), "<no value>") {
				t.Error("a value is missing")
			}
		})
	}
}
