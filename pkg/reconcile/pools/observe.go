package pools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// observed is everything that one reconcile reads. decide needs nothing else.
type observed struct {
	md      *cluster.MachineDeployment
	objects objects
	booted  bool // it had a bootstrap document since the controller was started
	// unserved is true where every document of the pool was made of something else than its
	// configuration: somebody edited that, or a controller was cut off before it wrote the
	// first document, which cutOff tells.
	unserved, cutOff bool
	token            token.Bootstrap
	rivals           []rival // other pools with some of the same names
	endpoint         desired.Endpoint
	node             token.Node
	boundTokens      bool   // each pool has a node token of its own
	key              []byte // of keyed digests
	now              time.Time

	// values are the cluster's, with the tokens as they are now, and kubeconfig
	// the one among them.
	values     render.Cluster
	kubeconfig string
	settings   render.Settings // with the credentials of registries

	// desired is what the pool asks for; desiredErr says why it cannot have it.
	desired    render.Input
	desiredErr error
	// poll is the time until desired has to be looked at again, 0 for never.
	poll time.Duration
}

// observeServed finds out whether the documents follow the configuration, and asks the API
// server before it says that they do not: caches are not behind by the same time.
func (r *Reconciler) observeServed(ctx context.Context, seen *observed) error {
	rec := recordOf(seen.objects.osc)
	if !lineage.Intact(rec) || !seen.objects.madeOtherwise(rec.Digests.Input) {
		return nil
	}
	now, err := r.reader().objects(ctx, r.reader().live(), seen.md)
	if err != nil {
		return err
	}
	if seen.unserved = now.madeOtherwise(rec.Digests.Input); !seen.unserved {
		return nil
	}
	for _, s := range []*corev1.Secret{seen.objects.provisioning, seen.objects.bootstrap} {
		if !madeOf(s) {
			continue
		}
		archived, err := r.archivedOf(ctx, seen, s)
		if err != nil {
			return err
		}
		seen.cutOff = seen.cutOff || archived != nil && slices.ContainsFunc(lineage.DecodeIntervals(archived.Annotations), func(in api.Interval) bool {
			return in.UID != "" && string(in.UID) == seen.objects.osc.Annotations[api.AnnotationReplaces]
		})
	}
	return nil
}

// observe reads. Only a missing object counts as absent.
func (r *Reconciler) observe(ctx context.Context, md *cluster.MachineDeployment, bootstrap token.Bootstrap) (*observed, error) {
	seen := &observed{md: md, token: bootstrap, now: r.Clock.Now(), boundTokens: r.NodeTokenTTL != 0, booted: r.memories.recall(md).booted}
	var err error
	if seen.objects, err = r.reader().objects(ctx, r.reader().cached(), md); err != nil {
		return nil, err
	}
	if err = r.observeServed(ctx, seen); err != nil {
		return nil, err
	}
	if seen.rivals, err = r.reader().rivals(ctx, seen); err != nil {
		return nil, err
	}
	if seen.key, err = r.digestKey(ctx); err != nil {
		return nil, err
	}
	var missing error // of what new content needs; what stands is maintained without it
	if seen.endpoint, err = r.endpoints().Get(ctx); err != nil {
		known := r.endpoint.Last()
		if missing, err = fault.Maintain(err); err != nil || known == nil {
			return nil, errors.Join(err, missing)
		}
		seen.endpoint = *known
	}
	if seen.node, err = r.nodeToken(ctx, seen); err != nil {
		return nil, err
	}
	seen.settings, err = r.NodeSettings(ctx)
	if err != nil {
		if missing, err = fault.Maintain(err); err != nil {
			return nil, err
		}
	}
	if seen.kubeconfig, err = seen.endpoint.Kubeconfig(seen.token.Value); err != nil {
		return nil, err
	}
	seen.values = render.Cluster{
		Server:                        seen.endpoint.Server,
		APIServerToken:                seen.node.Value,
		BootstrapToken:                seen.token.Value,
		BootstrapKubeconfigSecretName: namesOf(md).Kubeconfig,
		BootstrapKubeconfig:           seen.kubeconfig,
	}
	seen.desired, seen.desiredErr = r.inputOf(ctx, md, recordOf(seen.objects.osc), seen.settings, seen.values)
	if seen.desiredErr == nil {
		seen.desiredErr = missing
	}
	if seen.desiredErr == nil {
		seen.desired.Pool, seen.poll, seen.desiredErr = r.cloudConfigs().Add(ctx, md, seen.desired)
	}
	if seen.desiredErr == nil {
		seen.poll, seen.desiredErr = r.withheld(seen)
	}
	if _, final := fault.Permanent(seen.desiredErr); seen.desiredErr != nil && !final {
		return nil, seen.desiredErr
	}
	return seen, nil
}

// inputOf collects what the pool asks for. A *fault.Refusal or *render.InvalidError
// says why it cannot have it.
func (r *Reconciler) inputOf(ctx context.Context, md *cluster.MachineDeployment, have render.Record, settings render.Settings, values render.Cluster) (render.Input, error) {
	pool, err := render.DecodePool(md)
	if err != nil {
		return render.Input{}, err
	}
	prof, err := r.profiles().Resolve(ctx, md, have)
	if err != nil {
		return render.Input{}, err
	}
	return render.Input{Profile: prof, Pool: pool, Settings: settings, Cluster: values}, nil
}

// nodeToken finds the token for documents that are written now. It asks for none:
// that is for withNodeToken, once a document needs it.
func (r *Reconciler) nodeToken(ctx context.Context, seen *observed) (token.Node, error) {
	if r.NodeTokenTTL == 0 || seen.objects.takenOver() {
		return r.tokens().Getter(ctx)
	}
	account := seen.objects.access.AccountOf(seen.md)
	if account == nil {
		return token.Node{}, nil
	}
	if t := r.memories.recall(seen.md).token; t.Account == account.UID && t.Stays(seen.now) {
		return t, nil
	}
	return token.Node{Account: account.UID}, nil
}

// withNodeToken asks for a token that is bound to the pool, and returns what was
// observed with it.
func (r *Reconciler) withNodeToken(ctx context.Context, seen *observed) (*observed, error) {
	account, err := r.writer().access().EnsureAccount(ctx, seen.md, seen.objects.access)
	if err != nil {
		return nil, err
	}
	bound, err := r.tokens().Request(ctx, account)
	if err != nil {
		return nil, err
	}
	r.memories.remember(seen.md, func(m *memory) { m.token = bound })
	next := *seen
	next.node, next.objects.access.Account = bound, account
	next.values.APIServerToken, next.desired.Cluster.APIServerToken = bound.Value, bound.Value
	return &next, nil
}

// standingToken is the bound token that a Secret carries, where that one stays.
func (seen *observed) standingToken(have *corev1.Secret) (token.Node, bool) {
	return token.Standing(have, seen.node.Account, seen.now)
}

// noteMissing notes which objects a pool lacks, so that their creation starts it again,
// and reports whether one has come meanwhile: that one started nothing.
func (r *Reconciler) noteMissing(ctx context.Context, seen *observed, errs ...error) error {
	var lacks []string
	for _, err := range append(errs, seen.desiredErr) {
		if missing := (*desired.MissingError)(nil); errors.As(err, &missing) {
			lacks = append(lacks, missing.Object)
		}
	}
	if len(lacks)+len(r.memories.recall(seen.md).lacks) == 0 {
		return nil
	}
	r.memories.remember(seen.md, func(m *memory) { m.lacks = lacks })
	for _, ref := range lacks {
		if r.profiles().Exists(ctx, ref) {
			return fmt.Errorf("%w: OperatingSystemProfile %s is there", fault.ErrRaced, ref)
		}
	}
	return nil
}
