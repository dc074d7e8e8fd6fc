package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/permissions"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// helmProgram is the path of the helm that tools/helm pins.
var helmProgram = sync.OnceValues(func() (string, error) {
	if err := program.DependOn("tools/helm", "hack/tool", "deploy"); err != nil {
		return "", err
	}
	list := exec.Command("go", "list", "-deps", "helm.sh/helm/v3/cmd/helm")
	list.Dir, list.Env = "../../tools/helm", append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := list.CombinedOutput(); err != nil {
		return "", errors.Join(errUnavailable, err, errors.New(string(out)))
	}
	out, err := exec.Command("../../hack/tool", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// controllerProgram builds osm-gitops, once for all tests.
var controllerProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "osm-gitops-chart-")
	if err != nil {
		return "", err
	}
	controllerDir = dir
	path := filepath.Join(dir, "osm-gitops")
	return path, program.Controller(context.Background(), path) //nolint:forbidigo // no test: the program is built once for all
})

// controllerDir is the folder of that program, for TestMain to remove.
var controllerDir string

// installation is a cluster in which helm is run.
type installation struct {
	t         *testing.T
	cluster   *cluster.Cluster
	client    client.WithWatch
	namespace string
	program   string
	env       []string
}

// newInstallation starts a cluster that has nothing of ours, with machine-controller's
// kinds and a cluster-info.
func newInstallation(t *testing.T, namespace string) *installation {
	t.Helper()
	program, err := helmProgram()
	if errors.Is(err, errUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err) // without the module proxy; CI fails below
	}
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Audit: true, Kinds: cluster.MachineKinds})
	home := t.TempDir()
	i := &installation{t: t, cluster: c, client: c.Client(t), namespace: namespace, program: program}
	i.env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	i.clusterInfo()
	return i
}

func (i *installation) clusterInfo() {
	i.t.Helper()
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: testenv.Server, CertificateAuthorityData: i.cluster.Config.CAData}}})
	if err != nil {
		i.t.Fatal(err)
	}
	err = i.client.Create(i.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"}, Data: map[string]string{"kubeconfig": string(info)},
	})
	if err != nil {
		i.t.Fatal(err)
	}
}

// gone waits until an object is not there any more.
func (i *installation) gone(o client.Object) {
	i.t.Helper()
	err := testenv.Until(i.t.Context(), patience, o.GetName()+" is gone", func() error {
		err := i.client.Get(i.t.Context(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
	if err != nil {
		i.t.Fatal(err)
	}
}

// try runs helm in the namespace of the installation.
func (i *installation) try(args ...string) (stdout, stderr string, err error) {
	i.t.Helper()
	args = append(args, "--namespace", i.namespace)
	if args[0] == "install" || args[0] == "upgrade" {
		// Without it helm parses the OpenAPI document of every group, a third of its CPU, to find that
		// the API server validates, and does not itself. TestScenes of test/docs runs helm without it.
		args = append(args, "--disable-openapi-validation")
	}
	cmd := exec.CommandContext(i.t.Context(), i.program, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = i.env, &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (i *installation) helm(args ...string) string {
	i.t.Helper()
	out, errs, err := i.try(args...)
	if err != nil {
		i.t.Fatalf("helm %q: %v\n%s", args, err, errs)
	}
	return out
}

// manifest are the objects of a release, as Helm has applied them.
func (i *installation) manifest(name string) []*unstructured.Unstructured {
	i.t.Helper()
	return objects(i.t, i.helm("get", "manifest", name))
}

// revision is the number of a release, which has to be deployed.
func (i *installation) revision(name string) int {
	i.t.Helper()
	var history []struct {
		Revision int
		Status   string
	}
	if err := json.Unmarshal([]byte(i.helm("history", name, "--output", "json")), &history); err != nil {
		i.t.Fatal(err)
	}
	last := history[len(history)-1]
	if last.Status != "deployed" {
		i.t.Errorf("revision %d of release %s is %s", last.Revision, name, last.Status)
	}
	return last.Revision
}

// missing are those of some objects that the API server does not have, by kind and name.
func (i *installation) missing(list []*unstructured.Unstructured) []string {
	i.t.Helper()
	out := []string{}
	for _, o := range list {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(o.GroupVersionKind())
		err := i.client.Get(i.t.Context(), client.ObjectKeyFromObject(o), got)
		if err == nil && got.GetDeletionTimestamp() == nil {
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			i.t.Fatalf("reading %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		out = append(out, o.GetKind()+" "+o.GetName())
	}
	slices.Sort(out)
	return out
}

// served checks that each object of a release exists and belongs to the release.
func (i *installation) served(name string) {
	i.t.Helper()
	list := i.manifest(name)
	if missing := i.missing(list); len(missing) > 0 || len(list) < 5 {
		i.t.Errorf("of %d objects of release %s are missing %q", len(list), name, missing)
	}
	for _, o := range list {
		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(o.GroupVersionKind())
		if err := i.client.Get(i.t.Context(), client.ObjectKeyFromObject(o), got); err == nil && got.GetAnnotations()["meta.helm.sh/release-name"] != name {
			i.t.Errorf("%s %s is not that of release %s: %v", o.GetKind(), o.GetName(), name, got.GetAnnotations())
		}
	}
}

// starts runs the process that the Deployment of a release describes, with addresses and folders
// that do not collide with other processes of this machine.
func (i *installation) starts(name string) *testenv.Process {
	i.t.Helper()
	program, err := controllerProgram()
	if err != nil {
		i.t.Fatal(err)
	}
	pod := deployment(i.t, i.manifest(name)).Spec.Template.Spec
	webhooks, err := testenv.FreeAddress()
	if err != nil {
		i.t.Fatal(err)
	}
	var args []string
	for _, arg := range pod.Containers[0].Args {
		args = append(args, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", i.namespace))
	}
	if !slices.Contains(args, "--webhook-address=0") {
		args = append(args, "--webhook-address="+webhooks)
	}
	return i.runs(program, append(args, "--kubeconfig", kubeconfig(i.t, i.cluster, i.namespace, pod.ServiceAccountName),
		"--cache-dir", filepath.Join(i.t.TempDir(), "mirrors"), "--health-probe-address=0", "--metrics-address=0")...)
}

// runs starts a program, which ends with the test.
func (i *installation) runs(program string, args ...string) *testenv.Process {
	i.t.Helper()
	log := filepath.Join(i.t.TempDir(), "controller.log")
	p, err := testenv.Start(log, program, args...)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		p.Stop()
		if b, err := os.ReadFile(log); err == nil && i.t.Failed() {
			i.t.Logf("the log of %q:\n%s", args, b[max(0, len(b)-8<<10):])
		}
	})
	return p
}

// until waits for a condition that can depend on a running controller.
func (i *installation) until(c *testenv.Process, what string, condition func() error) {
	i.t.Helper()
	err := testenv.Until(i.t.Context(), patience, what, func() error {
		if c == nil {
			return condition()
		}
		select {
		case <-c.Exited:
			return errors.New("the controller ended")
		default:
			return condition()
		}
	})
	if err != nil {
		i.t.Fatal(err)
	}
}

// allowed sees to it that a ServiceAccount asked for something, and for nothing that it is
// not allowed.
func (i *installation) allowed(account string) map[permissions.Request]int {
	i.t.Helper()
	f, err := os.Open(i.cluster.AuditLog())
	if err != nil {
		i.t.Fatal(err)
	}
	defer f.Close()
	requests, err := permissions.Requests(f, "system:serviceaccount:"+i.namespace+":"+account)
	if err != nil {
		i.t.Fatal(err)
	}
	if len(requests) < 8 {
		i.t.Errorf("there were %d requests only", len(requests))
	}
	for q := range requests {
		if q.Forbidden {
			i.t.Errorf("%s was forbidden to %s", account, q)
		}
	}
	return requests
}
