package verify

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// Verifier verifies nodes and pools. Set its fields once, before the first use.
type Verifier struct {
	// Management has profiles, configurations and records; Worker has pools, Secrets, nodes
	// and NodeProvenances. They are usually the same cluster.
	Management, Worker client.Reader
	// Namespace is the controller's namespace.
	Namespace string
	// Engine renders; Check validates profiles like the controller.
	Engine *render.Engine
	Check  catalog.Check
	// Builtin are the profiles of this program.
	Builtin *source.Embedded
	// Git fetches repositories.
	Git Fetcher
	// Repository is the repository to trust instead of the recorded one; nil uses the recorded one.
	Repository *Repository
	// Keys are trusted to sign commits; nil uses those of the ProfileSource, if it requires
	// signatures.
	Keys *signature.Keys
	// FollowedOnly restricts fetching to the repositories of ProfileSources, for a process
	// that others can make verify records that they wrote (security.md 9).
	FollowedOnly bool
	// Match requires that a node reports that it still has what its configuration put on it.
	Match bool
	// WithoutSecrets omits the Secrets, for users who cannot read them.
	WithoutSecrets bool
}

// target is what is verified, with the objects of the clusters.
type target struct {
	pool types.NamespacedName
	// node is nil if the subject is a pool.
	node *api.NodeProvenance
	// live is the Node; nil if it was deleted.
	live *corev1.Node
	// revisions are those of the MachineSet of an existing node.
	revisions []string
	// digest is the requested input digest.
	digest string
	gen    *lineage.StoredRecord // nil if no record was found
	osp    *osm.OperatingSystemProfile
	from   *api.ProfileSource // nil if unknown or deleted
	md     *cluster.MachineDeployment
}

// Node verifies the origin of an existing or deleted node.
func (v *Verifier) Node(ctx context.Context, name string) (*Report, error) {
	np, live, err := v.findLiveOrLastProvenance(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &target{
		node: np, live: live, pool: types.NamespacedName{Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name},
	}
	report := &Report{Subject: "node/" + np.Spec.Node.Name}
	if v.Match {
		report.addOrMerge(checkMatch(np))
	}
	c := np.Spec.Configuration
	if c == nil {
		report.addOrMerge(Check{Thing: ThingNodeProvenance, Name: np.Name}.asUnproven("the evidence is %s: %s", np.Spec.Evidence, redact.PrintableLine(np.Spec.Explanation)))
		report.cleanSortAndSetVerdict()
		return report, nil
	}
	s.digest = c.InputDigest
	if s.gen, err = v.findRecord(ctx, s.pool, s.digest); err != nil {
		return nil, err
	}
	if err := v.verifyTarget(ctx, s, report); err != nil {
		return nil, err
	}
	return report, v.verifyOlderBootstrap(ctx, s, report)
}

// verifyOlderBootstrap verifies the bootstrap document of a node, if its configuration is older
// than that of the provisioning document.
func (v *Verifier) verifyOlderBootstrap(ctx context.Context, s *target, report *Report) error {
	b := s.node.Spec.Bootstrap
	if b == nil || b.InputDigest == s.digest {
		return nil
	}
	gen, err := v.findRecord(ctx, s.pool, b.InputDigest)
	if err != nil || gen == nil || !gen.IsIntact() {
		return err // the check of the NodeProvenance reports it
	}
	older := &Report{}
	if err := v.verifyTarget(ctx, &target{pool: s.pool, gen: gen, digest: b.InputDigest}, older); err != nil {
		return err
	}
	for _, c := range older.Checks {
		report.addOrMerge(c)
	}
	report.Engine = cmp.Or(report.Engine, older.Engine)
	report.cleanSortAndSetVerdict()
	return nil
}

// Pool verifies the current configuration of a MachineDeployment.
func (v *Verifier) Pool(ctx context.Context, pool types.NamespacedName) (*Report, error) {
	report := &Report{Subject: "machinedeployment/" + pool.String()}
	osc, err := v.readConfig(ctx, pool)
	if err != nil {
		return nil, err
	}
	if osc == nil {
		return nil, fmt.Errorf("OperatingSystemConfig %s/%s not found: %s is not a pool, or has no configuration yet", v.Namespace, lineage.NamesOf(pool).Config, pool)
	}
	s := &target{pool: pool, gen: lineage.ConfigRecord(osc)}
	s.digest = s.gen.Record.Digests.Input
	return report, v.verifyTarget(ctx, s, report)
}

// verifyTarget compares everything about a subject.
func (v *Verifier) verifyTarget(ctx context.Context, s *target, report *Report) error {
	if s.node == nil && !s.gen.IsReadable() { // the expected state is unknown
		report.addOrMerge(s.checkRecord(api.ProvenanceConfiguration{}, &origin{}))
		report.cleanSortAndSetVerdict()
		return nil
	}
	if err := v.readProfileSourceAndPool(ctx, s); err != nil {
		return err
	}
	what := s.newClaimedOrigin()
	report.Profile = what.Profile
	report.Version = what.Version
	report.InputDigest = s.digest
	report.Repository, report.Commit = redact.PrintableLine(what.Repository), redact.PrintableLine(what.Commit)

	from, err := v.findAndCheckOrigin(ctx, s, what)
	if err != nil {
		return err
	}
	report.Checks = append(report.Checks, from.checks...)
	record := s.checkRecord(what, from)
	// A record that differs is reported already.
	if s.gen != nil && s.gen.IsIntact() && record.Result == Agrees {
		d, err := from.compareSelectedBy(ctx, what, "selectedBy", s.gen.Record.SelectedBy)
		if err != nil {
			return err
		}
		record = record.withDifference(d)
	}
	report.addOrMerge(record)
	if s.node != nil {
		c, err := v.checkNode(ctx, s, what, from)
		if err != nil {
			return err
		}
		report.addOrMerge(c)
	}
	report.addOrMerge(s.checkProfile(what, from))
	// Without a readable record nothing can be rendered.
	if s.gen == nil || !s.gen.IsReadable() {
		report.cleanSortAndSetVerdict()
		return nil
	}
	settings, check, err := v.readSettings(ctx, s.gen.Record.SettingsDigest)
	if err != nil {
		return err
	}
	report.addOrMerge(check)
	if s.gen.Record.Engine != render.EngineVersion {
		report.Engine = s.gen.Record.Engine
	}
	outputs, err := v.checkOutputs(ctx, s, from, settings)
	if err != nil {
		return err
	}
	for _, c := range outputs {
		report.addOrMerge(c)
	}
	report.cleanSortAndSetVerdict()
	return nil
}

// newClaimedOrigin returns what has to be proven: the origin in the record or, if the record was edited, in the
// NodeProvenance.
func (s *target) newClaimedOrigin() api.ProvenanceConfiguration {
	if s.gen != nil && (s.gen.IsIntact() || s.node == nil) {
		r := s.gen.Record
		return api.ProvenanceConfiguration{
			Object: r.Object, ProfileDigest: r.ObjectDigest, Profile: r.Profile, Version: r.Version,
			Repository: r.Repository, Path: r.Path, Commit: r.Commit, Change: r.Change, SelectedBy: r.SelectedBy,
		}
	}
	return *s.node.Spec.Configuration
}
