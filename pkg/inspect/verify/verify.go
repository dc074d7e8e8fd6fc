package verify

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// Verifier verifies. Its fields are set once, before the first use.
type Verifier struct {
	// Management has profiles, configurations and records; Worker has pools, Secrets,
	// nodes and NodeProvenances. Mostly they are one cluster.
	Management, Worker client.Reader
	// Namespace is the controller's.
	Namespace string
	// Engine renders, and Check judges profiles as the controller does.
	Engine *render.Engine
	Check  profile.Check
	// Builtin are the profiles of this binary.
	Builtin *source.Embedded
	// Git fetches repositories.
	Git Fetcher
	// Given is the repository to believe in place of the recorded one; nil for that.
	Given *Place
	// Keys are trusted to sign commits. nil: those of the ProfileSource, where it
	// demands signatures.
	Keys *signature.Keys
	// FollowedOnly asks no repository but those of ProfileSources: for a process that
	// others can make verify what they wrote into a record (security.md 9).
	FollowedOnly bool
	// WithoutSecrets leaves out what nobody reads who may not read credentials.
	WithoutSecrets bool
}

// subject is what is verified, and what the clusters say about it.
type subject struct {
	pool types.NamespacedName
	// node is nil where a pool is asked about.
	node *api.NodeProvenance
	// live is that Node, nil where it is gone.
	live *metav1.PartialObjectMetadata
	// digest is the input digest that is asked for.
	digest string
	gen    *storedRecord // nil where no record is found
	osp    *osm.OperatingSystemProfile
	from   *api.ProfileSource // nil where it is not known or gone
	md     *cluster.MachineDeployment
}

// claim is what is to be proven: a version of a profile, and where it comes from.
type claim struct {
	object, digest           string
	profile, version         string
	repository, path         string
	commit, change, selected string
}

// Node verifies what a node was provisioned from, the node being there or gone.
func (v *Verifier) Node(ctx context.Context, name string) (*Report, error) {
	np, live, err := v.provenance(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &subject{
		node: np, live: live, pool: types.NamespacedName{Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name},
	}
	report := &Report{Subject: "node/" + np.Spec.Node.Name}
	c := np.Spec.Configuration
	if c == nil {
		report.add(Check{Thing: ThingNodeProvenance, Name: np.Name}.unproven("the evidence is %s: %s", np.Spec.Evidence, redact.Clean(np.Spec.Explanation)))
		report.conclude()
		return report, nil
	}
	s.digest = c.InputDigest
	if s.gen, err = v.generationOf(ctx, s.pool, s.digest); err != nil {
		return nil, err
	}
	if err := v.examine(ctx, s, report); err != nil {
		return nil, err
	}
	return report, v.examineBootstrap(ctx, s, report)
}

// examineBootstrap compares what the bootstrap document of a node was made from, where
// that is an older configuration than the other's.
func (v *Verifier) examineBootstrap(ctx context.Context, s *subject, report *Report) error {
	b := s.node.Spec.Bootstrap
	if b == nil || b.InputDigest == s.digest {
		return nil
	}
	gen, err := v.generationOf(ctx, s.pool, b.InputDigest)
	if err != nil || gen == nil || !gen.sound() {
		return err // that was told of the NodeProvenance
	}
	older := &Report{}
	if err := v.examine(ctx, &subject{pool: s.pool, gen: gen, digest: b.InputDigest}, older); err != nil {
		return err
	}
	for _, c := range older.Checks {
		report.add(c)
	}
	report.Engine = cmp.Or(report.Engine, older.Engine)
	report.conclude()
	return nil
}

// Pool verifies the configuration that a MachineDeployment has now.
func (v *Verifier) Pool(ctx context.Context, pool types.NamespacedName) (*Report, error) {
	report := &Report{Subject: "machinedeployment/" + pool.String()}
	osc, err := v.config(ctx, pool)
	if err != nil {
		return nil, err
	}
	if osc == nil {
		return nil, fmt.Errorf("there is no OperatingSystemConfig %s/%s: %s is no pool, or was given no configuration yet", v.Namespace, lineage.NamesOf(pool).Config, pool)
	}
	s := &subject{pool: pool, gen: generationIn(osc)}
	s.digest = s.gen.record.Digests.Input
	return report, v.examine(ctx, s, report)
}

// examine compares everything there is.
func (v *Verifier) examine(ctx context.Context, s *subject, report *Report) error {
	if s.node == nil && !s.gen.readable() { // nobody says what it should be
		report.add(s.checkRecord(claim{}, &origin{}))
		report.conclude()
		return nil
	}
	if err := v.surroundings(ctx, s); err != nil {
		return err
	}
	what := s.claim()
	report.Profile, report.Version, report.InputDigest = what.profile, what.version, s.digest
	report.Repository, report.Commit = redact.Clean(what.repository), redact.Clean(what.commit)

	from, err := v.origin(ctx, s, what)
	if err != nil {
		return err
	}
	report.Checks = append(report.Checks, from.checks...)
	record := s.checkRecord(what, from)
	if s.gen != nil && s.gen.sound() && record.Result == Agrees {
		d, err := from.selection(ctx, what, "selectedBy", s.gen.record.SelectedBy)
		if err != nil {
			return err
		}
		record = record.with(d)
	}
	report.add(record)
	if s.node != nil {
		c, err := v.checkNode(ctx, s, what, from)
		if err != nil {
			return err
		}
		report.add(c)
	}
	report.add(s.checkProfile(what, from))
	if s.gen == nil || !s.gen.readable() {
		report.conclude()
		return nil
	}
	settings, check, err := v.settings(ctx, s.gen.record.SettingsDigest)
	if err != nil {
		return err
	}
	report.add(check)
	if s.gen.record.Engine != render.EngineVersion {
		report.Engine = s.gen.record.Engine
	}
	outputs, err := v.outputs(ctx, s, from, settings)
	if err != nil {
		return err
	}
	for _, c := range outputs {
		report.add(c)
	}
	report.conclude()
	return nil
}

// claim is what the record says, or where that was edited what the node's provenance
// says of the same.
func (s *subject) claim() claim {
	if s.gen != nil && (s.gen.sound() || s.node == nil) {
		r := s.gen.record
		return claim{
			object: r.Object, digest: r.ObjectDigest, profile: r.Profile, version: r.Version,
			repository: r.Repository, path: r.Path, commit: r.Commit, change: r.Change, selected: r.SelectedBy,
		}
	}
	c := s.node.Spec.Configuration
	return claim{
		object: c.Object, digest: c.ProfileDigest, profile: c.Profile, version: c.Version,
		repository: c.Repository, path: c.Path, commit: c.Commit, change: c.Change, selected: c.SelectedBy,
	}
}
