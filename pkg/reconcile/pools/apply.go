package pools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// replaceTime bounds the replacement of a configuration, which is completed even when the
	// controller is shutting down.
	replaceTime = 10 * time.Second
)

// apply writes a plan in the order of its fields, and deletes what is not needed any more at the end.
// Provisioning comes before bootstrap: an old bootstrap document works with a new provisioning
// Secret, never the other way.
func (w writer) apply(ctx context.Context, seen *observed, planned plan, done *applied) error {
	// The bootstrap token is valid for one hour, and no other failure must prevent its renewal.
	if err := w.renewToken(ctx, planned.bootstrapToken); err != nil {
		return err
	}
	// A pool that yields deletes its objects before its error is returned: the other pool waits
	// for the names.
	for _, obj := range planned.withdraw {
		if err := w.remove(ctx, obj); err != nil {
			return err
		}
	}
	if planned.err != nil {
		return planned.err
	}
	// The key comes before the documents: digests with a key that was not stored would match
	// nothing in the next run.
	if planned.storeKey {
		if err := w.key.StoreInSecret(ctx, w.management, w.namespace, seen.key); err != nil {
			return err
		}
	}
	var osc *osm.OperatingSystemConfig
	var rejected error // the server rejects a configuration that existed before: its documents are maintained nevertheless
	provision := func() error { return w.writeUserData(ctx, seen, seen.objects.provisioning, planned.provisioning) }
	writes := append(w.dependencyWrites(ctx, seen, planned),
		func() (err error) {
			if err = w.storeSettingsAndInputs(ctx, seen, planned); err == nil {
				osc, err = w.writeConfig(ctx, seen, planned, done)
			}
			if _, final := fault.PermanentReason(err); final && planned.restoresConfig {
				rejected, err = err, nil
			}
			return err
		})
	// No machine reads the objects of a new pool before its bootstrap document exists.
	isNew := seen.objects.isNew()
	if isNew {
		writes = append(writes, provision)
	}
	if err := runParallel(writes...); err != nil {
		return err
	}
	// Documents of an existing pool follow its configuration, so that they remain unchanged if
	// that fails.
	if !isNew {
		if err := provision(); err != nil {
			return err
		}
	}
	if err := w.writeUserData(ctx, seen, seen.objects.bootstrap, planned.bootstrap); err != nil {
		return err
	}
	// The next run knows then that the pool was complete, even if a user deletes the Secret
	// before the cache has it.
	if planned.bootstrap.write != nil || seen.objects.bootstrap != nil {
		w.report.cache.update(seen.md, func(cached *cachedPool) { cached.complete = true })
	}
	if osc != nil && lineage.PoolOf(osc) == poolKey(seen.md) { // not another controller's that is yet to be replaced
		if err := w.annotateOutcome(ctx, osc, planned, w.report.recordCurrentConfig(ctx, seen, osc, planned, done)); err != nil {
			return err
		}
	}
	// Documents that were replaced above could still need the inputs, the edge script and the
	// account.
	if err := w.pruneInputCredentials(ctx, seen.objects.inputs, planned.inputs); err != nil {
		return err
	}
	if err := w.removeEdge(ctx, planned.edge); err != nil {
		return err
	}
	if err := w.access().RevokeUnneeded(ctx, planned.access); err != nil {
		return err
	}
	return rejected
}

// storeSettingsAndInputs stores what a configuration refers to before it is written: the settings
// and the credentials of its generation.
func (w writer) storeSettingsAndInputs(ctx context.Context, seen *observed, planned plan) error {
	return runParallel(
		func() error {
			if planned.settings == nil {
				return nil
			}
			isNewConfig := planned.osc != nil
			return w.archive.EnsureSettings(ctx, planned.settings, isNewConfig)
		},
		func() error { return w.storeInputCredentials(ctx, seen, planned.inputs) },
	)
}

// writeConfig replaces the configuration, whose spec is immutable, or patches its
// annotations. It returns the configuration that exists afterwards.
func (w writer) writeConfig(ctx context.Context, seen *observed, planned plan, done *applied) (*osm.OperatingSystemConfig, error) {
	have := seen.objects.osc
	if planned.osc == nil {
		if planned.oscMetadata == nil {
			return have, nil
		}
		return have, w.patchAnnotations(ctx, have, planned.oscMetadata)
	}
	done.announce = w.report.allowAnnouncement(seen.md, planned, done)
	// A shutdown between deletion and creation would leave the pool without a configuration.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replaceTime)
	defer cancel()
	restore := func() (osm.OperatingSystemConfigSpec, error) { return w.renderRecord(ctx, seen, planned.replaced) }
	if have != nil {
		// An event says what differs. What cannot be rendered again has to be read to be restored.
		same := planned.replaced.SettingsDigest == planned.serving.SettingsDigest && planned.replaced.Engine == planned.serving.Engine
		if done.announce || planned.replaced.Object == "" || !same || !w.records.HasProfile(ctx, planned.replaced) {
			var err error
			if have, err = w.readCompleteConfig(ctx, have); err != nil {
				return nil, err
			}
			spec := have.Spec
			done.replacedSpec = &spec
			restore = func() (osm.OperatingSystemConfigSpec, error) { return spec, nil }
		}
		if planned.replaced.Object != "" {
			if err := w.archiveRecord(ctx, have); err != nil {
				return nil, err
			}
			w.report.recordUnloggedConfig(ctx, have)
		}
		// The preconditions make an edit since the read a race: it would be deleted without being
		// archived.
		if err := client.IgnoreNotFound(w.clusterOf(have).Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})); err != nil {
			return nil, fault.MarkRace(fmt.Errorf("deleting OperatingSystemConfig %s: %w", client.ObjectKeyFromObject(have), err))
		}
	}
	created := planned.osc.DeepCopy() // the answer is decoded into it
	err := w.management.Create(ctx, created, client.FieldOwner(api.FieldManager))
	if err == nil {
		return created, nil
	}
	err = fault.ClassifyCreateError(fmt.Errorf("creating OperatingSystemConfig %s: %w", client.ObjectKeyFromObject(planned.osc), err))
	if fault.RejectedByServer(err) {
		err = &fault.Rejection{Reason: api.EventWriteRefused, Err: err}
	}
	// A lost race means that another client created the object. Otherwise the pool must not
	// remain without one.
	if have != nil && !errors.Is(err, fault.ErrRaced) {
		if again := w.restoreDeletedConfig(ctx, have, restore); again != nil {
			// No object has the record any more, so the next run needs it from memory.
			w.report.cache.update(seen.md, func(cached *cachedPool) {
				cached.deleted = deletedConfig{have.UID, have.Annotations[api.AnnotationRecord]}
			})
			err = fmt.Errorf("%w\nputting the one before back: %s", err, again.Error()) // the first error decides what follows
		}
	}
	return nil, err
}

// restoreDeletedConfig creates a configuration again that was deleted.
func (w writer) restoreDeletedConfig(ctx context.Context, was *osm.OperatingSystemConfig, content func() (osm.OperatingSystemConfigSpec, error)) error {
	spec, err := content()
	if err != nil {
		return err
	}
	back := &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{
		Namespace: was.Namespace, Name: was.Name, Labels: was.Labels, Annotations: maps.Clone(was.Annotations),
	}, Spec: spec}
	// The audit log names the uid of the deleted object; the new one gets its own entry.
	delete(back.Annotations, api.AnnotationJournaled)
	return w.management.Create(ctx, back, client.FieldOwner(api.FieldManager))
}

// renderRecord renders the content of a configuration from its record.
func (w writer) renderRecord(ctx context.Context, seen *observed, rec render.Record) (osm.OperatingSystemConfigSpec, error) {
	input, err := w.records.RestoreInput(ctx, seen.md, rec, seen.values)
	if err != nil {
		return osm.OperatingSystemConfigSpec{}, err
	}
	out, err := w.engine.Render(input)
	if err != nil {
		return osm.OperatingSystemConfigSpec{}, err
	}
	// Another release can render other bytes from the same record; then restoring it would be a
	// rotation.
	if out.Record.Digests != rec.Digests {
		return osm.OperatingSystemConfigSpec{}, errors.New("the record renders to other content")
	}
	return out.OSC, nil
}

// archiveRecord archives the record of a configuration that is about to be deleted.
func (w writer) archiveRecord(ctx context.Context, osc *osm.OperatingSystemConfig) error {
	rec := recordOf(osc)
	if mismatchedAnnotation(osc, rec) != "" {
		return nil // made by OSM, or edited manually: the record cannot be trusted
	}
	return w.archive.Store(ctx, osc, rec)
}

// annotateOutcome records in the annotations of the configuration why the pool cannot have a
// newer one, if that is known, and the id of its audit log entry.
func (w writer) annotateOutcome(ctx context.Context, osc *osm.OperatingSystemConfig, planned plan, journaled string) error {
	patch := map[string]any{}
	// A failed read decides nothing about the request, so its annotations remain.
	if planned.readError == nil {
		for _, k := range []string{api.AnnotationRefused, api.AnnotationRefusedVersion, api.AnnotationRefusedSince} {
			if v, is := planned.rejected[k]; is && osc.Annotations[k] != v {
				patch[k] = v
			} else if _, was := osc.Annotations[k]; was && !is {
				patch[k] = nil
			}
		}
	}
	if journaled != "" {
		patch[api.AnnotationJournaled] = journaled
	}
	if len(patch) == 0 {
		return nil
	}
	return w.patch(ctx, osc, map[string]any{"metadata": map[string]any{"annotations": patch}})
}
