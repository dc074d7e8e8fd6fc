package pools

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// The signer adds a signature to cluster-info for every bootstrap token. That is no
// reason to look at all pools; another server or CA is.
func TestEndpointChanged(t *testing.T) {
	info := func(data map[string]string) *corev1.ConfigMap { return &corev1.ConfigMap{Data: data} }
	before := info(map[string]string{"kubeconfig": "a", "jws-kubeconfig-aaaaaa": "1"})
	for name, c := range map[string]struct {
		after *corev1.ConfigMap
		want  bool
	}{
		"another signature": {info(map[string]string{"kubeconfig": "a", "jws-kubeconfig-aaaaaa": "1", "jws-kubeconfig-bbbbbb": "2"}), false},
		"another endpoint":  {info(map[string]string{"kubeconfig": "b", "jws-kubeconfig-aaaaaa": "3"}), true},
		"none":              {info(nil), true},
	} {
		if got := endpointChanged.Update(event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
