package importer

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/internal/profileyaml"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
)

// worthwhile reports whether an overlay is easier to read than the whole profile. Above
// half of its size most of it differs from the base, and a reader needs both.
func worthwhile(overlay, whole []byte) bool { return len(overlay) <= len(whole)/2 }

// expressAsOverlay expresses a profile as an overlay on another one: the smallest overlay with
// exactly the same content, with lists that are named by keys in any order. It returns
// false if no overlay is worthwhile.
func (a *importPlan) expressAsOverlay(c *candidate) (text []byte, base profile.Document, ok bool) {
	for _, b := range a.overlayBaseCandidates(c) {
		if b.Spec.OSName != c.doc.Spec.OSName {
			continue
		}
		written := overlayYAML(c.comment, c.doc, b)
		if !worthwhile(written, c.yaml) || ok && len(written) >= len(text) {
			continue
		}
		in, err := profile.DecodeFile(c.path(ProfilesDir), written)
		if err != nil || len(in.Overlays) != 1 {
			continue // an overlay cannot express it, only a copy
		}
		came, err := overlay.Resolve(in.Overlays[0], b)
		if err == nil && orderInsensitiveDigest(came.Spec) == orderInsensitiveDigest(c.doc.Spec) {
			text, base, ok = written, b, true
		}
	}
	return text, base, ok
}

// overlayBaseCandidates returns the built-in profiles, and the profiles that became copies.
func (a *importPlan) overlayBaseCandidates(c *candidate) []profile.Document {
	out := slices.Clone(a.in.Builtin)
	// An overlay searches its own tree first, so a copy hides a built-in profile of the same
	// name and version.
	for _, k := range a.overlayBases {
		out = slices.DeleteFunc(out, func(d profile.Document) bool { return d.Name == k.doc.Name && d.Spec.Version == k.doc.Spec.Version })
		out = append(out, k.doc)
	}
	return slices.DeleteFunc(out, func(d profile.Document) bool {
		return d.Name == c.doc.Name && d.Spec.Version == c.doc.Spec.Version
	})
}

// orderInsensitiveDigest returns the digest of a profile whose lists that are named by keys are sorted. The
// order of files does not matter to a node.
func orderInsensitiveDigest(spec osm.OperatingSystemProfileSpec) string {
	s := profile.Canonical(spec)
	byPath := func(x, y osm.File) int { return cmp.Compare(x.Path, y.Path) }
	slices.SortStableFunc(s.SupportedCloudProviders, func(x, y osm.CloudProviderSpec) int { return cmp.Compare(x.Name, y.Name) })
	for _, stage := range []*osm.OSPConfig{&s.BootstrapConfig, &s.ProvisioningConfig} {
		slices.SortStableFunc(stage.Files, byPath)
		slices.SortStableFunc(stage.Units, func(x, y osm.Unit) int { return cmp.Compare(x.Name, y.Name) })
		for i := range stage.SupportedContainerRuntimes {
			slices.SortStableFunc(stage.SupportedContainerRuntimes[i].Files, byPath)
		}
	}
	return profile.Digest(s)
}

// overlayYAML writes the differences of a profile from a base, as far as an overlay can
// express them. The caller resolves it to check that it is complete.
func overlayYAML(comment string, want, base profile.Document) []byte {
	spec := []profileyaml.Field{
		{Key: "version", Value: want.Spec.Version},
		{Key: "from", Value: []profileyaml.Field{{Key: "profile", Value: base.Name}, {Key: "version", Value: base.Spec.Version}}},
	}
	if want.Spec.OSVersion != base.Spec.OSVersion {
		spec = append(spec, profileyaml.Field{Key: "osVersion", Value: want.Spec.OSVersion})
	}
	if want.Spec.ProvisioningUtility != base.Spec.ProvisioningUtility {
		spec = append(spec, profileyaml.Field{Key: "provisioningUtility", Value: string(want.Spec.ProvisioningUtility)})
	}
	p := diffByKey(want.Spec.SupportedCloudProviders, base.Spec.SupportedCloudProviders, func(p osm.CloudProviderSpec) string { return string(p.Name) })
	spec = appendNonEmpty(spec, "supportedCloudProviders", p.patchedFields(func(l []osm.CloudProviderSpec) any { return profileyaml.ProviderMappings(l) }, nil))
	spec = appendNonEmpty(spec, "bootstrapConfig", stagePatches(want.Spec.BootstrapConfig, base.Spec.BootstrapConfig))
	spec = appendNonEmpty(spec, "provisioningConfig", stagePatches(want.Spec.ProvisioningConfig, base.Spec.ProvisioningConfig))
	var w profileyaml.Writer
	w.Comment(fmt.Sprintf("%s\nAll that it does not name is as in %s %s.", comment, base.Name, base.Spec.Version))
	w.Mapping("", []profileyaml.Field{
		{Key: "apiVersion", Value: api.GroupVersion.String()},
		{Key: "kind", Value: "ProfileOverlay"},
		{Key: "metadata", Value: []profileyaml.Field{{Key: "name", Value: want.Name}}},
		{Key: "spec", Value: spec},
	})
	return w.Out.Bytes()
}

// appendNonEmpty appends a nonempty mapping.
func appendNonEmpty(to []profileyaml.Field, key string, value []profileyaml.Field) []profileyaml.Field {
	if len(value) == 0 {
		return to
	}
	return append(to, profileyaml.Field{Key: key, Value: value})
}

func stagePatches(want, base osm.OSPConfig) []profileyaml.Field {
	var out []profileyaml.Field
	out = appendNonEmpty(out, "templates", templatePatches(want.Templates, base.Templates))
	var runtimes []any
	for _, w := range want.SupportedContainerRuntimes {
		i := slices.IndexFunc(base.SupportedContainerRuntimes, func(b osm.ContainerRuntimeSpec) bool { return b.Name == w.Name })
		if i < 0 {
			continue // an overlay cannot express it
		}
		b := base.SupportedContainerRuntimes[i]
		patches := appendNonEmpty(nil, "templates", templatePatches(w.Templates, b.Templates))
		if patches = appendNonEmpty(patches, "files", filePatches(w.Files, b.Files)); len(patches) > 0 {
			runtimes = append(runtimes, append([]profileyaml.Field{{Key: "name", Value: string(w.Name)}}, patches...))
		}
	}
	if len(runtimes) > 0 {
		out = append(out, profileyaml.Field{Key: "supportedContainerRuntimes", Value: runtimes})
	}
	units := diffByKey(want.Units, base.Units, func(u osm.Unit) string { return u.Name })
	out = appendNonEmpty(out, "units", units.patchedFields(func(l []osm.Unit) any { return profileyaml.ConvertList(l, profileyaml.UnitFields) }, func(now, _ osm.Unit) []profileyaml.Field { return profileyaml.UnitFields(now) }))
	out = appendNonEmpty(out, "files", filePatches(want.Files, base.Files))
	return appendNonEmpty(out, "modules", modulePatches(want.CloudInitModules, base.CloudInitModules))
}

func filePatches(want, base []osm.File) []profileyaml.Field {
	files := diffByKey(want, base, func(f osm.File) string { return f.Path })
	return files.patchedFields(func(l []osm.File) any { return profileyaml.ConvertList(l, profileyaml.FileFields) }, func(now, was osm.File) []profileyaml.Field {
		out := profileyaml.FileFields(now)
		if reflect.DeepEqual(now.Content, was.Content) { // only the mode
			out = out[:len(out)-1]
		} else if now.Permissions == was.Permissions {
			out = slices.DeleteFunc(out, func(f profileyaml.Field) bool { return f.Key == "permissions" })
		}
		return out
	})
}

func templatePatches(want, base map[string]string) []profileyaml.Field {
	add, replace := map[string]string{}, map[string]string{}
	var remove []string
	for name, text := range want {
		if was, ok := base[name]; !ok {
			add[name] = text
		} else if was != text {
			replace[name] = text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(base)) {
		if _, ok := want[name]; !ok {
			remove = append(remove, name)
		}
	}
	return patchFields(add, replace, remove)
}

// patchFields returns the nonempty ones of add, replace and remove for mappings.
func patchFields(add, replace map[string]string, remove []string) []profileyaml.Field {
	var out []profileyaml.Field
	if len(add) > 0 {
		out = append(out, profileyaml.Field{Key: "add", Value: add})
	}
	if len(replace) > 0 {
		out = append(out, profileyaml.Field{Key: "replace", Value: replace})
	}
	if len(remove) > 0 {
		out = append(out, profileyaml.Field{Key: "remove", Value: remove})
	}
	return out
}

// modulePatches compares complete modules.
func modulePatches(want, base *osm.CloudInitModule) []profileyaml.Field {
	fields := func(m *osm.CloudInitModule) map[string]any {
		out := map[string]any{}
		if m != nil {
			for _, f := range profileyaml.ModuleFields(*m) {
				out[f.Key] = f.Value
			}
		}
		return out
	}
	w, b := fields(want), fields(base)
	var add, replace []profileyaml.Field
	var remove []string
	for _, key := range slices.Sorted(maps.Keys(w)) {
		if was, ok := b[key]; !ok {
			add = append(add, profileyaml.Field{Key: key, Value: w[key]})
		} else if !reflect.DeepEqual(was, w[key]) {
			replace = append(replace, profileyaml.Field{Key: key, Value: w[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if _, ok := w[key]; !ok {
			remove = append(remove, key)
		}
	}
	out := appendNonEmpty(appendNonEmpty(nil, "add", add), "replace", replace)
	if len(remove) > 0 {
		out = append(out, profileyaml.Field{Key: "remove", Value: remove})
	}
	return out
}

// patch is the difference between two lists that are named by keys.
type patch[T any] struct {
	add    []T
	now    []T // replaced elements with their previous content
	was    []T
	remove []string
}

// diffByKey compares two lists by a key: it returns what to add, to replace and to remove.
func diffByKey[T any](want, base []T, key func(T) string) patch[T] {
	find := func(in []T, name string) int {
		return slices.IndexFunc(in, func(e T) bool { return key(e) == name })
	}
	var p patch[T]
	for _, w := range want {
		i := find(base, key(w))
		switch {
		case i < 0:
			p.add = append(p.add, w)
		case !reflect.DeepEqual(w, base[i]):
			p.now, p.was = append(p.now, w), append(p.was, base[i])
		}
	}
	for _, b := range base {
		if find(want, key(b)) < 0 {
			p.remove = append(p.remove, key(b))
		}
	}
	return p
}

// patchedFields returns a patch as fields. Without replaced, elements of the list cannot be
// replaced.
func (p patch[T]) patchedFields(list func([]T) any, replaced func(now, was T) []profileyaml.Field) []profileyaml.Field {
	var out []profileyaml.Field
	if len(p.add) > 0 {
		out = append(out, profileyaml.Field{Key: "add", Value: list(p.add)})
	}
	if len(p.now) > 0 && replaced != nil {
		var items []any
		for i := range p.now {
			items = append(items, replaced(p.now[i], p.was[i]))
		}
		out = append(out, profileyaml.Field{Key: "replace", Value: items})
	}
	if len(p.remove) > 0 {
		out = append(out, profileyaml.Field{Key: "remove", Value: p.remove})
	}
	return out
}
