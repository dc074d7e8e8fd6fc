package verify

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
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
	if d := firstMismatch(fields...); d != nil {
		return check.withDifference(d), nil
	}
	for _, compare := range []func(context.Context, *target) (*Difference, error){v.detectEditedInputDigest, v.compareBootstrapConfiguration, v.compareMachine} {
		if d, err := compare(ctx, s); err != nil || d != nil {
			return check.withDifference(d), err
		}
	}
	had, err := v.readTimeline(ctx, s)
	if err != nil {
		return check, err
	}
	var doubt string
	for _, compare := range []func() (*Difference, string){
		func() (*Difference, string) { return s.compareWithTimeline(had) },
		func() (*Difference, string) { return firstMismatch(s.timeFields()...), "" },
		func() (*Difference, string) { return s.compareNodeReport(), "" },
		func() (*Difference, string) { return s.comparePossible(had) },
		func() (*Difference, string) { return s.compareHistory(had), "" },
	} {
		d, why := compare()
		if d != nil {
			return check.withDifference(d), nil
		}
		doubt = cmp.Or(doubt, why)
	}
	d, err := from.compareSelectedBy(ctx, what, "spec.configuration.selectedBy", np.Spec.Configuration.SelectedBy)
	if err != nil || d != nil || doubt == "" {
		return check.withDifference(d), err
	}
	return check.asUnproven("%s", doubt), nil
}

// recordFields returns the fields with their values in the record, if the record is unedited.
func (s *target) recordFields() []field {
	if s.gen == nil || !s.gen.isIntact() {
		return nil
	}
	c, rec := s.node.Spec.Configuration, s.gen.record
	const at = "spec.configuration."
	return []field{
		{at + "inputDigest", rec.Digests.Input, c.InputDigest},
		{at + "profile", rec.Profile, c.Profile}, {at + "version", rec.Version, c.Version},
		{at + "object", rec.Object, c.Object}, {at + "profileDigest", rec.ObjectDigest, c.ProfileDigest},
		{at + "repository", rec.Repository, c.Repository}, {at + "path", rec.Path, c.Path},
		{at + "commit", rec.Commit, c.Commit}, {at + "change", rec.Change, c.Change},
	}
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
		fields = append(fields, field{at + "author", from.formatAuthor(), c.Author}, field{at + "committedAt", from.formatCommitTime(), c.CommittedAt})
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
	if !gen.isIntact() {
		if gen == s.gen {
			return nil, nil // likewise
		}
		return newDifference("record of spec.bootstrap, "+gen.describeHolder(), 0, "the input digest "+gen.record.InputDigest(), gen.record.Digests.Input), nil
	}
	return firstMismatch(field{"spec.bootstrap.profile", gen.record.Profile, b.Profile},
		field{"spec.bootstrap.version", gen.record.Version, b.Version}, field{"spec.bootstrap.commit", gen.record.Commit, b.Commit}), nil
}

// compareMachine follows an existing machine to its pool.
func (v *Verifier) compareMachine(ctx context.Context, s *target) (*Difference, error) {
	spec := s.node.Spec
	var machine cluster.Machine
	found, err := kubeclient.Find(ctx, v.Worker, types.NamespacedName{Namespace: spec.Machine.Namespace, Name: spec.Machine.Name}, &machine)
	if err != nil || !found || machine.UID != spec.Machine.UID {
		s.isMachineGone = s.live != nil
		return nil, err
	}
	if d := firstMismatch(field{"spec.machine.created", machine.CreationTimestamp.UTC().Format(time.RFC3339), spec.Machine.Created.UTC().Format(time.RFC3339)}); d != nil {
		return d, nil
	}
	if ref := machine.Status.NodeRef; s.live != nil && ref != nil && ref.Name != spec.Node.Name {
		return newDifference("spec.node.name", 0, ref.Name+", which the Machine names", spec.Node.Name), nil
	}
	chain, err := lineage.FollowOwners(ctx, kubeclient.Owners{v.Worker}, &machine)
	if err != nil {
		return nil, err
	}
	fields := []field{{"spec.pool.machineSet", chain.MachineSet.Name, spec.Pool.MachineSet}}
	if chain.Pool.Name != "" {
		fields = append(fields, field{"spec.pool", chain.Pool.String(), s.pool.String()}, field{"spec.pool.uid", string(chain.Pool.UID), string(spec.Pool.UID)})
	}
	return firstMismatch(fields...), nil
}

// compareWithTimeline compares the claimed configuration with those that the pool had in the time in which
// the machine fetched its documents. The result is a doubt if the claim is possible and no object proves
// it, see MayHaveHad.
func (s *target) compareWithTimeline(had lineage.Timeline) (d *Difference, doubt string) {
	if s.gen == nil || !s.gen.isIntact() {
		return nil, "" // the check of the record reports it
	}
	if s.gen.archived != nil && lineage.DecodeIntervals(s.gen.archived.Annotations) == nil {
		return newDifference("annotation "+api.AnnotationIntervals+" of "+s.gen.describeHolder(), 0, "the JSON of intervals", "something else"), ""
	}
	np := s.node.Spec
	w := np.Window
	if s.isMachineGone {
		w.From = nil // only the Machine proves it
	}
	certain := w
	if certain.From == nil {
		certain.From = &w.Until
	}
	// The Machine of a node that was adopted is younger than the node.
	isPossible := np.Machine.Created.After(np.Node.Joined.Add(lineage.Leeway)) || s.isMachineGone
	if w.From != nil {
		isPossible = !w.Until.Add(lineage.Leeway).Before(w.From.Time)
	}
	var isProven, mayBe bool
	for i, g := range had {
		if g.InputDigest != s.digest {
			continue
		}
		recorded := g
		if i > 0 && g.Record == "" && g.Replaces == had[i-1].UID && !had[i-1].Archived.IsZero() {
			recorded.From = had[i-1].Archived // the OperatingSystemConfig can have been created again
		}
		// The timeline corrects the ends, which have the controller's clock, by annotations that a user can
		// edit. So it cannot prove anything.
		recorded.Until = g.Archived
		isProven = isProven || (g.Record == "" || !g.Archived.IsZero()) && recorded.WasCurrentDuring(certain, lineage.Bridge)
		mayBe = mayBe || isPossible && (had.MayHaveHad(recorded, w) || g.WasCurrentDuring(w, lineage.Bridge))
	}
	switch {
	case isProven && hadOthersThroughout(had, s.digest, certain.From.Time, w.Until.Time):
		return nil, "the pool had another configuration then, unless the controller was interrupted before it wrote the documents"
	case isProven && s.canHaveFetchedLater(had):
		return nil, "spec.window.until is before the node joined, when its pool had another configuration: the node was deleted and created again, or the field was edited"
	case isProven:
		return nil, ""
	case mayBe:
		return nil, "the records have this configuration at other times only: its OperatingSystemConfig was created again, a record is missing, or the controller's clock was behind"
	}
	if i := slices.IndexFunc(had, func(g lineage.Generation) bool { return holds(g, w.Until.Time) }); s.gen.archived == nil && i >= 0 {
		return newDifference("spec.configuration.inputDigest", 0, had[i].InputDigest+", which the pool had at that time", s.digest), ""
	}
	return newDifference("spec.window", 0, "a time at which the pool had this configuration", w.Until.UTC().Format(time.RFC3339)), ""
}

// canHaveFetchedLater reports whether the pool had another configuration until the node joined. The end of
// the window can be earlier, for a node that was deleted and created again, and only the
// NodeProvenance of the first node, which a user can edit, proves that.
func (s *target) canHaveFetchedLater(had lineage.Timeline) bool {
	np := s.node.Spec
	if !np.Window.Until.Before(&np.Node.Joined) {
		return false
	}
	rest := api.ProvenanceWindow{From: &np.Window.Until, Until: np.Node.Joined}
	return slices.ContainsFunc(had, func(g lineage.Generation) bool { return g.InputDigest != s.digest && g.WasCurrentDuring(rest, 0) })
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
