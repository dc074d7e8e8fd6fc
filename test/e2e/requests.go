package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Versions lists everything the controller writes, by name, with its version.
func (s *System) Versions() map[string]string {
	s.T.Helper()
	out := map[string]string{}
	for list, in := range map[client.ObjectList]string{
		&osm.OperatingSystemProfileList{}: "", &osm.OperatingSystemConfigList{}: "", &api.ProfileSourceList{}: "", &machines.MachineDeploymentList{}: "", &corev1.SecretList{}: "",
		&corev1.ServiceAccountList{}: api.NamespaceCloudInitSettings, &rbacv1.RoleList{}: api.NamespaceCloudInitSettings, &rbacv1.RoleBindingList{}: api.NamespaceCloudInitSettings,
	} {
		if err := s.Client.List(s.T.Context(), list, client.InNamespace(in)); err != nil {
			s.T.Fatal(err)
		}
		if err := apimeta.EachListItem(list, func(o runtime.Object) error {
			obj := o.(client.Object)
			out[fmt.Sprintf("%T %s", obj, obj.GetName())] = obj.GetResourceVersion()
			return nil
		}); err != nil {
			s.T.Fatal(err)
		}
	}
	return out
}

func (s *System) PatchSource(patch string) {
	s.T.Helper()
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "osps"}}
	if err := s.Client.Patch(s.T.Context(), ps, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.T.Fatal(err)
	}
}

// AuditSize marks a place in the API server's log.
func (s *System) AuditSize() int64 {
	s.T.Helper()
	info, err := os.Stat(s.Cluster.AuditLog())
	if err != nil {
		s.T.Fatal(err)
	}
	return info.Size()
}

// WritesSince lists what the controller's ServiceAccount has written since.
func (s *System) WritesSince(mark int64) []string {
	s.T.Helper()
	var out []string
	for _, a := range s.Attempts(mark, "osm-gitops") {
		out = append(out, a.Verb+" "+a.RequestURI)
	}
	return out
}

// attempt is an entry of the audit log.
type attempt struct {
	Verb, RequestURI string
	User             struct{ Username string }
	ResponseStatus   struct{ Code int }
}

// Attempts are the requests of a ServiceAccount that would write, in their order.
func (s *System) Attempts(mark int64, account string) []attempt {
	s.T.Helper()
	f, err := os.Open(s.Cluster.AuditLog())
	if err != nil {
		s.T.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(mark, io.SeekStart); err != nil {
		s.T.Fatal(err)
	}
	var out []attempt
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a attempt
		if json.Unmarshal(lines.Bytes(), &a) == nil && a.User.Username == "system:serviceaccount:"+Namespace+":"+account && !slices.Contains([]string{"get", "list", "watch"}, a.Verb) {
			out = append(out, a)
		}
	}
	return out
}

// Kill ends the controller as a crash would.
func (s *System) Kill() {
	s.T.Helper()
	s.NoError(s.Process.Process.Kill())
	<-s.Exited
	s.Process = nil
}
