package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

const checkPools = "pools"

// releaseTime is the tolerated duration of deleting a pool's configuration.
const releaseTime = 10 * time.Minute

// examinePools reports every pool without its requested configuration, with the cause.
func (w *examination) examinePools(ctx context.Context) {
	s := w.readInventory(ctx, checkPools)
	if s == nil {
		return
	}
	stuck, frozen := 0, []string(nil)
	for i := range s.pools {
		md := &s.pools[i]
		if md.Annotations[api.AnnotationSuspend] == "true" {
			frozen = append(frozen, client.ObjectKeyFromObject(md).String())
		}
		found := w.diagnosePool(ctx, s, md)
		if found == "" {
			continue
		}
		if stuck++; stuck > maxListed {
			continue
		}
		w.addFinding(Finding{
			Check: checkPools, Level: Problem, Cluster: w.clusterLabel(w.Worker), Found: fmt.Sprintf("MachineDeployment %s/%s %s", md.Namespace, md.Name, found),
			Remedy: fmt.Sprintf("fix what it names; kubectl -n %s describe machinedeployment %s shows all of its events", md.Namespace, md.Name),
		})
	}
	w.addRemaining(checkPools, Problem, stuck, "pools do not have what they request")
	if len(frozen) > 0 {
		w.addFinding(Finding{
			Check: checkPools, Level: Note, Cluster: w.clusterLabel(w.Worker), Found: "the configuration is frozen for " + joinSome(frozen),
			Remedy: "remove the annotation " + api.AnnotationSuspend + " to follow the profile again",
		})
	}
	if stuck == 0 {
		w.addFinding(Finding{Check: checkPools, Level: OK, Cluster: w.clusterLabel(w.Worker), Found: describeServedPools(len(s.pools))})
	}
}

func describeServedPools(n int) string {
	if n == 0 {
		return "no MachineDeployment names a profile"
	}
	return plural(n, "pool has what it requests", "pools have what they request")
}

// diagnosePool describes why a pool does not have what it requests; "" if it has.
func (w *examination) diagnosePool(ctx context.Context, s *inventory, md *cluster.MachineDeployment) string {
	key := client.ObjectKeyFromObject(md)
	names := lineage.NamesOf(key)
	osc := s.configs[names.Config]
	if md.DeletionTimestamp != nil {
		if w.apiServerTime().Sub(md.DeletionTimestamp.Time) > releaseTime {
			return fmt.Sprintf("is being deleted since %s, and finalizers prevent it: %v", md.DeletionTimestamp.UTC().Format(time.RFC3339), md.Finalizers)
		}
		return ""
	}
	switch {
	case osc == nil:
		return "has no configuration: " + w.lastWarning(ctx, md)
	case osc.Annotations[api.AnnotationPool] != key.String():
		return fmt.Sprintf("has no configuration: OperatingSystemConfig %s/%s belongs to another pool, %q", osc.Namespace, osc.Name, osc.Annotations[api.AnnotationPool])
	}
	if rejection := osc.Annotations[api.AnnotationRefused]; rejection != "" {
		return "does not have what it requests: " + rejection
	}
	for _, name := range []string{names.Bootstrap, names.Provisioning} {
		if s.secrets[name] == nil {
			return fmt.Sprintf("has no Secret %s/%s, so its machines do not boot, and no controller restores it: see the check lease, and the controller's log", settingsNamespace, name)
		}
	}
	if made := s.secrets[names.Bootstrap].Annotations[api.AnnotationInputDigest]; made != "" && made != osc.Annotations[api.AnnotationInputDigest] && w.hasStaleBootstrap(ctx, osc, names.Bootstrap) {
		return "boots from an earlier configuration, since the documents of the current one are not written: " + w.lastWarning(ctx, md)
	}
	return ""
}

// hasStaleBootstrap reports whether a pool's bootstrap Secret is not of its current configuration.
// It reads both again, the configuration last: the pool may have rotated between the two lists.
func (w *examination) hasStaleBootstrap(ctx context.Context, osc *osm.OperatingSystemConfig, bootstrap string) bool {
	secret := kubeclient.Metadata(corev1.SchemeGroupVersion.WithKind("Secret"))
	var now osm.OperatingSystemConfig
	err := errors.Join(
		w.Worker.Client.Get(ctx, client.ObjectKey{Namespace: settingsNamespace, Name: bootstrap}, secret),
		w.Management.Client.Get(ctx, client.ObjectKeyFromObject(osc), &now),
	)
	if err != nil {
		return !apierrors.IsNotFound(err) // deleted in the meantime, or the lists were right
	}
	return now.UID == osc.UID && secret.Annotations[api.AnnotationInputDigest] != now.Annotations[api.AnnotationInputDigest]
}

// lastWarning returns the message of the last Warning event of a pool.
func (w *examination) lastWarning(ctx context.Context, md *cluster.MachineDeployment) string {
	var events corev1.EventList
	err := w.Worker.Client.List(ctx, &events, client.InNamespace(md.Namespace), client.MatchingFields{
		"involvedObject.kind": "MachineDeployment", "involvedObject.name": md.Name, "type": corev1.EventTypeWarning,
	})
	if err != nil {
		return "its events cannot be read: " + err.Error()
	}
	var last *corev1.Event
	for i := range events.Items {
		e := &events.Items[i]
		if e.InvolvedObject.UID == md.UID && (last == nil || lastSeen(e).After(lastSeen(last))) {
			last = e
		}
	}
	if last == nil {
		return "no event gives the reason: see the check lease, and the controller's log"
	}
	return last.Reason + ": " + last.Message
}

// lastSeen returns the last occurrence of an event, which the older and the newer API group
// store in different fields.
func lastSeen(e *corev1.Event) time.Time {
	t := e.CreationTimestamp.Time
	times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	for _, other := range times {
		if other.After(t) {
			t = other
		}
	}
	return t
}
