package verify

import (
	"cmp"
	"fmt"
	"time"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// checkProfile compares the OperatingSystemProfile with the file in the repository.
func (s *target) checkProfile(what api.ProvenanceConfiguration, from *origin) Check {
	check := Check{Thing: ThingOSP, Name: "OperatingSystemProfile " + redact.PrintableLine(what.Object)}
	switch {
	case s.osp == nil && s.gen != nil && s.gen.Config != nil:
		return check.asMissing("the pool's configuration was created from it, and a user deleted it")
	case s.osp == nil:
		return check.asSkipped("it no longer exists")
	}
	if doc := cmp.Or(from.doc, from.truth); doc != nil {
		if d := compareValues("spec", profile.Canonical(doc.Spec), profile.Canonical(s.osp.Spec)); d != nil {
			return check.withDifference(d)
		}
	}
	if from.forged != nil {
		check.Note = "compared with the record, which differs"
		return check.withDifference(nil)
	}
	if d := firstMismatch(field{"digest of the spec", what.ProfileDigest, profile.Digest(s.osp.Spec)}); d != nil {
		return check.withDifference(d)
	}
	check.Note = "its spec has the digest in the record"
	if from.doc != nil {
		check.Note = fmt.Sprintf("its spec is that of %s in the repository", redact.PrintableLine(from.doc.Path))
	}
	return check.withDifference(firstMismatch(s.originFields(what, from)...))
}

// originFields returns the fields of the profile's object that state its origin.
func (s *target) originFields(what api.ProvenanceConfiguration, from *origin) []field {
	a := s.osp.Annotations
	if what.Repository == "" || a[api.AnnotationAppliedBy] != "" { // created by a user, or by a tool that edits it in place
		return nil
	}
	fields := []field{
		{"annotation " + api.AnnotationDigest, what.ProfileDigest, a[api.AnnotationDigest]},
		{"annotation " + api.AnnotationVersion, what.Version, a[api.AnnotationVersion]},
		{"annotation " + api.AnnotationRepository, what.Repository, a[api.AnnotationRepository]},
		{"annotation " + api.AnnotationPath, what.Path, a[api.AnnotationPath]},
		{"annotation " + api.AnnotationCommit, what.Commit, a[api.AnnotationCommit]},
		{"annotation " + api.AnnotationChange, what.Change, a[api.AnnotationChange]},
	}
	base := cmp.Or(from.version.From, &catalog.Version{})
	if from.found {
		name := ""
		if base.Name != "" {
			name = base.Name + " " + base.Version
		}
		fields = append(fields,
			field{"annotation " + api.AnnotationBase, name, a[api.AnnotationBase]},
			field{"annotation " + api.AnnotationBaseDigest, base.Digest, a[api.AnnotationBaseDigest]})
	}
	if from.found && from.author.Commit != "" && what.Change != "" {
		fields = append(fields,
			field{"annotation " + api.AnnotationAuthor, from.formatAuthor(), a[api.AnnotationAuthor]},
			field{"annotation " + api.AnnotationCommittedAt, from.formatCommitTime(), a[api.AnnotationCommittedAt]},
			field{"annotation " + api.AnnotationBaseCommit, string(base.Commit), a[api.AnnotationBaseCommit]})
		if recorded := a[api.AnnotationSubject]; recorded != "" { // objects of earlier releases have none
			fields = append(fields, field{"annotation " + api.AnnotationSubject, redact.CleanSubject(from.author.Subject), recorded})
		}
	}
	return fields
}

// formatAuthor formats the author as in annotations.
func (o *origin) formatAuthor() string {
	return redact.PrintableLine(o.author.Name + " <" + o.author.Email + ">")
}
func (o *origin) formatCommitTime() string { return o.version.CommittedAt.UTC().Format(time.RFC3339) }

// profileSpec returns the profile to render from: the repository's, otherwise that of the
// cluster if it has the recorded digest.
func (s *target) profileSpec(from *origin) *osm.OperatingSystemProfileSpec {
	if from.doc != nil {
		return &from.doc.Spec
	}
	if s.osp != nil && profile.Digest(s.osp.Spec) == s.gen.Record.ObjectDigest {
		return &s.osp.Spec
	}
	return nil
}
