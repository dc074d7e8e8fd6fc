package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path"

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
func (s *target) checkRecord(what api.ProvenanceConfiguration, from *origin) Check {
	if s.gen == nil {
		return Check{Thing: ThingRecord, Name: s.digest}.asMissing("neither the pool's OperatingSystemConfig nor a ControllerRevision contains the record of this input digest: it was deleted, or the digest was edited")
	}
	check := Check{Thing: ThingRecord, Name: describeHolder(s.gen)}
	rec, a := s.gen.Record, s.gen.Holder().GetAnnotations()
	switch {
	case !s.gen.IsReadable():
		return check.withDifference(newDifference("annotation "+api.AnnotationRecord, 0, "the JSON of a record", "something else"))
	case !s.gen.IsIntact():
		return check.withDifference(s.findRecordEdit(what, from))
	case from.forged != nil:
		return check.withDifference(from.forged)
	}
	check.Note = "its content matches its input digest"
	if d := firstMismatch(field{"digests.input", s.digest, rec.Digests.Input}); d != nil {
		return check.withDifference(d)
	}
	if d := firstMismatch(s.undigestedFields(what, from)...); d != nil {
		return check.withDifference(d)
	}
	if s.gen.Archived != nil {
		return check.withDifference(firstMismatch(append(annotationFields(rec, a), field{"annotation " + api.AnnotationSettingsDigest, rec.SettingsDigest, a[api.AnnotationSettingsDigest]})...))
	}
	if s.node != nil {
		return check.withDifference(nil) // regardless of the pool's current request
	}
	return check.withDifference(s.compareWithMachineDeployment())
}

// undigestedFields returns the fields that no digest of a record covers: its pool, and the name of
// the profile's object. A source derives that name from the content; an object that a user
// created can have any name.
func (s *target) undigestedFields(what api.ProvenanceConfiguration, from *origin) []field {
	rec := s.gen.Record
	fields := []field{{"pool.namespace", s.pool.Namespace, rec.Pool.Namespace}, {"pool.name", s.pool.Name, rec.Pool.Name}}
	if _, invalid := source.ParseCommit(what.Commit); from.found && invalid == nil {
		fields = append(fields, field{"object", profile.ObjectName(what.Profile, what.Version, what.ProfileDigest), lineage.ProfileKey("", rec.Object).Name})
	}
	return fields
}

// annotationFields returns the annotations that repeat fields of a record.
func annotationFields(rec render.Record, have map[string]string) []field {
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

// findRecordEdit finds the edit in a record whose digest does not match its content, by
// comparison with the repository and the NodeProvenance.
func (s *target) findRecordEdit(what api.ProvenanceConfiguration, from *origin) *Difference {
	rec := s.gen.Record
	want := what
	if from.found {
		want.Commit = string(from.version.Commit)
		want.Path = from.version.Path
		want.Change = string(from.author.Commit)
	}
	if s.node != nil || from.found {
		if d := firstMismatch(
			field{"object", want.Object, rec.Object}, field{"objectDigest", want.ProfileDigest, rec.ObjectDigest},
			field{"profile", want.Profile, rec.Profile}, field{"version", want.Version, rec.Version},
			field{"repository", want.Repository, rec.Repository}, field{"path", want.Path, rec.Path},
			field{"commit", want.Commit, rec.Commit}, field{"change", want.Change, rec.Change},
		); d != nil {
			return d
		}
	}
	return newDifference("digests.input, over all of the record", 0, rec.InputDigest(), rec.Digests.Input)
}

// compareWithMachineDeployment compares the profile and the pool in the record with what the
// MachineDeployment requests now. It returns nil if the request was rejected or the pool is frozen:
// then they can differ.
func (s *target) compareWithMachineDeployment() *Difference {
	if s.md == nil || s.md.Annotations[api.AnnotationSuspend] == "true" ||
		s.gen.Config.Annotations[api.AnnotationRefused] != "" {
		return nil
	}
	rec := s.gen.Record
	if asks := s.md.Annotations[api.AnnotationOSP]; asks != "" && asks != rec.Profile && asks != lineage.ProfileKey("", rec.Object).Name {
		return newDifference("profile (expected is the request of the MachineDeployment)", 0, asks, rec.Profile)
	}
	pool, err := render.DecodePool(s.md)
	if err != nil {
		return nil // rejected
	}
	in, _ := render.Input{Pool: pool}.ReplaceSecrets()
	in.Pool.CloudConfig = s.gen.Record.Pool.CloudConfig // derived from data outside the record
	return compareValues("pool (expected is the request of the MachineDeployment)", in.Pool, s.gen.Record.Pool)
}

// readSettings reads the settings that a record names, and compares their digest; nil if it
// differs.
func (v *Verifier) readSettings(ctx context.Context, digest string) ([]byte, Check, error) {
	name := types.NamespacedName{Namespace: v.Namespace, Name: lineage.SettingsName(digest)}
	check := Check{Thing: ThingSettings, Name: "ConfigMap " + name.String()}
	var cm corev1.ConfigMap
	found, err := kubeclient.Find(ctx, v.Management, name, &cm)
	if err != nil {
		return nil, check, err
	}
	if !found {
		return nil, check.asMissing("they are necessary to render again"), nil
	}
	text := []byte(cm.Data[lineage.SettingsKey])
	sum := sha256.Sum256(text)
	if got := "v1:sha256:" + hex.EncodeToString(sum[:]); got != digest {
		return nil, check.withDifference(newDifference("digest of "+lineage.SettingsKey, 0, digest, got)), nil
	}
	check.Note = "its content has the digest in the record"
	return text, check.withDifference(nil), nil
}

// ReadProfile returns the profile of an intact record as its file has it at the recorded commit,
// with the lines of its fields. It returns nil if no file has it: a user created the object, the
// record names an artifact or a directory, or the file is gone.
func (v *Verifier) ReadProfile(ctx context.Context, pool types.NamespacedName, rec render.Record) (*profile.Document, error) {
	s := &target{pool: pool, gen: &lineage.StoredRecord{Record: rec}}
	if err := v.readProfileSourceAndPool(ctx, s); err != nil {
		return nil, err
	}
	what := s.newClaimedOrigin()
	if v.isBuiltin(what) {
		o, err := v.findBuiltinOrigin(ctx, what)
		if err != nil {
			return nil, err
		}
		return o.doc, nil
	}
	r, why := v.findRepository(ctx, s, what)
	if why != "" {
		return nil, nil
	}
	// The ProfileSource can have had another folder then.
	for _, in := range []*repository{r, r.withFolder(path.Dir(what.Path))} {
		if in == nil {
			continue
		}
		snap, err := in.readRevision(ctx, what.Commit)
		if errors.Is(err, source.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		doc, found, err := in.indexer.ProfileInFile(ctx, snap, what.Path, what.Profile, what.ProfileDigest)
		if err != nil || found {
			return &doc, err
		}
	}
	return nil, nil
}
