package render

import (
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/actions"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templates"
)

// RealOSC renders the configuration with the real values in place of placeholders, as in the
// conformance corpus.
func RealOSC(e *Engine, in Input) (*osm.OperatingSystemConfigSpec, error) {
	osc, _, problems := in.render(e.getOrCompile(in.Profile), in.InputDigest())
	return osc, invalid.AsSingleError(problems)
}

// Used is how much of the limits rendering takes, in thousandths: of the units, of the
// bytes made, and of the bytes of actions. Small reports whether it needs no large room.
func Used(in Input) (units, made, size int, small bool, err error) {
	c := compile(&in.Profile.Spec, nil)
	if len(c.problems) > 0 {
		return 0, 0, 0, false, invalid.AsSingleError(c.problems)
	}
	d, problems := newData(in, in.InputDigest())
	x := templates.NewExecution(d)
	for _, stage := range []*compiledStage{&c.bootstrap, &c.provisioning} {
		if len(problems) == 0 {
			_, problems = stage.Execute(x)
		}
	}
	n := actions.Bytes(&in.Profile.Spec)
	return x.Meter.Cost * 1000 / meter.MaxCost, x.Meter.Made * 1000 / meter.MaxMade, n * 1000 / actions.MaxBytes,
		x.Meter.Cost <= meter.SmallCost && x.Meter.Made <= meter.SmallMade && n <= meter.SmallAction, invalid.AsSingleError(problems)
}
