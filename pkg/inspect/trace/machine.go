package trace

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// Machine follows a machine to its node, or where none has joined yet to what it will be
// provisioned from. Without a namespace the machine is looked for in all of them.
func (c Clusters) Machine(ctx context.Context, key types.NamespacedName) (*Result, error) {
	subject := Object{Kind: "Machine", Namespace: key.Namespace, Name: key.Name}
	found, note, err := c.findMachineByName(ctx, key)
	if err != nil {
		return nil, err
	}
	if found != nil && found.Status.NodeRef != nil {
		subject.Namespace, subject.UID = found.Namespace, found.UID
		t, err := c.traceNodeNamed(ctx, subject, found.Status.NodeRef.Name)
		if err == nil {
			t.compareMachineUID(found)
		}
		return t, err
	}
	var last *api.NodeProvenance // of a machine that was deleted, or that is not linked yet
	_, _, err = c.forEachProvenance(ctx, func(np *api.NodeProvenance) error {
		m := np.Spec.Machine
		if m.Name == key.Name && (key.Namespace == "" || m.Namespace == key.Namespace) && (last == nil || last.Spec.Node.Joined.Before(&np.Spec.Node.Joined)) {
			last = np.DeepCopy()
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case last != nil && (found == nil || found.UID == last.Spec.Machine.UID):
		t, err := c.Provenance(ctx, last.Name)
		if err == nil {
			t.Subject = subject
		}
		return t, err
	case found == nil:
		return nil, &NotFoundError{Object: subject, Hint: note}
	}
	subject.Namespace, subject.UID = found.Namespace, found.UID
	w := &resultBuilder{in: c, Result: Result{Subject: subject}}
	return w.traceUnjoinedMachine(ctx, found)
}

// compareMachineUID adds a disagreement if the records of a node are of another machine than the
// requested one.
func (t *Result) compareMachineUID(m *cluster.Machine) {
	if step := t.Step("Machine"); step != nil && step.UID != "" && step.UID != m.UID {
		t.disagree("Machine %s/%s (uid %s) names node %q, but the records of that node are of %s (uid %s)", m.Namespace, m.Name, m.UID, t.Node.Name, step.Object, step.UID)
	}
}

// findMachineByName finds a machine, in all namespaces where none is given; nil for none, with
// what there is to say about that.
func (c Clusters) findMachineByName(ctx context.Context, key types.NamespacedName) (*cluster.Machine, string, error) {
	var found []cluster.Machine
	_, note, err := List(ctx, c.Worker, &cluster.MachineList{}, func(page *cluster.MachineList) error {
		found = append(found, page.Items...)
		return nil
	}, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	switch {
	case err != nil:
		return nil, "", err
	case len(found) > 1:
		return nil, "", fmt.Errorf("several namespaces have a Machine %q, including %s and %s: write machine/NAMESPACE/NAME", key.Name, found[0].Namespace, found[1].Namespace)
	case len(found) == 0:
		return nil, note, nil
	}
	return &found[0], "", nil
}
