package delivery

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// The failure of docs/boots.md, from what a machine reports to the red commit: the controller is
// killed as soon as the report is there, and loses nothing.
func TestMistakeInAProfileIsNamed(t *testing.T) {
	s := newSystem(t)
	o := newOutside(t)
	s.Apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "hook", "namespace": e2e.Namespace},
		"stringData": map[string]any{"token": hookKey, "apiToken": apiToken, "apiURL": o.url + "/api/v4/"},
	})
	builtin, err := os.ReadFile(e2e.RepoPath("profiles/osp-ubuntu.yaml"))
	s.Must(err)
	const right, wrong = `"containerd.io=$CONTAINERD_VERSION*"`, `"containerd.io=$CONTAINERD_VERSION-9"`
	text := strings.NewReplacer("name: osp-ubuntu\n", "name: osp-web\n", right, wrong).Replace(string(builtin))
	commit := s.Git.Push(map[string]string{"osp-web.yaml": text})
	lines := strings.Split(text, "\n")
	line := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, wrong) })
	command := strings.TrimSpace(lines[line])
	version := strings.TrimPrefix(strings.TrimSpace(lines[slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  version: ") })]), "version: ")
	s.Source(func(spec map[string]any) {
		spec["webhook"] = map[string]any{"provider": "gitlab", "secretRef": map[string]any{"name": "hook"}}
	})
	flags := []string{"--hooks-address", e2e.FreeAddress(t), "--cluster-name", "eu-1"}
	s.Start(flags...)
	s.Ready(commit)
	s.Pool("web", "osp-web")
	_, secret := s.Served("web", version)

	// machine-controller creates a machine, and the machine reports its third attempt.
	md := s.MachineDeployment("web")
	set := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Pools, Name: "web-7k2x1", Annotations: map[string]string{api.AnnotationMDRevision: "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: machines.GroupVersion.String(), Kind: "MachineDeployment", Name: md.Name, UID: md.UID}},
	}}
	s.Must(s.Client.Create(t.Context(), set))
	machine := &machines.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.Pools, Name: set.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: machines.GroupVersion.String(), Kind: "MachineSet", Name: set.Name, UID: set.UID}},
	}}
	s.Must(s.Client.Create(t.Context(), machine))
	report := &api.BootReport{}
	s.Eventually("the BootReport", func() error {
		return s.Get(api.NamespaceCloudInitSettings, lineage.AccessName(client.ObjectKeyFromObject(md)), report)
	})
	var osc osm.OperatingSystemConfig
	s.Must(s.Get(e2e.Namespace, lineage.NamesOf(client.ObjectKeyFromObject(md)).Config, &osc))
	files := osc.Spec.ProvisioningConfig.Files
	script := files[slices.IndexFunc(files, func(f osm.File) bool { return f.Path == "/opt/bin/setup" })].Content.Inline.Data
	body, err := json.Marshal(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "BootReport", "metadata": map[string]any{"name": report.Name},
		"spec": api.BootReportSpec{Machines: []api.MachineBoot{{
			Machine: machine.Name, Stage: api.BootStageSetup, Outcome: api.BootFailing, Attempt: 3, Config: render.ShortDigest(secret.Annotations[api.AnnotationInputDigest]),
			File: "/opt/bin/setup", Line: int32(strings.Count(script[:strings.Index(script, command)], "\n") + 1), Command: command, ExitStatus: 100,
			Log:    "Reading package lists...\ntoken=c4nary\nE: Version '1.7.28-9' for 'containerd.io' was not found",
			BootID: "01234567-89ab-cdef-0123-456789abcdef", Time: "1970-01-01T00:00:00Z",
		}}},
	})
	s.Must(err)
	s.Must(s.Client.Patch(t.Context(), report, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(machine.Name), client.ForceOwnership))
	s.Kill()
	s.Start(flags...)

	place := "profiles/osp-web.yaml:" + strconv.Itoa(line+1)
	s.says(o, strings.Replace(status(commit, "failed: machines do not boot: "+place+", exit status 100"), " osm-gitops/", " osm-gitops-boots/", 1))
	s.Event("web", api.EventBootFailing, place, commit)
	for _, args := range [][]string{{"boots"}, {"trace", "machine/" + s.Pools + "/" + machine.Name}} {
		code, out, errs := s.Runs(append(args, "--kubeconfig", s.Cluster.Kubeconfig)...)
		if code != 0 || !strings.Contains(out, place) || strings.Contains(out, "c4nary") {
			t.Errorf("%s ends with %d: %s%s", args, code, out, errs)
		}
		t.Logf("$ osm-gitops %s\n%s", strings.Join(args, " "), out)
	}
	t.Logf("event: %q", s.Events("web", api.EventBootFailing))
	s.nowhere(o, "c4nary")
}
