package running

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// A controller in a namespace other than kube-system does not start while the lease and the
// profiles of operating-system-manager are in kube-system, and starts when they are deleted
// (security.md 36).
func TestAnotherNamespace(t *testing.T) {
	s := newSystem(t)
	s.Identity = s.Cluster.Kubeconfig // rbac.yaml is for kube-system
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: e2e.MainLease}}
	s.NoError(client.IgnoreAlreadyExists(s.Client.Create(t.Context(), lease)))
	s.ApplyYAML(strings.Replace(e2e.OSP("osp-left", "v1.0.0", "echo left"), "  name: osp-left\n", "  name: osp-left\n  namespace: "+e2e.Namespace+"\n", 1))
	s.Start("--namespace", s.Pools)
	s.Eventually("the controller to say why it waits", func() error {
		s.LogMu.Lock()
		defer s.LogMu.Unlock()
		if says := fmt.Sprintf("--namespace %s: kube-system has Lease operating-system-manager, OperatingSystemProfile osp-left: run the controller with --namespace kube-system", s.Pools); !strings.Contains(s.Log.String(), says) {
			return errors.New("it does not")
		}
		return nil
	})
	var made api.ProfileSource
	if err := s.Get(s.Pools, api.DefaultsName, &made); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it began: %v", err)
	}
	s.NoError(s.Client.Delete(t.Context(), lease))
	s.NoError(s.Client.Delete(t.Context(), &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "osp-left"}}))
	s.Eventually("the controller to begin", func() error { return s.Get(s.Pools, api.DefaultsName, &made) })
}
