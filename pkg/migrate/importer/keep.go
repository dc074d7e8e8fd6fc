package importer

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
)

// planProfileForm decides the form of a valid profile, and writes it.
func (a *importPlan) planProfileForm(c *candidate) {
	a.renderPools(c)
	a.renderSamples(c)
	builtin, isBuiltin := a.builtin(c.doc.Name)
	var differences []string
	if isBuiltin {
		var err error
		if differences, err = a.renderedDifferences(c.doc, builtin); err != nil {
			differences = []string{err.Error()}
		}
		if len(differences) == 0 {
			c.out.Action, c.out.Corrected = ActionNone, nil
			c.out.Why = fmt.Sprintf("is equivalent to the built-in %s %s, which pools get without it, for every tested pool", builtin.Name, builtin.Spec.Version)
			a.plan.Profiles = append(a.plan.Profiles, c.out)
			return
		}
	}
	c.out.Path = c.path(ProfilesDir)
	if text, base, ok := a.expressAsOverlay(c); ok {
		c.out.Action, c.out.Base = ActionOverlay, base.Name+" "+base.Spec.Version
		c.out.Why = fmt.Sprintf("has the content of %s with the changes of the overlay: %d lines instead of %d", c.out.Base, lines(text), lines(c.yaml))
		a.plan.Files[c.out.Path] = text
	} else {
		c.out.Action, c.out.Why = ActionCopy, a.copyReason(c, builtin, differences)
		a.plan.Files[c.out.Path] = c.yaml
		a.overlayBases = append(a.overlayBases, c)
	}
	a.plan.Profiles = append(a.plan.Profiles, c.out)
}

func lines(text []byte) int { return bytes.Count(text, []byte("\n")) }

// copyReason explains why a profile became a copy.
func (a *importPlan) copyReason(c *candidate, builtin profile.Document, differences []string) string {
	var parts []string
	if digest, ok := referenceDefaults[c.doc.Name]; ok {
		if c.doc.Digest == digest {
			parts = append(parts, "the default of operating-system-manager "+referenceVersion)
		} else {
			parts = append(parts, "has the name of a default of operating-system-manager, and content of its own or of another release")
		}
	}
	if len(differences) > 0 {
		parts = append(parts, fmt.Sprintf("nodes would get other content from the built-in %s %s: %s", builtin.Name, builtin.Spec.Version, joinFirst(differences, 3)))
	}
	if len(parts) == 0 {
		return "no other profile is similar enough to be its base"
	}
	return strings.Join(parts, "; ")
}

func (a *importPlan) builtin(name string) (profile.Document, bool) {
	i := slices.IndexFunc(a.in.Builtin, func(d profile.Document) bool { return d.Name == name })
	if i < 0 {
		return profile.Document{}, false
	}
	return a.in.Builtin[i], true
}

// renderPools renders a profile for the pools that use it, with the controller's settings
// if they are known.
func (a *importPlan) renderPools(c *candidate) {
	for _, p := range a.pools {
		if p.inputs == nil || !slices.Contains(c.out.Pools, p.md.Namespace+"/"+p.md.Name) {
			continue
		}
		sample := matrix.New(c.doc)
		in := render.Input{Profile: matrix.Profile(c.doc, render.Provenance{}), Pool: *p.inputs, Settings: sample.Settings, Cluster: sample.Cluster}
		if a.in.Settings != nil {
			in.Settings = *a.in.Settings
		}
		if _, err := a.engine.Render(in); err != nil {
			for _, problem := range render.Problems(err) {
				r := rejectionOf(c.object, problem)
				if strings.HasPrefix(problem.Field, "spec.template.") || strings.HasPrefix(problem.Field, "metadata.") {
					r = rejectionOf(p.object, problem)
				} else {
					r.Path, r.Where = c.path(ProfilesDir), "pool "+p.md.Namespace+"/"+p.md.Name
				}
				a.addRejection(r)
			}
		}
	}
}

// digits are the only difference between the messages for pools whose document is too
// large.
var digits = regexp.MustCompile(`[0-9]+`)

// renderSamples renders a profile for sample pools. Rejections are notes, not refusals, and
// repeated ones are reported once.
func (a *importPlan) renderSamples(c *candidate) {
	reported := map[string]bool{}
	s := newSamples(c.doc)
	for _, row := range s.rows {
		_, err := s.render(a.engine, c.doc, row)
		for _, problem := range render.Problems(err) {
			key := problem.Field + digits.ReplaceAllString(problem.Err.Error(), "")
			if reported[key] {
				continue
			}
			reported[key] = true
			r := rejectionOf(c.object, problem)
			a.addNote(Note{Object: r.Object, Field: r.Field, Message: fmt.Sprintf("%s:%d: would be rejected for pools such as %s: %s", c.path(ProfilesDir), r.Line, matrix.DescribeRow(s.dims, row), r.Message)})
		}
	}
}

// renderedDifferences lists what nodes would get differently from another profile of the same name,
// for the first sample with a difference. An empty list means that both render and are
// equivalent for every sample; a profile that renders for no sample differs.
func (a *importPlan) renderedDifferences(mine, other profile.Document) ([]string, error) {
	s := newSamples(mine)
	s.addEveryProviderAndKubelet()
	switch {
	case mine.Spec.OSName != other.Spec.OSName || mine.Spec.ProvisioningUtility != other.Spec.ProvisioningUtility:
		return []string{fmt.Sprintf("%s with %s in place of %s with %s", other.Spec.OSName, other.Spec.ProvisioningUtility, mine.Spec.OSName, mine.Spec.ProvisioningUtility)}, nil
	case len(s.rows) == 0:
		return []string{"it names no cloud provider"}, nil
	}
	for _, p := range mine.Spec.SupportedCloudProviders {
		if !slices.ContainsFunc(other.Spec.SupportedCloudProviders, func(o osm.CloudProviderSpec) bool { return o.Name == p.Name }) {
			return []string{fmt.Sprintf("it serves %s", p.Name)}, nil
		}
	}
	rendered := 0
	for _, row := range s.rows {
		was, err := s.render(a.engine, mine, row)
		if err != nil {
			continue // renderSamples has reported it; nodes get nothing from it
		}
		rendered++
		would, err := s.render(a.engine, other, row)
		if err != nil {
			return []string{"it does not render for " + matrix.DescribeRow(s.dims, row)}, nil //nolint:nilerr // that is the difference
		}
		found, err := compare(was, would)
		if err != nil {
			return nil, fmt.Errorf("comparing for %s: %w", matrix.DescribeRow(s.dims, row), err)
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	if rendered == 0 {
		return []string{"it renders for no tested pool"}, nil
	}
	return nil, nil
}

// compare lists the differences in both stages.
func compare(was, would *render.Output) ([]string, error) {
	var out []string
	for _, stage := range [][2][]byte{{was.Bootstrap, would.Bootstrap}, {was.Provisioning, would.Provisioning}} {
		found, err := equivalence.Compare(stage[0], stage[1])
		if err != nil {
			return nil, err
		}
		for _, d := range found {
			out = append(out, d.What)
		}
	}
	return out, nil
}

// joinFirst joins the first texts of a list in order, and counts the others.
func joinFirst(list []string, most int) string {
	return phrase.First(slices.Compact(slices.Sorted(slices.Values(list))), most)
}
