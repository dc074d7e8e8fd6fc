package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// beat is how often a kubelet writes the status of its Node:
// nodeStatusReportFrequency, https://kubernetes.io/docs/reference/node/node-status/
const beat = 5 * time.Minute

// nodesOf lets a fleet of nodes join while no controller runs. It measures how long the controller
// takes to record them, to restart with them, and the cost of heartbeats and of a push.
func (b *bench) nodesOf(ctx context.Context) error {
	b.controller.Stop()
	if err := b.join(ctx); err != nil {
		return err
	}
	n := float64(b.nodes)
	begin := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	ready := time.Since(begin)
	if err := b.provenances(ctx, 20*time.Minute, "status.behind=No", b.nodes); err != nil {
		return err
	}
	took := time.Since(begin)
	cpu, err := b.controller.cpu()
	if err != nil {
		return err
	}
	c, err := b.controller.count(ctx)
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("%d nodes that joined meanwhile", b.nodes), fmt.Sprintf("ready after %s, all known after %s", short(ready), short(took)), "", true)
	b.add("  controller's CPU per node", short(cpu/time.Duration(b.nodes)), "", true)
	b.add("  requests per node", fmt.Sprintf("%.2f writes, %.2f reads", c.writes()/n, c.requests["GET"]/n), "3.1 writes", c.writes()/n <= 3.1)
	if err := b.addMemory(); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{b.startWithNodes, b.heartbeats, b.reportFiles, b.fallBehind} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// addMemory adds the resident memory with its limit.
func (b *bench) addMemory() error {
	now, peak, err := b.controller.memory()
	if err != nil {
		return err
	}
	most := int64(450 << 20)
	b.add("  resident memory, most of it", fmt.Sprintf("%d MiB, %d MiB", now>>20, peak>>20), fmt.Sprintf("%d MiB", most>>20), b.nodes > 20_000 || peak <= most)
	return nil
}

// join makes the objects of the fleet: nodes of the size that they have with fifty
// images, machines with a provider's spec.
func (b *bench) join(ctx context.Context) error {
	images := make([]corev1.ContainerImage, 50)
	for i := range images {
		images[i] = corev1.ContainerImage{SizeBytes: 1 << 20, Names: []string{
			fmt.Sprintf("registry.example.com/team-%02d/service@sha256:%064d", i, i), fmt.Sprintf("registry.example.com/team-%02d/service:v1.2.%d", i, i),
		}}
	}
	status, err := json.Marshal(map[string]any{"status": map[string]any{"images": images}})
	if err != nil {
		return err
	}
	sets := make([]*machines.MachineSet, b.pools)
	reports := make([]map[string]string, b.pools)
	err = each(ctx, b.pools, func(ctx context.Context, i int) error {
		var md machines.MachineDeployment
		if err := b.client.Get(ctx, client.ObjectKey{Namespace: poolNamespace, Name: poolName(i)}, &md); err != nil {
			return err
		}
		var secret corev1.Secret
		if err := b.client.Get(ctx, client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: secretName(md.Name, provisioning)}, &secret); err != nil {
			return err
		}
		reports[i] = map[string]string{
			api.LabelConfig: render.ShortDigest(secret.Annotations[api.AnnotationInputDigest]), api.LabelCommit: secret.Annotations[api.AnnotationCommit],
		}
		sets[i] = &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{
			Namespace: poolNamespace, Name: poolName(i) + "-x", Annotations: map[string]string{api.AnnotationMDRevision: "1"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineDeployment", Name: md.Name, UID: md.UID}},
		}}
		return b.client.Create(ctx, sets[i])
	})
	if err != nil {
		return err
	}
	return each(ctx, b.nodes, func(ctx context.Context, i int) error {
		set := sets[i%b.pools]
		m := &machines.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: poolNamespace, Name: nodeName(i), Annotations: map[string]string{"cluster.k8s.io/note": strings.Repeat("n", 500)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineSet", Name: set.Name, UID: set.UID}},
		}}
		if err := b.client.Create(ctx, m); err != nil {
			return err
		}
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{api.LabelOwnedBy: string(m.UID)}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///eu-west-1b/" + m.Name},
		}
		if i%2 == 0 {
			for k, v := range reports[i%b.pools] {
				node.Labels[k] = v
			}
		}
		if err := b.client.Create(ctx, node); err != nil {
			return err
		}
		return b.client.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, status))
	})
}

func nodeName(i int) string { return fmt.Sprintf("node-%06d", i) }

// provenances waits until so many NodeProvenances are selected.
func (b *bench) provenances(ctx context.Context, patience time.Duration, selector string, want int) error {
	return testenv.Until(ctx, patience, "NodeProvenances with "+selector, func() error {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(api.GroupVersion.WithKind("NodeProvenanceList"))
		// An API server only returns the number of remaining items without a selector.
		n := 0
		for {
			err := b.client.List(ctx, list, &client.ListOptions{Limit: 5000, Continue: list.Continue, Raw: &metav1.ListOptions{FieldSelector: selector}})
			if err != nil {
				return err
			}
			n += len(list.Items)
			if list.Continue == "" {
				break
			}
		}
		if n < want {
			if err := sleep(ctx, time.Second); err != nil {
				return err
			}
			return fmt.Errorf("%d of %d", n, want)
		}
		return nil
	})
}

// startWithNodes starts the controller with all nodes recorded.
func (b *bench) startWithNodes(ctx context.Context) error {
	b.controller.Stop()
	begin := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	ready := time.Since(begin)
	err := testenv.Until(ctx, 5*time.Minute, "every node was reconciled", func() error {
		c, err := b.controller.count(ctx)
		if err == nil && (c.nodes < float64(b.nodes) || c.nodesWaiting > 0) {
			err = fmt.Errorf("%v of them were, %v wait", c.nodes, c.nodesWaiting)
		}
		return err
	})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	c, err := b.controller.count(ctx)
	if err != nil {
		return err
	}
	cpu, err := b.controller.cpu()
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("restart with %d nodes", b.nodes), fmt.Sprintf("ready after %s, all reconciled after %s, CPU %s", short(ready), short(took), short(cpu)), "1m0s", took <= time.Minute)
	b.add("  requests", fmt.Sprintf("%.0f writes, %.0f reads and watches", c.writes(), c.requests["GET"]), "0 writes", c.writes() == 0)
	return b.addMemory()
}

// heartbeats lets kubelets write the status of their nodes as often as so many do.
func (b *bench) heartbeats(ctx context.Context) error {
	count := int(b.idleTime / (beat / time.Duration(b.nodes)))
	since, err := b.meter(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	err = each(ctx, count, func(ctx context.Context, i int) error {
		body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i % b.nodes)}}
		if err := b.client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, []byte(body))); err != nil {
			return err
		}
		return sleep(ctx, time.Until(begin.Add(beat/time.Duration(b.nodes)*time.Duration(i))))
	})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	c, err := since()
	if err != nil {
		return err
	}
	share := c.cpu.Seconds() / took.Seconds()
	b.add(fmt.Sprintf("%d heartbeats in %s", count, short(took)), fmt.Sprintf("%.0f reconciles, %.0f writes, %.1f %% of a CPU", c.count.nodes, c.count.writes(), 100*share), "0 reconciles", c.count.nodes == 0)
	return b.addMemory()
}

// reportFiles lets every node with a known configuration report that it matches, then the same a day
// later, as nodes do at rest, and then lets all of them differ at once.
func (b *bench) reportFiles(ctx context.Context) error {
	begin := time.Now().UTC()
	for _, part := range []struct {
		what, state, rest string
		at                time.Time
		writes            int
	}{
		{"nodes report that they match", "Matches", "", begin, b.nodes / 2},
		{"nodes report the same again", "Matches", "", begin.Add(time.Hour), 0},
		{"nodes differ at once", "Differs", `,"differences":[{"path":"/etc/crictl.yaml","reason":"Mode"}]`, begin.Add(2 * time.Hour), b.nodes / 2},
	} {
		since, err := b.meter(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := each(ctx, b.nodes/2, func(ctx context.Context, i int) error {
			return b.reportMatch(ctx, 2*i, fmt.Sprintf(`"state":%q,"time":%q%s`, part.state, part.at.Format(time.RFC3339), part.rest))
		}); err != nil {
			return err
		}
		if err := b.provenances(ctx, 30*time.Minute, "status.match.state="+part.state, b.nodes/2); err != nil {
			return err
		}
		var c cost
		if err := testenv.Until(ctx, 5*time.Minute, "every report was read", func() (err error) {
			if c, err = since(); err == nil && c.count.nodes < float64(b.nodes/2) {
				err = fmt.Errorf("%v of them were", c.count.nodes)
			}
			return err
		}); err != nil {
			return err
		}
		took := time.Since(began)
		b.add(fmt.Sprintf("%d %s", b.nodes/2, part.what), fmt.Sprintf("%.0f reconciles, %.0f writes, after %s, CPU %s", c.count.nodes, c.count.writes(), short(took), short(c.cpu)),
			fmt.Sprintf("%d writes", part.writes), part.writes > 0 || c.count.writes() == 0)
	}
	return b.addMemory()
}

// reportMatch writes the annotation of a node, as its script does.
func (b *bench) reportMatch(ctx context.Context, i int, rest string) error {
	node := &corev1.Node{}
	if err := b.client.Get(ctx, client.ObjectKey{Name: nodeName(i)}, node); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{
		api.AnnotationMatch: fmt.Sprintf(`{"v":1,"config":%q,%s}`, node.Labels[api.LabelConfig], rest),
	}}})
	if err != nil {
		return err
	}
	return b.client.Patch(ctx, node, client.RawPatch(types.MergePatchType, body))
}

// fallBehind pushes, so that most nodes are behind.
func (b *bench) fallBehind(ctx context.Context) error {
	moved := 0
	for i := range b.nodes {
		if !strings.HasSuffix(profileOf(i%b.pools), still) {
			moved++
		}
	}
	since, err := b.meter(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := b.push(ctx); err != nil {
		return err
	}
	if err := b.provenances(ctx, 15*time.Minute, "status.behind=Yes", moved); err != nil {
		return err
	}
	took := time.Since(begin)
	c, err := since()
	if err != nil {
		return err
	}
	b.add(fmt.Sprintf("a push that leaves %d nodes behind", moved), fmt.Sprintf("recorded after %s, %.1f writes/s, CPU %s", short(took), c.count.writes()/took.Seconds(), short(c.cpu)), "", true)
	return b.addMemory()
}
