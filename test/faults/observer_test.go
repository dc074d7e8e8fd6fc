package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// observer follows the user-data of pools all the time, straight from the API server,
// and remembers what must never be.
type observer struct {
	stop  context.CancelFunc
	mu    sync.Mutex
	wrong []string
	// The first resource version of each Secret with an input digest, by pool and digest.
	// When the API server was away, the informer tells in any order what happened.
	provisioning, bootstrap map[string]uint64
}

// observe begins; it goes on over restarts of the API server.
func (f *fleet) observe() *observer {
	f.t.Helper()
	scheme, err := cluster.Scheme()
	f.must(err)
	c, err := cache.New(f.cluster.Config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{api.NamespaceCloudInitSettings: {}}})
	f.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	o := &observer{stop: cancel, provisioning: map[string]uint64{}, bootstrap: map[string]uint64{}}
	informer, err := c.GetInformer(ctx, &corev1.Secret{})
	f.must(err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { o.see(f.namespace, nil, obj.(*corev1.Secret)) },
		UpdateFunc: func(before, after any) {
			o.see(f.namespace, before.(*corev1.Secret), after.(*corev1.Secret))
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if s, ok := obj.(*corev1.Secret); ok && strings.HasSuffix(s.Annotations[api.AnnotationPool], "/"+poolOf(s)) && poolOf(s) != "" {
				o.complain("%s was deleted", s.Name)
			}
		},
	})
	f.must(err)
	go func() { _ = c.Start(ctx) }() // it ends with the context
	if !c.WaitForCacheSync(ctx) {
		f.t.Fatal("the observer does not see the Secrets")
	}
	return o
}

const (
	bootstrapSuffix    = "-bootstrap-config"
	provisioningSuffix = "-provisioning-config"
)

// poolOf is the pool of a user-data Secret, "" of others.
func poolOf(s *corev1.Secret) string {
	_, pool, _ := strings.Cut(s.Annotations[api.AnnotationPool], "/")
	if strings.HasSuffix(s.Name, "kubelet"+bootstrapSuffix) || !strings.HasSuffix(s.Name, bootstrapSuffix) && !strings.HasSuffix(s.Name, provisioningSuffix) {
		return ""
	}
	return pool
}

func (o *observer) see(namespace string, before, s *corev1.Secret) {
	pool := poolOf(s)
	if pool == "" || !strings.HasPrefix(s.Annotations[api.AnnotationPool], namespace+"/") {
		return
	}
	if before != nil && before.UID != s.UID {
		o.complain("%s was away for a moment", s.Name)
	}
	o.note(pool+" at "+s.Annotations[api.AnnotationInputDigest], s)
	var revision, made int
	if _, err := fmt.Sscan(s.Annotations[api.AnnotationRevisionFor], &revision); err != nil {
		o.complain("%s is for revision %q", s.Name, s.Annotations[api.AnnotationRevisionFor])
	}
	_, after, _ := bytes.Cut(s.Data[api.UserDataKey], []byte("made for v1.35."))
	if _, err := fmt.Sscan(string(bytes.Fields(append(after, " -"...))[0]), &made); err != nil || made < revision {
		o.complain("%s is for revision %d and has content of template %d (err %v)", s.Name, revision, made, err)
	}
}

// note keeps when a document of a generation was there first.
func (o *observer) note(generation string, s *corev1.Secret) {
	at, err := strconv.ParseUint(s.ResourceVersion, 10, 64)
	if err != nil {
		o.complain("%s has resource version %q", s.Name, s.ResourceVersion)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.bootstrap
	if strings.HasSuffix(s.Name, provisioningSuffix) {
		seen = o.provisioning
	}
	if _, before := seen[generation]; !before {
		seen[generation] = at
	}
}

func (o *observer) complain(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// check fails the test for whatever was wrong at any moment.
func (f *fleet) check() {
	f.t.Helper()
	f.seen.mu.Lock()
	defer f.seen.mu.Unlock()
	for _, wrong := range f.seen.wrong {
		f.t.Error(wrong)
	}
	for generation, at := range f.seen.bootstrap {
		if first, ok := f.seen.provisioning[generation]; !ok || first > at {
			f.t.Errorf("%s: there was no provisioning document when the bootstrap document came", generation)
		}
	}
	f.seen.wrong = nil
}

// eachItem calls do for every object of a list, until one fails.
func eachItem(list client.ObjectList, do func(client.Object) error) error {
	return apimeta.EachListItem(list, func(item runtime.Object) error { return do(item.(client.Object)) })
}
