package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
)

const (
	// syncPatience is how long the first list of machines may take.
	syncPatience = 30 * time.Second
	// lostMemory is how long a machine that was deleted before it joined is remembered for
	// somebody to ask.
	lostMemory = time.Hour
)

// Machines are the machines of the worker cluster. They are watched only while somebody
// asks for them: twenty thousand machines do not belong in memory for nobody. Its field
// is set once, before Setup.
type Machines struct {
	// Cache holds Machines and MachineSets and nothing else, with Transform.
	Cache cache.Cache

	controller controller.Controller
	handler    handler.EventHandler
	watching   bool // only one Reconcile runs at a time

	mu   sync.Mutex
	lost map[types.UID]lostMachine
}

// lostMachine is a machine that is gone and never joined.
type lostMachine struct {
	machine cluster.Machine
	at      time.Time
}

// Transform keeps of a Machine or MachineSet what a rollout reads.
func Transform(obj any) (any, error) {
	trim := func(m metav1.ObjectMeta) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion,
			CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, OwnerReferences: m.OwnerReferences,
		}
	}
	switch o := obj.(type) {
	case *cluster.Machine:
		out := &cluster.Machine{ObjectMeta: trim(o.ObjectMeta)}
		if o.Status.NodeRef != nil {
			out.Status.NodeRef = &corev1.ObjectReference{Name: o.Status.NodeRef.Name}
		}
		for _, c := range o.Status.Conditions {
			if c.Type == string(corev1.NodeReady) {
				out.Status.Conditions = []cluster.MachineCondition{c}
			}
		}
		return out, nil
	case *cluster.MachineSet:
		return &cluster.MachineSet{ObjectMeta: trim(o.ObjectMeta), Spec: cluster.MachineDeploymentSpec{Replicas: o.Spec.Replicas}}, nil
	}
	return obj, nil
}

// watch begins to watch, unless that goes on already.
func (m *Machines) watch() error {
	if m.watching {
		return nil
	}
	for _, obj := range []client.Object{&cluster.Machine{}, &cluster.MachineSet{}} {
		if err := m.controller.Watch(source.Kind(m.Cache, obj, m.handler)); err != nil {
			return fmt.Errorf("watching %T: %w", obj, err)
		}
	}
	m.watching = true
	return nil
}

// forget ends it, and frees what is remembered.
func (m *Machines) forget(ctx context.Context) error {
	if !m.watching {
		return nil
	}
	m.watching = false
	m.mu.Lock()
	m.lost = nil
	m.mu.Unlock()
	return errors.Join(m.Cache.RemoveInformer(ctx, &cluster.Machine{}), m.Cache.RemoveInformer(ctx, &cluster.MachineSet{}))
}

// byPool lists the machines of every pool, by the uid of its MachineDeployment.
func (m *Machines) byPool(ctx context.Context, now time.Time) (map[types.UID][]machine, error) {
	if err := m.watch(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	var sets cluster.MachineSetList // of the cache: not to be changed
	if err := m.Cache.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MachineSets, which needs the right to get, list and watch them: %w", err)
	}
	var list cluster.MachineList // of the cache: not to be changed
	if err := m.Cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Machines, which needs the right to get, list and watch them: %w", err)
	}
	return assign(sets.Items, list.Items, m.recentlyLost(now)), nil
}

// recentlyLost are the machines that went without having joined.
func (m *Machines) recentlyLost(now time.Time) []lostMachine {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []lostMachine
	for uid, l := range m.lost {
		if now.Sub(l.at) > lostMemory {
			delete(m.lost, uid)
			continue
		}
		out = append(out, l)
	}
	return out
}

func (m *Machines) lose(gone *cluster.Machine, at time.Time) {
	if joined(gone) {
		return
	}
	if gone.DeletionTimestamp != nil {
		at = gone.DeletionTimestamp.Time
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost == nil {
		m.lost = map[types.UID]lostMachine{}
	}
	m.lost[gone.UID] = lostMachine{*gone, at}
}

// set is a MachineSet and its machines.
type set struct {
	pool     types.UID
	replicas int
	leaving  bool
	machines []*cluster.Machine
}

// wants reports whether a machine that was deleted then was missed: those that were
// there at that time did not suffice. Otherwise the MachineSet had become smaller.
func (s *set) wants(at time.Time) bool {
	if s.leaving {
		return false
	}
	there := 0
	for _, m := range s.machines {
		if m.CreationTimestamp.Time.Before(at) && (m.DeletionTimestamp == nil || m.DeletionTimestamp.After(at)) {
			there++
		}
	}
	return there < s.replicas
}

// assign finds the pool of each machine, by the owners of Machines and MachineSets
// (contract: section 12.3).
func assign(sets []cluster.MachineSet, machines []cluster.Machine, lost []lostMachine) map[types.UID][]machine {
	byUID := map[types.UID]*set{}
	for i := range sets {
		s := &set{replicas: 1, leaving: sets[i].DeletionTimestamp != nil} // machine-controller's default
		if sets[i].Spec.Replicas != nil {
			s.replicas = int(*sets[i].Spec.Replicas)
		}
		s.pool = owner(&sets[i], "MachineDeployment")
		byUID[sets[i].UID] = s
	}
	for i := range machines {
		if s := byUID[owner(&machines[i], "MachineSet")]; s != nil {
			s.machines = append(s.machines, &machines[i])
		}
	}
	out := map[types.UID][]machine{}
	for _, s := range byUID {
		for _, m := range s.machines {
			found := machine{name: m.Name, created: m.CreationTimestamp.Time, joined: ready(m), leaving: m.DeletionTimestamp != nil}
			if found.leaving && !joined(m) && s.wants(m.DeletionTimestamp.Time) {
				found.lost = m.DeletionTimestamp.Time
			}
			out[s.pool] = append(out[s.pool], found)
		}
	}
	for _, l := range lost {
		if s := byUID[owner(&l.machine, "MachineSet")]; s != nil && s.wants(l.at) {
			out[s.pool] = append(out[s.pool], machine{name: l.machine.Name, created: l.machine.CreationTimestamp.Time, lost: l.at, leaving: true})
		}
	}
	return out
}

// owner is the uid of the owner of a kind; of several the last counts.
func owner(obj client.Object, kind string) (uid types.UID) {
	for _, o := range obj.GetOwnerReferences() {
		if o.Kind == kind {
			uid = o.UID
		}
	}
	return uid
}

// joined reports whether a machine has a Node.
func joined(m *cluster.Machine) bool { return m.Status.NodeRef != nil && m.Status.NodeRef.Name != "" }

// ready reports whether it has one that is Ready, as far as that is known.
func ready(m *cluster.Machine) bool {
	for _, c := range m.Status.Conditions {
		if c.Type == string(corev1.NodeReady) && c.Status != corev1.ConditionTrue {
			return false
		}
	}
	return joined(m)
}

// enqueuing starts what enqueue tells when a machine comes, goes, joins or leaves, or a
// MachineSet becomes another. What machine-controller writes with each heartbeat of a
// Node is no news.
func (m *Machines) enqueuing(enqueue func(context.Context, workqueue.TypedRateLimitingInterface[crreconcile.Request]), now func() time.Time) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[crreconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, _ event.CreateEvent, q queue) { enqueue(ctx, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if news(e.ObjectOld, e.ObjectNew) {
				enqueue(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if gone, ok := e.Object.(*cluster.Machine); ok {
				m.lose(gone, now())
			}
			enqueue(ctx, q)
		},
	}
}

func news(before, after client.Object) bool {
	if (before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) {
		return true
	}
	switch b := after.(type) {
	case *cluster.Machine:
		a, ok := before.(*cluster.Machine)
		return !ok || joined(a) != joined(b) || ready(a) != ready(b)
	case *cluster.MachineSet:
		a, ok := before.(*cluster.MachineSet)
		return !ok || (a.Spec.Replicas == nil) != (b.Spec.Replicas == nil) || a.Spec.Replicas != nil && *a.Spec.Replicas != *b.Spec.Replicas
	}
	return true
}
