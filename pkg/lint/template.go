package lint

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// TemplateCheck compiles the templates of a profile, a precondition for creating its
// object. Findings have the line in the file.
func TemplateCheck(engine *render.Engine) catalog.Check { return withLines(engine.Check) }

// OSMTemplateCheck is TemplateCheck for profiles that operating-system-manager renders.
func OSMTemplateCheck(engine *render.Engine) catalog.Check {
	return withLines(engine.CheckOSMCompatibility)
}

// withLines adds lines to the problems that a check of package render finds.
func withLines(check func(render.Profile) error) catalog.Check {
	return func(doc profile.Document) error {
		// The result is cached by content, and the same content can have several paths. The
		// caller adds the file's name.
		const anyFile = "profile"
		err := check(render.Profile{Spec: doc.Spec, Digest: doc.Digest, File: anyFile, Lines: doc.Line, FileOf: doc.FileOf})
		var problems []error
		for _, p := range render.Problems(err) {
			cause := p.Err
			if p.File != "" { // the index in the field's name does not help readers of the profile
				cause = fmt.Errorf("file %q: %w", p.File, cause)
			}
			problems = append(problems, &strictyaml.Problem{Path: cmp.Or(doc.FileOf(p.Field), doc.Path), Line: p.PathLine(), Field: p.Field, Err: cause})
		}
		return errors.Join(problems...)
	}
}
