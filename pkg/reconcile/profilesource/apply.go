package profilesource

import (
	"context"
	"errors"
	"fmt"

	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/inventory"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
)

// applied is the result of applying the current versions.
type applied struct {
	created    []catalog.Version
	restored   []string          // objects that others had changed
	rejected   []error           // versions that were not applied
	failed     map[string]bool   // their profiles
	signatures map[string]string // of the versions that are objects, by profile
}

// ensureObjects makes the current versions objects, unless they are.
func (r *Reconciler) ensureObjects(ctx context.Context, l objects.Approved, want inventory.Plan) (applied, error) {
	out := applied{failed: map[string]bool{}, signatures: map[string]string{}}
	writer := r.writer()
	for _, v := range want.Apply {
		why, err := l.Approval.SignatureProblem(ctx, l.Snapshot, v)
		if err != nil {
			return applied{}, err
		}
		if why != "" {
			out.failed[v.Name] = true
			out.rejected = append(out.rejected, fmt.Errorf("%s: profile %q %s is from an earlier commit whose signature is not accepted: %s: give the profile a new version", v.CurrentPath, v.Name, v.Version, why))
			continue
		}
		did, err := writer.Ensure(ctx, l, v)
		var conflict *objects.ConflictError
		switch {
		case errors.As(err, &conflict):
			// A conflict of one profile must not stop the others.
			out.failed[v.Name] = true
			out.rejected = append(out.rejected, err)
			continue
		case err != nil:
			return applied{}, err
		case did.Created:
			out.created = append(out.created, v)
		}
		if did.Restored != "" {
			out.restored = append(out.restored, did.Restored)
		}
		// An object is never changed, not even one created before signatures were required.
		if did.Signed == "" {
			if did.Signed, err = l.RecordedOrVerifiedSignature(ctx, v, writer.ObjectNameFor(l.Source, v)); err != nil {
				return applied{}, err
			}
		}
		out.signatures[v.Name] = did.Signed
	}
	return out, nil
}
