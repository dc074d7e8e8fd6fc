package lineage

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// ReportOf returns what a Node says of itself in its labels.
func ReportOf(node metav1.Object) api.NodeReport {
	l := node.GetLabels()
	return api.NodeReport{Config: l[api.LabelConfig], Commit: l[api.LabelCommit]}
}

// NewProvenanceWindow returns the time in which a machine fetched the documents of its first node.
func NewProvenanceWindow(machine, joined metav1.Time) api.ProvenanceWindow {
	w := api.ProvenanceWindow{Until: joined}
	if !machine.After(joined.Add(Leeway)) {
		w.From = &machine
	}
	return w
}

// ProvenanceName returns the name of the NodeProvenance of a node. It has digits of the
// uid, so that a node that is created again under its name has another.
func ProvenanceName(node string, uid types.UID) string {
	const digits = 8
	short := string(uid[:min(digits, len(uid))])
	return node[:min(len(node), validation.DNS1123SubdomainMaxLength-1-len(short))] + "." + short
}
