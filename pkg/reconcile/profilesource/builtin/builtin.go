package builtin

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

// defaultsInterval is the time between two reconciliations of the built-in profiles. No
// change waits for it: the profiles change only with the binary, which reconciles them
// when it starts, and the deletion of one of their objects triggers a reconciliation.
const defaultsInterval = time.Hour

// conflictRetry is the delay after a conflicting write, in which the cache catches up.
const conflictRetry = 50 * time.Millisecond

// Reconciler maintains the ProfileSource of the built-in profiles: it creates the object
// if it is absent and restores it after a change. Its fields are set once, before Setup.
type Reconciler struct {
	// Client reads through the manager's cache and writes.
	Client client.Client
	// Recorder writes events.
	Recorder events.EventRecorder
	// Namespace is the namespace of the controller.
	Namespace string
	// Disabled deletes the ProfileSource instead.
	Disabled bool
}

// Setup registers the controller with a manager. It reconciles once at the start, because
// without a ProfileSource no event would trigger that.
func (r *Reconciler) Setup(mgr ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		return obj.GetNamespace() == r.Namespace && obj.GetName() == api.DefaultsName
	})
	begin := crsource.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) error {
		q.Add(crreconcile.Request{NamespacedName: r.Key()})
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("defaults").
		For(&api.ProfileSource{}, builder.WithPredicates(ours, predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		WatchesRawSource(begin).
		Complete(r)
}

func (r *Reconciler) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: api.DefaultsName}
}

// Reconcile creates, restores or deletes the ProfileSource.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	var have api.ProfileSource
	err := r.Client.Get(ctx, r.Key(), &have)
	switch {
	case apierrors.IsNotFound(err):
		return r.create(ctx)
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading ProfileSource %s: %w", r.Key(), err)
	case !have.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil // the end of the deletion triggers another run
	case r.Disabled:
		return r.remove(ctx, &have)
	case !Managed(&have) && have.Spec.Builtin == nil:
		r.Recorder.Eventf(&have, nil, corev1.EventTypeWarning, api.EventNameCollision, "Keep",
			"the name %s belongs to the source of the built-in profiles, which are not offered now: give this ProfileSource another name", api.DefaultsName)
		return ctrl.Result{}, nil
	}
	want := DesiredSource(&have)
	if equality.Semantic.DeepEqual(want, &have) {
		return ctrl.Result{}, nil
	}
	if err := r.Client.Update(ctx, want, client.FieldOwner(api.FieldManager)); err != nil {
		return retryConflict(fmt.Errorf("restoring ProfileSource %s: %w", r.Key(), err))
	}
	return ctrl.Result{}, nil
}

func (r *Reconciler) create(ctx context.Context) (ctrl.Result, error) {
	if r.Disabled {
		return ctrl.Result{}, nil
	}
	made := DesiredSource(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: api.DefaultsName}})
	if err := r.Client.Create(ctx, made, client.FieldOwner(api.FieldManager)); err != nil {
		return retryConflict(fmt.Errorf("creating ProfileSource %s: %w", r.Key(), err))
	}
	return ctrl.Result{}, nil
}

// remove deletes a ProfileSource that this controller made.
func (r *Reconciler) remove(ctx context.Context, have *api.ProfileSource) (ctrl.Result, error) {
	if !Managed(have) {
		return ctrl.Result{}, nil
	}
	err := r.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID})
	if client.IgnoreNotFound(err) != nil {
		return retryConflict(fmt.Errorf("deleting ProfileSource %s: %w", r.Key(), err))
	}
	return ctrl.Result{}, nil
}

// DesiredSource returns the desired ProfileSource. Users can set spec.suspend, so it is copied.
func DesiredSource(have *api.ProfileSource) *api.ProfileSource {
	want := have.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	want.Labels[api.LabelManagedBy] = api.FieldManager
	prune, history := true, int32(10) // equal to the defaults of the schema, so that they are not a difference
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

// Managed reports whether this controller created the object.
func Managed(ps *api.ProfileSource) bool { return ps.Labels[api.LabelManagedBy] == api.FieldManager }

// retryConflict returns the result that retries after a conflicting write, or if the object exists
// already, when the cache has caught up, and other errors unchanged.
func retryConflict(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ctrl.Result{RequeueAfter: conflictRetry}, nil
	}
	return ctrl.Result{}, err
}
