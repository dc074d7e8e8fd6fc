// Package versions compares profiles with those of a base revision: whether each
// change has a version of its own, and what becomes of the pools.
//
// Start with Comparison; Read makes one from a repository.
package versions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Comparison is what is compared.
type Comparison struct {
	// Revision is the base as it was given, for messages.
	Revision string
	// Base is what the base holds and ever held.
	Base *profile.Catalogue
	// Partial: the base has no history but its last commit.
	Partial bool
	// Documents are the profiles as they are now.
	Documents []profile.Document
	// Covered reports whether a file of the base, by its path in the repository, is
	// among those that are looked at now.
	Covered func(path string) bool
	// Broken reports whether a file, by its path in findings, cannot be read as it is now.
	// It stands for what it held.
	Broken func(name string) bool
	// Pools are the pools that name a profile, as far as they are known; nil: none are.
	Pools func(profile string) []string
	// Merged reports whether what is looked at now includes a commit of the base. What
	// the base has got since the branch left it was not taken back by the branch.
	Merged func(source.Commit) bool
	// Name is the path of a file of the base in findings.
	Name func(path string) string
}

// Findings are what is to be said, in no order.
func (c Comparison) Findings() []lint.Finding {
	var out []lint.Finding
	if c.Partial {
		out = append(out, lint.Finding{Rule: lint.RuleNoHistory, Severity: lint.SeverityNote, Path: c.Name(""),
			Message: fmt.Sprintf("the history of %s is cut off: versions were compared with its last commit only", c.Revision),
			Fix:     "fetch all of it: git fetch --unshallow; in CI fetch-depth: 0"})
	}
	out = append(out, c.versions()...)
	out = append(out, c.backwards()...)
	out = append(out, c.gone()...)
	return append(out, c.collisions()...)
}

func (c Comparison) current(name string) (profile.Version, bool) {
	for _, v := range c.Base.Current {
		if v.Name == name {
			return v, true
		}
	}
	return profile.Version{}, false
}

func (c Comparison) used(name, version string) (profile.Version, bool) {
	for _, v := range c.Base.History[name] {
		if v.Version == version {
			return v, true
		}
	}
	return profile.Version{}, false
}

// finding is about the version of a document.
func finding(rule string, doc profile.Document, message, fix string) lint.Finding {
	return lint.Finding{Rule: rule, Severity: lint.SeverityOf(rule), Path: doc.Path, Line: doc.Line("spec.version"), Profile: doc.Name, Version: doc.Spec.Version,
		Field: "spec.version", Message: message, Fix: fix}
}

// versions: each content has a version of its own.
func (c Comparison) versions() []lint.Finding {
	var out []lint.Finding
	for _, doc := range c.Documents {
		had, ok := c.used(doc.Name, doc.Spec.Version)
		if !ok || had.Digest == doc.Digest {
			continue
		}
		fix := "write version: " + c.next(doc)
		if had.CurrentPath != "" && c.Merged(had.Commit) {
			out = append(out, finding(lint.RuleNotChanged, doc, fmt.Sprintf("the content of profile %q changed, but its version is still %s, which stands for the content of %s",
				doc.Name, had.Version, place(had)), fix))
			continue
		}
		out = append(out, finding(lint.RuleReused, doc, fmt.Sprintf("version %s of profile %q stands for other content since %s", had.Version, doc.Name, place(had)), fix))
	}
	return out
}

func place(v profile.Version) string {
	if v.Commit == "" {
		return v.Path
	}
	return fmt.Sprintf("commit %.12s", string(v.Commit))
}

// next is a version above all that the profile has had, which no commit has used.
func (c Comparison) next(doc profile.Document) string {
	highest, err := profile.ParseVersion(doc.Spec.Version)
	if err != nil {
		return "one that was never used" // Decode admits versions only
	}
	for _, v := range c.Base.History[doc.Name] {
		if had, err := profile.ParseVersion(v.Version); err == nil && had.GreaterThan(highest) {
			highest = had
		}
	}
	above := highest.IncPatch()
	return "v" + above.String()
}

// selected is the version of each profile that the documents make current.
func (c Comparison) selected() map[string]profile.Document {
	byName := map[string][]profile.Document{}
	for _, doc := range c.Documents {
		byName[doc.Name] = append(byName[doc.Name], doc)
	}
	out := map[string]profile.Document{}
	for name, docs := range byName {
		var versions []string
		for _, d := range docs {
			versions = append(versions, d.Spec.Version)
		}
		best := highest(versions)
		out[name] = docs[slices.IndexFunc(docs, func(d profile.Document) bool { return d.Spec.Version == best })]
	}
	return out
}

// highest prefers releases to pre-releases, as the controller does.
func highest(versions []string) string {
	return slices.MaxFunc(versions, func(a, b string) int {
		va, errA := profile.ParseVersion(a)
		vb, errB := profile.ParseVersion(b)
		if errA != nil || errB != nil {
			return strings.Compare(a, b)
		}
		if pre := (va.Prerelease() == "") != (vb.Prerelease() == ""); pre {
			if va.Prerelease() == "" {
				return 1
			}
			return -1
		}
		return va.Compare(vb)
	})
}

// backwards: the current version goes up, or back to what it was.
func (c Comparison) backwards() []lint.Finding {
	var out []lint.Finding
	selected := c.selected()
	for _, name := range slices.Sorted(maps.Keys(selected)) {
		doc := selected[name]
		base, ok := c.current(name)
		if !ok || doc.Spec.Version == base.Version || highest([]string{doc.Spec.Version, base.Version}) == doc.Spec.Version || !c.Covered(base.CurrentPath) {
			continue
		}
		had, known := c.used(name, doc.Spec.Version)
		switch {
		case known && had.Digest != doc.Digest: // reused, and said so
		case known && !c.Merged(base.SelectedBy): // the branch is behind, and has not touched it
		case known:
			out = append(out, finding(lint.RuleRollback, doc, fmt.Sprintf("profile %q goes back from %s to %s, as it was at %s", name, base.Version, had.Version, place(had)), ""))
		case !c.Merged(base.SelectedBy):
			out = append(out, finding(lint.RuleBackwards, doc, fmt.Sprintf("profile %q gets version %s, and %s has %s by now", name, doc.Spec.Version, c.Revision, base.Version),
				"rebase, and write version: "+c.next(doc)))
		default:
			out = append(out, finding(lint.RuleBackwards, doc, fmt.Sprintf("profile %q goes back from %s to %s, which is no earlier release of it", name, base.Version, doc.Spec.Version),
				"write version: "+c.next(doc)))
		}
	}
	return out
}

// gone: profiles of the base that are there no more.
func (c Comparison) gone() []lint.Finding {
	var out []lint.Finding
	there := c.selected()
	for _, v := range c.Base.Current {
		if _, ok := there[v.Name]; ok || !c.Covered(v.CurrentPath) || !c.Merged(v.Commit) {
			continue
		}
		if doc, ok := c.renamed(v); ok {
			f := finding(lint.RuleRenamed, doc, fmt.Sprintf("profile %q is called %q now: pools that name it by the old one get nothing of this", v.Name, doc.Name),
				fmt.Sprintf("keep %q beside it until the annotation k8c.io/operating-system-profile of its pools names %q", v.Name, doc.Name))
			f.Line, f.Field = doc.Line("metadata.name"), "metadata.name"
			out = append(out, f)
			continue
		}
		if c.Broken(c.Name(v.CurrentPath)) {
			continue // the engine says what is wrong
		}
		out = append(out, c.removed(v))
	}
	return out
}

// removed says what becomes of the pools of a profile that is gone.
func (c Comparison) removed(v profile.Version) lint.Finding {
	const most = 5 // names that a line still holds
	f := lint.Finding{Rule: lint.RuleRemoved, Severity: lint.SeverityOf(lint.RuleRemoved), Path: c.Name(v.CurrentPath), Profile: v.Name, Version: v.Version}
	f.Message = fmt.Sprintf("profile %q is gone: pools that have it keep %s, and new pools with it are refused", v.Name, v.Version)
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
	f.Fix = "keep it until the annotation k8c.io/operating-system-profile of these pools names another"
	return f
}

// renamed is the new profile that has the content of one that is gone, or its file.
func (c Comparison) renamed(v profile.Version) (profile.Document, bool) {
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

// collisions: every profile and version is an object of its own.
func (c Comparison) collisions() []lint.Finding {
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
		object, mine := profile.ObjectName(doc.Name, doc.Spec.Version, doc.Digest), holder{doc.Name, doc.Spec.Version}
		other, ok := objects[object]
		if !ok {
			objects[object] = mine
		} else if other != mine {
			f := finding(lint.RuleCollision, doc, fmt.Sprintf("profile %q %s would become the object %s, which is that of profile %q %s", doc.Name, doc.Spec.Version, object, other.name, other.version),
				"give the profile another name")
			f.Line, f.Field = doc.Line("metadata.name"), "metadata.name"
			out = append(out, f)
		}
	}
	return out
}
