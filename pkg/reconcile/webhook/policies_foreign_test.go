package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	conflict "k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// withoutRules replaces the definitions of operating-system-manager's kinds by those without our
// rules, as KubeOne and KKP do; ours are restored at the end.
func withoutRules(t *testing.T) {
	t.Helper()
	cl := cluster.Shared(t).Client(t)
	for _, plural := range []string{"operatingsystemprofiles", "operatingsystemconfigs"} {
		name := plural + "." + osm.GroupVersion.Group
		change := func(ctx context.Context, to func(schema *apiextensionsv1.JSONSchemaProps)) apiextensionsv1.CustomResourceDefinitionSpec {
			var before apiextensionsv1.CustomResourceDefinitionSpec
			do(t, conflict.RetryOnConflict(conflict.DefaultRetry, func() error {
				var crd apiextensionsv1.CustomResourceDefinition
				if err := cl.Get(ctx, client.ObjectKey{Name: name}, &crd); err != nil {
					return err
				}
				before = *crd.Spec.DeepCopy()
				to(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
				return cl.Update(ctx, &crd)
			}))
			return before
		}
		ours := change(t.Context(), func(schema *apiextensionsv1.JSONSchemaProps) {
			spec := schema.Properties["spec"]
			spec.XValidations, schema.XValidations = nil, nil
			schema.Properties["spec"] = spec
		})
		t.Cleanup(func() {
			change(context.WithoutCancel(t.Context()), func(schema *apiextensionsv1.JSONSchemaProps) {
				*schema = *ours.Versions[0].Schema.OpenAPIV3Schema
			})
		})
	}
}

// What only our definitions enforce, the policies enforce with the definitions of KubeOne and KKP.
func TestPoliciesWithForeignKinds(t *testing.T) {
	who, ns := policed(t)
	withoutRules(t)
	profile := func(name, version string, units ...osm.Unit) client.Object {
		osp := profileObject(ns, name)
		osp.Spec.Version, osp.Spec.BootstrapConfig.Units = version, units
		return osp
	}
	config := func(version string) client.Object {
		osc := configObject(ns, "pool-shop-config")
		osc.Spec.OSVersion = version
		return osc
	}
	unit := osm.Unit{Name: "a.service"}
	const same, edit = "the spec of a profile is immutable", "the spec of an OperatingSystemConfig is immutable"
	for _, s := range []step{
		{"a profile, changed together with its version", editor, profile("osp-mine", "v1.0.0"), profile("osp-mine", "v1.0.1", unit), ""},
		{"a profile, changed without its version", editor, profile("osp-mine", "v1.0.0"), profile("osp-mine", "v1.0.0", unit), same},
		{"by a user of the parameters", restorer, profile("osp-mine", "v1.0.0"), profile("osp-mine", "v1.0.0", unit), same},
		{"a profile that is named after its version", editor, profile("osp-mine-v1.0.0-rc.1-b", "v1.0.0-RC.1+b"), profile("osp-mine-v1.0.0-rc.1-b", "v1.0.1"), same},
		{"a configuration", editor, config("24.04"), config("26.04"), edit},
		{"a configuration, by a user of the parameters", restorer, config("24.04"), config("26.04"), edit},
		{"a configuration, unchanged", editor, config("24.04"), config("24.04"), ""},
	} {
		t.Run(s.name, func(t *testing.T) {
			// The API server may still have our definitions, whose rules have the same texts.
			eventually(t, "the policy to decide", func() error {
				defer remove(t, who[restorer], s.before.DeepCopyObject().(client.Object))
				err := step{s.name, s.as, s.before.DeepCopyObject().(client.Object), s.after.DeepCopyObject().(client.Object), s.refused}.apply(t, who)
				switch {
				case s.refused == "":
					return err
				case err == nil:
					return errors.New("not refused")
				case !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") || !strings.Contains(err.Error(), s.refused):
					return fmt.Errorf("refused by %w", err)
				}
				return nil
			})
		})
	}
}
