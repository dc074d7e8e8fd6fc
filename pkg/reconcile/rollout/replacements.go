package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// candidate is a pool whose machines are to boot from its current configuration.
type candidate struct {
	md   *cluster.MachineDeployment // belongs to the cache: do not modify it
	wave int32
	// config is the input digest that the Secrets match; empty if machines are not to be
	// replaced now.
	config string
	// templateAnnotation is the current annotation of the template.
	templateAnnotation string
	// stale is true while there are machines that were created with another
	// configuration, unless machine-controller already replaces them because the template
	// changed.
	stale bool
	// waitsForWindow is true if the replacement must not begin before a maintenance window opens.
	waitsForWindow bool
	// booting is true while there are machines that have not joined yet.
	booting bool
}

// due reports whether the machines must be replaced, and the replacement has not begun.
func (c candidate) due() bool { return c.config != "" && c.templateAnnotation != c.config && c.stale }

// isReplacing reports whether machine-controller is replacing machines, according to the
// MachineDeployment. A machine that joined and is now unavailable does not count.
func (c candidate) isReplacing() bool {
	if c.templateAnnotation == "" || c.md.Spec.Paused {
		return false
	}
	wanted, s := int32(1), c.md.Status // machine-controller's default
	if c.md.Spec.Replicas != nil {
		wanted = *c.md.Spec.Replicas
	}
	return s.ObservedGeneration < c.md.Generation || s.UpdatedReplicas != s.Replicas || s.UpdatedReplicas < wanted ||
		s.AvailableReplicas != s.Replicas && c.booting
}

// decideReplacements decides which pools have machines with an earlier configuration, and whether
// their replacement waits for a maintenance window.
func decideReplacements(seen *observed, all []candidate, timelines map[types.UID]lineage.Timeline) {
	var policy waves.Policy
	if seen.source != nil {
		policy, _ = waves.PolicyOf(seen.source) // decideRolloutsAndReplacements reports the error
	}
	for i := range all {
		c := &all[i]
		if t := timelines[c.md.UID]; t != nil {
			have := seen.configOf(c.md)
			c.stale = slices.ContainsFunc(seen.machines[c.md.UID], func(m waves.Machine) bool { return have.isNewerThan(m) && inputDigestOf(t, m) != have.digest })
			c.waitsForWindow = seen.windows.waitsFor[api.WindowReplace] != "" && !mayIgnoreWindow(c, t, policy, have.version)
		}
		seen.replacing[c.md.UID] = c.due() || c.isReplacing()
	}
}

// mayIgnoreWindow reports whether the machines of a pool are replaced outside of maintenance windows,
// too: the pool ignores windows, it returns to an earlier configuration, or a user released
// the version for its wave, so that its delivery does not wait.
func mayIgnoreWindow(c *candidate, t lineage.Timeline, policy waves.Policy, version string) bool {
	return ignoresWindows(c.md) || isRevert(t) || policy.Allows(version, c.wave)
}

// annotateDue calls annotate for the pools whose machines are replaced next, so that at most limit pools
// are replacing machines: those of earlier waves first. A pool that is replacing machines
// already gets the new annotation at once, because the new configuration can fix the
// current one, but it waits for maintenance windows, too. A pool that cannot be patched does not count.
func annotateDue(all []candidate, limit int, annotate func(candidate) (done bool)) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.wave, b.wave), cmp.Compare(keyOf(a.md), keyOf(b.md)))
	})
	// Pools that are replacing machines count first, also those of later waves.
	free := limit
	for _, c := range all {
		if c.isReplacing() {
			free--
		}
	}
	for _, c := range all {
		if !c.due() || c.waitsForWindow || (!c.isReplacing() && free <= 0) {
			continue
		}
		if annotate(c) && !c.isReplacing() {
			free--
		}
	}
}

// countReplacements counts the pools, nil for none.
func countReplacements(all []candidate) *api.Replacements {
	if len(all) == 0 {
		return nil
	}
	out := &api.Replacements{}
	for _, c := range all {
		switch {
		case c.isReplacing():
			out.Replacing++
		case c.due():
			out.Waiting++
		}
	}
	return out
}

func (r *Reconciler) patchTemplates(ctx context.Context, seen *observed, all []candidate) error {
	var errs []error
	annotateDue(all, maxConcurrent(seen.source, len(all)), func(c candidate) bool {
		if r.windowEdgePassed(seen) {
			return false // each patch takes time, and a window can have closed: everything is decided again
		}
		err := r.patchTemplate(ctx, c)
		errs = append(errs, err)
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
			return true // it is done, or will be
		}
		// A pool whose template cannot be patched must not take the place of another.
		r.warnOnce(seen, c.md, subjectTemplate, err)
		return false
	})
	return errors.Join(errs...)
}

// patchTemplate patches this one annotation of exactly the object that was read: our type has
// only a part of a MachineDeployment.
func (r *Reconciler) patchTemplate(ctx context.Context, c candidate) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": c.md.ResourceVersion},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{api.AnnotationConfig: c.config},
		}}},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	into := &cluster.MachineDeployment{}
	into.Namespace, into.Name = c.md.Namespace, c.md.Name
	err = r.Worker.Patch(ctx, into, client.RawPatch(types.MergePatchType, body), client.FieldOwner(api.FieldManager))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("annotating the template of MachineDeployment %s: %w", keyOf(c.md), err)
	}
	r.patched[c.md.UID] = into
	r.event(c.md, corev1.EventTypeNormal, api.EventMachinesReplaced,
		"annotated the template with configuration %s: machine-controller replaces machines that have another one", c.config)
	return nil
}

// withLatestTemplate returns a MachineDeployment with its latest template annotation if the cache
// does not have it yet; otherwise more pools than allowed would replace machines.
func (r *Reconciler) withLatestTemplate(md *cluster.MachineDeployment) *cluster.MachineDeployment {
	ours, ok := r.patched[md.UID]
	if !ok {
		return md
	}
	if md.Generation >= ours.Generation {
		delete(r.patched, md.UID)
		return md
	}
	return ours
}

func keyOf(md *cluster.MachineDeployment) string { return md.Namespace + "/" + md.Name }
