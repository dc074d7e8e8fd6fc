package e2e

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
)

// A controller in another namespace than kube-system does not begin while the lease and the
// profiles of operating-system-manager are in kube-system, and begins once they are gone
// (security.md 36).
func TestAnotherNamespace(t *testing.T) {
	s := newSystem(t)
	s.identity = s.cluster.Kubeconfig // rbac.yaml is for kube-system
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: mainLease}}
	s.noError(client.IgnoreAlreadyExists(s.client.Create(t.Context(), lease)))
	s.applyYAML(strings.Replace(osp("osp-left", "v1.0.0", "echo left"), "  name: osp-left\n", "  name: osp-left\n  namespace: "+namespace+"\n", 1))
	s.start("--namespace", s.pools)
	s.eventually("the controller to say why it waits", func() error {
		s.logMu.Lock()
		defer s.logMu.Unlock()
		if says := fmt.Sprintf("--namespace %s: kube-system has Lease operating-system-manager, OperatingSystemProfile osp-left: run the controller with --namespace kube-system", s.pools); !strings.Contains(s.log.String(), says) {
			return errors.New("it does not")
		}
		return nil
	})
	var made api.ProfileSource
	if err := s.get(s.pools, api.DefaultsName, &made); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it began: %v", err)
	}
	s.noError(s.client.Delete(t.Context(), lease))
	s.noError(s.client.Delete(t.Context(), &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "osp-left"}}))
	s.eventually("the controller to begin", func() error { return s.get(s.pools, api.DefaultsName, &made) })
}
