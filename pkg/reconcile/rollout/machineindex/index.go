package machineindex

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

type queue = workqueue.TypedRateLimitingInterface[crreconcile.Request]

// lostTTL is how long a machine that was deleted before it joined is remembered.
const lostTTL = time.Hour

// Index has the machines of the worker cluster, from a cache that is shared with package
// nodes and trimmed to what both need.
type Index struct {
	// needed is false while no rollout uses it.
	needed atomic.Bool

	mu   sync.Mutex
	lost map[types.UID]lostMachine
}

// SetEventHandling sets whether a rollout uses the machines. Otherwise no events of them are handled.
func (m *Index) SetEventHandling(needed bool) { m.needed.Store(needed) }

// lostMachine is a deleted machine that never joined.
type lostMachine struct {
	machine cluster.Machine
	at      time.Time
}

// MachinesByPool lists the machines of every pool, by the uid of its MachineDeployment.
// failingBoots has the failing boots of machines, by their uid.
func (m *Index) MachinesByPool(ctx context.Context, worker client.Reader, failingBoots map[types.UID]*api.MachineBootStatus, now time.Time) (map[types.UID][]waves.Machine, error) {
	var sets cluster.MachineSetList // belongs to the cache: do not modify it
	if err := worker.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	var list cluster.MachineList // belongs to the cache: do not modify it
	if err := worker.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	return assignToPools(sets.Items, list.Items, failingBoots, m.recentlyLost(now)), nil
}

// recentlyLost are the machines that were deleted before they joined.
func (m *Index) recentlyLost(now time.Time) []lostMachine {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(now)
	return slices.Collect(maps.Values(m.lost))
}

func (m *Index) forget(now time.Time) {
	maps.DeleteFunc(m.lost, func(_ types.UID, l lostMachine) bool { return now.Sub(l.at) > lostTTL })
}

// recordLost records a machine that was deleted before it joined.
func (m *Index) recordLost(gone *cluster.Machine, now time.Time) {
	if joined(gone) || !m.needed.Load() {
		return
	}
	at := now
	// The event reports the end of the deletion, which began earlier.
	if gone.DeletionTimestamp != nil {
		at = gone.DeletionTimestamp.Time
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(now)
	if m.lost == nil {
		m.lost = map[types.UID]lostMachine{}
	}
	m.lost[gone.UID] = lostMachine{*gone, at}
}

// machineSetState is a MachineSet and its machines.
type machineSetState struct {
	pool     types.UID
	revision uint64 // of the MachineDeployment; 0 if it cannot be read
	reused   bool   // it had earlier revisions
	replicas int
	leaving  bool
	machines []*cluster.Machine
}

// needsMachine reports whether a machine that was deleted at a time was still desired: the
// remaining machines were too few. Otherwise the MachineSet was scaled down.
func (s *machineSetState) needsMachine(at time.Time) bool {
	if s.leaving {
		return false
	}
	existing := 0
	for _, m := range s.machines {
		if m.CreationTimestamp.Time.Before(at) && (m.DeletionTimestamp == nil || m.DeletionTimestamp.After(at)) {
			existing++
		}
	}
	return existing < s.replicas
}

// assignToPools finds the pool of each machine, by the owners of Machines and MachineSets.
func assignToPools(sets []cluster.MachineSet, all []cluster.Machine, boots map[types.UID]*api.MachineBootStatus, lost []lostMachine) map[types.UID][]waves.Machine {
	byUID, newest := map[types.UID]*machineSetState{}, map[types.UID]uint64{}
	for i := range sets {
		s := newMachineSetState(&sets[i])
		byUID[sets[i].UID] = s
		newest[s.pool] = max(newest[s.pool], s.revision)
	}
	for i := range all {
		if s := byUID[lineage.MachineSetOf(&all[i]).UID]; s != nil {
			s.machines = append(s.machines, &all[i])
		}
	}
	out := map[types.UID][]waves.Machine{}
	for _, s := range byUID {
		for _, m := range s.machines {
			found := waves.Machine{Name: m.Name, Created: m.CreationTimestamp.Time, Leaving: m.DeletionTimestamp != nil, Replaced: s.revision < newest[s.pool], Boot: boots[m.UID]}
			found.Config = m.Annotations[api.AnnotationConfig]
			found.Joined, found.Waits = hasJoinedInTime(m)
			found.Reported = machineErrorOf(m)
			// A MachineSet that was used again has machines of several revisions.
			if !s.reused {
				found.Revision = s.revision
			}
			if found.Leaving && !joined(m) && s.needsMachine(m.DeletionTimestamp.Time) {
				found.Lost = m.DeletionTimestamp.Time
			}
			out[s.pool] = append(out[s.pool], found)
		}
	}
	for _, l := range lost {
		if s := byUID[lineage.MachineSetOf(&l.machine).UID]; s != nil && s.needsMachine(l.at) {
			out[s.pool] = append(out[s.pool], waves.Machine{Name: l.machine.Name, Created: l.machine.CreationTimestamp.Time, Lost: l.at, Leaving: true, Reported: machineErrorOf(&l.machine)})
		}
	}
	return out
}

// machineErrorOf returns why machine-controller could not create a machine, "" if unknown.
func machineErrorOf(m *cluster.Machine) string {
	return strings.Trim(m.Status.ErrorReason+": "+m.Status.ErrorMessage, ": ")
}

func newMachineSetState(ms *cluster.MachineSet) *machineSetState {
	s := &machineSetState{
		pool: lineage.PoolOfSet(ms).UID, revision: revisionOf(ms.Annotations[api.AnnotationMDRevision]),
		reused:   ms.Annotations[api.AnnotationMDRevisionHistory] != "",
		replicas: 1, leaving: ms.DeletionTimestamp != nil, // 1 is machine-controller's default
	}
	if ms.Spec.Replicas != nil {
		s.replicas = int(*ms.Spec.Replicas)
	}
	return s
}

// revisionOf parses the revision of a MachineDeployment, which starts at 1.
func revisionOf(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// joined reports whether a machine has a Node.
func joined(m *cluster.Machine) bool { return m.Status.NodeRef != nil && m.Status.NodeRef.Name != "" }

// notReady reports whether a machine has a Node that is not Ready, and since when, if
// known.
func notReady(m *cluster.Machine) (since time.Time, is bool) {
	for _, c := range m.Status.Conditions {
		if c.Type == string(corev1.NodeReady) && c.Status != corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// hasJoinedInTime reports whether a machine has joined: it has a Node that is Ready, or was Ready,
// because it became not Ready after the time limit for joining. Otherwise waits is the time since
// which it is expected.
func hasJoinedInTime(m *cluster.Machine) (yes bool, waits time.Time) {
	waits = m.CreationTimestamp.Time
	if !joined(m) {
		return false, waits
	}
	since, is := notReady(m)
	switch {
	case !is, since.After(waits.Add(waves.BootLimit)):
		return true, waits
	case since.After(waits): // a restarting Node has the same kind of time as a new one
		waits = since
	}
	return false, waits
}

// EventHandler calls enqueue when a machine is created, deleted, joins or is being deleted,
// or a MachineSet changes, while needed. It ignores what machine-controller writes with
// each heartbeat of a Node.
func (m *Index) EventHandler(enqueue func(context.Context, queue), now func() time.Time) handler.EventHandler {
	enqueueIfNeeded := func(ctx context.Context, q queue) {
		if m.needed.Load() {
			enqueue(ctx, q)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q queue) { enqueueIfNeeded(ctx, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if isRelevantChange(e.ObjectOld, e.ObjectNew) {
				enqueueIfNeeded(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if gone, ok := e.Object.(*cluster.Machine); ok {
				m.recordLost(gone, now())
			}
			enqueueIfNeeded(ctx, q)
		},
	}
}

func isRelevantChange(before, after client.Object) bool {
	if (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) {
		return true
	}
	switch b := after.(type) {
	case *cluster.Machine:
		a, ok := before.(*cluster.Machine)
		if !ok {
			return true
		}
		old, was := notReady(a)
		since, is := notReady(b)
		return joined(a) != joined(b) || was != is || !since.Equal(old)
	case *cluster.MachineSet:
		a, ok := before.(*cluster.MachineSet)
		return !ok || newMachineSetState(a).replicas != newMachineSetState(b).replicas || newMachineSetState(a).revision != newMachineSetState(b).revision
	}
	return true
}
