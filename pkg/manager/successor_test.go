package manager

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/doctor"
)

// A Deployment of operating-system-manager is reported when it appears, changes or is scaled up,
// and not again while it remains. That of the process itself is not reported.
func TestUnreportedSuccessors(t *testing.T) {
	osm := doctor.OSMDeployment{Name: "operating-system-manager", Image: "quay.io/kubermatic/operating-system-manager:v1.11.2", Replicas: 1}
	newer, off, ours := osm, osm, osm
	newer.Image, off.Replicas, ours.Name = "quay.io/kubermatic/operating-system-manager:v1.11.3", 0, "osm"
	r := &leaseReporter{deployment: deploymentOf("osm-6d4cf56db6-x2k7q")}
	for i, step := range []struct{ found, want []doctor.OSMDeployment }{
		{[]doctor.OSMDeployment{osm, ours}, []doctor.OSMDeployment{osm}},
		{[]doctor.OSMDeployment{osm, ours}, nil},
		{[]doctor.OSMDeployment{newer}, []doctor.OSMDeployment{newer}},
		{[]doctor.OSMDeployment{off}, nil},
		{[]doctor.OSMDeployment{newer}, []doctor.OSMDeployment{newer}},
		{nil, nil},
		{[]doctor.OSMDeployment{newer}, []doctor.OSMDeployment{newer}},
	} {
		if diff := cmp.Diff(step.want, r.filterUnreported(step.found)); diff != "" {
			t.Errorf("report %d (-want +got):\n%s", i, diff)
		}
	}
	for pod, want := range map[string]string{"": "", "laptop": "", "my-laptop": "", "operating-system-manager-5b9c-x7": "operating-system-manager"} {
		if got := deploymentOf(pod); got != want {
			t.Errorf("the Deployment of %q is %q, want %q", pod, got, want)
		}
	}
}
