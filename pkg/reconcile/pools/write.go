package pools

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/secretdigest"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// swapAttempts bounds the creations of a Secret while the one before is being deleted.
const swapAttempts = 20

// writer writes the objects of pools into the two clusters. It replaces, patches and deletes
// objects only in the state in which they were read.
type writer struct {
	reader
	archive   archive.Archive
	records   desired.Records
	engine    Renderer
	report    reporter
	key       *secretdigest.Key
	replacing *sync.Mutex // held while a Secret is absent
	reports   *access.ReportRefusal
}

// access writes what lets a pool's token read the pool's Secrets.
func (w writer) access() access.Writer {
	return access.Writer{Worker: w.worker, Reports: w.reports, Clock: w.clock}
}

// patchFinalizers patches the difference between two states, of exactly what was read.
func (w writer) patchFinalizers(ctx context.Context, before, after *cluster.MachineDeployment) error {
	partial := func(finalizers []string) *cluster.MachineDeployment {
		return &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{ResourceVersion: before.ResourceVersion, Finalizers: finalizers}}
	}
	// A merge patch replaces the whole list, to which another client can have added a finalizer.
	body, err := client.MergeFromWithOptions(partial(before.Finalizers), client.MergeFromWithOptimisticLock{}).Data(partial(after.Finalizers))
	if err != nil {
		return fmt.Errorf("encoding the finalizers of MachineDeployment %s: %w", client.ObjectKeyFromObject(after), err)
	}
	if err := w.worker.Patch(ctx, after, client.RawPatch(types.MergePatchType, body), client.FieldOwner(api.FieldManager)); err != nil {
		return fault.MarkRace(fmt.Errorf("patching the finalizers of MachineDeployment %s: %w", client.ObjectKeyFromObject(after), err))
	}
	return nil
}

// ensureFinalizer adds the finalizer to a pool before it creates objects that machines
// use. It patches the finalizers only: our type has only a part of a MachineDeployment. Objects
// that were created before the finalizer are removed by releaseOrphans if the pool is deleted by
// then.
func (w writer) ensureFinalizer(ctx context.Context, md *cluster.MachineDeployment) error {
	if controllerutil.ContainsFinalizer(md, api.FinalizerPool) {
		return nil
	}
	withFinalizer := md.DeepCopy()
	controllerutil.AddFinalizer(withFinalizer, api.FinalizerPool)
	return w.patchFinalizers(ctx, md, withFinalizer)
}

// clusterOf is the cluster of an object of a pool.
func (w writer) clusterOf(obj client.Object) kubeclient.Cluster {
	switch obj.(type) {
	case *osm.OperatingSystemConfig, *appsv1.ControllerRevision:
		return w.management
	}
	return w.worker
}

// remove deletes exactly the object that was read.
func (w writer) remove(ctx context.Context, obj client.Object) error {
	if err := client.IgnoreNotFound(w.clusterOf(obj).Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())})); err != nil {
		return fault.MarkRace(fmt.Errorf("deleting %T %s: %w", obj, client.ObjectKeyFromObject(obj), err))
	}
	return nil
}

// removeEdge runs last: until another provider's documents exist, machines boot by the script.
func (w writer) removeEdge(ctx context.Context, p edgePlan) error {
	if p.remove == nil {
		return nil
	}
	return w.remove(ctx, p.remove)
}

// writeSecret replaces a Secret in one update, or creates it.
func (w writer) writeSecret(ctx context.Context, s *corev1.Secret) error {
	if s.ResourceVersion == "" {
		err := w.worker.Create(ctx, s, client.FieldOwner(api.FieldManager))
		return fault.ClassifyCreateError(wrapError("creating Secret "+client.ObjectKeyFromObject(s).String(), err))
	}
	err := w.worker.Update(ctx, s, client.FieldOwner(api.FieldManager))
	return fault.MarkRace(wrapError("writing Secret "+client.ObjectKeyFromObject(s).String(), err))
}

// renewToken extends the expiration of a bootstrap token if that is due.
func (w writer) renewToken(ctx context.Context, t token.Bootstrap) error {
	if !t.Renew {
		return nil
	}
	if err := w.worker.Update(ctx, t.Secret, client.FieldOwner(api.FieldManager)); err != nil {
		return fault.MarkRace(fmt.Errorf("renewing bootstrap token %s: %w", t.Secret.Name, err))
	}
	return nil
}

func (w writer) createToken(ctx context.Context, md *cluster.MachineDeployment, t token.Bootstrap) error {
	w.report.cache.update(md, func(m *cachedPool) { m.bootstrapTokenCreated = true }) // also if no answer arrives
	if err := w.worker.Create(ctx, t.Secret, client.FieldOwner(api.FieldManager)); err != nil {
		return fault.ClassifyCreateError(fmt.Errorf("creating a bootstrap token: %w", err))
	}
	return nil
}

// storeInputCredentials adds the credentials of a generation to the pool's Secret. Those of the
// generation before remain until the new one exists.
func (w writer) storeInputCredentials(ctx context.Context, seen *observed, planned *inputsPlan) error {
	if planned == nil || planned.data == nil {
		return nil
	}
	have := seen.objects.inputs
	data := map[string][]byte{planned.key: planned.data}
	if have == nil {
		return w.writeSecret(ctx, nextSecret(namesOf(seen.md).Inputs, nil, poolAnnotations(seen.md), data))
	}
	if digestIn(have, planned.key) == lineage.DataDigest(planned.data) {
		return nil
	}
	return w.patch(ctx, have, map[string]any{"data": data})
}

// pruneInputCredentials removes credentials that no generation has any more.
func (w writer) pruneInputCredentials(ctx context.Context, have *corev1.Secret, planned *inputsPlan) error {
	if planned == nil || have == nil {
		return nil
	}
	if planned.data == nil {
		if err := client.IgnoreNotFound(w.clusterOf(have).Delete(ctx, have, client.Preconditions{UID: &have.UID})); err != nil {
			return fmt.Errorf("deleting Secret %s: %w", client.ObjectKeyFromObject(have), err)
		}
		return nil
	}
	gone := map[string]any{}
	for key := range have.Data {
		if key != planned.key {
			gone[key] = nil
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return w.patch(ctx, have, map[string]any{"data": gone})
}

// patch merges into exactly the object that was read.
func (w writer) patch(ctx context.Context, obj client.Object, change map[string]any) error {
	return fault.MarkRace(kubeclient.MergePatchWithLock(ctx, w.clusterOf(obj), obj, change))
}

func (w writer) patchAnnotations(ctx context.Context, obj client.Object, annotations map[string]string) error {
	return w.patch(ctx, obj, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// writeUserData brings a user-data Secret to its planned state.
func (w writer) writeUserData(ctx context.Context, seen *observed, have *corev1.Secret, planned secretPlan) error {
	switch {
	case planned.write != nil && takeover.Immutable(have):
		return w.replaceSecret(ctx, seen, have, planned.write)
	case planned.write != nil:
		return w.writeSecret(ctx, planned.write)
	case planned.patch != nil:
		annotations := map[string]any{}
		for k, v := range planned.patch {
			annotations[k] = v
		}
		// The wait is over: the next one must not count from its beginning.
		if _, waits := planned.patch[api.AnnotationWaitingSince]; !waits && have.Annotations[api.AnnotationWaitingSince] != "" {
			annotations[api.AnnotationWaitingSince] = nil
		}
		metadata := map[string]any{"annotations": annotations}
		if planned.labels != nil {
			metadata["labels"] = planned.labels
		}
		return w.patch(ctx, have, map[string]any{"metadata": metadata})
	}
	return nil
}

// replaceSecret replaces a Secret that cannot be updated: it is absent between two
// requests. It is completed even on shutdown, and if the new Secret is rejected, the old one
// is restored.
func (w writer) replaceSecret(ctx context.Context, seen *observed, have, next *corev1.Secret) error {
	// Replace one at a time: a waiting run then waits with the old Secret in place, and not
	// between the two requests.
	w.replacing.Lock()
	defer w.replacing.Unlock()
	// The plan was made before this run waited for its turn.
	if err := w.checkNoMachineBooting(ctx, seen); err != nil {
		return err
	}
	uncanceled := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(uncanceled, replaceTime)
	defer cancel()
	key := client.ObjectKeyFromObject(have)
	var old corev1.Secret
	if err := w.worker.Live.Get(ctx, key, &old); err != nil {
		return fault.MarkRace(fmt.Errorf("reading Secret %s: %w", key, err))
	}
	next, back := asNewSecret(next), asNewSecret(&old)
	err := w.recreateSecret(ctx, have, next)
	// A Secret that another client created meanwhile remains.
	if _, ok := errors.AsType[*absentError](err); ok && !apierrors.IsAlreadyExists(err) {
		ctx, cancel := context.WithTimeout(uncanceled, replaceTime) // the earlier deadline can have passed
		defer cancel()
		if again := w.worker.Create(ctx, back, client.FieldOwner(api.FieldManager)); again != nil && !apierrors.IsAlreadyExists(again) {
			err = errors.Join(err, fmt.Errorf("putting the one before back: %w", again))
		}
	}
	return fault.MarkRace(wrapError("replacing Secret "+key.String(), err))
}

// checkNoMachineBooting returns an error if a machine began to boot while its pool waited for its
// turn.
func (w writer) checkNoMachineBooting(ctx context.Context, seen *observed) error {
	if seen.objects.bootstrap == nil {
		return nil
	}
	name, _, err := w.findBootingMachine(ctx, seen)
	if err == nil && name != "" {
		err = fmt.Errorf("%w: machine %s boots", fault.ErrRaced, name)
	}
	return err
}

// recreateSecret deletes a Secret and creates another of the same name. It sends both requests immediately,
// and repeats the creation as long as the old Secret exists. So nothing delays the creation: not
// the response to the deletion, nor other work of this process or the API server at that time.
func (w writer) recreateSecret(ctx context.Context, have, next *corev1.Secret) error {
	deleted := make(chan error, 1)
	go func() { deleted <- w.worker.Delete(ctx, have, client.Preconditions{UID: &have.UID}) }()
	for range swapAttempts {
		err := w.worker.Create(ctx, next.DeepCopy(), client.FieldOwner(api.FieldManager))
		if err == nil {
			return nil // so the old one is deleted
		}
		if !apierrors.IsAlreadyExists(err) || len(deleted) > 0 {
			break // create it again after the old one is deleted
		}
	}
	if err := <-deleted; err != nil {
		return fmt.Errorf("deleting it: %w", err)
	}
	if err := w.worker.Create(ctx, next, client.FieldOwner(api.FieldManager)); err != nil {
		return &absentError{fmt.Errorf("creating it: %w", err)}
	}
	return nil
}

// absentError says that a Secret was deleted, and its successor is not there.
type absentError struct{ err error }

func (e *absentError) Error() string { return e.err.Error() }
func (e *absentError) Unwrap() error { return e.err }

// asNewSecret returns a copy of a Secret with only the fields that a creation may set.
func asNewSecret(s *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: s.Labels, Annotations: s.Annotations},
		Type:       s.Type, Data: s.Data, Immutable: s.Immutable,
	}
}

// dependencyWrites returns the writes of objects that documents rely on: access, bootstrap token,
// kubeconfig and edge script. They are independent of each other.
func (w writer) dependencyWrites(ctx context.Context, seen *observed, planned plan) []func() error {
	writes := []func() error{
		func() error { return w.access().Grant(ctx, planned.access) },
		seen.waitGranted,
	}
	if planned.bootstrapToken.Create {
		writes = append(writes, func() error { return w.createToken(ctx, seen.md, planned.bootstrapToken) })
	}
	for _, secret := range []*corev1.Secret{planned.kubeconfig, planned.edge.write} {
		if secret != nil {
			writes = append(writes, func() error { return w.writeSecret(ctx, secret) })
		}
	}
	return writes
}

// startWrite starts a write; the returned function waits for its end.
func startWrite(write func() error) (wait func() error) {
	var one errgroup.Group
	one.Go(write)
	return one.Wait
}

// runParallel runs writes that do not wait for each other, and returns when all have ended.
func runParallel(writes ...func() error) error {
	errs := make([]error, len(writes))
	var wg sync.WaitGroup
	for i, write := range writes {
		wg.Go(func() { errs[i] = write() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// wrapError adds what failed to an error. It returns nil for nil.
func wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
