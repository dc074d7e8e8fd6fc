package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// TestNames pins the names that kubectl, RBAC rules and users' manifests depend on. Those of the
// first two kinds are the reference's, except for the category.
func TestNames(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	const namespaced = apiextensionsv1.NamespaceScoped
	type kind struct {
		names   apiextensionsv1.CustomResourceDefinitionNames
		scope   apiextensionsv1.ResourceScope
		version string
		status  bool // has the status subresource
		scale   bool // has the scale subresource
	}
	for crd, want := range map[string]kind{
		"operatingsystemprofiles.operatingsystemmanager.k8c.io": {apiextensionsv1.CustomResourceDefinitionNames{
			Kind: "OperatingSystemProfile", ListKind: "OperatingSystemProfileList",
			Plural: "operatingsystemprofiles", Singular: "operatingsystemprofile", ShortNames: []string{"osp"}, Categories: []string{"osm-gitops"},
		}, namespaced, "v1alpha1", false, false},
		"operatingsystemconfigs.operatingsystemmanager.k8c.io": {apiextensionsv1.CustomResourceDefinitionNames{
			Kind: "OperatingSystemConfig", ListKind: "OperatingSystemConfigList",
			Plural: "operatingsystemconfigs", Singular: "operatingsystemconfig", ShortNames: []string{"osc"}, Categories: []string{"osm-gitops"},
		}, namespaced, "v1alpha1", false, false},
		"profilesources.gitops.k8c.io": {apiextensionsv1.CustomResourceDefinitionNames{
			Kind: "ProfileSource", ListKind: "ProfileSourceList",
			Plural: "profilesources", Singular: "profilesource", ShortNames: []string{"ps"}, Categories: []string{"osm-gitops"},
		}, namespaced, "v1alpha1", true, false},
		"nodeprovenances.gitops.k8c.io": {apiextensionsv1.CustomResourceDefinitionNames{
			Kind: "NodeProvenance", ListKind: "NodeProvenanceList",
			Plural: "nodeprovenances", Singular: "nodeprovenance", ShortNames: []string{"np"}, Categories: []string{"osm-gitops"},
		}, apiextensionsv1.ClusterScoped, "v1alpha1", true, false},
		"bootreports.gitops.k8c.io": {apiextensionsv1.CustomResourceDefinitionNames{
			Kind: "BootReport", ListKind: "BootReportList",
			Plural: "bootreports", Singular: "bootreport", ShortNames: []string{"br"}, Categories: []string{"osm-gitops"},
		}, namespaced, "v1alpha1", true, false},
		"machinedeployments.cluster.k8s.io": {apiextensionsv1.CustomResourceDefinitionNames{
			Kind: "MachineDeployment", ListKind: "MachineDeploymentList",
			Plural: "machinedeployments", Singular: "machinedeployment", ShortNames: []string{"md"},
		}, namespaced, "v1alpha1", true, true},
		"machinesets.cluster.k8s.io": {apiextensionsv1.CustomResourceDefinitionNames{
			Kind: "MachineSet", ListKind: "MachineSetList",
			Plural: "machinesets", Singular: "machineset", ShortNames: []string{"ms"},
		}, namespaced, "v1alpha1", true, true},
		"machines.cluster.k8s.io": {apiextensionsv1.CustomResourceDefinitionNames{
			Kind: "Machine", ListKind: "MachineList",
			Plural: "machines", Singular: "machine", ShortNames: []string{"ma"},
		}, namespaced, "v1alpha1", true, false},
	} {
		t.Run(crd, func(t *testing.T) {
			var d apiextensionsv1.CustomResourceDefinition
			if err := cl.Get(t.Context(), client.ObjectKey{Name: crd}, &d); err != nil {
				t.Fatal(err)
			}
			if n := len(d.Spec.Versions); n != 1 || !d.Spec.Versions[0].Served || !d.Spec.Versions[0].Storage {
				t.Fatalf("got %d versions, want one that is served and stored", n)
			}
			v := d.Spec.Versions[0]
			got := kind{d.Status.AcceptedNames, d.Spec.Scope, v.Name, false, false}
			if v.Subresources != nil {
				got.status, got.scale = v.Subresources.Status != nil, v.Subresources.Scale != nil
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(kind{})); diff != "" {
				t.Errorf("names differ (-want +got):\n%s", diff)
			}
		})
	}
}
