package verify

import (
	"cmp"
	"context"
	"fmt"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// checkOutputs renders again, with the profile from the origin and the recorded settings, and
// compares the results: the digests in the record, the configuration, and the Secrets of the pool
// if they are of this generation.
func (v *Verifier) checkOutputs(ctx context.Context, s *target, from *origin, settings []byte) ([]Check, error) {
	check := Check{Thing: ThingOSC, Name: "OperatingSystemConfig " + v.Namespace + "/" + lineage.NamesOf(s.pool).Config}
	if s.gen.Config == nil {
		check = check.asSkipped("the pool has another configuration now, and other Secrets")
	}
	rendered, why := v.renderAgain(s, from, settings)
	if why != "" {
		checks := []Check{{Thing: ThingRecord, Name: describeHolder(s.gen), Result: Unproven, Note: "cannot render for comparison: " + why}}
		if s.gen.Config != nil {
			checks = append(checks, s.compareAnnotations(check, why))
		}
		return checks, nil
	}
	var checks []Check
	if s.gen.Config != nil {
		check = s.checkConfigAndAnnotations(check, rendered)
	}
	checks = append(checks, check)
	// An edited configuration is reported itself; its digests would repeat that.
	if check.Result != Differs {
		record := Check{Thing: ThingRecord, Name: describeHolder(s.gen), Note: "rendering again gives its digests"}
		checks = append(checks, record.withDifference(compareDigests("digests", rendered.out.Record.Digests, s.gen.Record.Digests)))
	}
	if s.gen.Config == nil {
		return checks, nil
	}
	secrets, err := v.checkPoolSecrets(ctx, s, rendered)
	return append(checks, secrets...), err
}

// rendering is a generation that was rendered again, with placeholders.
type rendering struct {
	in  render.Input // with placeholders, also for tokens
	out *render.Output
}

// renderAgain renders the recorded inputs. The second result says why that is impossible.
func (v *Verifier) renderAgain(s *target, from *origin, settings []byte) (*rendering, string) {
	rec := s.gen.Record
	spec := s.profileSpec(from)
	switch {
	case rec.Engine != render.EngineVersion:
		return nil, fmt.Sprintf("engine %q created it, and this program has engine %q: verify it with %s", redact.PrintableLine(rec.Engine), render.EngineVersion, releaseWith(rec.Engine))
	case !s.gen.IsIntact():
		return nil, "the record was edited"
	case settings == nil:
		return nil, "the settings differ from those of the record"
	case spec == nil:
		return nil, "the profile differs from that of the record"
	}
	in, err := rec.RebuildInput(*spec, rec.ObjectDigest, settings)
	if err != nil {
		return nil, redact.PrintableLine(err.Error())
	}
	// With placeholders, rendering does not depend on the value of a token, only on whether
	// there is one.
	in.Cluster.APIServerToken, in.Cluster.BootstrapToken = "token", "token"
	in.Cluster.BootstrapKubeconfig = render.BootstrapKubeconfig(in.Cluster.Server, in.Settings.KubernetesCACert, "token")
	in, _ = in.ReplaceSecrets()
	out, err := v.Engine.Render(in)
	if err != nil {
		return nil, redact.PrintableLine(err.Error())
	}
	return &rendering{in: in, out: out}, ""
}

// checkConfigAndAnnotations compares a configuration with the rendering, and its annotations with the
// record.
func (s *target) checkConfigAndAnnotations(check Check, r *rendering) Check {
	osc := s.gen.Config
	if d := compareValues("spec", withSchemaDefaults(r.out.OSC), withSchemaDefaults(osc.Spec)); d != nil {
		return check.withDifference(d)
	}
	check.Note = "it equals the result of rendering again"
	fields := append([]field{{"annotation " + api.AnnotationPool, s.pool.String(), osc.Annotations[api.AnnotationPool]}}, annotationFields(s.gen.Record, osc.Annotations)...)
	return check.withDifference(firstMismatch(fields...))
}

// compareAnnotations compares the annotations, for a configuration that cannot be rendered
// again.
func (s *target) compareAnnotations(check Check, why string) Check {
	if s.gen.IsIntact() {
		if d := firstMismatch(annotationFields(s.gen.Record, s.gen.Config.Annotations)...); d != nil {
			return check.withDifference(d)
		}
	}
	return check.asUnproven("cannot render for comparison: %s", why)
}

func compareDigests(at string, want, have osm.ConfigDigests) *Difference {
	return firstMismatch(
		field{at + ".input", want.Input, have.Input}, field{at + ".spec", want.Spec, have.Spec},
		field{at + ".bootstrap", want.Bootstrap, have.Bootstrap}, field{at + ".provisioning", want.Provisioning, have.Provisioning},
	)
}

// withSchemaDefaults sets the defaults of the schema, as the API server does.
func withSchemaDefaults(spec osm.OperatingSystemConfigSpec) osm.OperatingSystemConfigSpec {
	c := *spec.DeepCopy()
	c.ProvisioningUtility = cmp.Or(c.ProvisioningUtility, osm.ProvisioningUtilityCloudInit)
	for _, stage := range []*osm.OSCConfig{&c.BootstrapConfig, &c.ProvisioningConfig} {
		profile.SetDefaultPermissions(stage.Files)
	}
	return c
}

// releaseWith names the releases that contain an engine.
func releaseWith(engine string) string {
	if releases, known := render.EngineReleases(engine); known {
		return "osm-gitops " + releases
	}
	return fmt.Sprintf("a later release of osm-gitops, one whose \"osm-gitops version\" prints engine %s", redact.PrintableLine(engine))
}
