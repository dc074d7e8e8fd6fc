package render

import (
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

// RealOSC renders the configuration with the real values in place of
// placeholders, which is what the conformance corpus has.
func RealOSC(e *Engine, in Input) (*osm.OperatingSystemConfigSpec, error) {
	osc, _, problems := in.render(e.compiled(in.Profile), in.InputDigest())
	return osc, invalid.One(problems)
}

// Used is how much of the limits rendering takes, in thousandths: of the units, of the
// bytes made, and of the bytes of actions. Small reports whether it needs no large room.
func Used(in Input) (units, made, actions int, small bool, err error) {
	c := compile(&in.Profile.Spec)
	if len(c.problems) > 0 {
		return 0, 0, 0, false, invalid.One(c.problems)
	}
	d, problems := newData(in, in.InputDigest())
	for _, stage := range []*compiledStage{&c.bootstrap, &c.provisioning} {
		if len(problems) == 0 {
			_, problems = stage.execute(d)
		}
	}
	n := actionBytes(&in.Profile.Spec)
	return d.meter.Cost * 1000 / meter.MaxCost, d.meter.Made * 1000 / meter.MaxMade, n * 1000 / maxActionBytes,
		d.meter.Cost <= meter.SmallCost && d.meter.Made <= meter.SmallMade && n <= meter.SmallAction, invalid.One(problems)
}
