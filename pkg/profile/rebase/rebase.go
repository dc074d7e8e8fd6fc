package rebase

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/internal/cloudinit"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Result compares the results of an overlay on two versions of its base.
type Result struct {
	// Was and Now are the resulting profiles. Now is zero if the overlay does not apply.
	Was, Now profile.Document
	// Conflicts are statements of the overlay that do not hold for the other version, and
	// changes to the same field by both the overlay and the base. Each has a line of the
	// overlay's file and names the base.
	Conflicts []*strictyaml.Problem
}

// Compare compares an overlay on its base with the same overlay on another version of the
// base. It returns an error if the overlay does not apply to its own base.
func Compare(o profile.Overlay, was, now profile.Document) (Result, error) {
	var out Result
	var err error
	if out.Was, err = overlay.Apply(o, was); err != nil {
		return out, err
	}
	made, err := overlay.Apply(o, now)
	out.Conflicts = strictyaml.Problems(err)
	if err == nil {
		out.Now = made
	}
	c := conflictFinder{overlay: &o, was: &was, now: &now}
	c.findAll()
	out.Conflicts = append(out.Conflicts, c.found...)
	return out, nil
}

// conflictFinder finds fields that an overlay replaces and its base has changed.
type conflictFinder struct {
	overlay  *profile.Overlay
	was, now *profile.Document
	found    []*strictyaml.Problem
}

// threeWay is one part of a profile in the old base, the new base and the overlay.
type threeWay struct{ was, now, ours any }

// recordConflict records a part that both sides changed to different values; otherwise it does
// nothing. field is in the overlay, was and now are in the bases.
func (c *conflictFinder) recordConflict(what, field, was, now string, t threeWay) {
	if reflect.DeepEqual(t.was, t.now) || reflect.DeepEqual(t.now, t.ours) {
		return
	}
	place := func(d *profile.Document, field string) string {
		file, line := d.Position(field, 1)
		return fmt.Sprintf("%s:%d", file, line)
	}
	c.found = append(c.found, &strictyaml.Problem{
		Path: c.overlay.Path, Line: c.overlay.Line(field), Field: field,
		Err: fmt.Errorf("replaces %s, which profile %q has changed from %s (%s) to %s (%s): adopt the changes that you want, then set version: %s under spec.from",
			what, c.now.Name, version.TrimDirtySuffix(c.was.Spec.Version), place(c.was, was), version.TrimDirtySuffix(c.now.Spec.Version), place(c.now, now), version.TrimDirtySuffix(c.now.Spec.Version)),
	})
}

func (c *conflictFinder) findAll() {
	o := &c.overlay.Spec
	was := &c.was.Spec
	now := &c.now.Spec
	if o.OSName != "" {
		c.recordConflict("osName", "spec.osName", "spec.osName", "spec.osName", threeWay{was.OSName, now.OSName, o.OSName})
	}
	if o.OSVersion != "" {
		c.recordConflict("osVersion", "spec.osVersion", "spec.osVersion", "spec.osVersion", threeWay{was.OSVersion, now.OSVersion, o.OSVersion})
	}
	if o.ProvisioningUtility != "" {
		const field = "spec.provisioningUtility"
		c.recordConflict("provisioningUtility", field, field, field, threeWay{was.ProvisioningUtility, now.ProvisioningUtility, o.ProvisioningUtility})
	}
	c.findStageConflicts("spec.bootstrapConfig", o.BootstrapConfig, &was.BootstrapConfig, &now.BootstrapConfig)
	c.findStageConflicts("spec.provisioningConfig", o.ProvisioningConfig, &was.ProvisioningConfig, &now.ProvisioningConfig)
	slices.SortStableFunc(c.found, func(a, b *strictyaml.Problem) int { return a.Line - b.Line })
}

func (c *conflictFinder) findStageConflicts(field string, o *api.StagePatches, was, now *osm.OSPConfig) {
	if o == nil {
		return
	}
	c.findFileConflicts(fieldPaths{field, field, field}.appendName(".files"), o.Files, was.Files, now.Files)
	c.findTemplateConflicts(fieldPaths{field, field, field}.appendName(".templates"), o.Templates, was.Templates, now.Templates)
	c.findUnitConflicts(field+".units", o.Units, was.Units, now.Units)
	c.findModuleConflicts(field+".modules", o.CloudInitModules, was.CloudInitModules, now.CloudInitModules)
	for i, rt := range o.SupportedContainerRuntimes {
		named := func(r osm.ContainerRuntimeSpec) bool { return r.Name == rt.Name }
		j := slices.IndexFunc(was.SupportedContainerRuntimes, named)
		k := slices.IndexFunc(now.SupportedContainerRuntimes, named)
		if j < 0 || k < 0 {
			continue // already reported by Apply
		}
		list := field + ".supportedContainerRuntimes"
		s := fieldPaths{strictyaml.Element(list, i), strictyaml.Element(list, j), strictyaml.Element(list, k)}
		c.findFileConflicts(s.appendName(".files"), rt.Files, was.SupportedContainerRuntimes[j].Files, now.SupportedContainerRuntimes[k].Files)
		c.findTemplateConflicts(s.appendName(".templates"), rt.Templates, was.SupportedContainerRuntimes[j].Templates, now.SupportedContainerRuntimes[k].Templates)
	}
}

// fieldPaths has the names of one field in the overlay and in the two versions of the base.
type fieldPaths struct{ overlay, was, now string }

func (s fieldPaths) appendName(name string) fieldPaths {
	return fieldPaths{s.overlay + name, s.was + name, s.now + name}
}

func (c *conflictFinder) findFileConflicts(s fieldPaths, o *api.FilePatches, was, now []osm.File) {
	if o == nil {
		return
	}
	for i, r := range o.Replace {
		named := func(f osm.File) bool { return f.Path == r.Path }
		j, k := slices.IndexFunc(was, named), slices.IndexFunc(now, named)
		if j < 0 || k < 0 {
			continue
		}
		in := fieldPaths{strictyaml.Element(s.overlay+".replace", i), strictyaml.Element(s.was, j), strictyaml.Element(s.now, k)}
		if r.Permissions != 0 {
			f := in.appendName(".permissions")
			c.recordConflict(fmt.Sprintf("the permissions of file %q", r.Path), f.overlay, f.was, f.now, threeWay{was[j].Permissions, now[k].Permissions, r.Permissions})
		}
		if r.Content != nil {
			f := in.appendName(".content.inline.data")
			c.recordConflict(fmt.Sprintf("the content of file %q", r.Path), f.overlay, f.was, f.now, threeWay{was[j].Content, now[k].Content, *r.Content})
		}
	}
}

func (c *conflictFinder) findTemplateConflicts(s fieldPaths, o *api.TemplatePatches, was, now map[string]string) {
	if o == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.Replace)) {
		before, had := was[name]
		after, has := now[name]
		if had && has {
			key := "[" + name + "]"
			c.recordConflict(fmt.Sprintf("template %q", name), s.overlay+".replace"+key, s.was+key, s.now+key, threeWay{before, after, o.Replace[name]})
		}
	}
}

// findUnitConflicts compares each part of a unit that the overlay replaces with that part in both
// versions of the base. Apply has reported a unit that the base lacks.
func (c *conflictFinder) findUnitConflicts(field string, o *api.UnitPatches, was, now []osm.Unit) {
	if o == nil {
		return
	}
	for i, r := range o.Replace {
		named := func(u osm.Unit) bool { return u.Name == r.Name }
		j, k := slices.IndexFunc(was, named), slices.IndexFunc(now, named)
		if j < 0 || k < 0 {
			continue
		}
		for _, part := range []struct {
			name  string
			isSet bool
			t     threeWay
		}{
			{"enable", r.Enable != nil, threeWay{was[j].Enable, now[k].Enable, r.Enable}},
			{"mask", r.Mask != nil, threeWay{was[j].Mask, now[k].Mask, r.Mask}},
			{"content", r.Content != nil, threeWay{was[j].Content, now[k].Content, r.Content}},
			{"dropIns", r.DropIns != nil, threeWay{was[j].DropIns, now[k].DropIns, r.DropIns}},
		} {
			if part.isSet {
				c.recordConflict(fmt.Sprintf("%s of unit %q", part.name, r.Name), strictyaml.Element(field+".replace", i)+"."+part.name, strictyaml.Element(field, j)+"."+part.name, strictyaml.Element(field, k)+"."+part.name, part.t)
			}
		}
	}
}

func (c *conflictFinder) findModuleConflicts(field string, o *api.ModulePatches, was, now *osm.CloudInitModule) {
	if o == nil || o.Replace == nil || was == nil || now == nil {
		return
	}
	for _, k := range cloudinit.Modules {
		if !k.Has(o.Replace) || !k.Has(was) || !k.Has(now) {
			continue
		}
		var before, after, ours osm.CloudInitModule
		k.Copy(&before, was)
		k.Copy(&after, now)
		k.Copy(&ours, o.Replace)
		in := "." + string(k.Key)
		c.recordConflict(fmt.Sprintf("module %q", k.Key), field+".replace"+in, field+in, field+in, threeWay{before, after, ours})
	}
}

// OutdatedOverlay is an overlay whose base has a newer version.
type OutdatedOverlay struct {
	// Path and Line are of spec.from.version in the overlay's file.
	Path string
	Line int
	// From is the current base, Newer the available one.
	From, Newer api.ProfileOverlayBase
	// Rebased is the result on the newer base.
	Rebased Result
}

// Message describes the result of moving the overlay, and what to do.
func (m OutdatedOverlay) Message() string {
	s := fmt.Sprintf("the base, profile %q, has %s; this overlay starts from %s and ", m.From.Profile, m.Newer.Version, m.From.Version)
	if len(m.Rebased.Conflicts) == 0 {
		return s + fmt.Sprintf("would apply to it unchanged: osm-gitops rebase-overlay %s shows what changes", m.Path)
	}
	var parts []string
	for _, c := range m.Rebased.Conflicts {
		parts = append(parts, fmt.Sprintf("line %d, %s: %v", c.Line, c.Field, c.Err))
	}
	return s + "would conflict with it: " + strings.Join(parts, "; ")
}

// CheckOutdated reports whether an overlay, which need not be in the snapshot, could start from a
// newer version of its base, and compares the results. The error is a *MissingBaseError if its base
// is not found, and another *Problem if it does not apply to its base.
func CheckOutdated(ctx context.Context, x *catalog.Indexer, snap *source.Snapshot, o profile.Overlay) (m OutdatedOverlay, ok bool, err error) {
	newer, ok, err := NewestBase(ctx, x, snap, o.Spec.From)
	if err != nil || !ok || newer.Profile == o.Name && newer.Version == o.Spec.Version {
		return m, false, err
	}
	m = OutdatedOverlay{Path: o.Path, Line: o.Line("spec.from.version"), From: o.Spec.From, Newer: newer}
	m.Rebased, err = compareBases(ctx, x, snap, o, newer)
	return m, err == nil, err
}

// compareBases compares the result of an overlay on its base with that on a newer one.
func compareBases(ctx context.Context, x *catalog.Indexer, snap *source.Snapshot, o profile.Overlay, newer api.ProfileOverlayBase) (Result, error) {
	was, err := x.Base(ctx, snap, o.Spec.From)
	if err != nil {
		return Result{}, err
	}
	now, err := x.Base(ctx, snap, newer)
	if err != nil {
		return Result{}, err
	}
	return Compare(o, was, now)
}

// NewestBase returns a newer version of a profile that an overlay can start from: the current
// one of the snapshot, or the built-in one if the snapshot does not have the profile or
// the overlay requests it. ok is false if there is no newer version. The digest is not
// set, because it is that of the old version.
func NewestBase(ctx context.Context, x *catalog.Indexer, snap *source.Snapshot, from api.ProfileOverlayBase) (newer api.ProfileOverlayBase, ok bool, err error) {
	cat, err := x.Catalog(ctx, snap)
	if err != nil {
		return newer, false, err
	}
	newer.Profile, newer.Builtin = from.Profile, from.Builtin
	if i := slices.IndexFunc(cat.Current, func(v catalog.Version) bool { return v.Name == from.Profile }); i >= 0 && !from.Builtin {
		newer.Version = version.TrimDirtySuffix(cat.Current[i].Version)
	} else {
		builtins, err := x.BuiltinVersions(ctx, from.Profile)
		if err != nil {
			return newer, false, err
		}
		for _, v := range builtins {
			if newer.Version == "" || version.IsPreferred(v, newer.Version) {
				newer.Version = v
			}
		}
	}
	return newer, newer.Version != "" && newer.Version != from.Version && version.IsPreferred(newer.Version, from.Version), nil
}
