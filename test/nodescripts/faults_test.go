package nodescripts_test

import (
	"slices"
	"strings"
	"testing"
)

// TestNode: every profile makes a node of a machine, and the kubelet's unit gives it
// arguments that it can use.
func TestNode(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			r := rehearse(t, s)
			r.up()
			r.finished()
			if len(r.sleeps) > 0 {
				t.Errorf("attempts have failed: pauses of %v seconds", r.sleeps)
			}
			argv := r.kubelet()
			want := []string{"--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--node-ip=" + nodeAddress, "--cloud-provider=external"}
			if !contains(argv, want...) {
				t.Errorf("the kubelet gets %q, want %q among them", argv, want)
			}
			if !slices.ContainsFunc(argv, func(a string) bool {
				return strings.HasPrefix(a, "--node-labels=") && strings.Contains(a, "gitops.k8c.io/commit="+strings.Repeat("1a", 20))
			}) {
				t.Errorf("the kubelet gets %q, and no label with the commit", argv)
			}
			t.Logf("%d commands", len(r.calls))
		})
	}
}
