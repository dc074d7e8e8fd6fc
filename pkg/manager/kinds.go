package manager

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/doctor"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

const (
	// kindsPoll is the time between two comparisons of the kinds.
	kindsPoll = 10 * time.Minute
	// kindsRetry is the time until the next attempt while no ProfileSource exists to report on.
	kindsRetry = 10 * time.Second
)

// crdMismatchReporter emits an event on each ProfileSource if another program installed the kinds of
// operating-system-manager, as KubeOne and KKP do.
type crdMismatchReporter struct {
	client    client.Reader // cached
	live      client.Reader
	recorder  events.EventRecorder
	namespace string
	reported  string
}

// addCRDMismatchReporter adds a crdMismatchReporter to a manager.
func addCRDMismatchReporter(mgr ctrl.Manager, opts *Options) error {
	r := &crdMismatchReporter{client: mgr.GetClient(), live: mgr.GetAPIReader(), recorder: notify.DistinctRecorder{EventRecorder: mgr.GetEventRecorder(api.FieldManager)}, namespace: opts.Namespace}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(r.reportCRDMismatches(ctx)):
			}
		}
	}))
}

// reportCRDMismatches compares the CustomResourceDefinitions of operating-system-manager with those
// of this release. It emits an event on each ProfileSource if their difference is not the one of
// the last call, and returns the time until the next call, which is short while there is no
// ProfileSource.
func (r *crdMismatchReporter) reportCRDMismatches(ctx context.Context) time.Duration {
	found, err := doctor.DescribeDifferingOSMKinds(ctx, r.live)
	if err != nil {
		return kindsPoll // without the permission, osm-gitops doctor reports them
	}
	var sources api.ProfileSourceList
	if err := r.client.List(ctx, &sources, client.InNamespace(r.namespace)); err != nil || len(sources.Items) == 0 {
		return kindsRetry
	}
	text := strings.Join(found, "; ")
	if text != "" && text != r.reported {
		for i := range sources.Items {
			r.recorder.Eventf(&sources.Items[i], nil, corev1.EventTypeWarning, api.EventForeignKind, "Compare", "%s",
				redact.Shorten(redact.RemoveControlChars(text+": pools are served; the policies of deploy/admission.yaml (KKP: deploy/kkp/user-cluster.yaml) have the rules of this release's definitions"), redact.MaxEvent))
		}
	}
	r.reported = text
	return kindsPoll
}
