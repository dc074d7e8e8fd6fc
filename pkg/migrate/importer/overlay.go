package importer

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/internal/profileyaml"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
)

// worthwhile reports whether an overlay is easier to read than the whole profile. Above
// half of its size most of it differs from the base, and a reader needs both.
func worthwhile(overlay, complete []byte) bool { return len(overlay) <= len(complete)/2 }

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
		came, err := overlay.Apply(in.Overlays[0], b)
		if err == nil && orderInsensitiveDigest(came.Spec) == orderInsensitiveDigest(c.doc.Spec) {
			text = written
			base = b
			ok = true
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
	spec := api.ProfileOverlaySpec{
		Version: want.Spec.Version, From: api.ProfileOverlayBase{Profile: base.Name, Version: base.Spec.Version},
		BootstrapConfig:    stagePatches(want.Spec.BootstrapConfig, base.Spec.BootstrapConfig),
		ProvisioningConfig: stagePatches(want.Spec.ProvisioningConfig, base.Spec.ProvisioningConfig),
	}
	if want.Spec.OSVersion != base.Spec.OSVersion {
		spec.OSVersion = want.Spec.OSVersion
	}
	if want.Spec.ProvisioningUtility != base.Spec.ProvisioningUtility {
		spec.ProvisioningUtility = want.Spec.ProvisioningUtility
	}
	p := diffByKey(want.Spec.SupportedCloudProviders, base.Spec.SupportedCloudProviders, func(p osm.CloudProviderSpec) osm.CloudProvider { return p.Name })
	spec.SupportedCloudProviders = nilIfZero(api.CloudProviderPatches{Add: p.add, Remove: p.remove})
	comment = fmt.Sprintf("%s\nAll that it does not name is as in %s %s.", comment, base.Name, base.Spec.Version)
	return profileyaml.Write(comment, api.GroupVersion.String(), api.KindProfileOverlay, want.Name, spec)
}

// nilIfZero returns a pointer to patches, nil if there are none.
func nilIfZero[T any](patches T) *T {
	if reflect.ValueOf(patches).IsZero() {
		return nil
	}
	return &patches
}

func stagePatches(want, base osm.OSPConfig) *api.StagePatches {
	out := api.StagePatches{
		Files: filePatches(want.Files, base.Files), Templates: templatePatches(want.Templates, base.Templates),
		CloudInitModules: modulePatches(want.CloudInitModules, base.CloudInitModules),
	}
	for _, w := range want.SupportedContainerRuntimes {
		i := slices.IndexFunc(base.SupportedContainerRuntimes, func(b osm.ContainerRuntimeSpec) bool { return b.Name == w.Name })
		if i < 0 {
			continue // an overlay cannot express it
		}
		b := base.SupportedContainerRuntimes[i]
		patches := api.ContainerRuntimePatches{Name: w.Name, Files: filePatches(w.Files, b.Files), Templates: templatePatches(w.Templates, b.Templates)}
		if patches.Files != nil || patches.Templates != nil {
			out.SupportedContainerRuntimes = append(out.SupportedContainerRuntimes, patches)
		}
	}
	units := diffByKey(want.Units, base.Units, func(u osm.Unit) string { return u.Name })
	out.Units = nilIfZero(api.UnitPatches{Add: units.add, Replace: units.now, Remove: units.remove})
	return nilIfZero(out)
}

func filePatches(want, base []osm.File) *api.FilePatches {
	files := diffByKey(want, base, func(f osm.File) string { return f.Path })
	out := api.FilePatches{Add: files.add, Remove: files.remove}
	for i, now := range files.now {
		r := api.FileReplacement{Path: now.Path}
		if now.Permissions != files.was[i].Permissions {
			r.Permissions = now.Permissions
		}
		if !reflect.DeepEqual(now.Content, files.was[i].Content) {
			r.Content = &now.Content
		}
		out.Replace = append(out.Replace, r)
	}
	return nilIfZero(out)
}

func templatePatches(want, base map[string]string) *api.TemplatePatches {
	out := api.TemplatePatches{Add: map[string]string{}, Replace: map[string]string{}}
	for name, text := range want {
		if was, ok := base[name]; !ok {
			out.Add[name] = text
		} else if was != text {
			out.Replace[name] = text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(base)) {
		if _, ok := want[name]; !ok {
			out.Remove = append(out.Remove, name)
		}
	}
	if len(out.Add)+len(out.Replace)+len(out.Remove) == 0 {
		return nil
	}
	return &out
}

// modulePatches compares complete modules.
func modulePatches(want, base *osm.CloudInitModule) *api.ModulePatches {
	var add, replace, none osm.CloudInitModule
	var out api.ModulePatches
	w, b := reflect.ValueOf(cmp.Or(want, &none)).Elem(), reflect.ValueOf(cmp.Or(base, &none)).Elem()
	for i := range w.NumField() {
		key, _, _ := strings.Cut(w.Type().Field(i).Tag.Get("json"), ",")
		switch now, was := w.Field(i), b.Field(i); {
		case now.Len() == 0 && was.Len() > 0:
			out.Remove = append(out.Remove, api.ModuleKey(key))
		case now.Len() > 0 && was.Len() == 0:
			reflect.ValueOf(&add).Elem().Field(i).Set(now)
		case now.Len() > 0 && !reflect.DeepEqual(now.Interface(), was.Interface()):
			reflect.ValueOf(&replace).Elem().Field(i).Set(now)
		}
	}
	out.Add, out.Replace = nilIfZero(add), nilIfZero(replace)
	return nilIfZero(out)
}

// patch is the difference between two lists that are named by keys.
type patch[T any, K ~string] struct {
	add    []T
	now    []T // replaced elements with their previous content
	was    []T
	remove []K
}

// diffByKey compares two lists by a key: it returns what to add, to replace and to remove.
func diffByKey[T any, K ~string](want, base []T, key func(T) K) patch[T, K] {
	find := func(in []T, name K) int {
		return slices.IndexFunc(in, func(e T) bool { return key(e) == name })
	}
	var p patch[T, K]
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
