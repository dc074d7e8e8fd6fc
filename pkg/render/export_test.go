package render

import osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"

// RealOSC renders the configuration with the real values in place of
// placeholders, which is what the conformance corpus has.
func RealOSC(e *Engine, in Input) (*osm.OperatingSystemConfigSpec, error) {
	osc, _, problems := in.render(e.compiled(in.Profile), in.InputDigest())
	return osc, one(problems)
}
