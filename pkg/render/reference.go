package render

import (
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

// fieldsOSMLacks are the fields of the template data that operating-system-manager does not have. It has
// all functions.
var fieldsOSMLacks = []string{"DownloadDigests", "DownloadMirrors", "Provenance", "RegistryHosts"}

// CheckOSMCompatibility finds the errors of Check and, if there are none, every place where a template
// reads data that operating-system-manager does not have, so that it could not render the
// profile.
func (e *Engine) CheckOSMCompatibility(p Profile) error {
	if err := e.Check(p); err != nil {
		return err
	}
	// A compiled profile that was rendered has the results of named templates in place of some
	// definitions.
	var c *compiled
	meter.RunWithSlot(e.memorySlots.Large, func() { c = compile(&p.Spec, nil) })
	var problems []*invalid.Error
	for _, stage := range []*compiledStage{&c.bootstrap, &c.provisioning} {
		problems = append(problems, stage.FindFieldReads(fieldsOSMLacks, "is not template data of operating-system-manager: remove it from this profile")...)
	}
	return invalid.Join(p.locateProblems("", problems))
}
