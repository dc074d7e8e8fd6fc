package profile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Resolve applies an overlay to its base and returns the complete profile, with the
// overlay's name and version. The lines of fields that the overlay sets are those of the
// overlay's file, all others those of the base's. The error is one or more *Problem
// joined, with lines of the overlay's file; each also names the base. The caller must
// pass the base that the overlay requests.
func Resolve(o Overlay, base Document) (Document, error) {
	p := newPatcher(o, base)
	spec := base.Spec.DeepCopy()
	spec.Version = o.Spec.Version
	p.fromOverlay("spec.version", "spec.version")
	p.fromOverlay("spec.from", "spec.from") // not a field of a profile; it locates the reference to the base
	p.scalars(spec)
	p.providers(spec)
	p.stage("spec.bootstrapConfig", &spec.BootstrapConfig, o.Spec.BootstrapConfig)
	p.stage("spec.provisioningConfig", &spec.ProvisioningConfig, o.Spec.ProvisioningConfig)
	doc := Document{Name: o.Name, Spec: Canonical(*spec), Path: o.Path, lines: p.lines, files: p.files}
	if b, err := canonicalJSON(doc.Spec); err == nil && len(b) > maxFileBytes {
		p.report("spec.from", "has %d bytes with the patches, and a profile can have %d: add less to it", len(b), maxFileBytes)
	}
	if err := p.file.err(); err != nil {
		return Document{}, err
	}
	doc.Digest = Digest(doc.Spec)
	return doc, nil
}

// patcher applies an overlay, and records the origin of each text in the result.
type patcher struct {
	overlay *Overlay
	base    *Document
	file    *file
	lines   map[string]int
	files   map[string]string
}

func newPatcher(o Overlay, base Document) *patcher {
	p := &patcher{overlay: &o, base: &base, file: &file{path: o.Path}, lines: maps.Clone(base.lines), files: map[string]string{}}
	for field := range base.lines {
		p.files[field] = p.fileOf(field)
	}
	for field := range p.lines { // name and document are those of the overlay
		if field == "" || !strings.HasPrefix(field, "spec") {
			p.forget(field)
		}
	}
	p.fromOverlay("", "")
	for _, field := range []string{"apiVersion", "kind", "metadata", "spec"} {
		p.lines[field] = o.Line(field)
		delete(p.files, field)
	}
	p.fromOverlayBelow("metadata", "metadata")
	return p
}

// fileOf returns the file with a field of the base.
func (p *patcher) fileOf(field string) string {
	if f := p.base.FileOf(field); f != "" {
		return f
	}
	return p.base.Path
}

func (p *patcher) report(field, format string, args ...any) {
	p.file.problem(p.overlay.Line(field), field, fmt.Errorf(format, args...))
}

// where describes the base and the location of a field in it.
func (p *patcher) where(field string) string {
	return fmt.Sprintf("profile %q %s (%s:%d)", p.base.Name, withoutDirt(p.base.Spec.Version), p.fileOf(nearestField(p.base.lines, field)), p.base.Line(field))
}

// forget removes the lines of a field and of all fields below it.
func (p *patcher) forget(field string) {
	for f := range p.lines {
		if _, ok := below(f, field); ok {
			delete(p.lines, f)
			delete(p.files, f)
		}
	}
}

// below returns the remainder of f after field, if f is field or below it.
func below(f, field string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(f, field)
	return rest, ok && (field == "" && f == "" || field != "" && (rest == "" || rest[0] == '.' || rest[0] == '['))
}

// fromOverlay records that a field of the result, with all below it, comes from the overlay.
func (p *patcher) fromOverlay(field, at string) {
	p.forget(field)
	p.fromOverlayBelow(field, at)
}

func (p *patcher) fromOverlayBelow(field, at string) {
	for f, line := range p.overlay.lines {
		if rest, ok := below(f, at); ok {
			p.lines[field+rest] = line
			delete(p.files, field+rest)
		}
	}
}

// fromBase records that a field of the result, with all below it, comes from the base.
func (p *patcher) fromBase(field, at string) {
	for f, line := range p.base.lines {
		if rest, ok := below(f, at); ok {
			p.lines[field+rest], p.files[field+rest] = line, p.fileOf(f)
		}
	}
}

// merged records which fields of an element of the base come from the overlay.
func (p *patcher) merged(field, at string) {
	for f := range p.overlay.lines {
		if rest, ok := below(f, at); ok && rest != "" && strings.LastIndexAny(rest, ".[") == 0 {
			p.fromOverlay(field+rest, at+rest)
		}
	}
}

func (p *patcher) scalars(spec *osm.OperatingSystemProfileSpec) {
	o := &p.overlay.Spec
	if o.OSName != "" {
		spec.OSName = o.OSName
		p.fromOverlay("spec.osName", "spec.osName")
	}
	if o.OSVersion != "" {
		spec.OSVersion = o.OSVersion
		p.fromOverlay("spec.osVersion", "spec.osVersion")
	}
	if o.ProvisioningUtility != "" {
		spec.ProvisioningUtility = o.ProvisioningUtility
		p.fromOverlay("spec.provisioningUtility", "spec.provisioningUtility")
	}
}

func (p *patcher) providers(spec *osm.OperatingSystemProfileSpec) {
	patches := p.overlay.Spec.SupportedCloudProviders
	if patches == nil {
		return
	}
	remove := make([]string, len(patches.Remove))
	for i, name := range patches.Remove {
		remove[i] = string(name)
	}
	l := list[osm.CloudProviderSpec]{
		what: "cloud provider", field: "spec.supportedCloudProviders", at: "spec.supportedCloudProviders", name: ".name",
		key: func(c osm.CloudProviderSpec) string { return string(c.Name) },
		add: patches.Add, remove: remove,
	}
	spec.SupportedCloudProviders = l.patch(p, spec.SupportedCloudProviders)
}

func (p *patcher) stage(field string, stage *osm.OSPConfig, patches *api.StagePatches) {
	if patches == nil {
		return
	}
	stage.Files = p.patchFiles(field+".files", field+".files", stage.Files, patches.Files)
	stage.Templates = p.templates(field+".templates", field+".templates", stage.Templates, patches.Templates)
	if u := patches.Units; u != nil {
		l := list[osm.Unit]{
			what: "unit", field: field + ".units", at: field + ".units", name: ".name",
			key: func(u osm.Unit) string { return u.Name },
			add: u.Add, replace: u.Replace, merge: mergeUnit, remove: u.Remove,
		}
		stage.Units = l.patch(p, stage.Units)
	}
	stage.CloudInitModules = p.modules(field+".modules", stage.CloudInitModules, patches.CloudInitModules)
	for i, rt := range patches.SupportedContainerRuntimes {
		from := at(field+".supportedContainerRuntimes", i)
		j := slices.IndexFunc(stage.SupportedContainerRuntimes, func(r osm.ContainerRuntimeSpec) bool { return r.Name == rt.Name })
		if j < 0 {
			p.report(from+".name", "the base, %s, has no container runtime %q in this stage", p.where(field+".supportedContainerRuntimes"), rt.Name)
			continue
		}
		to, r := at(field+".supportedContainerRuntimes", j), &stage.SupportedContainerRuntimes[j]
		r.Files = p.patchFiles(to+".files", from+".files", r.Files, rt.Files)
		r.Templates = p.templates(to+".templates", from+".templates", r.Templates, rt.Templates)
	}
}

func (p *patcher) patchFiles(field, from string, have []osm.File, patches *api.FilePatches) []osm.File {
	if patches == nil {
		return have
	}
	replace := make([]osm.File, len(patches.Replace))
	for i, r := range patches.Replace {
		replace[i] = osm.File{Path: r.Path, Permissions: r.Permissions}
		if r.Content != nil {
			replace[i].Content = *r.Content
		}
	}
	l := list[osm.File]{
		what: "file", field: field, at: from, name: ".path",
		key: func(f osm.File) string { return f.Path },
		add: patches.Add, replace: replace, merge: mergeFile, remove: patches.Remove,
	}
	return l.patch(p, have)
}

// mergeFile and mergeUnit apply the values that an overlay sets to those of the base.
func mergeFile(have, given osm.File) osm.File {
	if given.Permissions != 0 {
		have.Permissions = given.Permissions
	}
	if given.Content.Inline != nil {
		have.Content = given.Content
	}
	return have
}

func mergeUnit(have, given osm.Unit) osm.Unit {
	if given.Enable != nil {
		have.Enable = given.Enable
	}
	if given.Mask != nil {
		have.Mask = given.Mask
	}
	if given.Content != nil {
		have.Content = given.Content
	}
	if given.DropIns != nil {
		have.DropIns = given.DropIns
	}
	return have
}

// templates patches named templates.
func (p *patcher) templates(field, from string, have map[string]string, patches *api.TemplatePatches) map[string]string {
	if patches == nil {
		return have
	}
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	names := slices.Sorted(maps.Keys(have))
	for _, name := range slices.Sorted(maps.Keys(patches.Add)) {
		own := from + ".add[" + name + "]"
		if _, ok := have[name]; ok {
			p.reportExisting(own, "template", name, field+"["+name+"]")
			continue
		}
		out[name] = patches.Add[name]
		p.fromOverlay(field+"["+name+"]", own)
	}
	for _, name := range slices.Sorted(maps.Keys(patches.Replace)) {
		own := from + ".replace[" + name + "]"
		if _, ok := have[name]; !ok {
			p.reportMissing(own, "template", name, field, names)
			continue
		}
		out[name] = patches.Replace[name]
		p.fromOverlay(field+"["+name+"]", own)
	}
	for i, name := range patches.Remove {
		if _, ok := have[name]; !ok {
			p.reportMissing(at(from+".remove", i), "template", name, field, names)
			continue
		}
		delete(out, name)
		p.forget(field + "[" + name + "]")
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// modules patches cloud-init modules.
func (p *patcher) modules(field string, have *osm.CloudInitModule, patches *api.ModulePatches) *osm.CloudInitModule {
	if patches == nil {
		return have
	}
	out := &osm.CloudInitModule{}
	if have != nil {
		out = have.DeepCopy()
	}
	var names []string
	for _, k := range moduleKeys {
		if have != nil && k.has(have) {
			names = append(names, string(k.key))
		}
	}
	for _, k := range moduleKeys {
		p.module(field, k, out, patches, names)
	}
	for i, key := range patches.Remove {
		if !slices.Contains(names, string(key)) {
			p.reportMissing(at(field+".remove", i), "module", string(key), field, names)
			continue
		}
		k := moduleKeys[slices.IndexFunc(moduleKeys, func(k moduleKey) bool { return k.key == key })]
		k.copyKey(out, &osm.CloudInitModule{})
		p.forget(field + "." + string(key))
	}
	if !slices.ContainsFunc(moduleKeys, func(k moduleKey) bool { return k.has(out) }) {
		return nil
	}
	return out
}

// module applies the patches of one module, except its removal.
func (p *patcher) module(field string, k moduleKey, out *osm.CloudInitModule, patches *api.ModulePatches, names []string) {
	in, name := field+"."+string(k.key), string(k.key)
	there := slices.Contains(names, name)
	if m := patches.Add; m != nil && k.has(m) {
		if own := field + ".add." + name; there {
			p.reportExisting(own, "module", name, in)
		} else {
			k.copyKey(out, m)
			p.fromOverlay(in, own)
		}
	}
	if m := patches.Replace; m != nil && k.has(m) {
		if own := field + ".replace." + name; !there {
			p.reportMissing(own, "module", name, field, names)
		} else {
			k.copyKey(out, m)
			p.fromOverlay(in, own)
		}
	}
	if m := appended(patches.Append); m != nil && k.has(m) {
		own := field + ".append." + name
		if !there {
			p.reportMissing(own, "module", name, field, names)
			return
		}
		before := len(out.BootCMD)
		if k.key == "runcmd" {
			before = len(out.RunCMD)
		}
		k.more(out, m)
		for i := range len(m.BootCMD) + len(m.RunCMD) {
			if _, ok := p.overlay.lines[at(own, i)]; ok {
				p.fromOverlay(at(in, before+i), at(own, i))
			}
		}
	}
}

// reportExisting reports that an added element is already in the base.
func (p *patcher) reportExisting(field, what, name, in string) {
	p.report(field, "the base already has %s %q, in %s: use replace to change it, or remove it here", what, name, p.where(in))
}

// reportMissing reports that a changed or removed element is not in the base.
func (p *patcher) reportMissing(field, what, name, in string, names []string) {
	hint := ": remove it here, or name its replacement"
	best, distance := "", max(2, len(name)/4)+1
	for _, n := range names {
		if d := levenshtein.Distance(name, n, nil); len(name) <= maxFieldBytes && d < distance {
			best, distance = n, d
		}
	}
	if best != "" {
		hint = fmt.Sprintf(": did you mean %q?", best)
	}
	p.report(field, "there is no %s %q in %s of the base, %s%s", what, name, strings.TrimPrefix(in, "spec."), p.where(in), hint)
}

// list is a patch of a list whose elements have natural keys.
type list[T any] struct {
	what  string // "file"
	field string // of the result and of the base
	at    string // of the overlay
	name  string // the key's field in an element, ".path"
	key   func(T) string

	add, replace []T
	merge        func(have, given T) T
	remove       []string
}

// patch applies it: existing elements preserve their order, added ones come last.
func (l list[T]) patch(p *patcher, have []T) []T {
	position := func(key string) []int {
		var out []int
		for i, e := range have {
			if l.key(e) == key {
				out = append(out, i)
			}
		}
		return out
	}
	names := make([]string, len(have))
	for i, e := range have {
		names[i] = l.key(e)
	}
	find := func(field, key string) int {
		found := position(key)
		switch len(found) {
		case 0:
			p.reportMissing(field, l.what, key, l.field, names)
			return -1
		case 1:
			return found[0]
		}
		p.report(field, "%s %q is in the base %d times, %s: the patch is ambiguous", l.what, key, len(found), p.where(at(l.field, found[1])))
		return -1
	}
	replaced, removed := map[int]int{}, map[int]bool{}
	for i, r := range l.replace {
		if j := find(at(l.at+".replace", i)+l.name, l.key(r)); j >= 0 {
			replaced[j] = i
		}
	}
	for i, key := range l.remove {
		if j := find(at(l.at+".remove", i), key); j >= 0 {
			removed[j] = true
		}
	}
	for i, a := range l.add {
		if there := position(l.key(a)); len(there) > 0 {
			p.reportExisting(at(l.at+".add", i)+l.name, l.what, l.key(a), at(l.field, there[0]))
		}
	}
	return l.assemble(p, have, replaced, removed)
}

// assemble builds the new list, and records the origin of its elements.
func (l list[T]) assemble(p *patcher, have []T, replaced map[int]int, removed map[int]bool) []T {
	for i := range have {
		p.forget(at(l.field, i))
	}
	if _, ok := p.lines[l.field]; !ok {
		p.lines[l.field] = p.overlay.Line(l.at)
		delete(p.files, l.field)
	}
	var out []T
	for i, e := range have {
		if removed[i] {
			continue
		}
		to := at(l.field, len(out))
		p.fromBase(to, at(l.field, i))
		if j, ok := replaced[i]; ok {
			e = l.merge(e, l.replace[j])
			p.merged(to, at(l.at+".replace", j))
		}
		out = append(out, e)
	}
	for i, e := range l.add {
		p.fromOverlay(at(l.field, len(out)), at(l.at+".add", i))
		out = append(out, e)
	}
	return out
}
