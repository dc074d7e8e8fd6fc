package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// checkRecord compares a record with its own digest, with the object that contains it, and
// with the repository.
func (s *target) checkRecord(what claim, from *origin) Check {
	if s.gen == nil {
		return Check{Thing: ThingRecord, Name: s.digest}.missing("neither the pool's OperatingSystemConfig nor a ControllerRevision contains the record of this input digest: it was deleted, or the digest was edited")
	}
	check := Check{Thing: ThingRecord, Name: s.gen.name()}
	rec, a := s.gen.record, s.gen.holder().GetAnnotations()
	switch {
	case !s.gen.readable():
		return check.with(differ("annotation "+api.AnnotationRecord, 0, "the JSON of a record", "something else"))
	case !s.gen.sound():
		return check.with(s.editedRecord(what, from))
	case from.forged != nil:
		return check.with(from.forged)
	}
	check.Note = "its content matches its input digest"
	if d := firstOf(field{"digests.input", s.digest, rec.Digests.Input}); d != nil {
		return check.with(d)
	}
	if d := firstOf(s.undigestedFields(what, from)...); d != nil {
		return check.with(d)
	}
	if s.gen.archived != nil {
		return check.with(firstOf(append(annotated(rec, a), field{"annotation " + api.AnnotationSettingsDigest, rec.SettingsDigest, a[api.AnnotationSettingsDigest]})...))
	}
	if s.node != nil {
		return check.with(nil) // regardless of the pool's current request
	}
	return check.with(s.compareRequest())
}

// undigestedFields returns the fields that no digest of a record covers: its pool, and the name of
// the profile's object. A source derives that name from the content; an object that a user
// created can have any name.
func (s *target) undigestedFields(what claim, from *origin) []field {
	rec := s.gen.record
	fields := []field{{"pool.namespace", s.pool.Namespace, rec.Pool.Namespace}, {"pool.name", s.pool.Name, rec.Pool.Name}}
	if _, invalid := source.ParseCommit(what.commit); from.found && invalid == nil {
		fields = append(fields, field{"object", profile.ObjectName(what.profile, what.version, what.digest), lineage.ProfileKey("", rec.Object).Name})
	}
	return fields
}

// annotated returns the annotations that repeat fields of a record.
func annotated(rec render.Record, have map[string]string) []field {
	var out []field
	for _, f := range []struct{ name, want string }{
		{api.AnnotationInputDigest, rec.Digests.Input}, {api.AnnotationProfile, rec.Profile}, {api.AnnotationVersion, rec.Version},
		{api.AnnotationRepository, rec.Repository}, {api.AnnotationPath, rec.Path},
		{api.AnnotationCommit, rec.Commit}, {api.AnnotationChange, rec.Change},
	} {
		out = append(out, field{"annotation " + f.name, f.want, have[f.name]})
	}
	return out
}

// editedRecord finds the edit in a record whose digest does not match its content, by
// comparison with the repository and the NodeProvenance.
func (s *target) editedRecord(what claim, from *origin) *Difference {
	rec := s.gen.record
	want := what
	if from.found {
		want.commit, want.path, want.change = string(from.version.Commit), from.version.Path, string(from.author.Commit)
	}
	if s.node != nil || from.found {
		if d := firstOf(
			field{"object", want.object, rec.Object}, field{"objectDigest", want.digest, rec.ObjectDigest},
			field{"profile", want.profile, rec.Profile}, field{"version", want.version, rec.Version},
			field{"repository", want.repository, rec.Repository}, field{"path", want.path, rec.Path},
			field{"commit", want.commit, rec.Commit}, field{"change", want.change, rec.Change},
		); d != nil {
			return d
		}
	}
	return differ("digests.input, over all of the record", 0, rec.InputDigest(), rec.Digests.Input)
}

// compareRequest compares the pool's facts in the record with the MachineDeployment. They can
// differ if the request was rejected or the pool is frozen.
func (s *target) compareRequest() *Difference {
	if s.md == nil || s.md.Annotations[api.AnnotationSuspend] == "true" ||
		s.gen.osc.Annotations[api.AnnotationRefused] != "" {
		return nil
	}
	rec := s.gen.record
	if asks := s.md.Annotations[api.AnnotationOSP]; asks != "" && asks != rec.Profile && asks != lineage.ProfileKey("", rec.Object).Name {
		return differ("profile (expected is the request of the MachineDeployment)", 0, asks, rec.Profile)
	}
	pool, err := render.DecodePool(s.md)
	if err != nil {
		return nil // rejected
	}
	in, _ := render.Input{Pool: pool}.Split()
	in.Pool.CloudConfig = s.gen.record.Pool.CloudConfig // derived from data outside the record
	return compareValues("pool (expected is the request of the MachineDeployment)", in.Pool, s.gen.record.Pool)
}

// settings reads the settings that a record names; nil if their digest differs.
func (v *Verifier) settings(ctx context.Context, digest string) ([]byte, Check, error) {
	name := types.NamespacedName{Namespace: v.Namespace, Name: lineage.SettingsName(digest)}
	check := Check{Thing: ThingSettings, Name: "ConfigMap " + name.String()}
	var cm corev1.ConfigMap
	found, err := kubeclient.Find(ctx, v.Management, name, &cm)
	if err != nil {
		return nil, check, err
	}
	if !found {
		return nil, check.missing("they are necessary to render again"), nil
	}
	text := []byte(cm.Data[lineage.SettingsKey])
	sum := sha256.Sum256(text)
	if got := "v1:sha256:" + hex.EncodeToString(sum[:]); got != digest {
		return nil, check.with(differ("digest of "+lineage.SettingsKey, 0, digest, got)), nil
	}
	check.Note = "its content has the digest in the record"
	return text, check.with(nil), nil
}
