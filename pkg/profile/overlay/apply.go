package overlay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/internal/cloudinit"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
)

// Apply applies an overlay to its base and returns the complete profile, with the
// overlay's name and version. The lines of fields that the overlay sets are those of the
// overlay's file, all others those of the base's. The error is one or more *Problem
// joined, with lines of the overlay's file; each also names the base. The caller must
// pass the base that the overlay requests.
func Apply(o profile.Overlay, base profile.Document) (profile.Document, error) {
	p := newPatcher(o, base)
	spec := base.Spec.DeepCopy()
	spec.Version = o.Spec.Version
	p.recordFromOverlay("spec.version", "spec.version")
	p.recordFromOverlay("spec.from", "spec.from") // not a field of a profile; it locates the reference to the base
	p.patchScalars(spec)
	p.patchProviders(spec)
	p.patchStage("spec.bootstrapConfig", &spec.BootstrapConfig, o.Spec.BootstrapConfig)
	p.patchStage("spec.provisioningConfig", &spec.ProvisioningConfig, o.Spec.ProvisioningConfig)
	doc := profile.Document{Name: o.Name, Spec: profile.Canonical(*spec), Path: o.Path, Lines: p.lines, Origins: p.files}
	if b, err := strictyaml.CanonicalJSON(doc.Spec); err == nil && len(b) > strictyaml.MaxFileBytes {
		p.report("spec.from", "has %d bytes with the patches, and a profile can have %d: add less to it", len(b), strictyaml.MaxFileBytes)
	}
	if err := p.problems.Err(); err != nil {
		return profile.Document{}, err
	}
	doc.Digest = profile.Digest(doc.Spec)
	return doc, nil
}

// patcher applies an overlay, and records the origin of each text in the result.
type patcher struct {
	overlay  *profile.Overlay
	base     *profile.Document
	problems strictyaml.ProblemList
	lines    strictyaml.Lines
	files    map[string]string
}

func newPatcher(o profile.Overlay, base profile.Document) *patcher {
	p := &patcher{overlay: &o, base: &base, problems: strictyaml.ProblemList{Path: o.Path}, lines: maps.Clone(base.Lines), files: map[string]string{}}
	for field := range base.Lines {
		p.files[field] = p.baseFileOf(field)
	}
	for field := range p.lines { // name and document are those of the overlay
		if field == "" || !strings.HasPrefix(field, "spec") {
			p.deleteLines(field)
		}
	}
	p.recordFromOverlay("", "")
	for _, field := range []string{"apiVersion", "kind", "metadata", "spec"} {
		p.lines[field] = o.Line(field)
		delete(p.files, field)
	}
	p.copyOverlayLines("metadata", "metadata")
	return p
}

// baseFileOf returns the file with a field of the base.
func (p *patcher) baseFileOf(field string) string {
	if f := p.base.FileOf(field); f != "" {
		return f
	}
	return p.base.Path
}

func (p *patcher) report(field, format string, args ...any) {
	p.problems.Add(p.overlay.Line(field), field, fmt.Errorf(format, args...))
}

// whereInBase describes the base and the location of a field in it.
func (p *patcher) whereInBase(field string) string {
	return fmt.Sprintf("profile %q %s (%s:%d)", p.base.Name, version.TrimDirtySuffix(p.base.Spec.Version), p.baseFileOf(p.base.Lines.NearestWithLine(field)), p.base.Line(field))
}

// deleteLines removes the lines of a field and of all fields below it.
func (p *patcher) deleteLines(field string) {
	for f := range p.lines {
		if _, ok := cutFieldPrefix(f, field); ok {
			delete(p.lines, f)
			delete(p.files, f)
		}
	}
}

// cutFieldPrefix returns the remainder of f after field, if f is field or below it.
func cutFieldPrefix(f, field string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(f, field)
	return rest, ok && (field == "" && f == "" || field != "" && (rest == "" || rest[0] == '.' || rest[0] == '['))
}

// recordFromOverlay records that a field of the result, with all below it, comes from the overlay.
func (p *patcher) recordFromOverlay(field, at string) {
	p.deleteLines(field)
	p.copyOverlayLines(field, at)
}

// copyOverlayLines copies the lines of a field of the overlay, and of all below it, to a field of
// the result.
func (p *patcher) copyOverlayLines(field, at string) {
	for f, line := range p.overlay.Lines {
		if rest, ok := cutFieldPrefix(f, at); ok {
			p.lines[field+rest] = line
			delete(p.files, field+rest)
		}
	}
}

// recordFromBase records that a field of the result, with all below it, comes from the base.
func (p *patcher) recordFromBase(field, at string) {
	for f, line := range p.base.Lines {
		if rest, ok := cutFieldPrefix(f, at); ok {
			p.lines[field+rest], p.files[field+rest] = line, p.baseFileOf(f)
		}
	}
}

// recordOverriddenFields records that the fields below field, an element of a list in the result,
// come from the overlay if its replacement there, at, sets them. The other fields of the element
// still come from the base.
func (p *patcher) recordOverriddenFields(field, at string) {
	for f := range p.overlay.Lines {
		if rest, ok := cutFieldPrefix(f, at); ok && rest != "" && strings.LastIndexAny(rest, ".[") == 0 {
			p.recordFromOverlay(field+rest, at+rest)
		}
	}
}

func (p *patcher) patchScalars(spec *osm.OperatingSystemProfileSpec) {
	o := &p.overlay.Spec
	if o.OSName != "" {
		spec.OSName = o.OSName
		p.recordFromOverlay("spec.osName", "spec.osName")
	}
	if o.OSVersion != "" {
		spec.OSVersion = o.OSVersion
		p.recordFromOverlay("spec.osVersion", "spec.osVersion")
	}
	if o.ProvisioningUtility != "" {
		spec.ProvisioningUtility = o.ProvisioningUtility
		p.recordFromOverlay("spec.provisioningUtility", "spec.provisioningUtility")
	}
}

func (p *patcher) patchProviders(spec *osm.OperatingSystemProfileSpec) {
	patches := p.overlay.Spec.SupportedCloudProviders
	if patches == nil {
		return
	}
	remove := make([]string, len(patches.Remove))
	for i, name := range patches.Remove {
		remove[i] = string(name)
	}
	l := listPatch[osm.CloudProviderSpec]{
		what: "cloud provider", field: "spec.supportedCloudProviders", at: "spec.supportedCloudProviders", name: ".name",
		key: func(c osm.CloudProviderSpec) string { return string(c.Name) },
		add: patches.Add, remove: remove,
	}
	spec.SupportedCloudProviders = l.patch(p, spec.SupportedCloudProviders)
}

func (p *patcher) patchStage(field string, patchStage *osm.OSPConfig, patches *api.StagePatches) {
	if patches == nil {
		return
	}
	patchStage.Files = p.patchFiles(field+".files", field+".files", patchStage.Files, patches.Files)
	patchStage.Templates = p.patchTemplates(field+".templates", field+".templates", patchStage.Templates, patches.Templates)
	if u := patches.Units; u != nil {
		l := listPatch[osm.Unit]{
			what: "unit", field: field + ".units", at: field + ".units", name: ".name",
			key: func(u osm.Unit) string { return u.Name },
			add: u.Add, replace: u.Replace, merge: mergeUnit, remove: u.Remove,
		}
		patchStage.Units = l.patch(p, patchStage.Units)
	}
	patchStage.CloudInitModules = p.patchModules(field+".modules", patchStage.CloudInitModules, patches.CloudInitModules)
	for i, rt := range patches.SupportedContainerRuntimes {
		from := strictyaml.Element(field+".supportedContainerRuntimes", i)
		j := slices.IndexFunc(patchStage.SupportedContainerRuntimes, func(r osm.ContainerRuntimeSpec) bool { return r.Name == rt.Name })
		if j < 0 {
			p.report(from+".name", "the base, %s, has no container runtime %q in this stage", p.whereInBase(field+".supportedContainerRuntimes"), rt.Name)
			continue
		}
		to := strictyaml.Element(field+".supportedContainerRuntimes", j)
		r := &patchStage.SupportedContainerRuntimes[j]
		r.Files = p.patchFiles(to+".files", from+".files", r.Files, rt.Files)
		r.Templates = p.patchTemplates(to+".templates", from+".templates", r.Templates, rt.Templates)
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
	l := listPatch[osm.File]{
		what: "file", field: field, at: from, name: ".path",
		key: func(f osm.File) string { return f.Path },
		add: patches.Add, replace: replace, merge: mergeFile, remove: patches.Remove,
	}
	return l.patch(p, have)
}

// mergeFile and mergeUnit apply the values that an overlay sets to those of the base.
func mergeFile(have, override osm.File) osm.File {
	if override.Permissions != 0 {
		have.Permissions = override.Permissions
	}
	if override.Content.Inline != nil {
		have.Content = override.Content
	}
	return have
}

func mergeUnit(have, override osm.Unit) osm.Unit {
	if override.Enable != nil {
		have.Enable = override.Enable
	}
	if override.Mask != nil {
		have.Mask = override.Mask
	}
	if override.Content != nil {
		have.Content = override.Content
	}
	if override.DropIns != nil {
		have.DropIns = override.DropIns
	}
	return have
}

// patchTemplates returns the named templates of a stage or container runtime with the patches of an
// overlay. profileField is the path of the templates in the profile, overlayField that of the
// patches in the overlay. It reports errors to p.
func (p *patcher) patchTemplates(profileField, overlayField string, have map[string]string, patches *api.TemplatePatches) map[string]string {
	if patches == nil {
		return have
	}
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	names := slices.Sorted(maps.Keys(have))
	for _, name := range slices.Sorted(maps.Keys(patches.Add)) {
		patchField := overlayField + ".add[" + name + "]"
		if _, ok := have[name]; ok {
			p.reportExisting(patchField, "template", name, profileField+"["+name+"]")
			continue
		}
		out[name] = patches.Add[name]
		p.recordFromOverlay(profileField+"["+name+"]", patchField)
	}
	for _, name := range slices.Sorted(maps.Keys(patches.Replace)) {
		patchField := overlayField + ".replace[" + name + "]"
		if _, ok := have[name]; !ok {
			p.reportMissing(patchField, "template", name, profileField, names)
			continue
		}
		out[name] = patches.Replace[name]
		p.recordFromOverlay(profileField+"["+name+"]", patchField)
	}
	for i, name := range patches.Remove {
		if _, ok := have[name]; !ok {
			p.reportMissing(strictyaml.Element(overlayField+".remove", i), "template", name, profileField, names)
			continue
		}
		delete(out, name)
		p.deleteLines(profileField + "[" + name + "]")
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (p *patcher) patchModules(field string, have *osm.CloudInitModule, patches *api.ModulePatches) *osm.CloudInitModule {
	if patches == nil {
		return have
	}
	out := &osm.CloudInitModule{}
	if have != nil {
		out = have.DeepCopy()
	}
	var names []string
	for _, k := range cloudinit.Modules {
		if have != nil && k.Has(have) {
			names = append(names, string(k.Key))
		}
	}
	for _, k := range cloudinit.Modules {
		p.patchModule(field, k, out, patches, names)
	}
	for i, key := range patches.Remove {
		if !slices.Contains(names, string(key)) {
			p.reportMissing(strictyaml.Element(field+".remove", i), "module", string(key), field, names)
			continue
		}
		k := cloudinit.Modules[slices.IndexFunc(cloudinit.Modules, func(k cloudinit.Module) bool { return k.Key == key })]
		k.Copy(out, &osm.CloudInitModule{})
		p.deleteLines(field + "." + string(key))
	}
	if !slices.ContainsFunc(cloudinit.Modules, func(k cloudinit.Module) bool { return k.Has(out) }) {
		return nil
	}
	return out
}

// patchModule applies the patches of one module, except its removal.
func (p *patcher) patchModule(field string, k cloudinit.Module, out *osm.CloudInitModule, patches *api.ModulePatches, names []string) {
	in, name := field+"."+string(k.Key), string(k.Key)
	exists := slices.Contains(names, name)
	if m := patches.Add; m != nil && k.Has(m) {
		if patchField := field + ".add." + name; exists {
			p.reportExisting(patchField, "module", name, in)
		} else {
			k.Copy(out, m)
			p.recordFromOverlay(in, patchField)
		}
	}
	if m := patches.Replace; m != nil && k.Has(m) {
		if patchField := field + ".replace." + name; !exists {
			p.reportMissing(patchField, "module", name, field, names)
		} else {
			k.Copy(out, m)
			p.recordFromOverlay(in, patchField)
		}
	}
	if m := cloudinit.ModuleFromCommands(patches.Append); m != nil && k.Has(m) {
		patchField := field + ".append." + name
		if !exists {
			p.reportMissing(patchField, "module", name, field, names)
			return
		}
		before := len(out.BootCMD)
		if k.Key == "runcmd" {
			before = len(out.RunCMD)
		}
		k.Append(out, m)
		for i := range len(m.BootCMD) + len(m.RunCMD) {
			if _, ok := p.overlay.Lines[strictyaml.Element(patchField, i)]; ok {
				p.recordFromOverlay(strictyaml.Element(in, before+i), strictyaml.Element(patchField, i))
			}
		}
	}
}

// reportExisting reports that an added element is already in the base.
func (p *patcher) reportExisting(field, what, name, in string) {
	p.report(field, "the base already has %s %q, in %s: use replace to change it, or remove it here", what, name, p.whereInBase(in))
}

// reportMissing reports that a changed or removed element is not in the base.
func (p *patcher) reportMissing(field, what, name, in string, names []string) {
	hint := cmp.Or(phrase.DidYouMean(name, names), ": remove it here, or name its replacement")
	p.report(field, "there is no %s %q in %s of the base, %s%s", what, name, strings.TrimPrefix(in, "spec."), p.whereInBase(in), hint)
}

// listPatch applies the patches of one list.
type listPatch[T any] struct {
	what  string // "file"
	field string // of the result and of the base
	at    string // of the overlay
	name  string // the key's field in an element, ".path"
	key   func(T) string

	add, replace []T
	merge        func(have, override T) T
	remove       []string
}

// patch applies it: existing elements preserve their order, added ones come last.
func (l listPatch[T]) patch(p *patcher, have []T) []T {
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
		p.report(field, "%s %q is in the base %d times, %s: the patch is ambiguous", l.what, key, len(found), p.whereInBase(strictyaml.Element(l.field, found[1])))
		return -1
	}
	replaced, removed := map[int]int{}, map[int]bool{}
	for i, r := range l.replace {
		if j := find(strictyaml.Element(l.at+".replace", i)+l.name, l.key(r)); j >= 0 {
			replaced[j] = i
		}
	}
	for i, key := range l.remove {
		if j := find(strictyaml.Element(l.at+".remove", i), key); j >= 0 {
			removed[j] = true
		}
	}
	for i, a := range l.add {
		if existing := position(l.key(a)); len(existing) > 0 {
			p.reportExisting(strictyaml.Element(l.at+".add", i)+l.name, l.what, l.key(a), strictyaml.Element(l.field, existing[0]))
		}
	}
	return l.buildPatchedList(p, have, replaced, removed)
}

// buildPatchedList builds the new list, and records the origin of its elements.
func (l listPatch[T]) buildPatchedList(p *patcher, have []T, replaced map[int]int, removed map[int]bool) []T {
	for i := range have {
		p.deleteLines(strictyaml.Element(l.field, i))
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
		to := strictyaml.Element(l.field, len(out))
		p.recordFromBase(to, strictyaml.Element(l.field, i))
		if j, ok := replaced[i]; ok {
			e = l.merge(e, l.replace[j])
			p.recordOverriddenFields(to, strictyaml.Element(l.at+".replace", j))
		}
		out = append(out, e)
	}
	for i, e := range l.add {
		p.recordFromOverlay(strictyaml.Element(l.field, len(out)), strictyaml.Element(l.at+".add", i))
		out = append(out, e)
	}
	return out
}
