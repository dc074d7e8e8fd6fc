// Package versions compares profiles with those of a base revision: whether each change has a
// version of its own, and how pools are affected.
//
// Start with Comparison; Read creates one from a repository.
package versions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Comparison is the input of a comparison.
type Comparison struct {
	// Revision is the user's name of the base, for messages.
	Revision string
	// Base has the current profiles of the base and all earlier ones.
	Base *catalog.Catalog
	// Partial: only the last commit of the base is known.
	Partial bool
	// Documents are the current profiles.
	Documents []profile.Document
	// Covered reports whether a file of the base, by its path in the repository, is among the
	// files to lint.
	Covered func(path string) bool
	// Broken reports whether a file, by its path in findings, exists but cannot be read. Its
	// profiles do not count as removed.
	Broken func(name string) bool
	// Pools returns the known pools that name a profile; nil if no pools are known.
	Pools func(profile string) []string
	// Merged reports whether the linted state includes a commit of the base. The branch has not
	// removed what the base added after the branch started.
	Merged func(source.Commit) bool
	// Name returns the path of a file of the base in findings.
	Name func(path string) string
}

// Findings returns all findings, in no order.
func (c Comparison) Findings() []lint.Finding {
	var out []lint.Finding
	if c.Partial {
		out = append(out, lint.Finding{Rule: lint.RuleNoHistory, Severity: lint.SeverityNote, Path: c.Name(""),
			Message: fmt.Sprintf("the history of %s is cut off: versions were compared with its last commit only", c.Revision),
			Fix:     "fetch all of it: git fetch --unshallow; in CI fetch-depth: 0"})
	}
	out = append(out, c.unversionedChanges()...)
	out = append(out, c.findDowngrades()...)
	out = append(out, c.removedProfiles()...)
	return append(out, c.findNameCollisions()...)
}

func (c Comparison) current(name string) (catalog.Version, bool) {
	for _, v := range c.Base.Current {
		if v.Name == name {
			return v, true
		}
	}
	return catalog.Version{}, false
}

// findInHistory returns the version of a profile in the history of the base.
func (c Comparison) findInHistory(name, version string) (catalog.Version, bool) {
	for _, v := range c.Base.History[name] {
		if v.Version == version {
			return v, true
		}
	}
	return catalog.Version{}, false
}

// versionFinding returns a finding about the version of a document.
func versionFinding(rule string, doc profile.Document, message, fix string) lint.Finding {
	return lint.Finding{Rule: rule, Severity: lint.SeverityOf(rule), Path: doc.Path, Line: doc.Line("spec.version"), Profile: doc.Name, Version: doc.Spec.Version,
		Field: "spec.version", Message: message, Fix: fix}
}

// unversionedChanges returns findings for contents that do not have a version of their own.
func (c Comparison) unversionedChanges() []lint.Finding {
	var out []lint.Finding
	for _, doc := range c.Documents {
		had, ok := c.findInHistory(doc.Name, doc.Spec.Version)
		if !ok || had.Digest == doc.Digest {
			continue
		}
		fix := "write version: " + c.nextVersion(doc)
		if had.CurrentPath != "" && c.Merged(had.Commit) {
			out = append(out, versionFinding(lint.RuleNotChanged, doc, fmt.Sprintf("the content of profile %q changed, but its version is still %s, which has the content of %s",
				doc.Name, had.Version, locationOf(had)), fix))
			continue
		}
		out = append(out, versionFinding(lint.RuleReused, doc, fmt.Sprintf("version %s of profile %q has other content since %s", had.Version, doc.Name, locationOf(had)), fix))
	}
	return out
}

func locationOf(v catalog.Version) string {
	if v.Commit == "" {
		return v.Path
	}
	return fmt.Sprintf("commit %.12s", string(v.Commit))
}

// nextVersion returns a version above all that the profile has had, which no commit has used.
func (c Comparison) nextVersion(doc profile.Document) string {
	highest, err := version.Parse(doc.Spec.Version)
	if err != nil {
		return "one that was never used" // Decode accepts only valid versions
	}
	for _, v := range c.Base.History[doc.Name] {
		if had, err := version.Parse(v.Version); err == nil && had.GreaterThan(highest) {
			highest = had
		}
	}
	above := highest.IncPatch()
	return "v" + above.String()
}

// selectedDocuments returns the version of each profile that the documents make current, which is
// the one that the controller prefers.
func (c Comparison) selectedDocuments() map[string]profile.Document {
	out := map[string]profile.Document{}
	for _, doc := range c.Documents {
		if best, ok := out[doc.Name]; !ok || version.IsPreferred(doc.Spec.Version, best.Spec.Version) {
			out[doc.Name] = doc
		}
	}
	return out
}

// findDowngrades returns findings for current versions that decrease or are rolled back.
func (c Comparison) findDowngrades() []lint.Finding {
	var out []lint.Finding
	selected := c.selectedDocuments()
	for _, name := range slices.Sorted(maps.Keys(selected)) {
		doc := selected[name]
		base, ok := c.current(name)
		if !ok || doc.Spec.Version == base.Version || !version.IsPreferred(base.Version, doc.Spec.Version) || !c.Covered(base.CurrentPath) {
			continue
		}
		had, known := c.findInHistory(name, doc.Spec.Version)
		switch {
		case known && had.Digest != doc.Digest: // versions reports it as reused
		case known && !c.Merged(base.SelectedBy): // the branch is behind, and has not changed it
		case known:
			out = append(out, versionFinding(lint.RuleRollback, doc, fmt.Sprintf("profile %q is rolled back from %s to %s, the content of %s", name, base.Version, had.Version, locationOf(had)), ""))
		case !c.Merged(base.SelectedBy):
			out = append(out, versionFinding(lint.RuleBackwards, doc, fmt.Sprintf("profile %q gets version %s, but %s now has %s", name, doc.Spec.Version, c.Revision, base.Version),
				"rebase, and write version: "+c.nextVersion(doc)))
		default:
			out = append(out, versionFinding(lint.RuleBackwards, doc, fmt.Sprintf("the version of profile %q decreases from %s to %s, which is not an earlier release of it", name, base.Version, doc.Spec.Version),
				"write version: "+c.nextVersion(doc)))
		}
	}
	return out
}

// removedProfiles returns findings for the profiles of the base that no longer exist.
func (c Comparison) removedProfiles() []lint.Finding {
	var out []lint.Finding
	selected := c.selectedDocuments()
	for _, v := range c.Base.Current {
		if _, ok := selected[v.Name]; ok || !c.Covered(v.CurrentPath) || !c.Merged(v.Commit) {
			continue
		}
		if doc, ok := c.findRenamed(v); ok {
			f := versionFinding(lint.RuleRenamed, doc, fmt.Sprintf("profile %q was renamed to %q: pools that name %q do not get this change", v.Name, doc.Name, v.Name),
				fmt.Sprintf("restore profile %q until the annotation k8c.io/operating-system-profile of its pools names %q", v.Name, doc.Name))
			f.Line, f.Field = doc.Line("metadata.name"), "metadata.name"
			out = append(out, f)
			continue
		}
		if c.Broken(c.Name(v.CurrentPath)) {
			continue // the engine reports why it is broken
		}
		out = append(out, c.removalFinding(v))
	}
	return out
}

// removalFinding returns the finding for a removed profile, with the consequence for its pools.
func (c Comparison) removalFinding(v catalog.Version) lint.Finding {
	const most = 5 // names that fit on a line
	f := lint.Finding{Rule: lint.RuleRemoved, Severity: lint.SeverityOf(lint.RuleRemoved), Path: c.Name(v.CurrentPath), Profile: v.Name, Version: v.Version}
	f.Message = fmt.Sprintf("profile %q was removed: its pools stay at %s, and new pools that name it are rejected", v.Name, v.Version)
	if c.Pools == nil {
		return f
	}
	names := c.Pools(v.Name)
	switch {
	case len(names) == 0:
		f.Severity = lint.SeverityNote
		f.Message += "; no pool that is known here names it"
		return f
	case len(names) > most:
		names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", len(names)-most))
	}
	f.Message += "; it is named by " + strings.Join(names, ", ")
	f.Fix = "restore it until the annotation k8c.io/operating-system-profile of these pools names another"
	return f
}

// findRenamed returns the new profile that has the content or the file of a removed one.
func (c Comparison) findRenamed(v catalog.Version) (profile.Document, bool) {
	var byPath *profile.Document
	for i, doc := range c.Documents {
		if len(c.Base.History[doc.Name]) > 0 {
			continue
		}
		if doc.Digest == v.Digest {
			return doc, true
		}
		if doc.Path == c.Name(v.CurrentPath) {
			byPath = &c.Documents[i]
		}
	}
	if byPath == nil {
		return profile.Document{}, false
	}
	return *byPath, true
}

// findNameCollisions returns findings for two profile versions that would have the same object name.
func (c Comparison) findNameCollisions() []lint.Finding {
	type holder struct{ name, version string }
	objects := map[string]holder{}
	for _, versions := range c.Base.History {
		for _, v := range versions {
			objects[profile.ObjectName(v.Name, v.Version, v.Digest)] = holder{v.Name, v.Version}
		}
	}
	docs := slices.SortedFunc(slices.Values(c.Documents), func(a, b profile.Document) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Name, b.Name), strings.Compare(a.Spec.Version, b.Spec.Version))
	})
	var out []lint.Finding
	for _, doc := range docs {
		object := profile.ObjectName(doc.Name, doc.Spec.Version, doc.Digest)
		mine := holder{doc.Name, doc.Spec.Version}
		other, ok := objects[object]
		if !ok {
			objects[object] = mine
		} else if other != mine {
			f := versionFinding(lint.RuleCollision, doc, fmt.Sprintf("profile %q %s would become the object %s, which is that of profile %q %s", doc.Name, doc.Spec.Version, object, other.name, other.version),
				"give the profile another name")
			f.Line, f.Field = doc.Line("metadata.name"), "metadata.name"
			out = append(out, f)
		}
	}
	return out
}
