package render_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/conformance"
	"github.com/osm-gitops/osm-gitops/test/ignition"
)

// TestConformanceIgnition renders the cases for Ignition in every version of its specification:
// the documents have the same effect, and Ignition's validator reports nothing.
func TestConformanceIgnition(t *testing.T) {
	engine := render.NewEngine()
	var docs [][]byte
	for _, c := range conformance.Cases(t) {
		if !c.Ignition {
			continue
		}
		for _, version := range []string{"2.3.0", "3.3.0", "3.4.0"} {
			t.Run(c.Name+"/"+version, func(t *testing.T) {
				in, err := c.Input(t)
				if err != nil {
					t.Fatal(err)
				}
				in.Settings.IgnitionVersion = version
				out, err := engine.Render(in)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(out.Bootstrap, []byte(`"version":"`+version+`"`)) {
					t.Errorf("not of version %s: %.100s", version, out.Bootstrap)
				}
				conformance.CompareUserData(t, c.WantBootstrap, out.Bootstrap)
				conformance.CompareUserData(t, c.WantProvisioning, out.Provisioning)
				docs = append(docs, out.Bootstrap, out.Provisioning)
			})
		}
	}
	ignition.Validate(t, docs...)
}

// What the reference renders reads no data that only this project has.
func TestConformanceCheckReference(t *testing.T) {
	engine := render.NewEngine()
	for _, c := range conformance.Cases(t) {
		in, err := c.Input(t)
		if err != nil || c.WantError != "" {
			continue
		}
		if err := engine.CheckOSMCompatibility(in.Profile); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

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
			out, err := engine.Render(in)
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
