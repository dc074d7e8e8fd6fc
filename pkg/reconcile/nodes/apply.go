package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
)

// apply writes what was planned, until the first error. It returns whether entries of the audit log wait
// for another run: an unavailable audit log does not stop the rest.
func (r *Reconciler) apply(ctx context.Context, seen *observed, p plan) (pending bool, err error) {
	for _, status := range p.removed {
		waits, err := r.applyStatus(ctx, status)
		if err != nil {
			return pending, err
		}
		pending = pending || waits
	}
	if p.create != nil {
		err := r.Worker.Create(ctx, p.create, client.FieldOwner(api.FieldManager))
		if err != nil && !apierrors.IsAlreadyExists(err) { // which has no UID then: see observeCreated
			return pending, fmt.Errorf("creating NodeProvenance %s: %w", p.create.Name, err)
		}
	}
	if p.annotate != "" {
		if err := r.annotateProvenanceName(ctx, seen.node, p.annotate); err != nil {
			return pending, err
		}
	}
	if p.status != nil {
		waits, err := r.applyStatus(ctx, *p.status)
		if err != nil {
			return pending, err
		}
		pending = pending || waits
	}
	for _, e := range p.events {
		node := &corev1.ObjectReference{APIVersion: "v1", Kind: nodecache.NodeKind.Kind, Name: seen.node.Name, UID: seen.node.UID}
		r.Recorder.Eventf(node, nil, corev1.EventTypeWarning, e.reason, "Compare", "%s", e.note)
	}
	return pending, nil
}

// applyStatus updates a status, including the ids of audit log entries written by then. If the audit log
// cannot be written, which is logged there, the rest is still updated.
func (r *Reconciler) applyStatus(ctx context.Context, p statusPlan) (pending bool, err error) {
	change := maps.Clone(p.change)
	if len(p.entries) > 0 {
		// The audit log comes first: an id in the status says that the entry exists.
		if pending = r.AuditLog.Append(p.entries...) != nil; !pending {
			change["journaled"] = entryIDs(p.entries)
		}
	}
	if len(change) == 0 {
		return pending, nil
	}
	return pending, r.patchStatus(ctx, p.of, change)
}

// annotateProvenanceName sets the name of the NodeProvenance on the Node.
func (r *Reconciler) annotateProvenanceName(ctx context.Context, node *metav1.PartialObjectMetadata, name string) error {
	patch, err := mergePatch(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]string{api.AnnotationProvenance: name}, // not of another node with the same name
	}})
	if err != nil {
		return err
	}
	into := kubeclient.Metadata(nodecache.NodeKind)
	into.Name = node.Name
	err = r.Worker.Patch(ctx, into, patch, client.FieldOwner(api.FieldManager))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("annotating Node %s: %w", node.Name, err)
	}
	return nil // the node can be deleted, which triggers it again
}

// patchStatus merges changes into the status of a NodeProvenance, of which the cache has
// only parts.
func (r *Reconciler) patchStatus(ctx context.Context, np *api.NodeProvenance, change map[string]any) error {
	// With the uid, the patch fails for an object that was created again under this name.
	patch, err := mergePatch(map[string]any{"metadata": map[string]any{"uid": np.UID}, "status": change})
	if err != nil {
		return err
	}
	into := &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: np.Name}}
	err = r.Worker.Status().Patch(ctx, into, patch, client.FieldOwner(api.FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of NodeProvenance %s: %w", np.Name, err)
	}
	return nil
}

func mergePatch(body map[string]any) (client.Patch, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, text), nil
}
