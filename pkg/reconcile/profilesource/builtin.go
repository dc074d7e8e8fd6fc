package profilesource

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// defaultsInterval is the time between two looks at the built-in profiles. They
// change with the binary only, which looks when it starts, and whoever deletes an
// object of theirs starts a look: nothing waits for this.
const defaultsInterval = time.Hour

// BuiltinSource keeps the ProfileSource of the built-in profiles: it is made when it is
// absent and put back when somebody changes it. Its fields are set once, before
// Setup.
type BuiltinSource struct {
	// Client reads through the manager's cache and writes.
	Client client.Client
	// Recorder writes events.
	Recorder events.EventRecorder
	// Namespace is the controller's.
	Namespace string
	// Disabled takes the ProfileSource away instead.
	Disabled bool
}

// Setup registers the controller with a manager. It looks once at the start, when
// there may be no object whose event would start it.
func (k *BuiltinSource) Setup(mgr ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetNamespace() == k.Namespace && obj.GetName() == api.DefaultsName
	})
	begin := crsource.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) error {
		q.Add(crreconcile.Request{NamespacedName: k.key()})
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("defaults").
		For(&api.ProfileSource{}, builder.WithPredicates(ours, predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesRawSource(begin).
		Complete(k)
}

func (k *BuiltinSource) key() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: api.DefaultsName}
}

// Reconcile brings the ProfileSource in line with what it has to be.
func (k *BuiltinSource) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var have api.ProfileSource
	err := k.Client.Get(ctx, k.key(), &have)
	switch {
	case apierrors.IsNotFound(err):
		return k.create(ctx)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading ProfileSource %s: %w", k.key(), err)
	case !have.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil // its end comes as an event
	case k.Disabled:
		return k.remove(ctx, &have)
	case !managed(&have) && !isBuiltin(&have):
		k.Recorder.Eventf(&have, nil, corev1.EventTypeWarning, api.EventNameCollision, "Keep",
			"the name %s belongs to the source of the built-in profiles, which are not offered now: give this ProfileSource another name", api.DefaultsName)
		return ctrl.Result{}, nil
	}
	want := defaults(&have)
	if equality.Semantic.DeepEqual(want, &have) {
		return ctrl.Result{}, nil
	}
	if err := k.Client.Update(ctx, want, client.FieldOwner(api.FieldManager)); err != nil {
		return late(fmt.Errorf("putting ProfileSource %s back: %w", k.key(), err))
	}
	return ctrl.Result{}, nil
}

func (k *BuiltinSource) create(ctx context.Context) (ctrl.Result, error) {
	if k.Disabled {
		return ctrl.Result{}, nil
	}
	made := defaults(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: api.DefaultsName}})
	if err := k.Client.Create(ctx, made, client.FieldOwner(api.FieldManager)); err != nil {
		return late(fmt.Errorf("creating ProfileSource %s: %w", k.key(), err))
	}
	return ctrl.Result{}, nil
}

// remove deletes a ProfileSource that this controller made.
func (k *BuiltinSource) remove(ctx context.Context, have *api.ProfileSource) (ctrl.Result, error) {
	if !managed(have) {
		return ctrl.Result{}, nil
	}
	err := k.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID})
	if client.IgnoreNotFound(err) != nil {
		return late(fmt.Errorf("deleting ProfileSource %s: %w", k.key(), err))
	}
	return ctrl.Result{}, nil
}

// defaults is what the ProfileSource has to be. Whether it is suspended is for
// people to say.
func defaults(have *api.ProfileSource) *api.ProfileSource {
	want := have.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	want.Labels[api.LabelManagedBy] = api.FieldManager
	prune, history := true, int32(10) // the schema's own, so that there is nothing to put back
	want.Spec = api.ProfileSourceSpec{
		Builtin:       &api.BuiltinSource{},
		Interval:      metav1.Duration{Duration: defaultsInterval},
		RetryInterval: metav1.Duration{Duration: 30 * time.Second},
		Prune:         &prune,
		HistoryLimit:  &history,
		Suspend:       have.Spec.Suspend,
	}
	return want
}

// managed tells an object that this controller made.
func managed(ps *api.ProfileSource) bool { return ps.Labels[api.LabelManagedBy] == api.FieldManager }

// late retries a write that came too late, once the cache has followed.
func late(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: racedRetry}, nil
	}
	return ctrl.Result{}, err
}
