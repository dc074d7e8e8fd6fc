package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// warnOfSettings tells of settings that nodes get although they can hardly do what was
// meant: in the log, and in an event on each ProfileSource, whose profiles get them.
func warnOfSettings(mgr ctrl.Manager, f *controllerFlags, facts nodeFacts, recorder events.EventRecorder) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		machines := f.poolReconciler(facts)
		if facts.registry != nil {
			machines.Registry = facts.registry
		}
		settings, _ := machines.NodeSettings(ctx) // pools tell what is wrong with the Secret
		warnings := settings.Warnings()
		for _, w := range warnings {
			ctrl.Log.Info("a setting can hardly do what was meant", "setting", w.Setting, "value", w.Value, "problem", w.Problem, "remedy", w.Remedy)
		}
		if len(warnings) == 0 {
			return nil
		}
		informer, err := mgr.GetCache().GetInformer(ctx, &api.ProfileSource{})
		if err != nil {
			return fmt.Errorf("watching ProfileSources: %w", err)
		}
		tell := func(obj any) {
			if ps, ok := obj.(*api.ProfileSource); ok && ps.Namespace == f.namespace {
				for _, w := range warnings {
					recorder.Eventf(ps, nil, corev1.EventTypeWarning, api.EventSettingDoubtful, "Start", "%s", w)
				}
			}
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: tell})
		return err
	}))
}
