package kubeclient

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// MergePatchWithLock merges a change into an object, and sets its new resourceVersion. The API server
// rejects it with a conflict if the object has changed since it was read. The response
// contains only metadata, because the rest may be large.
func MergePatchWithLock(ctx context.Context, c client.Client, obj client.Object, change map[string]any) error {
	metadata, _ := change["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		change["metadata"] = metadata
	}
	metadata["resourceVersion"] = obj.GetResourceVersion()
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	kind, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return fmt.Errorf("patching %T: %w", obj, err)
	}
	answer := Metadata(kind)
	answer.Namespace, answer.Name = obj.GetNamespace(), obj.GetName()
	if err := c.Patch(ctx, answer, client.RawPatch(types.MergePatchType, body), client.FieldOwner(api.FieldManager)); err != nil {
		return fmt.Errorf("patching %T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
	}
	obj.SetResourceVersion(answer.GetResourceVersion())
	return nil
}
