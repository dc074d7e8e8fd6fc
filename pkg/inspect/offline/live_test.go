package offline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/offline"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/lineage/dump"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// Without the garbage collector nothing changes between a snapshot and the questions that
// are then asked of the cluster.
func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Controllers: []string{"namespace-controller"}}))
}

// After any deletions and edits, answers from the cluster equal those from a snapshot of it.
func TestLiveAndSnapshotAgree(t *testing.T) {
	cl := cluster.Shared(t).Client(t)
	objects := create(t, cl, clusterfixture.TwoPools(t))
	live := trace.Clusters{Management: cl, Worker: cl, Namespace: clusterfixture.Namespace}
	if tr := follow(t, live.Node, "one"); tr.Commit == nil || tr.Commit.Commit != clusterfixture.Commit(0) || tr.Pool != clusterfixture.Namespace+"/workers" {
		t.Fatalf("node one, before anything is damaged: %+v", tr)
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same damage in each run
	var damage []string
	for len(objects) > 0 {
		snapshot := take(t, live)
		for _, m := range []string{"one", "two", "gone", "new"} {
			if diff := cmp.Diff(chain(t, live, m), chain(t, snapshot, m)); diff != "" {
				t.Errorf("chain of machine %s after %q (-cluster +snapshot):\n%s", m, damage, diff)
			}
		}
		want, got := answers(t, live), answers(t, snapshot)
		for question, answer := range want {
			if diff := cmp.Diff(answer, got[question]); diff != "" {
				t.Errorf("%s after %q (-cluster +snapshot):\n%s", question, damage, diff)
			}
		}
		for range 4 {
			i := random.IntN(len(objects))
			obj := objects[i]
			what := fmt.Sprintf("%T %s", obj, obj.GetName())
			if random.IntN(3) > 0 {
				objects = append(objects[:i], objects[i+1:]...)
				if err := cl.Delete(t.Context(), obj); err != nil {
					t.Fatal(err)
				}
				damage = append(damage, "deleting "+what)
			} else {
				edit(t, cl, obj, random)
				damage = append(damage, "editing "+what)
			}
			if len(objects) == 0 {
				break
			}
		}
	}
}

// create creates the objects of an estate, with the UIDs that they get in all that names them.
func create(t *testing.T, cl client.Client, e *clusterfixture.Fixture) []client.Object {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceCloudInitSettings}}
	if err := cl.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	var uids []string // made up, real, ...
	var created []client.Object
	for _, obj := range e.Objects {
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		made := obj.DeepCopyObject().(client.Object)
		if err := json.Unmarshal([]byte(strings.NewReplacer(uids...).Replace(string(text))), made); err != nil {
			t.Fatal(err)
		}
		withStatus := made.DeepCopyObject().(client.Object)
		made.SetUID("")
		if err := cl.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		uids = append(uids, string(obj.GetUID()), string(made.GetUID()))
		setStatus(t, cl, made, withStatus)
		created = append(created, made)
	}
	return created
}

// setStatus writes the status of what has one as a subresource.
func setStatus(t *testing.T, cl client.Client, made, withStatus client.Object) {
	t.Helper()
	conditions := func(all []metav1.Condition) {
		for i := range all {
			all[i].LastTransitionTime = metav1.NewTime(clusterfixture.Noon)
		}
	}
	switch o := withStatus.(type) {
	case *api.ProfileSource:
		conditions(o.Status.Conditions)
	case *api.NodeProvenance:
		conditions(o.Status.Conditions)
	default:
		return
	}
	withStatus.SetUID(made.GetUID())
	withStatus.SetResourceVersion(made.GetResourceVersion())
	if err := cl.Status().Update(t.Context(), withStatus); err != nil {
		t.Fatal(err)
	}
}

// edit changes something of an object that chains depend on.
func edit(t *testing.T, cl client.Client, obj client.Object, random *rand.Rand) {
	t.Helper()
	change := map[string]any{"ownerReferences": nil}
	if keys := []string{api.AnnotationInputDigest, api.AnnotationPool, api.AnnotationIntervals, api.AnnotationRecord, api.AnnotationMDRevision}; random.IntN(2) == 0 {
		change = map[string]any{"annotations": map[string]any{keys[random.IntN(len(keys))]: "edited"}}
	}
	patch, err := json.Marshal(map[string]any{"metadata": change})
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.Patch(t.Context(), obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// take writes a snapshot and opens it.
func take(t *testing.T, live trace.Clusters) trace.Clusters {
	t.Helper()
	var file bytes.Buffer
	if _, err := offline.Write(t.Context(), live, &file, time.Now()); err != nil {
		t.Fatal(err)
	}
	snapshot, err := dump.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	return clusters(t, snapshot)
}

// chain follows a machine, if it exists.
func chain(t *testing.T, c trace.Clusters, name string) lineage.Chain {
	t.Helper()
	var m machines.Machine
	found, err := kubeclient.Find(t.Context(), c.Worker, types.NamespacedName{Namespace: c.Namespace, Name: name}, &m)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return lineage.Chain{}
	}
	out, err := lineage.FollowOwners(t.Context(), kubeclient.Owners{c.Worker}, &m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answers asks about everything, by the question. An answer is the JSON of a trail, or an error.
func answers(t *testing.T, c trace.Clusters) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(question string) func(*trace.Result, error) {
		return func(tr *trace.Result, err error) {
			text, _ := json.MarshalIndent(tr, "", " ")
			out[question] = fmt.Sprintf("%s %v", text, err)
		}
	}
	in := func(name string) types.NamespacedName {
		return types.NamespacedName{Namespace: clusterfixture.Namespace, Name: name}
	}
	for _, name := range []string{"one", "two", "gone", "new"} {
		add("node " + name)(c.Node(t.Context(), name))
		add("machine " + name)(c.Machine(t.Context(), in(name)))
	}
	for _, pool := range []string{"workers", "others"} {
		add("pool " + pool)(c.MachineDeployment(t.Context(), in(pool), trace.Page{Limit: 9}))
		add("configuration of " + pool)(c.Config(t.Context(), lineage.NamesOf(in(pool)).Config))
	}
	for n := range 3 {
		add(fmt.Sprintf("commit %d", n))(c.Commit(t.Context(), clusterfixture.Commit(n), trace.Page{Limit: 9}))
	}
	return out
}
