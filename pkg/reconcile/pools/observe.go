package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// observed is what one reconciliation reads. Planning reads nothing else.
type observed struct {
	md      *cluster.MachineDeployment
	objects objects
	// wasComplete is true if a run of this controller saw or wrote all of its documents.
	wasComplete bool
	// unserved is true if every document of the pool was made from a generation other than that
	// of its configuration: a user edited the configuration, or a controller was interrupted
	// before it wrote the first document. cutOff reports the latter.
	unserved, cutOff bool
	bootstrapToken   token.Bootstrap   // generateMissing generates it if there is none
	conflicts        []conflictingPool // other pools with some of the same names
	endpoint         *clientcmdapi.Cluster
	nodeToken        token.Node
	boundTokens      bool   // each pool has a node token of its own
	reportsForbidden bool   // machines cannot have the permission to report their boots
	key              []byte // of keyed digests; generateMissing generates it if there is none
	keyStored        bool
	now              time.Time

	// values are those of the cluster, with the current tokens, and kubeconfig the token among
	// them that is written as a kubeconfig.
	values     render.Cluster
	kubeconfig string
	settings   render.Settings // with the credentials of registries

	// desired is what the pool asks for; desiredErr says why it cannot have it.
	desired    render.Input
	desiredErr error
	// poll is the time until desired has to be read again, 0 for never.
	poll time.Duration

	// unused are objects that no machine has used yet, of a pool that yields to a rival.
	unused []client.Object

	// What follows is nil until a plan lacks it: see lack.
	lastGood  *lastGood
	documents map[string]*corev1.Secret // for user data, with content, by name
	booting   *booting
	granted   *granted
}

// observeDocumentMismatch finds out whether the documents follow the configuration, and asks the API
// server before it says that they do not: caches are not behind by the same time.
func (r *Reconciler) observeDocumentMismatch(ctx context.Context, seen *observed) error {
	rec := recordOf(seen.objects.osc)
	if !lineage.Intact(rec) || !seen.objects.hasOnlyOtherInputs(rec.Digests.Input) {
		return nil
	}
	now, err := r.reader().objects(ctx, r.reader().live(), seen.md)
	if err != nil {
		return err
	}
	if seen.unserved = now.hasOnlyOtherInputs(rec.Digests.Input); !seen.unserved {
		return nil
	}
	for _, document := range []*corev1.Secret{seen.objects.provisioning, seen.objects.bootstrap} {
		if !hasInputDigest(document) {
			continue
		}
		archived, err := r.archivedOf(ctx, seen, document)
		if err != nil {
			return err
		}
		// The documents are of the configuration before this one: a run was interrupted between
		// them.
		seen.cutOff = seen.cutOff || archived != nil && slices.ContainsFunc(lineage.DecodeIntervals(archived.Annotations), func(interval api.Interval) bool {
			return interval.UID != "" && string(interval.UID) == seen.objects.osc.Annotations[api.AnnotationReplaces]
		})
	}
	return nil
}

// observe only reads. Only a missing object counts as absent. If it fails it returns what it has read:
// with the bootstrap token, unless reading that failed, since it is renewed despite any other error.
func (r *Reconciler) observe(ctx context.Context, md *cluster.MachineDeployment) (*observed, error) {
	now := r.Clock.Now()
	seen := &observed{
		md: md, now: now,
		boundTokens:      r.NodeTokenTTL != 0,
		reportsForbidden: r.reports.IsActive(now),
		wasComplete:      r.cache.get(md).complete,
	}
	from, cached := r.reader().cached(), r.cache.get(md)
	if cached.raced {
		// The cache can stay behind: whenever the kind of configurations is replaced, its watch begins
		// again, and waits longer each time.
		from.management = r.Management.Live
	}
	var objectsErr, err error
	seen.objects, objectsErr = r.reader().objects(ctx, from, md)
	hasNoToken := objectsErr == nil && seen.objects.isNew() && !cached.bootstrapTokenCreated
	if seen.bootstrapToken, err = r.newTokens().FindBootstrap(ctx, md, hasNoToken); err != nil || objectsErr != nil {
		return seen, errors.Join(objectsErr, err)
	}
	if err = r.observeDocumentMismatch(ctx, seen); err != nil {
		return seen, err
	}
	if seen.conflicts, err = r.reader().conflictingPools(ctx, seen); err != nil {
		return seen, err
	}
	if seen.unused, err = r.reader().objectsToYield(ctx, seen); err != nil {
		return seen, err
	}
	if seen.key, seen.keyStored, err = r.key.Read(ctx, r.Management.Live, r.Namespace); err != nil {
		return seen, err
	}
	var missing error // about the input of new content; the existing generation is maintained without it
	if seen.endpoint, err = r.endpoints().Get(ctx); err != nil {
		// Existing documents can be maintained with the endpoint that was read last.
		lastEndpoint := r.endpoint.Load()
		if missing, err = fault.SplitPermanent(err); err != nil || lastEndpoint == nil {
			return seen, errors.Join(err, missing)
		}
		seen.endpoint = lastEndpoint
	}
	if seen.nodeToken, err = r.findNodeToken(ctx, seen); err != nil {
		return seen, err
	}
	seen.settings, err = r.NodeSettings(ctx)
	if err != nil {
		if missing, err = fault.SplitPermanent(err); err != nil {
			return seen, err
		}
	}
	seen.values = render.Cluster{
		Server:                        seen.endpoint.Server,
		APIServerToken:                seen.nodeToken.Value,
		BootstrapKubeconfigSecretName: namesOf(md).Kubeconfig,
	}
	if !seen.bootstrapToken.Create {
		if err = seen.addBootstrapToken(); err != nil {
			return seen, err
		}
	}
	seen.desired, seen.desiredErr = r.inputOf(ctx, md, recordOf(seen.objects.osc), seen.settings, seen.values)
	// The pool's own problem comes first, because the user of the pool can fix it.
	if seen.desiredErr == nil {
		seen.desiredErr = missing
	}
	if seen.desiredErr == nil {
		seen.desired.Pool, seen.poll, seen.desiredErr = r.cloudConfigs().AddCloudConfig(ctx, md, seen.desired)
	}
	if seen.desiredErr == nil {
		seen.poll, seen.desiredErr = r.cache.activeRejection(seen)
	}
	// Other errors pass: a plan from half of the state would report a problem that does not
	// exist.
	if _, final := fault.PermanentReason(seen.desiredErr); seen.desiredErr != nil && !final {
		return seen, seen.desiredErr
	}
	r.cache.forgetDeleted(seen)
	return seen, nil
}

// addBootstrapToken adds the bootstrap token to the values that documents contain.
func (seen *observed) addBootstrapToken() (err error) {
	if seen.kubeconfig, err = kubeclient.BootstrapKubeconfig(seen.endpoint, seen.bootstrapToken.Value); err != nil {
		return err
	}
	seen.values.BootstrapToken = seen.bootstrapToken.Value
	seen.values.BootstrapKubeconfig = seen.kubeconfig
	seen.desired.Cluster = seen.values
	return nil
}

// inputOf collects what the pool asks for. A *fault.Rejection or *render.InvalidError
// says why it cannot have it.
func (r *Reconciler) inputOf(ctx context.Context, md *cluster.MachineDeployment, have render.Record, settings render.Settings, values render.Cluster) (render.Input, error) {
	pool, err := render.DecodePool(md)
	if err != nil {
		return render.Input{}, err
	}
	prof, err := r.newProfiles().Resolve(ctx, md, have)
	if err != nil {
		return render.Input{}, err
	}
	return render.Input{Profile: prof, Pool: pool, Settings: settings, Cluster: values}, nil
}

// cacheMissingObjects caches which objects a pool lacks, so that their creation starts it again. It
// returns an error if one exists by now: its creation started nothing.
func (r *Reconciler) cacheMissingObjects(ctx context.Context, seen *observed) error {
	errs := []error{seen.desiredErr}
	if seen.lastGood != nil {
		errs = append(errs, seen.lastGood.err)
	}
	var lacks []string
	for _, err := range errs {
		if missing, ok := errors.AsType[*desired.MissingError](err); ok {
			lacks = append(lacks, missing.Object)
		}
	}
	if len(lacks)+len(r.cache.get(seen.md).lacks) == 0 {
		return nil
	}
	r.cache.update(seen.md, func(cached *cachedPool) { cached.lacks = lacks })
	for _, ref := range lacks {
		if r.newProfiles().Exists(ctx, ref) {
			return fmt.Errorf("%w: OperatingSystemProfile %s exists", fault.ErrRaced, ref)
		}
	}
	return nil
}

// observeDocuments reads the user-data Secrets with their content, which the cache does not
// have.
func (r reader) observeDocuments(ctx context.Context, seen *observed) error {
	documents := map[string]*corev1.Secret{}
	for _, have := range []*corev1.Secret{seen.objects.provisioning, seen.objects.bootstrap} {
		if have == nil {
			continue
		}
		key := client.ObjectKeyFromObject(have)
		live := &corev1.Secret{}
		if err := r.worker.Live.Get(ctx, key, live); err != nil {
			return fault.MarkRace(fmt.Errorf("reading Secret %s: %w", key, err))
		}
		if live.UID != have.UID {
			return fmt.Errorf("%w: Secret %s is another", fault.ErrRaced, key)
		}
		documents[have.Name] = live
	}
	seen.documents = documents
	return nil
}

// bootingIndex finds the Machines that have no node.
const bootingIndex = "booting"

// booting is a machine that can be booting from the bootstrap document of a pool, "" if there is
// none, and the latest end of the wait for it.
type booting struct {
	machine string
	until   time.Time
}

// observeBooting finds the machine for which a replacement of documents waits.
func (r reader) observeBooting(ctx context.Context, seen *observed) error {
	machine, until, err := r.findBootingMachine(ctx, seen)
	if err != nil {
		return err
	}
	seen.booting = &booting{machine, until}
	return nil
}

// findBootingMachine finds a machine that can be booting from the bootstrap document of a pool: it
// has no node, and is not older than takeover.BootTime. Machines of other revisions did not get it:
// machine-controller reads only a document with the revision of the MachineSet. It finds none after
// the pool has waited that long: if machines that never join are created again and again, one of
// them is always booting. until is the latest end of the wait. It reads the cache: when many pools
// are taken over, each of them calls this more than once.
func (r reader) findBootingMachine(ctx context.Context, seen *observed) (name string, until time.Time, err error) {
	md, revision := seen.md, seen.objects.bootstrap.Annotations[api.AnnotationRevisionFor]
	now := r.clock.Now()
	latest := takeover.WaitingSince(now, seen.objects.provisioning, seen.objects.bootstrap).Add(takeover.BootTime)
	if !now.Before(latest) {
		return "", until, nil
	}
	opts := []client.ListOption{client.InNamespace(md.Namespace), client.UnsafeDisableDeepCopy}
	if r.indexed {
		opts = append(opts, client.MatchingFields{bootingIndex: "true"})
	}
	var machines cluster.MachineList // of the cache: not to be changed
	if err := r.worker.List(ctx, &machines, opts...); err != nil {
		return "", until, fmt.Errorf("listing Machines: %w", err)
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		end, booting := takeover.IsBooting(machine, now)
		if !booting || end.Before(until) || end.Equal(until) && machine.Name > name {
			continue // always select the same of several created in one second: the message must not depend on the order
		}
		ours, err := r.ofRevision(ctx, machine, md, revision)
		if err != nil {
			return "", until, err
		}
		if ours {
			name, until = machine.Name, end
		}
	}
	if until.After(latest) {
		until = latest
	}
	return name, until, nil
}

// ofRevision reports whether a machine is of a MachineSet that was made for a revision of
// a pool. A MachineSet that the cache has not yet is asked for.
func (r reader) ofRevision(ctx context.Context, m *cluster.Machine, md *cluster.MachineDeployment, revision string) (bool, error) {
	c, err := lineage.FollowOwners(ctx, kubeclient.Owners{r.worker, r.worker.Live}, m)
	return c.Pool.UID == md.UID && c.Revision == revision, err
}
