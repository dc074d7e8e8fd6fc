package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// copied are the objects of one pool of each kind, as the controller wrote them.
type copied struct {
	token, kubeconfig, provisioning, bootstrap *corev1.Secret
	osc                                        *osm.OperatingSystemConfig
	account                                    *corev1.ServiceAccount // nil with shared tokens, as the next two
	role                                       *rbacv1.Role
	binding                                    *rbacv1.RoleBinding
}

// floor is a client that makes the same writes as the controller, and computes nothing.
type floor struct {
	client client.Client
	copies []copied // by kind
}

// floor measures it, with the controller stopped and the rights that it had.
func (b *bench) floor(ctx context.Context) error {
	b.controller.Stop()
	f, err := b.newFloor(ctx)
	if err != nil {
		return err
	}
	if err := b.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "floor"}}); err != nil {
		return err
	}
	cpuBefore, err := ownCPU()
	if err != nil {
		return err
	}
	begin := time.Now()
	made := make(chan int, b.pools)
	ended := make(chan error, 1)
	go func() {
		ended <- each(ctx, b.pools, func(ctx context.Context, _ int) error {
			i, ok := <-made
			if !ok {
				return nil
			}
			return f.pool(ctx, poolName(i), i, false)
		})
	}()
	err = each(ctx, b.pools, func(ctx context.Context, i int) error {
		err := b.client.Create(ctx, machineDeployment("floor", poolName(i), i, ""))
		made <- i
		return err
	})
	close(made)
	if floorErr := <-ended; err == nil {
		err = floorErr
	}
	if err != nil {
		return err
	}
	took := time.Since(begin)
	cpuAfter, err := ownCPU()
	if err != nil {
		return err
	}
	ratio := took.Seconds() / b.ours.Seconds()
	b.add(fmt.Sprintf("floor: the same for %d pools", b.pools), fmt.Sprintf("%s, %.0f pools/s, %d writes per pool", short(took), float64(b.pools)/took.Seconds(), f.writes()), "", true)
	// The client computes nothing and watches Secrets' metadata only; of its writes one is
	// the MachineDeployment.
	b.add("  its own CPU per pool, with the MachineDeployment", short((cpuAfter-cpuBefore)/time.Duration(b.pools)), "", true)
	b.add("  the controller's share of that speed", fmt.Sprintf("%.2f", ratio), "0.80", ratio >= 0.8)
	if b.rotating > 0 {
		b.add("  a rotation's writes per second relative to the floor's", fmt.Sprintf("%.2f", b.rotating*took.Seconds()/float64(b.pools*f.writes())), "", true)
	}
	if len(b.oneLatency) == 0 {
		return nil
	}
	var times []time.Duration
	for i := range len(b.oneLatency) {
		name := fmt.Sprintf("one-%02d", i)
		begin := time.Now()
		if err := b.client.Create(ctx, machineDeployment("floor", name, i, "")); err != nil {
			return err
		}
		if err := f.pool(ctx, name, i, true); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
		time.Sleep(100 * time.Millisecond)
	}
	ours, theirs := percentile(b.oneLatency, 50), percentile(times, 50)
	ratio = float64(ours) / float64(theirs)
	b.add("floor: the same for one pool, p50 and p95", fmt.Sprintf("%s, %s", short(theirs), short(percentile(times, 95))), "", true)
	b.add("  the controller's p50 relative to the floor's", fmt.Sprintf("%.2f", ratio), "1.60", ratio <= 1.6)
	return nil
}

// ownCPU is what this process used since it began.
func ownCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}

// newFloor reads what the controller wrote for the first pool of each kind.
func (b *bench) newFloor(ctx context.Context) (*floor, error) {
	config, err := clientcmd.BuildConfigFromFlags("", b.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	scheme, err := cluster.Scheme()
	if err != nil {
		return nil, err
	}
	f := &floor{}
	if f.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	for i := range kinds {
		c, err := b.copyOf(ctx, poolName(i))
		if err != nil {
			return nil, err
		}
		f.copies = append(f.copies, c)
	}
	return f, nil
}

func (b *bench) copyOf(ctx context.Context, pool string) (copied, error) {
	c := copied{kubeconfig: &corev1.Secret{}, provisioning: &corev1.Secret{}, bootstrap: &corev1.Secret{}, osc: &osm.OperatingSystemConfig{}}
	settings := func(name string) client.ObjectKey {
		return client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: name}
	}
	for key, obj := range map[client.ObjectKey]client.Object{
		settings(secretName(pool, bootstrap)):                                             c.bootstrap,
		settings(secretName(pool, provisioning)):                                          c.provisioning,
		settings(poolNamespace + "-" + pool + "-kubelet-bootstrap-config"):                c.kubeconfig,
		{Namespace: metav1.NamespaceSystem, Name: pool + "-" + poolNamespace + "-config"}: c.osc,
	} {
		if err := b.client.Get(ctx, key, obj); err != nil {
			return c, err
		}
	}
	var tokens corev1.SecretList
	if err := b.client.List(ctx, &tokens, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{api.LabelTokenPool}); err != nil {
		return c, err
	}
	for i := range tokens.Items {
		if tokens.Items[i].Annotations[api.AnnotationPool] == poolNamespace+"/"+pool {
			c.token = &tokens.Items[i]
		}
	}
	if c.token == nil {
		return c, fmt.Errorf("pool %s has no bootstrap token", pool)
	}
	if b.token == "shared" {
		return c, nil
	}
	return c, b.copyRights(ctx, pool, &c)
}

// copyRights finds the ServiceAccount, Role and RoleBinding of a pool.
func (b *bench) copyRights(ctx context.Context, pool string, c *copied) error {
	ours := func(obj client.Object) bool {
		return obj.GetAnnotations()[api.AnnotationPool] == poolNamespace+"/"+pool
	}
	var accounts corev1.ServiceAccountList
	var roles rbacv1.RoleList
	var bindings rbacv1.RoleBindingList
	for _, list := range []client.ObjectList{&accounts, &roles, &bindings} {
		if err := b.client.List(ctx, list, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
			return err
		}
	}
	for i := range accounts.Items {
		if ours(&accounts.Items[i]) {
			c.account = &accounts.Items[i]
		}
	}
	for i := range roles.Items {
		if ours(&roles.Items[i]) {
			c.role = &roles.Items[i]
		}
	}
	for i := range bindings.Items {
		if ours(&bindings.Items[i]) {
			c.binding = &bindings.Items[i]
		}
	}
	if c.account == nil || c.role == nil || c.binding == nil {
		return fmt.Errorf("pool %s has no rights of its own", pool)
	}
	return nil
}

// writes is the number of writes for one pool.
func (f *floor) writes() int {
	const shared, rights = 7, 4
	if f.copies[0].account == nil {
		return shared
	}
	return shared + rights
}

// pool makes the writes for one pool: together where none needs another, or one
// after the other.
func (f *floor) pool(ctx context.Context, name string, i int, together bool) error {
	c := f.copies[i%len(f.copies)]
	create := func(obj client.Object, name string) func() error {
		obj = obj.DeepCopyObject().(client.Object)
		obj.SetName(name)
		obj.SetUID("")
		obj.SetResourceVersion("")
		obj.SetGeneration(0)
		obj.SetManagedFields(nil)
		obj.SetCreationTimestamp(metav1.Time{})
		obj.SetFinalizers(nil)
		return func() error { return f.client.Create(ctx, obj) }
	}
	base := name + "-floor"
	osc := c.osc.DeepCopy()
	md := machineDeployment("floor", name, i, "")
	steps := [][]func() error{
		{
			func() error {
				return f.client.Patch(ctx, md, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":["`+api.FinalizerPool+`"]}}`)))
			},
			create(c.token, "bootstrap-token-"+strings.ReplaceAll(base, "-", "")),
		},
		{
			create(c.kubeconfig, base+"-kubelet-bootstrap-config"),
			func() error {
				osc.ObjectMeta = metav1.ObjectMeta{Namespace: osc.Namespace, Name: base + "-config", Labels: osc.Labels, Annotations: osc.Annotations}
				return f.client.Create(ctx, osc)
			},
		},
		{create(c.provisioning, base+"-provisioning-config")},
		{create(c.bootstrap, base+"-bootstrap-config")},
	}
	if c.account != nil {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: base}}
		steps[0] = append(steps[0], create(c.account, base), create(c.role, base), create(c.binding, base))
		steps[1] = append(steps[1], func() error {
			day := int64(24 * time.Hour / time.Second)
			return f.client.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}})
		})
	}
	for _, step := range steps {
		if err := runStep(step, together); err != nil {
			return err
		}
	}
	return nil
}

func runStep(step []func() error, together bool) error {
	if !together {
		for _, write := range step {
			if err := write(); err != nil {
				return err
			}
		}
		return nil
	}
	ended := make(chan error, len(step))
	for _, write := range step {
		go func() { ended <- write() }()
	}
	var failed error
	for range step {
		if err := <-ended; err != nil {
			failed = err
		}
	}
	return failed
}
