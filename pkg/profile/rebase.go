package profile

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Base finds the base of an overlay as the overlays of a snapshot do: in its files, in
// their history, then among the built-in profiles. Its Path says where it is, see
// Document.FileOf. If it is not found, the error is a *MissingBaseError.
func (x *Indexer) Base(ctx context.Context, snap *source.Snapshot, from api.ProfileOverlayBase) (Document, error) {
	if _, err := x.Catalogue(ctx, snap); err != nil {
		return Document{}, err
	}
	l := layers{x: x, ln: x.tip, snap: snap, stage: stage{dirty: true}}
	v, err := l.base(ctx, "", from)
	if err != nil {
		return Document{}, err
	}
	return x.document(ctx, snap, v, v.where())
}

// Newest returns a newer version of a profile that an overlay can start from: the current
// one of the snapshot, or the built-in one if the snapshot does not have the profile or
// the overlay requests it. ok is false if there is no newer version. The digest is not
// set, because it is that of the old version.
func (x *Indexer) Newest(ctx context.Context, snap *source.Snapshot, from api.ProfileOverlayBase) (newer api.ProfileOverlayBase, ok bool, err error) {
	cat, err := x.Catalogue(ctx, snap)
	if err != nil {
		return newer, false, err
	}
	newer.Profile, newer.Builtin = from.Profile, from.Builtin
	if i := slices.IndexFunc(cat.Current, func(v Version) bool { return v.Name == from.Profile }); i >= 0 && !from.Builtin {
		newer.Version = withoutDirt(cat.Current[i].Version)
	} else {
		docs, err := x.builtin(ctx)
		if err != nil {
			return newer, false, err
		}
		for k := range docs {
			if k.name == from.Profile && (newer.Version == "" || higher(k.version, newer.Version)) {
				newer.Version = k.version
			}
		}
	}
	return newer, newer.Version != "" && newer.Version != from.Version && higher(newer.Version, from.Version), nil
}

// Rebased compares the results of an overlay on two versions of its base.
type Rebased struct {
	// Was and Now are the resulting profiles. Now is zero if the overlay does not apply.
	Was, Now Document
	// Conflicts are statements of the overlay that do not hold for the other version, and
	// changes to the same field by both the overlay and the base. Each has a line of the
	// overlay's file and names the base.
	Conflicts []*Problem
}

// Rebase compares an overlay on its base with the same overlay on another version of the
// base. It returns an error if the overlay does not apply to its own base.
func Rebase(o Overlay, was, now Document) (Rebased, error) {
	var out Rebased
	var err error
	if out.Was, err = Resolve(o, was); err != nil {
		return out, err
	}
	made, err := Resolve(o, now)
	out.Conflicts = Problems(err)
	if err == nil {
		out.Now = made
	}
	c := merger{overlay: &o, was: &was, now: &now}
	c.all()
	out.Conflicts = append(out.Conflicts, c.found...)
	return out, nil
}

// merger finds fields that an overlay replaces and its base has changed.
type merger struct {
	overlay  *Overlay
	was, now *Document
	found    []*Problem
}

// threeWay is one part of a profile in the old base, the new base and the overlay.
type threeWay struct{ was, now, ours any }

// compare reports a part that both sides changed to different values. field is in the
// overlay, was and now are in the bases.
func (c *merger) compare(what, field, was, now string, t threeWay) {
	if reflect.DeepEqual(t.was, t.now) || reflect.DeepEqual(t.now, t.ours) {
		return
	}
	place := func(d *Document, field string) string {
		file := d.FileOf(field)
		if file == "" {
			file = d.Path
		}
		return fmt.Sprintf("%s:%d", file, d.Line(field))
	}
	c.found = append(c.found, &Problem{
		Path: c.overlay.Path, Line: c.overlay.Line(field), Field: field,
		Err: fmt.Errorf("replaces %s, which profile %q has changed from %s (%s) to %s (%s): adopt the changes that you want, then set version: %s under spec.from",
			what, c.now.Name, withoutDirt(c.was.Spec.Version), place(c.was, was), withoutDirt(c.now.Spec.Version), place(c.now, now), withoutDirt(c.now.Spec.Version)),
	})
}

func (c *merger) all() {
	o, was, now := &c.overlay.Spec, &c.was.Spec, &c.now.Spec
	if o.OSName != "" {
		c.compare("osName", "spec.osName", "spec.osName", "spec.osName", threeWay{was.OSName, now.OSName, o.OSName})
	}
	if o.OSVersion != "" {
		c.compare("osVersion", "spec.osVersion", "spec.osVersion", "spec.osVersion", threeWay{was.OSVersion, now.OSVersion, o.OSVersion})
	}
	if o.ProvisioningUtility != "" {
		const field = "spec.provisioningUtility"
		c.compare("provisioningUtility", field, field, field, threeWay{was.ProvisioningUtility, now.ProvisioningUtility, o.ProvisioningUtility})
	}
	c.stage("spec.bootstrapConfig", o.BootstrapConfig, &was.BootstrapConfig, &now.BootstrapConfig)
	c.stage("spec.provisioningConfig", o.ProvisioningConfig, &was.ProvisioningConfig, &now.ProvisioningConfig)
}

func (c *merger) stage(field string, o *api.StagePatches, was, now *osm.OSPConfig) {
	if o == nil {
		return
	}
	c.files(conflict{field, field, field}.below(".files"), o.Files, was.Files, now.Files)
	c.templates(conflict{field, field, field}.below(".templates"), o.Templates, was.Templates, now.Templates)
	c.units(field+".units", o.Units, was.Units, now.Units)
	c.modules(field+".modules", o.CloudInitModules, was.CloudInitModules, now.CloudInitModules)
	for i, rt := range o.SupportedContainerRuntimes {
		named := func(r osm.ContainerRuntimeSpec) bool { return r.Name == rt.Name }
		j, k := slices.IndexFunc(was.SupportedContainerRuntimes, named), slices.IndexFunc(now.SupportedContainerRuntimes, named)
		if j < 0 || k < 0 {
			continue // already reported by Resolve
		}
		list := field + ".supportedContainerRuntimes"
		s := conflict{at(list, i), at(list, j), at(list, k)}
		c.files(s.below(".files"), rt.Files, was.SupportedContainerRuntimes[j].Files, now.SupportedContainerRuntimes[k].Files)
		c.templates(s.below(".templates"), rt.Templates, was.SupportedContainerRuntimes[j].Templates, now.SupportedContainerRuntimes[k].Templates)
	}
}

// conflict has the names of one field in the overlay and in the two versions of the base.
type conflict struct{ overlay, was, now string }

func (s conflict) below(name string) conflict {
	return conflict{s.overlay + name, s.was + name, s.now + name}
}

func (c *merger) files(s conflict, o *api.FilePatches, was, now []osm.File) {
	if o == nil {
		return
	}
	for i, r := range o.Replace {
		named := func(f osm.File) bool { return f.Path == r.Path }
		j, k := slices.IndexFunc(was, named), slices.IndexFunc(now, named)
		if j < 0 || k < 0 {
			continue
		}
		in := conflict{at(s.overlay+".replace", i), at(s.was, j), at(s.now, k)}
		if r.Permissions != 0 {
			f := in.below(".permissions")
			c.compare(fmt.Sprintf("the permissions of file %q", r.Path), f.overlay, f.was, f.now, threeWay{was[j].Permissions, now[k].Permissions, r.Permissions})
		}
		if r.Content != nil {
			f := in.below(".content.inline.data")
			c.compare(fmt.Sprintf("the content of file %q", r.Path), f.overlay, f.was, f.now, threeWay{was[j].Content, now[k].Content, *r.Content})
		}
	}
}

func (c *merger) templates(s conflict, o *api.TemplatePatches, was, now map[string]string) {
	if o == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(o.Replace)) {
		before, had := was[name]
		after, has := now[name]
		if had && has {
			key := "[" + name + "]"
			c.compare(fmt.Sprintf("template %q", name), s.overlay+".replace"+key, s.was+key, s.now+key, threeWay{before, after, o.Replace[name]})
		}
	}
	slices.SortStableFunc(c.found, func(a, b *Problem) int { return a.Line - b.Line })
}

func (c *merger) units(field string, o *api.UnitPatches, was, now []osm.Unit) {
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
			given bool
			t     threeWay
		}{
			{"enable", r.Enable != nil, threeWay{was[j].Enable, now[k].Enable, r.Enable}},
			{"mask", r.Mask != nil, threeWay{was[j].Mask, now[k].Mask, r.Mask}},
			{"content", r.Content != nil, threeWay{was[j].Content, now[k].Content, r.Content}},
			{"dropIns", r.DropIns != nil, threeWay{was[j].DropIns, now[k].DropIns, r.DropIns}},
		} {
			if part.given {
				c.compare(fmt.Sprintf("%s of unit %q", part.name, r.Name), at(field+".replace", i)+"."+part.name, at(field, j)+"."+part.name, at(field, k)+"."+part.name, part.t)
			}
		}
	}
}

func (c *merger) modules(field string, o *api.ModulePatches, was, now *osm.CloudInitModule) {
	if o == nil || o.Replace == nil || was == nil || now == nil {
		return
	}
	for _, k := range moduleKeys {
		if !k.has(o.Replace) || !k.has(was) || !k.has(now) {
			continue
		}
		var before, after, ours osm.CloudInitModule
		k.copyKey(&before, was)
		k.copyKey(&after, now)
		k.copyKey(&ours, o.Replace)
		in := "." + string(k.key)
		c.compare(fmt.Sprintf("module %q", k.key), field+".replace"+in, field+in, field+in, threeWay{before, after, ours})
	}
}

// Moved is an overlay whose base has a newer version.
type Moved struct {
	// Path and Line are of spec.from.version in the overlay's file.
	Path string
	Line int
	// From is the current base, Newer the available one.
	From, Newer api.ProfileOverlayBase
	// Rebased is the result on the newer base.
	Rebased Rebased
}

// Message describes the result of moving the overlay, and what to do.
func (m Moved) Message() string {
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

// Moved lists the current profiles of a snapshot whose overlay could start from a newer
// version of its base, ordered by name.
func (x *Indexer) Moved(ctx context.Context, snap *source.Snapshot) ([]Moved, error) {
	cat, err := x.Catalogue(ctx, snap)
	if err != nil {
		return nil, err
	}
	var out []Moved
	for _, v := range cat.Current {
		if v.From == nil || v.CurrentPath == "" {
			continue
		}
		o, ok := overlayIn(snap, v)
		if !ok {
			continue // its file is invalid now, which is reported elsewhere
		}
		m, ok, err := x.MovedOf(ctx, snap, o)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, m)
		}
	}
	return out, nil
}

// MovedOf is Moved for one overlay, which need not be in the snapshot. The error is a
// *MissingBaseError if its base is not found, and another *Problem if it does not apply
// to its base.
func (x *Indexer) MovedOf(ctx context.Context, snap *source.Snapshot, o Overlay) (m Moved, ok bool, err error) {
	newer, ok, err := x.Newest(ctx, snap, o.Spec.From)
	if err != nil || !ok || newer.Profile == o.Name && newer.Version == o.Spec.Version {
		return m, false, err
	}
	m = Moved{Path: o.Path, Line: o.Line("spec.from.version"), From: o.Spec.From, Newer: newer}
	m.Rebased, err = x.rebase(ctx, snap, o, newer)
	return m, err == nil, err
}

func (x *Indexer) rebase(ctx context.Context, snap *source.Snapshot, o Overlay, onto api.ProfileOverlayBase) (Rebased, error) {
	was, err := x.Base(ctx, snap, o.Spec.From)
	if err != nil {
		return Rebased{}, err
	}
	now, err := x.Base(ctx, snap, onto)
	if err != nil {
		return Rebased{}, err
	}
	return Rebase(o, was, now)
}

// overlayIn finds the overlay of a version in the files of a snapshot.
func overlayIn(snap *source.Snapshot, v Version) (Overlay, bool) {
	for _, f := range snap.Files {
		if f.Path != v.CurrentPath {
			continue
		}
		in, err := DecodeFile(f.Path, f.Data)
		if err != nil {
			return Overlay{}, false
		}
		for _, o := range in.Overlays {
			if o.Name == v.Name && o.Spec.Version == withoutDirt(v.Version) {
				return o, true
			}
		}
	}
	return Overlay{}, false
}
