package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

const (
	// workPerPool is the CPU time that operating-system-manager needed for a new pool, at commit
	// 9131d36 on two cores: 10.0 and 11.3 ms in two runs.
	workPerPool = 11 * time.Millisecond
	// peakMemory is how much it needed at most for 1,000 pools, in the same runs.
	peakMemory = 180 << 20
)

// standIn is a plain client in the place of operating-system-manager. For a new pool it makes
// that one's six requests: an update of the MachineDeployment, four Secrets, an
// OperatingSystemConfig. A rotation deletes and creates the OperatingSystemConfig and three of
// the Secrets. The objects have the content that the controller wrote, without its annotations.
// It renders nothing: it uses the CPU for as long as rendering took.
//
// It has no caches. The API server has less to do for it than for a controller.
type standIn struct {
	client client.Client
	copies []copied // by kind
}

// copied are the objects of one pool of each kind, as the controller wrote them.
type copied struct {
	token, kubeconfig, provisioning, bootstrap *corev1.Secret
	osc                                        *osm.OperatingSystemConfig
}

// standIn measures it on a new control plane: the controller began on a new one too.
func (b *bench) standIn(ctx context.Context) error {
	s := &standIn{}
	for i := range kinds {
		c, err := b.copyOf(ctx, poolName(i))
		if err != nil {
			return err
		}
		s.copies = append(s.copies, c)
	}
	b.end()
	b.cluster.Stop()
	c, err := cluster.Run(ctx, b.path("cluster-standin"), controlPlane, b.progress)
	if err != nil {
		return err
	}
	defer c.Stop()
	b.cluster = c
	if err := b.beginCluster(ctx); err != nil {
		return err
	}
	if s.client, err = b.clientOfStandIn(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context, *standIn) error{b.standInCreates, b.standInOne, b.standInRotates} {
		if err := part(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// clientOfStandIn has a ServiceAccount's rights, as a controller has them.
func (b *bench) clientOfStandIn(ctx context.Context) (client.Client, error) {
	account := metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "stand-in"}
	for _, obj := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: account},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: account.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		},
	} {
		if err := b.client.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	token, err := testenv.Token(ctx, b.cluster, account.Name)
	if err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(b.cluster.Config)
	config.BearerToken, config.QPS = token, -1
	scheme, err := cluster.Scheme()
	if err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// standInCreates makes all pools at once.
func (b *bench) standInCreates(ctx context.Context, s *standIn) error {
	wait := b.server.profile(ctx, b.profiles, "standin-create", b.pools)
	since, err := b.server.meter(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	made := make(chan *unstructured.Unstructured, b.pools)
	ended := make(chan error, 1)
	go func() {
		ended <- each(ctx, b.pools, func(ctx context.Context, i int) error {
			md, ok := <-made
			if !ok {
				return nil
			}
			return s.create(ctx, md, i, b.release())
		})
	}()
	err = each(ctx, b.pools, func(ctx context.Context, i int) error {
		md := machineDeployment(poolName(i), i, "")
		err := b.client.Create(ctx, md)
		made <- md
		return err
	})
	close(made)
	if standInErr := <-ended; err == nil {
		err = standInErr
	}
	if err != nil {
		return err
	}
	theirs, err := b.outcome(ctx, since, begin, b.release(), poolNames(b.pools))
	if err != nil {
		return err
	}
	theirs.load.requests["post machinedeployments"] -= float64(b.pools) // this program's
	if err := wait(); err != nil {
		return err
	}
	n := time.Duration(b.pools)
	b.add(fmt.Sprintf("stand-in for operating-system-manager: %d pools at once", b.pools), fmt.Sprintf("%s, %.0f pools/s", short(theirs.took), theirs.rate()), "", true)
	b.addRequests(theirs.load, b.pools, 0)
	b.add("  CPU per pool: API server, etcd", short(theirs.load.apiserver/n)+", "+short(theirs.load.etcd/n), "", true)
	b.ratio("  the controller relative to it: pools per second", b.created.rate()/theirs.rate(), b.bar(0.9, 1.2), atLeast)
	b.ratio("  the controller relative to it: CPU of the API server", b.created.cpuRatio(theirs), b.bar(1.35, 1.05), atMost)
	return nil
}

// standInOne measures the latency of one pool.
func (b *bench) standInOne(ctx context.Context, s *standIn) error {
	if len(b.oneLatency) == 0 {
		return nil
	}
	times, err := b.latencies(ctx, func(ctx context.Context, pool string, i int) error {
		md := machineDeployment(pool, i, "")
		if err := b.client.Create(ctx, md); err != nil {
			return err
		}
		return s.create(ctx, md, b.pools+i, b.release())
	})
	if err != nil {
		return err
	}
	b.add("stand-in: one pool, p50 and p95", short(percentile(times, 50))+", "+short(percentile(times, 95)), "", true)
	b.ratio("  the controller relative to it: p50", float64(percentile(b.oneLatency, 50))/float64(percentile(times, 50)), b.bar(0.75, 0.65), atMost)
	return nil
}

// standInRotates replaces what the push replaced.
func (b *bench) standInRotates(ctx context.Context, s *standIn) error {
	if b.rotated.pools == 0 {
		return nil
	}
	b.version++
	moved := b.moved()
	wait := b.server.profile(ctx, b.profiles, "standin-rotate", len(moved))
	since, err := b.server.meter(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	err = each(ctx, len(moved), func(ctx context.Context, i int) error { return s.rotate(ctx, moved[i], b.release()) })
	if err != nil {
		return err
	}
	theirs, err := b.outcome(ctx, since, begin, b.release(), moved)
	if err != nil {
		return err
	}
	if err := wait(); err != nil {
		return err
	}
	n := time.Duration(len(moved))
	b.add(fmt.Sprintf("stand-in: %d pools rotated", len(moved)), short(theirs.took), "", true)
	b.addRequests(theirs.load, len(moved), 0)
	b.add("  CPU per pool: API server, etcd", short(theirs.load.apiserver/n)+", "+short(theirs.load.etcd/n), "", true)
	b.ratio("  the controller relative to it: time until the last Secret", b.rotated.took.Seconds()/theirs.took.Seconds(), 1, atMost)
	b.ratio("  the controller relative to it: CPU of the API server", b.rotated.cpuRatio(theirs), 1.1, atMost)
	return nil
}

// outcome waits for the Secrets of pools, and ends a measurement.
func (b *bench) outcome(ctx context.Context, since func() (load, error), begin time.Time, version string, pools []string) (phase, error) {
	var last time.Time
	err := testenv.Until(ctx, b.patience(), "every pool has its Secrets", func() error {
		n, at, err := b.secrets.at(version, pools)
		last = at
		if err == nil && n < 2*len(pools) {
			err = fmt.Errorf("%d of %d have their objects", n, 2*len(pools))
		}
		return err
	})
	if err != nil {
		return phase{}, err
	}
	l, err := since()
	return phase{pools: len(pools), took: last.Sub(begin), load: l}, err
}

// create makes the requests for a new pool.
func (s *standIn) create(ctx context.Context, md *unstructured.Unstructured, i int, version string) error {
	if err := work(workPerPool); err != nil {
		return err
	}
	md = md.DeepCopy()
	md.SetFinalizers([]string{api.FinalizerPool})
	if err := s.client.Update(ctx, md); err != nil {
		return err
	}
	token := s.copies[i%len(s.copies)].token.DeepCopy()
	id := fmt.Sprintf("%06d", i)
	token.Name, token.Data[bootstrapapi.BootstrapTokenIDKey] = bootstrapapi.BootstrapTokenSecretPrefix+id, []byte(id)
	return s.each(append([]client.Object{token}, s.objects(md.GetName(), i, version)...), func(obj client.Object) error { return s.client.Create(ctx, obj) })
}

// rotate makes the requests for a changed pool.
func (s *standIn) rotate(ctx context.Context, pool, version string) error {
	if err := work(workPerPool); err != nil {
		return err
	}
	var i int
	if _, err := fmt.Sscanf(pool, poolFormat, &i); err != nil {
		return err
	}
	objects := s.objects(pool, i, version)
	if err := s.each(objects, func(obj client.Object) error { return s.client.Delete(ctx, obj) }); err != nil {
		return err
	}
	return s.each(objects, func(obj client.Object) error { return s.client.Create(ctx, obj) })
}

func (s *standIn) each(objects []client.Object, do func(client.Object) error) error {
	for _, obj := range objects {
		if err := do(obj); err != nil {
			return fmt.Errorf("%T %s: %w", obj, client.ObjectKeyFromObject(obj), err)
		}
	}
	return nil
}

// objects are those of a pool that a rotation replaces, in the order in which they are written.
func (s *standIn) objects(pool string, i int, version string) []client.Object {
	c := s.copies[i%len(s.copies)]
	osc := c.osc.DeepCopy()
	osc.Name = configName(pool)
	kubeconfig, provision, boot := c.kubeconfig.DeepCopy(), c.provisioning.DeepCopy(), c.bootstrap.DeepCopy()
	kubeconfig.Name, provision.Name, boot.Name = kubeconfigName(pool), secretName(pool, provisioning), secretName(pool, bootstrap)
	for _, s := range []*corev1.Secret{provision, boot} {
		s.Annotations[api.AnnotationOSPVersion] = version
	}
	return []client.Object{kubeconfig, osc, provision, boot}
}

// work uses the CPU for a time.
func work(d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, err := usedCPU(syscall.RUSAGE_THREAD)
	var block [4 << 10]byte
	for now := begin; err == nil && now-begin < d; now, err = usedCPU(syscall.RUSAGE_THREAD) {
		sum := sha256.Sum256(block[:])
		copy(block[:], sum[:])
	}
	return err
}

// usedCPU is what this process, or its thread, used since it began.
func usedCPU(who int) (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(who, &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// copyOf reads what the controller wrote for a pool.
func (b *bench) copyOf(ctx context.Context, pool string) (copied, error) {
	c := copied{kubeconfig: &corev1.Secret{}, provisioning: &corev1.Secret{}, bootstrap: &corev1.Secret{}, osc: &osm.OperatingSystemConfig{}}
	settings := func(name string) client.ObjectKey {
		return client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: name}
	}
	for key, obj := range map[client.ObjectKey]client.Object{
		settings(secretName(pool, bootstrap)):                       c.bootstrap,
		settings(secretName(pool, provisioning)):                    c.provisioning,
		settings(kubeconfigName(pool)):                              c.kubeconfig,
		{Namespace: metav1.NamespaceSystem, Name: configName(pool)}: c.osc,
	} {
		if err := b.client.Get(ctx, key, obj); err != nil {
			return c, err
		}
		withoutOrigin(obj)
	}
	var tokens corev1.SecretList
	if err := b.client.List(ctx, &tokens, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{api.LabelTokenPool}); err != nil {
		return c, err
	}
	for i := range tokens.Items {
		if tokens.Items[i].Annotations[api.AnnotationPool] == poolNamespace+"/"+pool {
			c.token = &tokens.Items[i]
			withoutOrigin(c.token)
		}
	}
	if c.token == nil {
		return c, fmt.Errorf("pool %s has no bootstrap token", pool)
	}
	return c, nil
}

// withoutOrigin leaves of an object what another client can create, without the annotations of
// the controller.
func withoutOrigin(obj client.Object) {
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	obj.SetManagedFields(nil)
	obj.SetCreationTimestamp(metav1.Time{})
	annotations := maps.Clone(obj.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, api.GroupVersion.Group+"/") })
	if annotations == nil {
		annotations = map[string]string{}
	}
	obj.SetAnnotations(annotations)
}
