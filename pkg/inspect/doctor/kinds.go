package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/deploy"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

const checkKinds = "kinds"

var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// foreignKinds are the kinds of machine-controller.
var foreignKinds = []string{"machinedeployments.cluster.k8s.io", "machinesets.cluster.k8s.io", "machines.cluster.k8s.io"}

// nodeKinds belong to the cluster with the nodes; our other kinds belong to the cluster with the
// profiles.
var nodeKinds = []string{"nodeprovenances.gitops.k8c.io", "bootreports.gitops.k8c.io"}

// kindChecks are the checks of CustomResourceDefinitions.
type kindChecks struct{ *examination }

// examineAllKinds checks every CustomResourceDefinition, and whether ours match this release.
func (w kindChecks) examineAllKinds(ctx context.Context) {
	before := len(w.Findings)
	kinds, err := projectCRDs()
	if err != nil {
		w.report(Unknown, checkKinds, nil, err.Error(), "")
		return
	}
	for _, want := range kinds {
		in := w.Management
		if slices.Contains(nodeKinds, want.GetName()) {
			in = w.Worker
		}
		w.compareProjectCRD(ctx, in, want)
	}
	w.examineMachineKinds(ctx)
	if len(w.Findings) == before {
		w.report(OK, checkKinds, nil, fmt.Sprintf("%d kinds of this release exist, and %d of machine-controller", len(kinds), len(foreignKinds)), "")
	}
}

// projectCRDs are the CustomResourceDefinitions of this release.
func projectCRDs() ([]*unstructured.Unstructured, error) {
	files, err := deploy.CRDs()
	var out []*unstructured.Unstructured
	for i := 0; i < len(files) && err == nil; i++ {
		var objects []*unstructured.Unstructured
		objects, err = deploy.Objects(files[i])
		out = append(out, objects...)
	}
	return out, err
}

// examineMachineKinds checks the kinds of machine-controller.
func (w kindChecks) examineMachineKinds(ctx context.Context) {
	for _, name := range foreignKinds {
		if have := w.getCRD(ctx, w.Worker, name, "install machine-controller, which defines it, and run osm-gitops doctor again"); have != nil {
			w.examineEstablished(w.Worker, have)
		}
	}
}

// compareProjectCRD compares a CustomResourceDefinition with the one of this release.
func (w kindChecks) compareProjectCRD(ctx context.Context, in *Cluster, want *unstructured.Unstructured) {
	apply := "kubectl apply --server-side -f deploy/crds"
	have := w.getCRD(ctx, in, want.GetName(), apply)
	if have == nil || !w.examineEstablished(in, have) {
		return
	}
	if at := firstCRDDifferencePath(want, have); at != "" {
		f := Finding{
			Check: checkKinds, Level: Problem, Cluster: w.clusterLabel(in),
			Found:  fmt.Sprintf("CustomResourceDefinition %s differs from the one of this release at %s%s", want.GetName(), at, formatFieldManagers(have, true)),
			Remedy: apply + ", of the controller's release; or run the osm-gitops of that release",
		}
		config := want.GetName() == "operatingsystemconfigs."+osm.GroupVersion.Group
		if config {
			f.Level = Warning // KubeOne and KKP have their own, which is sufficient
		}
		switch {
		case !strings.HasSuffix(want.GetName(), "."+osm.GroupVersion.Group):
		case isWrittenBy(have, kkpManager):
			f.Level, f.Remedy = Warning, "leave it to KKP, which applies its own again: pools are served with it"
			if config {
				w.addSeedNotExaminedNote(in)
			}
		case have.GetLabels()[kubeOneLabel] != "":
			f.Level = Warning
			f.Remedy = "copy deploy/kubeone/operating-system-manager into the addons path, and run kubeone apply, which applies that of its own addon otherwise"
		default:
			f.Remedy += "; and prevent other tools from applying another, if possible"
		}
		w.addFinding(f)
	}
}

const (
	// kkpManager reconciles the definitions of operating-system-manager in KKP's user clusters.
	kkpManager = "user-cluster-controller-manager"
	// kubeOneLabel is on every object of an addon of KubeOne.
	kubeOneLabel = "kubeone.io/addon"
)

func isWrittenBy(o *unstructured.Unstructured, manager string) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == manager })
}

// addSeedNotExaminedNote says what the user cluster does not show: KKP's Deployments are in the seed, and the
// Pods of both programs have the same names there, so that the holder of the lease does not tell.
func (w kindChecks) addSeedNotExaminedNote(in *Cluster) {
	w.report(Note, checkLease, in, fmt.Sprintf("KKP runs operating-system-manager in the seed, where this command does not look: whether its image is that of osm-gitops, or takes Lease %s, cannot be seen here", w.LeaseName),
		"in the seed, in the namespace of this user cluster: kubectl get deployment operating-system-manager -o jsonpath='{.spec.template.spec.containers[*].image}'")
}

// DescribeDifferingOSMKinds describes the CustomResourceDefinitions of operating-system-manager that differ from
// those of this release, and who wrote them. The description contains no time: KKP and KubeOne
// write them again and again.
func DescribeDifferingOSMKinds(ctx context.Context, from client.Reader) ([]string, error) {
	kinds, err := projectCRDs()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, want := range kinds {
		if !strings.HasSuffix(want.GetName(), "."+osm.GroupVersion.Group) {
			continue
		}
		have := &unstructured.Unstructured{}
		have.SetGroupVersionKind(crdKind)
		if err := from.Get(ctx, types.NamespacedName{Name: want.GetName()}, have); err != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", want.GetName(), err)
		}
		if at := firstCRDDifferencePath(want, have); at != "" {
			out = append(out, fmt.Sprintf("CustomResourceDefinition %s differs from the one of this release at %s%s", want.GetName(), at, formatFieldManagers(have, false)))
		}
	}
	return out, nil
}

func firstCRDDifferencePath(want, have *unstructured.Unstructured) string {
	wanted, _, _ := unstructured.NestedSlice(want.Object, "spec", "versions")
	found, _, _ := unstructured.NestedSlice(have.Object, "spec", "versions")
	return firstDifferencePath(wanted, found, "spec.versions", func(string, bool) bool { return false })
}

// formatFieldManagers lists the field managers that wrote the versions of a CustomResourceDefinition,
// and when; "" if unknown.
func formatFieldManagers(crd *unstructured.Unstructured, when bool) string {
	var who []string
	for _, entry := range crd.GetManagedFields() {
		var fields struct {
			Spec struct {
				Versions *struct{} `json:"f:versions"`
			} `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || fields.Spec.Versions == nil {
			continue
		}
		text := fmt.Sprintf("%q", entry.Manager)
		if when && entry.Time != nil {
			text += " at " + entry.Time.UTC().Format(time.RFC3339)
		}
		who = append(who, text)
	}
	if len(who) == 0 {
		return ""
	}
	return ", as written by " + strings.Join(who, " and ")
}

// getCRD reads a CustomResourceDefinition. A missing one is reported and nil.
func (w kindChecks) getCRD(ctx context.Context, in *Cluster, name, do string) *unstructured.Unstructured {
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(crdKind)
	err := in.Client.Get(ctx, types.NamespacedName{Name: name}, have)
	switch {
	case apierrors.IsNotFound(err):
		w.report(Problem, checkKinds, in, fmt.Sprintf("CustomResourceDefinition %s does not exist", name), do)
		return nil
	case err != nil:
		w.addUnreadable(checkKinds, in, "CustomResourceDefinition "+name, err)
		return nil
	}
	return have
}

// examineEstablished reports whether the API server serves a kind, and reports a problem
// otherwise.
func (w kindChecks) examineEstablished(in *Cluster, crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	why := "the API server has not processed it yet"
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		switch {
		case c["type"] == "Established" && c["status"] == "True":
			return true
		case c["type"] == "NamesAccepted" && c["status"] == "False":
			why = fmt.Sprint(c["message"])
		}
	}
	w.report(Problem, checkKinds, in, fmt.Sprintf("CustomResourceDefinition %s is not served: %s", crd.GetName(), why),
		"kubectl describe crd "+crd.GetName())
	return false
}

// firstDifferencePath returns the path of the first difference between two documents, except for the keys
// that isIgnored accepts, which learns whether the key is wanted; "" for none. Lists must have equal length.
func firstDifferencePath(want, have any, path string, isIgnored func(key string, wanted bool) bool) string {
	switch want := want.(type) {
	case map[string]any:
		found, ok := have.(map[string]any)
		if !ok {
			return path
		}
		for _, k := range sets.List(sets.KeySet(want).Union(sets.KeySet(found))) {
			a, inWant := want[k]
			b, inHave := found[k]
			if isIgnored(k, inWant) {
				continue
			}
			if inWant != inHave {
				return path + "." + k
			}
			if at := firstDifferencePath(a, b, path+"."+k, isIgnored); at != "" {
				return at
			}
		}
		return ""
	case []any:
		found, ok := have.([]any)
		if !ok || len(want) != len(found) {
			return path
		}
		for i := range want {
			if at := firstDifferencePath(want[i], found[i], fmt.Sprintf("%s[%d]", path, i), isIgnored); at != "" {
				return at
			}
		}
		return ""
	}
	if !reflect.DeepEqual(toFloat(want), toFloat(have)) {
		return path
	}
	return ""
}

// toFloat converts numbers of any decoder to one type.
func toFloat(v any) any {
	if i, ok := v.(int64); ok {
		return float64(i)
	}
	return v
}

// containsDocument reports whether a document has everything that another has, since the API server
// adds defaults.
func containsDocument(have, want any, without ...string) bool {
	return firstDifferencePath(want, have, "document", func(key string, wanted bool) bool { return !wanted || slices.Contains(without, key) }) == ""
}
