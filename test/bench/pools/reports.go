package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// storm is how many boots report in stormTime.
const (
	storm     = 1000
	stormTime = 10 * time.Second
)

// reports compares a rotation without and with many machines that report meanwhile that they do not
// boot, each from a pool of its own if there are so many.
func (b *bench) reports(ctx context.Context) error {
	configs := make([]string, b.pools)
	err := each(ctx, b.pools, func(ctx context.Context, i int) (err error) {
		configs[i], err = b.bootMachine(ctx, i)
		return err
	})
	if err != nil {
		return err
	}
	if err := b.countReports(ctx, "every pool has a BootReport", func(api.BootReport) bool { return true }); err != nil {
		return err
	}
	before := b.rotated
	defer func() { b.rotated = before }()
	if err := b.rotate(ctx); err != nil {
		return err
	}
	alone := b.rotated.took
	sent := make(chan error, 1)
	go func() {
		begin := time.Now()
		sent <- each(ctx, storm, func(ctx context.Context, i int) error {
			if err := sleep(ctx, time.Until(begin.Add(stormTime/storm*time.Duration(i)))); err != nil {
				return err
			}
			return b.sendReport(ctx, i%b.pools, i/b.pools+1, configs[i%b.pools])
		})
	}()
	if err := b.rotate(ctx); err != nil {
		return err
	}
	if err := <-sent; err != nil {
		return err
	}
	b.ratio(fmt.Sprintf("rotation during %d boot reports in %s, to one without", storm, stormTime), b.rotated.took.Seconds()/alone.Seconds(), 1.25, atMost)
	begin := time.Now()
	err = b.countReports(ctx, "every report has a conclusion", func(r api.BootReport) bool { return len(r.Status.Machines) > 0 })
	b.add("  conclusions about all, after the last report", short(time.Since(begin)), "", true)
	return err
}

// bootMachine makes a machine of a pool that has no Node, and returns its configuration.
func (b *bench) bootMachine(ctx context.Context, i int) (string, error) {
	var md machines.MachineDeployment
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: poolNamespace, Name: poolName(i)}, &md); err != nil {
		return "", err
	}
	var secret corev1.Secret
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: secretName(md.Name, provisioning)}, &secret); err != nil {
		return "", err
	}
	set := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: poolNamespace, Name: md.Name + "-boots", Annotations: map[string]string{api.AnnotationMDRevision: "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineDeployment", Name: md.Name, UID: md.UID}},
	}}
	if err := b.client.Create(ctx, set); err != nil {
		return "", err
	}
	return render.ShortDigest(secret.Annotations[api.AnnotationInputDigest]), b.client.Create(ctx, &machines.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: poolNamespace, Name: set.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineSet", Name: set.Name, UID: set.UID}},
	}})
}

// sendReport reports a failure, as a machine does.
func (b *bench) sendReport(ctx context.Context, i, attempt int, config string) error {
	machine := poolName(i) + "-boots"
	report := &api.BootReport{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(types.NamespacedName{Namespace: poolNamespace, Name: poolName(i)}),
	}}
	body, err := json.Marshal(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "BootReport", "metadata": map[string]any{"name": report.Name},
		"spec": api.BootReportSpec{Machines: []api.MachineBoot{{
			Machine: machine, Stage: api.BootStageBootstrap, Outcome: api.BootFailing, Attempt: int32(attempt), Config: config, File: "/opt/bin/bootstrap", Line: int32(3 + i%10),
			ExitStatus: 1, Log: "failed", BootID: "01234567-89ab-cdef-0123-456789abcdef", Time: time.Now().UTC().Format(time.RFC3339),
		}}},
	})
	if err != nil {
		return err
	}
	return b.client.Patch(ctx, report, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(machine), client.ForceOwnership)
}

// countReports waits until each pool's report has a property.
func (b *bench) countReports(ctx context.Context, what string, has func(api.BootReport) bool) error {
	return testenv.Until(ctx, 10*time.Minute, what, func() error {
		var list api.BootReportList
		if err := b.client.List(ctx, &list, client.InNamespace(api.NamespaceCloudInitSettings)); err != nil {
			return err
		}
		n := 0
		for _, r := range list.Items {
			if has(r) {
				n++
			}
		}
		if n < b.pools {
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			return fmt.Errorf("%d of %d", n, b.pools)
		}
		return nil
	})
}
