package rollout

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// subjectTemplate is the subject of rejected template patches.
const subjectTemplate = "template"

// report exports metrics and emits events, in the order of what was read and written, and returns
// when the next run is.
func (r *Reconciler) report(req ctrl.Request, seen *observed, planned plan, done applied, err error) (ctrl.Result, error) {
	if seen.responsible {
		r.Metrics.SetWindows(req.NamespacedName, seen.windows.status)
	}
	warned := map[string]string{} // by this run
	warn := func(w warning) {
		key := string(w.obj.GetUID()) + " " + w.subject
		warned[key] = w.err.Error()
		r.warnOnce(req.Name, key, w)
	}
	for _, w := range seen.warnings {
		warn(w)
	}
	if done.source != nil {
		r.emitEvents(seen.source, done.source, seen)
	}
	for _, t := range done.templates {
		if t.rejection != nil {
			warn(warning{t.candidate.Pool, subjectTemplate, t.rejection})
			continue
		}
		r.event(t.candidate.Pool, corev1.EventTypeNormal, api.EventMachinesReplaced,
			"annotated the template with configuration %s: machine-controller replaces machines that have another one", t.candidate.Config)
	}
	if done.complete {
		r.warned[req.Name] = warned // warnings about deleted or corrected objects are forgotten
	}
	if apierrors.IsConflict(err) || err == nil && done.outdated {
		return ctrl.Result{RequeueAfter: racedRetry}, nil
	}
	return ctrl.Result{RequeueAfter: planned.next}, err
}

// forget drops what is remembered of a ProfileSource of another controller, or a deleted one.
func (r *Reconciler) forget(req ctrl.Request) {
	delete(r.warned, req.Name)
	delete(r.windows, req.Name)
	r.Metrics.SetWindows(req.NamespacedName, nil)
}

// warnOnce emits a warning, once until it changes. name is that of the ProfileSource.
func (r *Reconciler) warnOnce(name, key string, w warning) {
	if r.warned[name][key] == w.err.Error() {
		return
	}
	if r.warned[name] == nil {
		r.warned[name] = map[string]string{}
	}
	r.warned[name][key] = w.err.Error() // in case the run failed
	reason := api.EventRolloutInvalid
	if w.subject == subjectTemplate {
		reason = api.EventWriteRefused
	}
	r.event(w.obj, corev1.EventTypeWarning, reason, "%v", w.err)
}

// emitEvents emits events about the rollouts of a source.
func (r *Reconciler) emitEvents(before, after *api.ProfileSource, seen *observed) {
	for _, now := range after.Status.Rollouts {
		was := before.RolloutOf(now.Profile)
		r.emitFailures(was, now, seen)
		if was == nil {
			was = &api.RolloutStatus{Done: true}
			if now.From == nil {
				continue // it only records what all pools have
			}
		}
		for _, n := range waves.EventsBetween(*was, now) {
			r.event(after, n.Type, n.Reason, "%s", n.Message)
		}
	}
}

// emitFailures emits events on a pool about its machines that do not join. The controller
// that renders reports versions that the pool cannot have.
func (r *Reconciler) emitFailures(was *api.RolloutStatus, now api.RolloutStatus, seen *observed) {
	for _, f := range now.Failures {
		reported := was != nil && slices.ContainsFunc(was.Failures, func(had api.RolloutFailure) bool {
			return had.Pool == f.Pool && had.Machine == f.Machine && had.Reason == f.Reason
		})
		if md := seen.pools[f.Pool]; md != nil && !reported && f.Machine != "" {
			r.event(md, corev1.EventTypeWarning, api.EventMachineFailed, "profile %q %s: %s", now.Profile, now.Version, waves.DescribeFailure(f))
		}
	}
}

func (r *Reconciler) event(obj client.Object, kind, reason, format string, args ...any) {
	recorder := r.Recorder
	if _, ok := obj.(*api.ProfileSource); ok {
		recorder = r.SourceRecorder
	}
	recorder.Eventf(obj, nil, kind, reason, "RollOut", "%s", redact.Shorten(redact.RemoveControlChars(fmt.Sprintf(format, args...)), redact.MaxEvent))
}
