package objects

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
)

// ConflictingAppliers reports current profiles of a source that Flux or Argo CD also applies, as an
// object with the profile's own name. Usually both read the same repository. Pools get
// the version of the source, so that the applied object has no effect.
func (w *Writer) ConflictingAppliers(ctx context.Context, namespace string, current map[string]catalog.Version) ([]string, error) {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(current)) {
		var osp osm.OperatingSystemProfile
		key := types.NamespacedName{Namespace: namespace, Name: name}
		err := w.Client.Get(ctx, key, &osp)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading OperatingSystemProfile %s: %w", key, err)
		}
		for _, by := range ownership.CertainAppliers(&osp, w.ArgoNamespace) {
			out = append(out, fmt.Sprintf("%s applies OperatingSystemProfile %s, but pools use the version of this source: remove it from one of the two", by, key))
		}
	}
	return out, nil
}
