package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// checkNode compares a NodeProvenance with the record that it names, with the repository,
// and with itself.
func (v *Verifier) checkNode(ctx context.Context, s *target, what api.ProvenanceConfiguration, from *origin) (Check, error) {
	np := s.node
	check := Check{Thing: ThingNodeProvenance, Name: np.Name, Note: "evidence " + string(np.Spec.Evidence)}
	fields := []field{{"metadata.name", lineage.ProvenanceName(np.Spec.Node.Name, np.Spec.Node.UID), np.Name}}
	fields = append(fields, s.recordFields()...)
	fields = append(fields, s.repositoryFields(from)...)
	fields = append(fields, s.reportFields()...)
	fields = append(fields, s.labelFields()...)
	if d := firstMismatch(fields...); d != nil {
		return check.withDifference(d), nil
	}
	for _, compare := range []func(context.Context, *target) (*Difference, error){v.detectEditedInputDigest, v.compareBootstrapConfiguration} {
		if d, err := compare(ctx, s); err != nil || d != nil {
			return check.withDifference(d), err
		}
	}
	d, doubt, err := v.compareMachine(ctx, s)
	if err != nil || d != nil {
		return check.withDifference(d), err
	}
	had, err := v.readTimeline(ctx, s)
	if err != nil {
		return check, err
	}
	for _, compare := range []func() (*Difference, string){
		func() (*Difference, string) { return s.compareWithTimeline(had) },
		func() (*Difference, string) { return firstMismatch(s.timeFields()...), "" },
		func() (*Difference, string) { return s.compareNodeReport(), "" },
		func() (*Difference, string) { return s.comparePossible(had), "" },
		func() (*Difference, string) { return s.compareHistory(had), "" },
		func() (*Difference, string) { return nil, s.concludeAgain(had) },
		func() (*Difference, string) { return nil, s.compareTimes(had) },
	} {
		d, why := compare()
		if d != nil {
			return check.withDifference(d), nil
		}
		doubt = cmp.Or(doubt, why)
	}
	d, err = from.compareSelectedBy(ctx, what, "spec.configuration.selectedBy", np.Spec.Configuration.SelectedBy)
	if err != nil || d != nil || doubt == "" {
		return check.withDifference(d), err
	}
	return check.asUnproven("%s", doubt), nil
}

// recordFields returns the fields with their values in the record, if the record is unedited.
func (s *target) recordFields() []field {
	if s.gen == nil || !s.gen.IsIntact() {
		return nil
	}
	c, rec := s.node.Spec.Configuration, s.gen.Record
	const at = "spec.configuration."
	return []field{
		{at + "inputDigest", rec.Digests.Input, c.InputDigest},
		{at + "profile", rec.Profile, c.Profile}, {at + "version", rec.Version, c.Version},
		{at + "object", rec.Object, c.Object}, {at + "profileDigest", rec.ObjectDigest, c.ProfileDigest},
		{at + "repository", rec.Repository, c.Repository}, {at + "path", rec.Path, c.Path},
		{at + "commit", rec.Commit, c.Commit}, {at + "change", rec.Change, c.Change},
	}
}

// labelFields returns the labels by which users select NodeProvenances, with their values in its spec. A
// missing label does not count: not every value can be one.
func (s *target) labelFields() []field {
	c, labels := s.node.Spec.Configuration, s.node.Labels
	var fields []field
	for _, f := range []struct{ name, want string }{
		{api.LabelNode, api.NodeLabel(s.node.Spec.Node.Name)}, {api.LabelPool, api.PoolLabel(s.pool.Namespace, s.pool.Name)},
		{api.LabelProfile, c.Profile}, {api.LabelVersion, render.LabelValue(c.Version)},
		{api.LabelCommit, render.LabelValue(c.Commit)}, {api.LabelConfig, render.ShortDigest(c.InputDigest)},
	} {
		if got, ok := labels[f.name]; ok {
			fields = append(fields, field{"label " + f.name, f.want, got})
		}
	}
	return fields
}

// repositoryFields returns the fields with their values in the repository. The author may be
// truncated, if the profile's object was deleted when the node joined.
func (s *target) repositoryFields(from *origin) []field {
	if !from.found || from.author.Commit == "" {
		return nil
	}
	c := s.node.Spec.Configuration
	const at = "spec.configuration."
	fields := []field{
		{at + "commit", string(from.version.Commit), c.Commit}, {at + "change", string(from.author.Commit), c.Change},
		{at + "path", from.version.Path, c.Path}, {at + "profileDigest", from.version.Digest, c.ProfileDigest},
	}
	fields = append(fields, field{at + "shortCommit", c.Commit[:min(12, len(c.Commit))], c.ShortCommit})
	if c.Author != "" || s.isProfileUnchanged() {
		fields = append(fields, field{at + "author", from.formatAuthor(), c.Author})
	}
	if c.CommittedAt != "" || s.isProfileUnchanged() {
		fields = append(fields, field{at + "committedAt", from.formatCommitTime(), c.CommittedAt})
	}
	if s.isProfileUnchanged() {
		fields = append(fields, field{at + "signature", s.osp.Annotations[api.AnnotationSignature], c.Signature})
	}
	return fields
}

// isProfileUnchanged reports whether the profile's object still exists with the same content.
func (s *target) isProfileUnchanged() bool {
	return s.osp != nil && s.osp.Annotations[api.AnnotationDigest] == s.node.Spec.Configuration.ProfileDigest &&
		profile.Digest(s.osp.Spec) == s.node.Spec.Configuration.ProfileDigest
}

// reportFields returns the fields of the node report, if that is the evidence.
func (s *target) reportFields() []field {
	c, reported := s.node.Spec.Configuration, s.node.Spec.Reported
	if s.node.Spec.Evidence != api.EvidenceReported {
		return nil
	}
	if reported == nil {
		return []field{{"spec.reported", "the node report, as spec.evidence is " + string(api.EvidenceReported), ""}}
	}
	fields := []field{{"spec.configuration.inputDigest, which the node reports", reported.Config, render.ShortDigest(c.InputDigest)}}
	if reported.Commit != "" {
		fields = append(fields, field{"spec.configuration.commit, which the node reports", reported.Commit, render.LabelValue(c.Commit)})
	}
	return fields
}

// timeFields returns the times that also appear in other objects or fields.
func (s *target) timeFields() []field {
	np := s.node.Spec
	at := func(t *metav1.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	fields := []field{{"spec.window.from", at(lineage.NewProvenanceWindow(np.Machine.Created, np.Window.Until).From), at(np.Window.From)}}
	if np.Window.Until.After(np.Node.Joined.Time) {
		fields = append(fields, field{"spec.window.until", "not after " + at(&np.Node.Joined), at(&np.Window.Until)})
	}
	if s.live != nil {
		fields = append(fields, field{"spec.node.uid", string(s.live.UID), string(np.Node.UID)},
			field{"spec.node.joined", at(&s.live.CreationTimestamp), at(&np.Node.Joined)})
		if id := s.live.Spec.ProviderID; id != "" && np.Node.ProviderID != "" { // a cloud can set it later
			fields = append(fields, field{"spec.node.providerID", redact.Shorten(id, 2048), np.Node.ProviderID})
		}
	}
	return fields
}

// compareNodeReport returns a difference between the node report and the NodeProvenance: the current
// report of an existing node, otherwise the last one. The controller may not have noticed
// it yet.
func (s *target) compareNodeReport() *Difference {
	if c := apimeta.FindStatusCondition(s.node.Status.Conditions, api.AgreedCondition); c != nil && c.Status == metav1.ConditionFalse {
		return newDifference("status.conditions, "+c.Type, 0, "the node report agrees with the records", c.Message)
	}
	reported := cmp.Or(s.node.Status.Reported, s.node.Spec.Reported, &api.NodeReport{})
	if s.live != nil {
		now := lineage.ReportOf(s.live)
		reported = &now
	}
	c := s.node.Spec.Configuration
	if reported.Config != "" {
		if d := firstMismatch(field{"spec.configuration.inputDigest, which the node reports", reported.Config, render.ShortDigest(c.InputDigest)}); d != nil {
			return d
		}
	}
	ofOther := func(p api.PossibleConfiguration) bool { return render.LabelValue(p.Commit) == reported.Commit }
	if reported.Commit == "" || reported.Config == "" && slices.ContainsFunc(s.node.Spec.Possible, ofOther) {
		return nil
	}
	return firstMismatch(field{"spec.configuration.commit, which the node reports", reported.Commit, render.LabelValue(c.Commit)})
}

// detectEditedInputDigest detects an edited input digest: another record matches in everything else.
// Otherwise the record was deleted.
func (v *Verifier) detectEditedInputDigest(ctx context.Context, s *target) (*Difference, error) {
	if s.gen != nil {
		return nil, nil
	}
	digests, err := v.digestsOfMatchingRecords(ctx, s)
	// If several records match, any of them can be the right one.
	if err != nil || len(digests) != 1 {
		return nil, err
	}
	return newDifference("spec.configuration.inputDigest", 0, digests[0], s.digest), nil
}

// compareBootstrapConfiguration compares the configuration of the bootstrap document with its record,
// which may be older than that of the provisioning document.
func (v *Verifier) compareBootstrapConfiguration(ctx context.Context, s *target) (*Difference, error) {
	b, gen := s.node.Spec.Bootstrap, s.gen
	if b == nil {
		return newDifference("spec.bootstrap", 0, "the configuration of the bootstrap document", ""), nil
	}
	if b.InputDigest != s.digest {
		var err error
		if gen, err = v.findRecord(ctx, s.pool, b.InputDigest); err != nil {
			return nil, err
		}
		if gen == nil {
			return newDifference("spec.bootstrap.inputDigest", 0, "the digest of a record of the pool", b.InputDigest), nil
		}
	}
	if gen == nil {
		return nil, nil // the check of the record reports it as missing
	}
	if !gen.IsIntact() {
		if gen == s.gen {
			return nil, nil // likewise
		}
		return newDifference("record of spec.bootstrap, "+describeHolder(gen), 0, "the input digest "+gen.Record.InputDigest(), gen.Record.Digests.Input), nil
	}
	return firstMismatch(field{"spec.bootstrap.profile", gen.Record.Profile, b.Profile},
		field{"spec.bootstrap.version", gen.Record.Version, b.Version}, field{"spec.bootstrap.commit", gen.Record.Commit, b.Commit}), nil
}

// checkMatch checks that a node reports that it has what its configuration put on it. The proof is
// the node's own word.
func checkMatch(np *api.NodeProvenance) Check {
	check := Check{Thing: ThingNodeFiles, Name: np.Spec.Node.Name}
	c := apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition)
	m := np.Status.Match
	switch {
	case c == nil || m == nil:
		return check.asUnproven("the node has not reported yet")
	case np.Status.Removed != nil:
		return check.asUnproven("the node was deleted")
	case c.Status == metav1.ConditionUnknown:
		return check.asUnproven("%s", c.Message)
	case c.Status == metav1.ConditionTrue:
		check.Note = "the node reports that it has the files and units of its configuration"
		return check.withDifference(nil)
	case len(m.Differences) == 0:
		return check.withDifference(newDifference("status.match", 0, string(api.MatchStateMatches), string(m.State)))
	}
	d := m.Differences[0]
	found := string(d.Reason)
	if d.Found != "" {
		found += " " + d.Found
	}
	if d.Version != "" {
		found += ", as in " + d.Version
	}
	if more := len(m.Differences) - 1 + int(m.Others); more > 0 {
		found += fmt.Sprintf(", and %d more differences", more)
	}
	return check.withDifference(newDifference(d.Path, 0, "what its configuration has", found))
}
