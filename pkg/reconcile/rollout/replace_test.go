package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// still checks that the template annotation of a pool does not change, after enough time
// to write one.
func (b *bench) still(when, name, want string) {
	b.t.Helper()
	b.poke()
	time.Sleep(2 * settle) // a write would have come by now
	if got := b.templateAnnotation(name); got != want {
		b.t.Errorf("%s: the template annotation of %s is %q, want %q", when, name, got, want)
	}
}

func (b *bench) waitForAnnotation(name, want string) {
	b.t.Helper()
	b.eventually("template annotation of "+name, func() error {
		if got := b.templateAnnotation(name); got != want {
			return fmt.Errorf("it is %q, want %q", got, want)
		}
		return nil
	})
}

// gives makes a version current that all pools adopt at once, and waits for them.
func (b *bench) gives(version string) {
	b.t.Helper()
	b.second()
	b.push(version)
	b.follow()
	b.second()
}

// revision writes that of a MachineSet or a MachineDeployment, as machine-controller does.
func (b *bench) revision(obj client.Object, name, revision string) {
	b.t.Helper()
	obj.SetNamespace(b.ns)
	obj.SetName(name)
	b.do(b.client.Patch(b.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationMDRevision, revision)))))
}

func (b *bench) suspend(suspend bool) {
	b.t.Helper()
	b.do(b.client.Patch(b.t.Context(), b.source(), client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"spec":{"suspend":%t}}`, suspend)))))
}

// saysOnce waits for an event, and for no second one. It takes all there are.
func (b *bench) saysOnce(parts ...string) {
	b.t.Helper()
	var found []string
	b.eventually(fmt.Sprintf("event that says %q", parts), func() error {
		for len(b.told.Events) > 0 {
			text := <-b.told.Events
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
				found = append(found, text)
			}
		}
		if len(found) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	if len(found) > 1 {
		b.t.Errorf("it was told %d times: %q", len(found), found)
	}
}

// lock has a policy deny annotations on a pool, and waits until it is in force.
func (b *bench) lock(name string) {
	b.t.Helper()
	key := metav1.ObjectMeta{Name: "lock-" + b.ns}
	here := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: b.ns}}
	b.do(b.client.Create(b.t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: key, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{NamespaceSelector: here, ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
			RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{machines.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"machinedeployments"}},
			},
		}}},
		Validations: []admissionregistrationv1.Validation{{Expression: fmt.Sprintf("object.metadata.name != %q", name), Message: "pool " + name + " is locked"}},
	}}))
	b.do(b.client.Create(b.t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: key, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: key.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}}))
	b.t.Cleanup(func() {
		ctx := context.WithoutCancel(b.t.Context())
		b.do(b.client.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: key}))
		b.do(b.client.Delete(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: key}))
	})
	b.eventually("policy to be in force", func() error {
		md := b.md(name)
		if err := b.client.Patch(b.t.Context(), md, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"probe":"1"}}}`)), client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("it is not refused: %w", err)
		}
		return nil
	})
}

// Machines are replaced if they were created with another configuration, and for no other
// reason.
func TestMachinesAreReplacedForAReason(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"None","maxConcurrent":1}`)
	b.push("v1.0.0")
	replace := map[string]any{api.AnnotationRollout: api.RolloutReplace}
	for _, name := range []string{"a", "b"} {
		b.pool(name, 5, replace)
		b.machine(name, name+"-1")
		b.machineStatus(name+"-1", `{"nodeRef":{"kind":"Node","name":"x"}}`)
		b.done(name)
	}
	b.second() // the machines wait for their first document
	b.follow()
	b.still("the first document", "a", "")

	// A user deletes the configuration, and it is created again without changes.
	b.second()
	b.do(b.client.Delete(t.Context(), &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "a-config"}}))
	b.follow()
	b.still("the configuration was made again", "a", "")

	// A version goes out, and is withdrawn before it is b's turn.
	b.gives("v2.0.0")
	b.waitForAnnotation("a", "digest-v2.0.0")
	b.gives("v1.0.0")
	b.still("back, and no machine was replaced yet", "b", "")
	b.still("machines that were made with the first one", "a", "digest-v2.0.0")
	b.machine("a", "a-2") // it boots from the first one, regardless of the annotation
	b.still("as is this one", "a", "digest-v2.0.0")
	b.done("a")

	// A Secret that was deleted by hand is younger than all machines.
	b.second()
	b.do(b.client.DeleteAllOf(t.Context(), &corev1.Secret{}, client.InNamespace(api.NamespaceCloudInitSettings)))
	b.gives("v3.0.0")
	b.waitForAnnotation("a", "digest-v3.0.0")
}

// Machines that machine-controller replaces anyway, because a user changed the template,
// cause no annotation; the new machines can be older than the configuration that they
// boot from.
func TestTemplateOfTheUser(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"None"}`)
	b.push("v1.0.0")
	b.pool("a", 5, map[string]any{api.AnnotationRollout: api.RolloutReplace, api.AnnotationMDRevision: "1"})
	b.revision(&machines.MachineSet{}, "a-1", "1")
	b.machine("a", "a-old")
	b.follow()
	b.done("a")
	b.second()
	// The kubelet's version is changed: machine-controller makes another MachineSet before
	// the configuration follows.
	b.object("MachineSet", "a-2", map[string]any{"ownerReferences": ownedBy("MachineDeployment", b.md("a")), "annotations": map[string]any{api.AnnotationMDRevision: "2"}},
		map[string]any{"spec": map[string]any{"replicas": int64(1)}})
	b.revision(&machines.MachineDeployment{}, "a", "2")
	b.machineOf("a-2", "a-new")
	b.gives("v2.0.0")
	b.still("machine-controller is at it", "a", "")
	b.gives("v3.0.0")
	b.waitForAnnotation("a", "digest-v3.0.0")
}

// A pool that cannot be patched is reported once, and does not block others; neither does
// a pool with an unavailable Node, nor one with an invalid annotation.
func TestNobodyWaitsForOthers(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"None","maxConcurrent":1}`)
	b.push("v1.0.0")
	replace := map[string]any{api.AnnotationRollout: api.RolloutReplace}
	for _, name := range []string{"away", "locked", "other"} {
		b.pool(name, 5, replace)
		b.machine(name, name+"-1")
	}
	b.pool("odd", 5, map[string]any{api.AnnotationRollout: "replace"})
	b.saysOnce(api.EventRolloutInvalid, `"replace" is not "Replace"`)
	b.follow()
	b.lock("locked")
	b.second()
	b.gives("v2.0.0")
	b.waitForAnnotation("away", "digest-v2.0.0")
	b.still("one is at it", "other", "")
	// The machine of the first is replaced, and its Node goes away two hours later.
	b.do(b.client.Delete(t.Context(), &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: b.ns, Name: "away-1"}}))
	b.machine("away", "away-2")
	b.machineStatus("away-2", `{"nodeRef":{"kind":"Node","name":"x"},"conditions":[{"type":"Ready","status":"Unknown","lastTransitionTime":"`+time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339)+`"}]}`)
	md := b.md("away")
	b.do(b.client.Status().Patch(t.Context(), md, client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":1,"updatedReplicas":1,"availableReplicas":0}}`, md.Generation)))))
	b.waitForAnnotation("other", "digest-v2.0.0")
	b.still("a policy denies it", "locked", "")
	b.saysOnce(api.EventWriteRefused, "pool locked is locked")
}

// A suspended ProfileSource has no machines replaced.
func TestSuspendedReplaces(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"None"}`)
	b.push("v1.0.0")
	b.pool("a", 5, map[string]any{api.AnnotationRollout: api.RolloutReplace})
	b.machine("a", "a-1")
	b.follow()
	b.suspend(true)
	b.gives("v2.0.0")
	b.still("suspended", "a", "")
	b.suspend(false)
	b.waitForAnnotation("a", "digest-v2.0.0")
}

// A tool that applies the pool from Git, such as Flux, does not change our annotation,
// and we do not change its fields.
func TestStampBesideServerSideApply(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"None"}`)
	b.push("v1.0.0")
	apply := func(kubelet string) {
		t.Helper()
		b.do(b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment",
			"metadata": map[string]any{"namespace": b.ns, "name": "a", "annotations": map[string]any{api.AnnotationOSP: "osp-a", api.AnnotationRollout: api.RolloutReplace}},
			"spec": map[string]any{"replicas": int64(1), "template": map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"example.com/own": kubelet}},
				"spec":     map[string]any{"versions": map[string]any{"kubelet": kubelet}},
			}},
		}}), client.FieldOwner("kustomize-controller"), client.ForceOwnership))
	}
	apply("1.35.0")
	b.object("MachineSet", "a-1", map[string]any{"ownerReferences": ownedBy("MachineDeployment", b.md("a"))}, map[string]any{"spec": map[string]any{"replicas": int64(1)}})
	b.machine("a", "a-1")
	b.follow()
	b.gives("v2.0.0")
	b.waitForAnnotation("a", "digest-v2.0.0")
	apply("1.35.1")
	md := b.md("a")
	if got := md.Spec.Template.Metadata.Annotations; got[api.AnnotationConfig] != "digest-v2.0.0" || got["example.com/own"] != "1.35.1" || md.Spec.Template.Spec.Versions.Kubelet != "1.35.1" {
		t.Errorf("the template has %v", md.Spec.Template)
	}
	for _, m := range md.ManagedFields {
		text := m.FieldsV1.GetRawString()
		ours := strings.Contains(text, `"f:`+api.AnnotationConfig+`"`)
		if ours != (m.Manager == api.FieldManager) || ours && strings.Contains(text, "example.com/own") {
			t.Errorf("%s owns %s", m.Manager, text)
		}
	}
}
