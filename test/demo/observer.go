package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// patience bounds each wait for the controller.
const patience = time.Minute

// observer watches what the controller writes, and when.
type observer struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	objects map[key]seen
	gone    []string // user-data Secrets that were deleted at any time
}

// key names an object: its type in Go, its namespace and its name.
type key struct {
	kind string
	name types.NamespacedName
}

// seen is an object and when it became what it is.
type seen struct {
	client.Object
	at time.Time
}

// observe watches until ctx ends.
func observe(ctx context.Context, config *rest.Config) (*observer, error) {
	scheme, err := cluster.Scheme()
	if err != nil {
		return nil, err
	}
	in := func(namespace string) cache.ByObject {
		return cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	}
	watched := map[client.Object]cache.ByObject{
		&corev1.Secret{}:              in(api.NamespaceCloudInitSettings),
		&api.ProfileSource{}:          in(metav1.NamespaceSystem),
		&osm.OperatingSystemProfile{}: in(metav1.NamespaceSystem),
		&osm.OperatingSystemConfig{}:  in(metav1.NamespaceSystem),
		&api.NodeProvenance{}:         {},
		&api.BootReport{}:             in(api.NamespaceCloudInitSettings),
		&eventsv1.Event{}:             {}, // pools are anywhere
	}
	c, err := cache.New(config, cache.Options{Scheme: scheme, ByObject: watched})
	if err != nil {
		return nil, fmt.Errorf("watching the cluster: %w", err)
	}
	o := &observer{changed: make(chan struct{}), objects: map[key]seen{}}
	for obj := range watched {
		informer, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", obj, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    o.put,
			UpdateFunc: func(_, obj any) { o.put(obj) },
			DeleteFunc: o.remove,
		})
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", obj, err)
		}
	}
	go func() { _ = c.Start(ctx) }() // it fails only when started twice
	if !c.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watching the cluster: %w", context.Cause(ctx))
	}
	return o, nil
}

func (o *observer) put(obj any) {
	if obj, ok := obj.(client.Object); ok {
		o.change(func() { o.objects[keyOf(obj)] = seen{obj, time.Now()} })
	}
}

func (o *observer) remove(obj any) {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if obj, ok := obj.(client.Object); ok {
		o.change(func() {
			delete(o.objects, keyOf(obj))
			if _, secret := obj.(*corev1.Secret); secret && strings.HasSuffix(obj.GetName(), "-config") {
				o.gone = append(o.gone, obj.GetName())
			}
		})
	}
}

func (o *observer) change(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	do()
	close(o.changed)
	o.changed = make(chan struct{})
}

func keyOf(obj client.Object) key {
	return key{fmt.Sprintf("%T", obj), client.ObjectKeyFromObject(obj)}
}

// until waits for a condition, which is asked again with each change. It says why
// it does not hold, "" when it does.
func (o *observer) until(ctx context.Context, what string, condition func() string) error {
	timeout := time.After(patience)
	for {
		o.mu.Lock()
		why, changed := condition(), o.changed
		o.mu.Unlock()
		if why == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout:
			return fmt.Errorf("waited %s for %s: %s", patience, what, why)
		}
	}
}

// get returns an object, for use inside a condition; the second result is false if it does not
// exist.
func get[T client.Object](o *observer, namespace, name string) (T, time.Time, bool) {
	var zero T
	found, ok := o.objects[key{fmt.Sprintf("%T", zero), types.NamespacedName{Namespace: namespace, Name: name}}]
	if !ok {
		return zero, time.Time{}, false
	}
	obj, ok := found.Object.(T)
	return obj, found.at, ok
}

// all returns the objects of one type, for use inside a condition.
func all[T client.Object](o *observer) []T {
	var out []T
	for _, found := range o.objects {
		if obj, ok := found.Object.(T); ok {
			out = append(out, obj)
		}
	}
	return out
}

// ready returns the Ready condition, with unknown values if it does not exist.
func ready(conditions []metav1.Condition) metav1.Condition {
	if c := apimeta.FindStatusCondition(conditions, meta.ReadyCondition); c != nil {
		return *c
	}
	return metav1.Condition{Type: meta.ReadyCondition, Status: metav1.ConditionUnknown}
}
