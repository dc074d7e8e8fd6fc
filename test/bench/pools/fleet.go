package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// writers is how many requests a client makes at a time; the controller's default
// --worker-count is the same.
const writers = 10

// machine is a kind of pool.
type machine struct {
	system, provider string
	spec             map[string]any // of the provider
}

var kinds = []machine{
	{"ubuntu", "aws", map[string]any{
		"region": "eu-west-1", "availabilityZone": "eu-west-1b", "vpcId": "vpc-0f1e2d3c", "subnetId": "subnet-0f1e2d3c",
		"instanceType": "m7i.large", "diskSize": int64(50), "diskType": "gp3",
	}},
	{"ubuntu", "openstack", map[string]any{
		"identityEndpoint": "https://keystone.example.com:5000/v3", "region": "north",
		"image": "Ubuntu 24.04", "flavor": "m1.large", "network": "nodes", "subnet": "nodes",
	}},
	{"ubuntu", "hetzner", map[string]any{"datacenter": "fsn1-dc14", "serverType": "cx42", "networks": []any{"nodes"}}},
	{"flatcar", "aws", map[string]any{
		"region": "eu-west-1", "availabilityZone": "eu-west-1b", "vpcId": "vpc-0f1e2d3c", "subnetId": "subnet-0f1e2d3c",
		"instanceType": "m7i.large", "diskSize": int64(50), "diskType": "gp3",
	}},
}

// still marks profiles that are not pushed to: three pools in five have one.
const (
	still        = "-still"
	stillRelease = "v8.0.0"
)

func profileOf(i int) string {
	name := "osp-" + kinds[i%len(kinds)].system
	if i/len(kinds)%5 >= 2 {
		name += still
	}
	return name
}

// machineDeployment is pool i. Without a profile the controller leaves it alone.
func machineDeployment(name string, i int, profile string) *unstructured.Unstructured {
	kind := kinds[i%len(kinds)]
	annotations := map[string]any{"machinedeployment.clusters.k8s.io/revision": "1"}
	if profile != "" {
		annotations[api.AnnotationOSP] = profile
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.k8s.io/v1alpha1", "kind": "MachineDeployment",
		"metadata": map[string]any{"namespace": poolNamespace, "name": name, "annotations": annotations},
		"spec": map[string]any{
			"replicas": int64(3),
			"selector": map[string]any{"matchLabels": map[string]any{"pool": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"pool": name}},
				"spec": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"pool": name}},
					"versions": map[string]any{"kubelet": "1.35.6"},
					"providerSpec": map[string]any{"value": map[string]any{
						"cloudProvider": kind.provider, "cloudProviderSpec": kind.spec,
						"operatingSystem": kind.system, "sshPublicKeys": []any{},
					}},
				},
			},
		},
	}}
}

const poolFormat = "pool-%05d"

func poolName(i int) string { return fmt.Sprintf(poolFormat, i) }

// Names of Secrets in namespace cloud-init-settings.
func secretName(pool, stage string) string {
	return pool + "-" + poolNamespace + "-" + stage + "-config"
}

func kubeconfigName(pool string) string {
	return poolNamespace + "-" + pool + "-kubelet-bootstrap-config"
}

// configName is the name of the OperatingSystemConfig, in kube-system.
func configName(pool string) string { return pool + "-" + poolNamespace + "-config" }

const (
	poolNamespace = "fleet"
	bootstrap     = "bootstrap"
	provisioning  = "provisioning"
)

// each runs f for 0 to n-1, several at a time, and stops at the first error.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for i := range work {
				if ctx.Err() != nil {
					continue
				}
				if err := f(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
	return context.Cause(ctx)
}

// watcher follows the Secrets of pools, by their metadata.
type watcher struct {
	mu           sync.Mutex
	version      map[string]string    // of the profile, by Secret
	changed      map[string]time.Time // when it came with that version
	gone         int                  // deletions that were seen
	writtenPools chan string          // names of written pools, for a waiting reader; can drop some
	failed       error
}

func watchSecrets(ctx context.Context, cl client.WithWatch) (*watcher, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	stream, err := cl.Watch(ctx, list, client.InNamespace(api.NamespaceCloudInitSettings))
	if err != nil {
		return nil, err
	}
	w := &watcher{version: map[string]string{}, changed: map[string]time.Time{}, writtenPools: make(chan string, 100)}
	go w.follow(stream)
	return w, nil
}

func (w *watcher) follow(stream watch.Interface) {
	for e := range stream.ResultChan() {
		obj, ok := e.Object.(*metav1.PartialObjectMetadata)
		w.mu.Lock()
		switch {
		case !ok:
			w.failed = fmt.Errorf("the watch of Secrets ended: %v", e.Object)
		case e.Type == watch.Deleted:
			w.gone++
			delete(w.version, obj.Name)
		default:
			if v := obj.Annotations[api.AnnotationOSPVersion]; w.version[obj.Name] != v {
				w.version[obj.Name], w.changed[obj.Name] = v, time.Now()
			}
		}
		w.mu.Unlock()
		if ok {
			select {
			case w.writtenPools <- obj.Name:
			default:
			}
		}
	}
}

// at counts the Secrets of a stage whose profile has a version, and says when the
// last of them came.
func (w *watcher) at(version string, pools []string) (n int, last time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pool := range pools {
		for _, stage := range []string{provisioning, bootstrap} {
			name := secretName(pool, stage)
			if w.version[name] == version {
				n++
				if w.changed[name].After(last) {
					last = w.changed[name]
				}
			}
		}
	}
	return n, last, w.failed
}

func (w *watcher) deletions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}
