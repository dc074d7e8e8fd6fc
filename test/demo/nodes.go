package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// node is the one node of a pool.
func (p pool) node() string { return p.name + "-1" }

// join creates one node for each pool: what machine-controller creates for a MachineDeployment with
// one replica, and what a kubelet registers with the labels that its bootstrap script sets.
func (s *stage) join(ctx context.Context, pools []state) error {
	var created []*corev1.Node
	for _, p := range pools {
		var md machines.MachineDeployment
		key := client.ObjectKey{Namespace: p.pool.namespace, Name: p.pool.name}
		if err := s.client.Get(ctx, key, &md); err != nil {
			return fmt.Errorf("reading MachineDeployment %s: %w", p.pool, err)
		}
		set := &machines.MachineSet{ObjectMeta: owned(p.pool, "MachineDeployment", &md)}
		set.Annotations = map[string]string{api.AnnotationMDRevision: "1"}
		if err := s.client.Create(ctx, set); err != nil {
			return fmt.Errorf("creating MachineSet %s: %w", set.Name, err)
		}
		machine := &machines.Machine{ObjectMeta: owned(p.pool, "MachineSet", set)}
		if err := s.client.Create(ctx, machine); err != nil {
			return fmt.Errorf("creating Machine %s: %w", machine.Name, err)
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.pool.node(), Labels: map[string]string{
			api.LabelOwnedBy: string(machine.UID),
			api.LabelConfig:  render.ShortDigest(p.bootstrap.Annotations[api.AnnotationInputDigest]),
			api.LabelCommit:  p.commit,
		}}}
		if err := s.client.Create(ctx, node); err != nil {
			return fmt.Errorf("creating Node %s: %w", node.Name, err)
		}
		machine.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
		if err := s.client.Status().Update(ctx, machine); err != nil {
			return fmt.Errorf("naming the node of Machine %s: %w", machine.Name, err)
		}
		created = append(created, node)
	}
	return s.seen.until(ctx, "a NodeProvenance of each node", func() string {
		for _, node := range created {
			np, _, ok := get[*api.NodeProvenance](s.seen, "", lineage.ProvenanceName(node.Name, node.UID))
			if !ok {
				return "none of Node " + node.Name
			}
			if np.Spec.Evidence != api.EvidenceReported {
				return fmt.Sprintf("that of Node %s is %s", node.Name, np.Spec.Evidence)
			}
		}
		return ""
	})
}

// gitFlags let the commands that fetch the repository use the demo's Git server, which serves plain
// http on loopback.
const gitFlags = "--allow-insecure-git --git-allowed-cidrs 127.0.0.0/8"

// command runs osm-gitops as the administrator, and prints the command and the first lines of its
// output.
func (s *stage) command(ctx context.Context, out *screen, args string, lines int) error {
	printed, err := output(ctx, s.root, []string{"KUBECONFIG=" + s.cluster.Kubeconfig}, s.binary, strings.Fields(args)...)
	if err != nil {
		return err
	}
	text := "\n$ osm-gitops " + args
	shown := strings.Split(printed, "\n")
	if len(shown) > lines {
		shown = shown[:lines]
		text += fmt.Sprintf(" | head -%d", lines)
	}
	out.text(text + "\n" + indent(strings.Join(shown, "\n"), "  "))
	return nil
}

// editSecret overwrites the user data of a pool by hand and waits until the controller has restored it.
func (s *stage) editSecret(ctx context.Context, p state) (string, error) {
	edited := p.provisioning.DeepCopy()
	edited.Data[api.UserDataKey] = []byte("#!/bin/sh\n")
	patch := client.MergeFrom(p.provisioning)
	if err := s.client.Patch(ctx, edited, patch); err != nil {
		return "", fmt.Errorf("editing Secret %s: %w", edited.Name, err)
	}
	var event string
	err := s.seen.until(ctx, "Secret "+edited.Name+" to be restored", func() string {
		now, _, ok := get[*corev1.Secret](s.seen, edited.Namespace, edited.Name)
		if !ok {
			return "it does not exist"
		}
		if now.ResourceVersion == edited.ResourceVersion || string(now.Data[api.UserDataKey]) != string(p.provisioning.Data[api.UserDataKey]) {
			return "it has other user data"
		}
		for _, e := range all[*eventsv1.Event](s.seen) {
			if e.Reason == api.EventConfigRestored && e.Regarding.Name == p.pool.name {
				event = e.Note
				return ""
			}
		}
		return "no event " + api.EventConfigRestored
	})
	return event, err
}

// owned names an object after the node of a pool, with its owner.
func owned(p pool, kind string, by client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: p.namespace, Name: p.node(),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: machines.GroupVersion.String(), Kind: kind, Name: by.GetName(), UID: by.GetUID()}},
	}
}
