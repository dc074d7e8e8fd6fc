package pools

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/secretdigest"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// plan is what apply writes, in the order of these fields, and what is reported of it. A nil field
// means no change.
type plan struct {
	bootstrapToken token.Bootstrap
	withdraw       []client.Object // of a pool that yields to a rival
	err            error           // why nothing more is written
	storeKey       bool            // of keyed digests

	access       access.Plan // of the pool's own token; what is deleted comes last
	kubeconfig   *corev1.Secret
	edge         edgePlan // the script to write; to delete comes last
	settings     *corev1.ConfigMap
	inputs       *inputsPlan                // the credentials to store; to delete comes last
	osc          *osm.OperatingSystemConfig // to create, after deleting the existing one
	oscMetadata  map[string]string          // annotations to patch if the configuration remains
	provisioning secretPlan
	bootstrap    secretPlan
	rejected     map[string]string // annotations of the configuration about rejection, nil for none

	serving        render.Record // of the generation that the plan leads to
	replaced       render.Record // of the one before, zero when it is the same, or not to be believed
	drifted        []string      // what a user changed manually, without values
	restoresConfig bool          // drifted includes the configuration, and osc has its previous content
	wanted         bool          // it is what the pool asks for, not what it had
	hasOSMDocument bool          // a document of OSM is preserved or replaced
	differs        []string      // what in such documents differs, without content
	rejection      error         // why the pool does not get what it asks for
	unrenewed      error         // why the documents of the last good generation cannot be renewed
	readError      error         // why that is not known: something could not be read, and is tried again
	expires        time.Time     // end of the bootstrap token
	nextRun        time.Time     // when a node token is due, or its account can be deleted; zero for never
	poll           time.Duration // until the next read of objects that are not watched, 0 for never

	// lacks is what planning needs and observed does not have yet. Nothing else is planned then.
	lacks lack
	// readable are the Secrets that the lacking node token is to read.
	readable []string
}

// lack is what only some plans need, and what costs requests. makePlan reads it; the node token is
// obtained by obtainNodeToken.
type lack int

const (
	lacksNothing lack = iota
	// lacksLastGood is the generation that the pool has.
	lacksLastGood
	// lacksDocuments is the content of the user-data Secrets.
	lacksDocuments
	// lacksMachine asks whether a machine boots from documents that the plan replaces.
	lacksMachine
	// lacksNodeToken is a token for documents that are to be written.
	lacksNodeToken
)

// secretPlan is what happens to a user-data Secret: all of it is written, or
// some annotations are patched, or nothing.
type secretPlan struct {
	write  *corev1.Secret
	patch  map[string]string
	labels map[string]string // to patch with the annotations
}

// inputsPlan has the credentials of a generation; data is nil if there are none.
type inputsPlan struct {
	key  string // first 12 hex digits of the input digest
	data []byte
}

// plannedGeneration is one rendering of a pool, before it is rendered.
type plannedGeneration struct {
	in       render.Input
	input    string // digest
	revision string // of the MachineDeployment

	credentials       render.Credentials
	hidden            []byte // JSON of the credentials
	credentialsDigest string
	tokensDigest      string
	nodeToken         token.Node // in.Cluster.APIServerToken
}

// planner compares what was observed with what a pool should have. It has no client and no
// clock: equal observations give equal plans.
type planner struct {
	engine    Renderer
	namespace string // of configurations and settings
	ca        string // of --node-kubernetes-ca-cert, in PEM
}

// planConfiguration plans the configuration that the pool requests, or to maintain the present one.
func (e planner) planConfiguration(seen *observed) plan {
	// Names come first: without them the pool cannot have objects, whatever it requests.
	if conflict := seen.yieldsTo(); conflict != nil {
		planned := renewalPlan(seen, conflict.conflictError(seen.md, progressOf(seen.md, seen.objects)))
		planned.withdraw = seen.unused
		return planned
	}
	if err := checkObjectOwnership(seen); err != nil {
		return renewalPlan(seen, err)
	}
	planned, err := e.planDesiredOrLastGood(seen)
	if err == nil && planned.lacks == lacksNothing {
		planned = takeOver(seen, planned)
	}
	if err != nil {
		return renewalPlan(seen, err)
	}
	planned.rejected = rejectionAnnotations(seen, planned)
	if planned.osc != nil {
		maps.Copy(planned.osc.Annotations, planned.rejected)
	}
	return planned
}

// renewalPlan returns the plan for a pool for which nothing more can be planned: a bootstrap token
// that is due is renewed despite any error.
func renewalPlan(seen *observed, err error) plan {
	p := plan{err: err, bootstrapToken: seen.bootstrapToken, poll: seen.poll}
	if !seen.bootstrapToken.Create {
		p.expires = seen.bootstrapToken.Expires
	}
	return p
}

// planDesiredOrLastGood plans what the pool requests. It plans to maintain what the pool has if the
// pool cannot have that, or is suspended.
func (e planner) planDesiredOrLastGood(seen *observed) (plan, error) {
	suspended, err := isSuspended(seen.md)
	if suspended && seen.lastGood == nil {
		return plan{lacks: lacksLastGood}, nil
	}
	// A suspended pool without a configuration still gets its first one.
	if suspended && !seen.hasNothingToBootFrom() {
		return e.planSuspended(seen)
	}
	var planned plan
	if err == nil {
		planned, err = e.planDesired(seen)
	}
	if _, final := fault.PermanentReason(err); final {
		return e.planLastGood(seen, wrapVersionError(seen, err))
	}
	return planned, err
}

// planDesired plans what the pool asks for.
func (e planner) planDesired(seen *observed) (plan, error) {
	if seen.desiredErr != nil {
		return plan{}, seen.desiredErr
	}
	target, err := digestGeneration(seen, seen.desired, seen.md.Annotations[api.AnnotationMDRevision])
	if err != nil {
		return plan{}, err
	}
	planned, err := e.planGeneration(seen, target)
	planned.wanted = err == nil
	return planned, err
}

// planGeneration compares the existing objects with those of a generation. It renders only if
// something has to be written. A *fault.Rejection or *render.InvalidError says that the pool cannot
// have this generation.
func (e planner) planGeneration(seen *observed, target plannedGeneration) (plan, error) {
	planned := planTokenAndKubeconfig(seen)
	planned.edge, planned.access = e.planEdge(seen, target.in.Pool), planAccess(seen, target.in.Pool)
	want := target.userDataAnnotations(seen.md)
	have := seen.objects
	// A token that is valid for long enough is not a reason to write a document.
	wantProvisioning := target.withCurrentToken(seen, have.provisioning, want)
	wantBootstrap := target.withCurrentToken(seen, have.bootstrap, want)

	rec := recordOf(have.osc)
	newOSC := have.osc == nil || mismatchedAnnotation(have.osc, rec) != "" || rec.Digests.Input != target.input || have.osc.Annotations[api.AnnotationPoolUID] != want[api.AnnotationPoolUID]
	newProvisioning := isMissingOrOutdated(have.provisioning, wantProvisioning)
	newBootstrap := isMissingOrOutdated(have.bootstrap, wantBootstrap)
	if !newOSC {
		planned.serving = rec
		planned.oscMetadata = metadataPatch(have.osc.Annotations, configAnnotations(want))
	}
	if !newProvisioning {
		planned.provisioning.patch = metadataPatch(have.provisioning.Annotations, wantProvisioning)
	}
	if !newBootstrap {
		planned.bootstrap.patch = metadataPatch(have.bootstrap.Annotations, wantBootstrap)
	}
	planned.nextRun = earliestNonZeroTime(planned.access.NextRun, planned.edge.renew, lineage.AnnotatedTime(wantProvisioning, api.AnnotationCredentialsRenewAt), lineage.AnnotatedTime(wantBootstrap, api.AnnotationCredentialsRenewAt))
	planned.settings = newSettings(e.namespace, target.in)
	planned.inputs = &inputsPlan{key: render.ShortDigest(target.input)}
	if !target.credentials.Empty() {
		planned.inputs.data = target.hidden
	}
	planned.drifted, planned.restoresConfig = detectDrift(seen, target, planned)
	anew := newOSC || newProvisioning || newBootstrap
	// A token costs requests, so it is requested only if a document is written.
	if (anew || planned.edge.lacksToken) && target.nodeToken.Value == "" {
		return plan{lacks: lacksNodeToken, readable: readableSecrets(seen.md, target.in.Pool)}, nil
	}
	if !anew {
		return planned, nil
	}

	out, err := e.engine.Render(target.in)
	if err != nil {
		return plan{}, err
	}
	if newOSC {
		record, err := render.MarshalRecord(out.Record)
		if err != nil {
			return plan{}, err
		}
		planned.osc = newConfig(seen.md, e.namespace, out, want, record)
		if have.osc != nil {
			planned.osc.Annotations[api.AnnotationReplaces] = string(have.osc.UID)
		}
		if seen.cutOff { // no machine had the present configuration
			planned.osc.Annotations[api.AnnotationReplaces] = have.osc.Annotations[api.AnnotationReplaces]
		}
		if err := checkConfigSize(planned.osc, out.Record); err != nil {
			return plan{}, err
		}
		planned.serving = out.Record
		// An edited record proves nothing, so it is neither archived nor reported as replaced.
		if have.osc != nil && mismatchedAnnotation(have.osc, rec) == "" && !seen.unserved {
			planned.replaced = rec
		}
	}
	if newProvisioning {
		planned.provisioning.write = userDataSecret(namesOf(seen.md).Provisioning, have.provisioning, out.Provisioning, want)
	}
	if newBootstrap {
		planned.bootstrap.write = bootstrapSecret(have.bootstrap, target.in.Pool, namesOf(seen.md).Bootstrap, out.Bootstrap, want)
	}
	return planned, nil
}

// planTokenAndKubeconfig plans what every pool needs with any profile: the bootstrap token and the
// kubeconfig that carries it.
func planTokenAndKubeconfig(seen *observed) plan {
	planned := plan{storeKey: !seen.keyStored, bootstrapToken: seen.bootstrapToken, expires: seen.bootstrapToken.Expires, poll: seen.poll}
	data := map[string][]byte{api.KubeconfigKey: []byte(seen.kubeconfig)}
	have, digest := seen.objects.kubeconfig, lineage.DataDigest([]byte(seen.kubeconfig))
	if have == nil || len(have.Data) != 1 || digestIn(have, api.KubeconfigKey) != digest || lineage.PoolOf(have) != poolKey(seen.md) {
		annotations := poolAnnotations(seen.md)
		annotations[api.AnnotationDataDigest] = digest
		planned.kubeconfig = nextSecret(namesOf(seen.md).Kubeconfig, have, annotations, data)
	}
	return planned
}

// planAccess compares what lets the pool's token read the pool's Secrets with what
// documents need: the account has to exist before its token is requested.
func planAccess(seen *observed, pool render.Pool) access.Plan {
	have, secrets := seen.objects, readableSecrets(seen.md, pool)
	switch {
	case seen.granted != nil && slices.Equal(seen.granted.secrets, secrets):
		return access.Plan{}
	case seen.nodeToken.Account != "":
		return have.access.PlanGrant(seen.md, !seen.reportsForbidden, secrets...)
	case seen.boundTokens:
		return access.Plan{}
	}
	return have.access.PlanRetirement(seen.md, seen.now, have.provisioning, have.bootstrap, have.edge)
}

// readableSecrets are the names of the Secrets that the token of a pool may read.
func readableSecrets(md *cluster.MachineDeployment, pool render.Pool) []string {
	names := namesOf(md)
	secrets := []string{names.Provisioning, names.Kubeconfig}
	if pool.HasEdgeScript() {
		secrets = append(secrets, names.Bootstrap)
	}
	return secrets
}

// digestGeneration digests an input.
func digestGeneration(seen *observed, input render.Input, revision string) (plannedGeneration, error) {
	credentials := input.Credentials()
	digested := plannedGeneration{in: input, input: input.InputDigest(), revision: revision, credentials: credentials, nodeToken: seen.nodeToken}
	hidden, err := json.Marshal(credentials)
	if err != nil {
		return digested, fmt.Errorf("encoding credentials: %w", err)
	}
	digested.hidden = hidden
	ca := input.Settings.KubernetesCACert + string(seen.endpoint.CertificateAuthorityData)
	digested.credentialsDigest = secretdigest.Of(seen.key, hidden, []byte(input.Cluster.Server), []byte(ca))
	digested.tokensDigest = digested.digestWith(seen.key, digested.nodeToken)
	return digested, nil
}

// digestWith is the tokens digest of a document that carries a token.
func (g plannedGeneration) digestWith(key []byte, t token.Node) string {
	return secretdigest.Of(key, t.DigestInput(), []byte(g.in.Cluster.BootstrapKubeconfig))
}

// isMissingOrOutdated reports whether a user-data Secret has to be written, given its annotations.
func isMissingOrOutdated(have *corev1.Secret, annotations map[string]string) bool {
	return have == nil ||
		!sameKeys(have.Annotations, annotations, api.AnnotationInputDigest, api.AnnotationCredentialsDigest, api.AnnotationTokensDigest, api.AnnotationPoolUID) ||
		len(have.Data) != 1 || isEdited(have, api.UserDataKey)
}

// maxConfigBytes leaves room in a request to etcd, 1.5 MiB by default:
// https://etcd.io/docs/v3.6/dev-guide/limit/
const maxConfigBytes = 1<<20 + 256<<10

// checkConfigSize rejects a configuration that is larger than the API server can store, before the
// existing one is deleted for it. Rendering has checked the documents.
func checkConfigSize(osc *osm.OperatingSystemConfig, rec render.Record) error {
	encoded, err := json.Marshal(osc)
	if err != nil {
		return fmt.Errorf("encoding OperatingSystemConfig %s: %w", osc.Name, err)
	}
	if size := len(encoded) + len("\n"); size > maxConfigBytes {
		return fault.Reject("profile %q %s: the OperatingSystemConfig has %d bytes, and the API server holds %d: make the files of both stages smaller, or let the node fetch them", rec.Profile, rec.Version, size, maxConfigBytes)
	}
	return nil
}

// newSettings returns the ConfigMap with the settings of a generation, without credentials. Their
// digest is its name.
func newSettings(namespace string, in render.Input) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: lineage.SettingsName(in.SettingsDigest()), Namespace: namespace,
			Labels: map[string]string{api.LabelManagedBy: api.FieldManager},
		},
		Immutable: new(true),
		Data:      map[string]string{lineage.SettingsKey: string(in.RedactedSettingsJSON())},
	}
}

// versionError says that a pool cannot have what a version of its profile holds.
type versionError struct {
	version string
	err     error
}

func (e *versionError) Error() string { return e.err.Error() }
func (e *versionError) Unwrap() error { return e.err }

// wrapVersionError marks a rejection by rendering, from which a rollout evaluates the version. An
// earlier error, about the pool or an object that it refers to, is not evidence against the
// version.
func wrapVersionError(seen *observed, err error) error {
	if _, unclear := isSuspended(seen.md); unclear != nil || seen.desiredErr != nil {
		return err
	}
	return &versionError{seen.desired.Profile.Provenance.Version, err}
}

// rejectedVersion is the version that a rejection is about, "" for none.
func rejectedVersion(rejection error) string {
	if about, ok := errors.AsType[*versionError](rejection); ok {
		return about.version
	}
	return ""
}
