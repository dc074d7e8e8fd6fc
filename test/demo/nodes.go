package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
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

// bearer matches the token of a machine in its user-data.
var bearer = regexp.MustCompile(`Authorization: Bearer (\S+)`)

// failToBoot creates a second machine of a pool, which reports that the installation of a package fails,
// and returns what the controller concludes.
func (s *stage) failToBoot(ctx context.Context, p state) (api.MachineBootStatus, error) {
	var set machines.MachineSet
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: p.pool.namespace, Name: p.pool.node()}, &set); err != nil {
		return api.MachineBootStatus{}, fmt.Errorf("reading MachineSet %s: %w", p.pool.node(), err)
	}
	machine := &machines.Machine{ObjectMeta: owned(p.pool, "MachineSet", &set)}
	machine.Name = p.pool.name + "-2"
	if err := s.client.Create(ctx, machine); err != nil {
		return api.MachineBootStatus{}, fmt.Errorf("creating Machine %s: %w", machine.Name, err)
	}
	var report *api.BootReport
	find := func() string {
		for _, r := range all[*api.BootReport](s.seen) {
			if r.Annotations[api.AnnotationPool] == p.pool.String() {
				report = r
				return ""
			}
		}
		return "there is none"
	}
	if err := s.seen.until(ctx, "the BootReport of "+p.pool.String(), find); err != nil {
		return api.MachineBootStatus{}, err
	}
	const script = "/opt/bin/setup"
	lines := p.file(script)
	n := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "open-iscsi") })
	token := bearer.FindSubmatch(p.bootstrap.Data[api.UserDataKey])
	if n < 1 || token == nil {
		return api.MachineBootStatus{}, fmt.Errorf("the user-data of %s has no line with the package, or no token", p.pool)
	}
	entry := api.MachineBoot{
		Machine: machine.Name, Stage: api.BootStageSetup, Outcome: api.BootFailing, Attempt: 1, Config: render.ShortDigest(p.bootstrap.Annotations[api.AnnotationInputDigest]),
		File: script, Line: int32(n), // of the command's first line, counted from 1
		Command:    strings.TrimSuffix(lines[n-1], "\\") + strings.TrimSpace(lines[n]),
		ExitStatus: 100, Log: "Reading package lists...\nE: Unable to locate package open-iscsi", BootID: "6f1c8f2a-93d4-4b0e-9d5e-0a4b7c2d1e3f", Time: time.Now().UTC().Format(time.RFC3339),
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "BootReport", "metadata": map[string]any{"name": report.Name}, "spec": api.BootReportSpec{Machines: []api.MachineBoot{entry}},
	})
	if err != nil {
		return api.MachineBootStatus{}, fmt.Errorf("encoding a report: %w", err)
	}
	config := rest.AnonymousClientConfig(s.cluster.Config)
	config.BearerToken = string(token[1])
	node, err := client.New(config, client.Options{Scheme: s.client.Scheme(), Mapper: s.client.RESTMapper()})
	if err != nil {
		return api.MachineBootStatus{}, fmt.Errorf("acting as Machine %s: %w", machine.Name, err)
	}
	if err := node.Patch(ctx, report.DeepCopy(), client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(machine.Name)); err != nil {
		return api.MachineBootStatus{}, fmt.Errorf("reporting for Machine %s: %w", machine.Name, err)
	}
	err = s.seen.until(ctx, "the cause of the failure", func() string {
		if why := find(); why != "" || len(report.Status.Machines) == 0 || report.Status.Machines[0].Cause == nil {
			return "nothing is concluded"
		}
		return ""
	})
	if err != nil {
		return api.MachineBootStatus{}, err
	}
	return report.Status.Machines[0], nil
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
