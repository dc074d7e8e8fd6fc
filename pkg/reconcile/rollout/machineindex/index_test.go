package machineindex

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// A machine that has joined counts as joined, also if its Node is unavailable later.
func TestWorked(t *testing.T) {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(created.Add(d)) }
	for name, c := range map[string]struct {
		node      bool
		ready     string
		since     metav1.Time
		want      bool
		waitsFrom time.Duration
	}{
		"without a Node":                   {false, "", metav1.Time{}, false, 0},
		"a Node":                           {true, "", metav1.Time{}, true, 0},
		"a Node that is Ready":             {true, "True", at(time.Minute), true, 0},
		"one that was never Ready":         {true, "False", at(3 * time.Minute), false, 3 * time.Minute},
		"one that restarts early":          {true, "Unknown", at(29 * time.Minute), false, 29 * time.Minute},
		"one that is away after a month":   {true, "Unknown", at(720 * time.Hour), true, 0},
		"one of which nobody knows when":   {true, "False", metav1.Time{}, false, 0},
		"one with a time before its birth": {true, "False", at(-time.Hour), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := &cluster.Machine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}
			if c.node {
				m.Status.NodeRef = &corev1.ObjectReference{Name: "n"}
			}
			if c.ready != "" {
				m.Status.Conditions = []cluster.MachineCondition{{Type: "Ready", Status: corev1.ConditionStatus(c.ready), LastTransitionTime: c.since}}
			}
			if got, waits := hasJoinedInTime(m); got != c.want || !waits.Equal(created.Add(c.waitsFrom)) {
				t.Errorf("got %t, waiting since %s", got, waits)
			}
		})
	}
}

// What machine-controller reported of a machine is known after it was deleted.
func TestLostMachineOfPool(t *testing.T) {
	created := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	replicas := int32(1)
	ms := cluster.MachineSet{
		ObjectMeta: metav1.ObjectMeta{UID: "set", Annotations: map[string]string{api.AnnotationMDRevision: "3"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: cluster.GroupVersion.String(), Kind: "MachineDeployment", Name: "web", UID: "pool"}}},
		Spec:       cluster.MachineDeploymentSpec{Replicas: &replicas},
	}
	var gone cluster.Machine
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"m","uid":"1","creationTimestamp":"2026-03-02T09:00:00Z","ownerReferences":[{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"MachineSet","name":"web-1","uid":"set"}]},
		"status":{"errorReason":"CreateMachine","errorMessage":"quota\texceeded"}}`), &gone); err != nil {
		t.Fatal(err)
	}
	at := created.Add(15 * time.Minute)
	found := assignToPools([]cluster.MachineSet{ms}, nil, nil, []lostMachine{{gone, at}})["pool"]
	if len(found) != 1 || !found[0].Lost.Equal(at) || !found[0].Leaving || found[0].Reported != "CreateMachine: quota\texceeded" {
		t.Errorf("found %+v", found)
	}

	// A MachineSet with enough other machines was scaled down: the machine is not lost.
	other := *gone.DeepCopy()
	other.Name, other.UID = "other", "2"
	found = assignToPools([]cluster.MachineSet{ms}, []cluster.Machine{other}, nil, []lostMachine{{gone, at}})["pool"]
	if len(found) != 1 || found[0].Name != "other" || found[0].Revision != 3 || !found[0].Lost.IsZero() {
		t.Errorf("after it was scaled down: found %+v", found)
	}
	replicas = 2
	if found = assignToPools([]cluster.MachineSet{ms}, []cluster.Machine{other}, nil, []lostMachine{{gone, at}})["pool"]; len(found) != 2 {
		t.Errorf("with two replicas: found %+v", found)
	}
}
