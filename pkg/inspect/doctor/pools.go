package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
)

const checkPools = "pools"

// releaseTime is the tolerated duration of deleting a pool's configuration.
const releaseTime = 10 * time.Minute

// settleTime is the time after which pools that look incomplete are read again.
const settleTime = 2 * time.Second

// examinePools reports every pool without its requested configuration, with the cause. Lists are
// not read in one instant, and an OperatingSystemConfig is replaced by deleting and creating it:
// only what a second read confirms is a problem.
func (w *examination) examinePools(ctx context.Context) {
	s := w.readInventory(ctx, checkPools)
	if s == nil {
		return
	}
	before := w.diagnosePools(s)
	if len(before) > 0 {
		select {
		case <-time.After(settleTime):
		case <-ctx.Done():
		}
		w.inventory = nil
		if s = w.readInventory(ctx, checkPools); s == nil {
			return
		}
	}
	diagnoses := w.diagnosePools(s)
	stuck, frozen := 0, []string(nil)
	for i := range s.pools {
		md := &s.pools[i]
		if md.Annotations[api.AnnotationSuspend] == "true" {
			frozen = append(frozen, client.ObjectKeyFromObject(md).String())
		}
		found := diagnoses[md.UID]
		if found.text == "" || before[md.UID].text == "" {
			continue
		}
		if stuck++; stuck > maxListed {
			continue
		}
		if found.needsEvent {
			found.text += w.lastWarning(ctx, md)
		}
		w.report(Problem, checkPools, w.Worker, fmt.Sprintf("MachineDeployment %s/%s %s", md.Namespace, md.Name, found.text),
			fmt.Sprintf("fix what it names; kubectl -n %s describe machinedeployment %s shows all of its events", md.Namespace, md.Name))
	}
	w.addRemaining(checkPools, stuck, "pools do not have what they request")
	if len(frozen) > 0 {
		w.report(Note, checkPools, w.Worker, "the configuration is frozen for "+joinSome(frozen),
			"remove the annotation "+api.AnnotationSuspend+" to follow the profile again")
	}
	if stuck == 0 {
		w.report(OK, checkPools, w.Worker, describeServedPools(len(s.pools)), "")
	}
}

func describeServedPools(n int) string {
	if n == 0 {
		return "no MachineDeployment names a profile"
	}
	return plural(n, "pool has what it requests", "pools have what they request")
}

// A diagnosis describes why a pool does not have what it requests.
type diagnosis struct {
	text       string
	needsEvent bool // the text ends with the message of the pool's last Warning event
}

// diagnosePools returns the diagnoses of the pools that do not have what they request, by UID.
func (w *examination) diagnosePools(s *inventory) map[types.UID]diagnosis {
	diagnoses := map[types.UID]diagnosis{}
	for i := range s.pools {
		if d := w.diagnosePool(s, &s.pools[i]); d.text != "" {
			diagnoses[s.pools[i].UID] = d
		}
	}
	return diagnoses
}

// diagnosePool returns the diagnosis of one pool; it is empty if the pool has what it requests.
func (w *examination) diagnosePool(s *inventory, md *cluster.MachineDeployment) diagnosis {
	key := client.ObjectKeyFromObject(md)
	names := lineage.NamesOf(key)
	osc := s.configs[names.Config]
	if md.DeletionTimestamp != nil {
		if w.apiServerTime().Sub(md.DeletionTimestamp.Time) > releaseTime {
			return diagnosis{text: fmt.Sprintf("is being deleted since %s, and finalizers prevent it: %v", md.DeletionTimestamp.UTC().Format(time.RFC3339), md.Finalizers)}
		}
		return diagnosis{}
	}
	switch {
	case osc == nil:
		return diagnosis{text: "has no configuration: ", needsEvent: true}
	case takeover.IsCreatedByOSM(osc) && s.sharesConfigName(md) && !takeover.IsCreatedByOSMFor(osc, md):
		return diagnosis{text: fmt.Sprintf("has the same object names as another pool, and operating-system-manager did not create OperatingSystemConfig %s/%s for its present annotations: rename one of the two pools: ", osc.Namespace, osc.Name), needsEvent: true}
	case takeover.IsCreatedByOSM(osc):
		return diagnosis{text: fmt.Sprintf("has the configuration of operating-system-manager, OperatingSystemConfig %s/%s: the controller takes it over", osc.Namespace, osc.Name)}
	case osc.Annotations[api.AnnotationPool] != key.String():
		return diagnosis{text: fmt.Sprintf("has no configuration: OperatingSystemConfig %s/%s belongs to another pool, %q", osc.Namespace, osc.Name, osc.Annotations[api.AnnotationPool])}
	}
	if rejection := osc.Annotations[api.AnnotationRefused]; rejection != "" {
		return diagnosis{text: "does not have what it requests: " + rejection}
	}
	for _, name := range []string{names.Bootstrap, names.Provisioning} {
		if s.secrets[name] == nil {
			return diagnosis{text: fmt.Sprintf("has no Secret %s/%s, so its machines do not boot, and no controller restores it: see the check lease, and the controller's log", settingsNamespace, name)}
		}
	}
	if made := s.secrets[names.Bootstrap].Annotations[api.AnnotationInputDigest]; made != "" && made != osc.Annotations[api.AnnotationInputDigest] {
		return diagnosis{text: "boots from an earlier configuration, since the documents of the current one are not written: ", needsEvent: true}
	}
	return diagnosis{}
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
	own := slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return e.InvolvedObject.UID != md.UID })
	if len(own) == 0 {
		return "no event gives the reason: see the check lease, and the controller's log"
	}
	last := slices.MaxFunc(own, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	return last.Reason + ": " + last.Message
}

// lastSeen returns the last occurrence of an event, which the older and the newer API group
// store in different fields.
func lastSeen(e *corev1.Event) time.Time {
	times := []time.Time{e.CreationTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}
