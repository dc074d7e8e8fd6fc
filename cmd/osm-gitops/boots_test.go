package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// boots and trace say where a machine without a Node fails; boots counts it for its version, and
// trace prints its log without credentials.
func TestBoots(t *testing.T) {
	c := cluster.Shared(t)
	cl, ns := c.Client(t), c.Namespace(t)
	create := func(obj client.Object) {
		t.Helper()
		if err := cl.Create(t.Context(), obj); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	owned := func(kind, name, ownerKind string, owner client.Object, annotations map[string]any) *unstructured.Unstructured {
		t.Helper()
		meta := map[string]any{"namespace": ns, "name": name, "annotations": annotations}
		if owner != nil {
			meta["ownerReferences"] = []any{map[string]any{"apiVersion": machines.GroupVersion.String(), "kind": ownerKind, "name": owner.GetName(), "uid": string(owner.GetUID())}}
		}
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": machines.GroupVersion.String(), "kind": kind, "metadata": meta, "spec": map[string]any{}}}
		create(obj)
		return obj
	}
	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceCloudInitSettings}})
	pool := owned("MachineDeployment", "web", "", nil, map[string]any{api.AnnotationOSP: "osp-web"})
	commit := strings.Repeat("3c", 20)
	create(&osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-config", Annotations: map[string]string{
			api.AnnotationPool: ns + "/web", api.AnnotationPoolUID: string(pool.GetUID()), api.AnnotationProfile: "osp-web", api.AnnotationVersion: "v1.8.0",
			api.AnnotationCommit: commit, api.AnnotationInputDigest: "v1:sha256:" + strings.Repeat("0", 64),
		}},
		Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", ProvisioningUtility: "cloud-init", CloudProvider: osm.CloudProviderSpec{Name: "aws"}},
	})
	set := owned("MachineSet", "web-1", "MachineDeployment", pool, nil)
	machine := owned("Machine", "web-7k2x1", "MachineSet", set, nil)
	const boot = "01234567-89ab-cdef-0123-456789abcdef"
	report := &api.BootReport{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: "node-web-" + ns, Annotations: map[string]string{api.AnnotationPool: ns + "/web"}},
		Spec: api.BootReportSpec{Machines: []api.MachineBoot{{
			Machine: machine.GetName(), Stage: api.BootStageSetup, Outcome: api.BootFailing, Attempt: 3, Config: "0123456789ab", BootID: boot,
			Log: "installing containerd\ntoken=c4n4ryc4n4ry\ncurl: (22) The requested URL returned error: 404\n",
		}}},
	}
	create(report)
	t.Cleanup(func() {
		if err := cl.Delete(context.WithoutCancel(t.Context()), report); err != nil {
			t.Error(err)
		}
	})
	report.Status.Machines = []api.MachineBootStatus{{
		Machine: machine.GetName(), MachineUID: machine.GetUID(), Stage: api.BootStageSetup, Outcome: api.BootFailing, BootID: boot, Attempt: 3, Config: "0123456789ab",
		Profile: "osp-web", Version: "v1.8.0", Since: metav1.Now(),
		Cause: &api.BootCause{
			File: "profiles/osp-web.yaml", Line: 42, NodeFile: "/opt/bin/setup", NodeLine: 17, Command: "curl -fsSLo /opt/containerd.tar.gz https://example.com/containerd.tar.gz",
			ExitStatus: 22, Commit: commit, Author: "Ada <ada@example.com>",
		},
	}}
	if err := cl.Status().Update(t.Context(), report); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(build(t), programName)
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(program, append(args, "--kubeconfig", c.Kubeconfig, "--controller-namespace", ns)...).CombinedOutput()
		t.Logf("osm-gitops %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const cause = "profiles/osp-web.yaml:42, exit status 22"
	text := strings.Fields(run("boots", "--pool", ns+"/web"))
	if got := strings.Join(text, " "); !strings.Contains(got, "osp-web v1.8.0 3c3c3c3c3c3c 0 0 1 0") || !strings.Contains(got, "web-7k2x1 v1.8.0 Setup 3 "+cause) || !strings.Contains(got, "last joined no version first failed v1.8.0") {
		t.Errorf("boots prints %s", got)
	}
	var listed struct {
		Versions []struct {
			Version string
			Failing int
			Causes  []struct{ Boot api.MachineBootStatus }
		}
	}
	if err := json.Unmarshal([]byte(run("boots", "--commit", commit[:7], "--version", "v1.8.0", "-o", "json")), &listed); err != nil {
		t.Fatal(err)
	}
	if len(listed.Versions) != 1 || listed.Versions[0].Failing != 1 || listed.Versions[0].Causes[0].Boot.Cause.Line != 42 {
		t.Errorf("boots -o json has %+v", listed)
	}
	if got := run("boots", "--version", "v0"); got != "No machines found.\n" {
		t.Errorf("another version prints %s", got)
	}
	out, _ := exec.Command(program, "trace", fmt.Sprintf("machine/%s/web-7k2x1", ns), "--kubeconfig", c.Kubeconfig, "--controller-namespace", ns).CombinedOutput()
	t.Logf("%s", out)
	for _, want := range []string{"Setup failing since ", ", attempt 3, v1.8.0\n", "cause       " + cause + "\n", "on the node /opt/bin/setup:17\n", commit + " by Ada <ada@example.com>\n", "    | curl: (22) The requested"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("trace has no %q", want)
		}
	}
	if strings.Contains(string(out), "c4n4ry") {
		t.Error("trace prints a credential")
	}
}
