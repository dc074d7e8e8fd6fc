package doctor

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The image or the command shows that a container runs the controller of
// operating-system-manager. Its webhook has another lease, and our image the same commands.
func TestRunsReference(t *testing.T) {
	for _, c := range []struct {
		image, command string
		want           bool
	}{
		{"quay.io/kubermatic/operating-system-manager:v1.11.2", "/usr/local/bin/osm-controller", true},
		{"quay.io/kubermatic/operating-system-manager:v1.11.2", "", true},
		{"registry.example.com:5000/mirror/operating-system-manager@sha256:0123", "", true},
		{"operating-system-manager", "/bin/sh", true},
		{"registry.example.com/mirrored/osm:v1", "osm-controller", true},
		{"quay.io/kubermatic/operating-system-manager:v1.11.2", "/usr/local/bin/webhook", false},
		{"ghcr.io/osm-gitops/osm-gitops:v1.0.0", "/usr/local/bin/osm-controller", false},
		{"registry.example.com:5000/osm-gitops@sha256:0123", "/usr/local/bin/osm-controller", false},
		{"registry.example.com/operating-system-manager/machine-controller:v1", "/usr/local/bin/machine-controller", false},
		{"registry.example.com/osm-gitops:v1", "", false},
		{"", "", false},
	} {
		t.Run(fmt.Sprintf("%s %s", c.image, c.command), func(t *testing.T) {
			container := corev1.Container{Image: c.image}
			if c.command != "" {
				container.Command = []string{c.command}
			}
			if got := runsOSMController(container); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
