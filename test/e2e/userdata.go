package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Credentials lists what no OperatingSystemConfig may hold.
func (s *System) Credentials() map[string]string {
	s.T.Helper()
	out := map[string]string{}
	var getter corev1.Secret
	if err := s.Get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &getter); err != nil {
		s.T.Fatal(err)
	}
	out["the getter's token"] = string(getter.Data["token"])
	for _, token := range s.Tokens() {
		out["a bootstrap token"] = string(token.Data["token-secret"])
	}
	for _, token := range s.NodeTokens() {
		out["a pool's token"] = token
	}
	return out
}

func (s *System) Tokens() []corev1.Secret {
	s.T.Helper()
	var list corev1.SecretList
	if err := s.Client.List(s.T.Context(), &list, client.InNamespace(Namespace), client.HasLabels{api.LabelTokenPool}); err != nil {
		s.T.Fatal(err)
	}
	return list.Items
}

// Applied returns the reason why the machines of a pool do not boot what the pool requests.
func (s *System) Applied(pool string) error {
	var osc osm.OperatingSystemConfig
	if err := s.Get(Namespace, pool+"-"+s.Pools+"-config", &osc); err != nil {
		return err
	}
	var secret corev1.Secret
	if err := s.Get(api.NamespaceCloudInitSettings, pool+"-"+s.Pools+"-bootstrap-config", &secret); err != nil {
		return err
	}
	has, want := secret.Annotations[api.AnnotationInputDigest], osc.Annotations[api.AnnotationInputDigest]
	if refused := osc.Annotations[api.AnnotationRefused]; refused != "" || has != want {
		return fmt.Errorf("refused is %q, the Secret is of %s, the configuration of %s", refused, has, want)
	}
	return nil
}

// CheckRejectionNoted returns an error if a configuration has no note about a newer one that was rejected.
func (s *System) CheckRejectionNoted(pool string, says ...string) error {
	var osc osm.OperatingSystemConfig
	if err := s.Get(Namespace, pool+"-"+s.Pools+"-config", &osc); err != nil {
		return err
	}
	if refused := osc.Annotations[api.AnnotationRefused]; refused == "" || !ContainsAll(refused, says) {
		return fmt.Errorf("refused is %q, want %q", refused, says)
	}
	return nil
}

// UserDataWatch saw everything that happened to a pool's user-data Secrets.
type UserDataWatch struct {
	mu      sync.Mutex
	Events  []watch.Event
	Stop    func()
	Stopped chan struct{}
}

func (s *System) WatchUserData(pool string) *UserDataWatch {
	s.T.Helper()
	ctx, cancel := context.WithCancel(s.T.Context())
	w, err := s.Client.Watch(ctx, &corev1.SecretList{}, client.InNamespace(api.NamespaceCloudInitSettings))
	if err != nil {
		s.T.Fatal(err)
	}
	u := &UserDataWatch{Stopped: make(chan struct{}), Stop: func() { w.Stop(); cancel() }}
	s.T.Cleanup(u.Stop)
	go func() {
		defer close(u.Stopped)
		for e := range w.ResultChan() {
			if secret, ok := e.Object.(*corev1.Secret); ok && strings.HasPrefix(secret.Name, pool+"-") {
				u.mu.Lock()
				u.Events = append(u.Events, e)
				u.mu.Unlock()
			}
		}
	}()
	return u
}

// Check fails if a Secret was missing, or a new bootstrap document was paired with an old
// provisioning document.
func (u *UserDataWatch) Check(t *testing.T) {
	t.Helper()
	u.Stop()
	<-u.Stopped
	input := map[string]string{}
	writes := 0
	for _, e := range u.Events {
		secret := e.Object.(*corev1.Secret)
		if e.Type == watch.Deleted {
			t.Errorf("%s was deleted", secret.Name)
		}
		if e.Type == watch.Modified {
			writes++
		}
		input[secret.Name] = secret.Annotations[api.AnnotationInputDigest]
		var boot, prov string
		for name, digest := range input {
			switch {
			case strings.HasSuffix(name, "-bootstrap-config") && !strings.Contains(name, "kubelet"):
				boot = digest
			case strings.HasSuffix(name, "-provisioning-config"):
				prov = digest
			}
		}
		if strings.HasSuffix(secret.Name, "-bootstrap-config") && e.Type == watch.Modified && prov != "" && boot != prov {
			t.Errorf("the bootstrap document of %s was paired with the provisioning document of %s", boot, prov)
		}
	}
	if writes != 2 {
		t.Errorf("the user-data was written %d times, want once each", writes)
	}
}
