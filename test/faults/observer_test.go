package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// observer follows the user-data of pools all the time, straight from the API server,
// and remembers what must never be.
type observer struct {
	namespace string
	client    client.WithWatch
	stop      context.CancelFunc
	mu        sync.Mutex
	wrong     []string
	have      map[string]*corev1.Secret // the last observed state, by name
	last      uint64                    // resource version up to which everything was seen
	// The first resource version of each Secret with an input digest, by pool and digest.
	provisioning, bootstrap map[string]uint64
}

// observe begins; it goes on over restarts of the API server.
func (f *fleet) observe() *observer {
	f.t.Helper()
	scheme, err := cluster.Scheme()
	f.must(err)
	c, err := client.NewWithWatch(f.cluster.Config, client.Options{Scheme: scheme})
	f.must(err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.t.Context()))
	o := &observer{
		namespace: f.namespace, client: c, stop: cancel,
		have: map[string]*corev1.Secret{}, provisioning: map[string]uint64{}, bootstrap: map[string]uint64{},
	}
	f.must(o.list(ctx))
	go func() {
		for ctx.Err() == nil {
			if err := o.follow(ctx); apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				_ = o.list(ctx) // repeated below until the API server answers
			}
			time.Sleep(20 * time.Millisecond) // before it tries again
		}
	}()
	return o
}

// follow sees every change since the last one that was seen, in their order.
func (o *observer) follow(ctx context.Context) error {
	w, err := o.client.Watch(ctx, &corev1.SecretList{}, client.InNamespace(api.NamespaceCloudInitSettings),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: strconv.FormatUint(o.last, 10)}})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		s, ok := e.Object.(*corev1.Secret)
		if !ok {
			return apierrors.FromObject(e.Object)
		}
		o.last = o.version(s.ResourceVersion)
		if e.Type == watch.Deleted {
			o.gone(s)
		} else {
			o.see(s, o.last)
		}
	}
	return nil
}

// list reads the current objects after a time without a watch, in which the order of events is
// unknown: a provisioning document gets the benefit of the doubt.
func (o *observer) list(ctx context.Context) error {
	var all corev1.SecretList
	if err := o.client.List(ctx, &all, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
		return err
	}
	unseen := o.last + 1
	o.last = o.version(all.ResourceVersion)
	listed := map[string]*corev1.Secret{}
	for i := range all.Items {
		listed[all.Items[i].Name] = &all.Items[i]
	}
	for name, s := range o.have {
		if listed[name] == nil {
			o.gone(s)
		}
	}
	for name, s := range listed {
		at := o.version(s.ResourceVersion)
		if base, is := strings.CutSuffix(name, bootstrapSuffix); is {
			// A provisioning document that was written after the bootstrap document can have
			// replaced the one of the same generation without being observed.
			if other := listed[base+provisioningSuffix]; other != nil && poolOf(s) != "" && o.version(other.ResourceVersion) > at {
				o.note(base+provisioningSuffix, generation(s), unseen)
			}
		} else {
			at = min(at, unseen)
		}
		o.see(s, at)
	}
	return nil
}

func (o *observer) version(of string) uint64 {
	at, err := strconv.ParseUint(of, 10, 64)
	if err != nil {
		o.complain("the resource version %q is no number", of)
	}
	return at
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

// generation names what a document was made from.
func generation(s *corev1.Secret) string {
	return poolOf(s) + " at " + s.Annotations[api.AnnotationInputDigest]
}

// ours reports if a Secret is user data of this fleet's pools.
func (o *observer) ours(s *corev1.Secret) bool {
	return poolOf(s) != "" && strings.HasPrefix(s.Annotations[api.AnnotationPool], o.namespace+"/")
}

func (o *observer) gone(s *corev1.Secret) {
	delete(o.have, s.Name)
	if o.ours(s) {
		o.complain("%s was deleted", s.Name)
	}
}

// see takes a Secret that had its content at a resource version.
func (o *observer) see(s *corev1.Secret, at uint64) {
	if !o.ours(s) {
		return
	}
	if before := o.have[s.Name]; before != nil && before.UID != s.UID {
		o.complain("%s was away for a moment", s.Name)
	}
	o.have[s.Name] = s
	o.note(s.Name, generation(s), at)
	var revision, made int
	if _, err := fmt.Sscan(s.Annotations[api.AnnotationRevisionFor], &revision); err != nil {
		o.complain("%s is for revision %q", s.Name, s.Annotations[api.AnnotationRevisionFor])
	}
	_, after, _ := bytes.Cut(s.Data[api.UserDataKey], []byte("made for v1.35."))
	if _, err := fmt.Sscan(string(bytes.Fields(append(after, " -"...))[0]), &made); err != nil || made < revision {
		o.complain("%s is for revision %d and has content of template %d (err %v)", s.Name, revision, made, err)
	}
}

// note records when a document of a generation was first observed.
func (o *observer) note(name, generation string, at uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.bootstrap
	if strings.HasSuffix(name, provisioningSuffix) {
		seen = o.provisioning
	}
	if first, before := seen[generation]; !before || at < first {
		seen[generation] = at
	}
}

func (o *observer) complain(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong = append(o.wrong, fmt.Sprintf(format, args...))
}

// check fails the test for every violation that was observed at any time.
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
