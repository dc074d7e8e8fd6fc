package rehearsal_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestFaults: whatever goes wrong in the cloud, the machine ends as it does without.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name, image string
		// breaks is called before the machine is switched on, heals once it is.
		breaks, heals func(r *rehearsal)
		starts        int
	}{
		{name: "unavailable", image: "bookworm", breaks: unavailableOnce, starts: 1},
		{name: "away", image: "trixie", breaks: func(r *rehearsal) { r.cloud.front.away() }, heals: back, starts: 1},
		{name: "reboots", image: "bookworm", breaks: reboots, starts: 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rehearse(t, c.image, "fault-"+c.name)
			c.breaks(r)
			r.on()
			if c.heals != nil {
				c.heals(r)
			}
			r.finished()
			if n := r.starts(); n != c.starts {
				t.Errorf("it was started %d times, want %d", n, c.starts)
			}
			if n := r.cloud.front.unbroken() + r.cloud.publishers.unbroken(); n > 0 {
				t.Errorf("%d faults have not happened", n)
			}
		})
	}
}

// unavailableOnce lets every fetch fail with 503 once, both from the API server and from
// publishers.
func unavailableOnce(r *rehearsal) {
	for _, secret := range []string{r.provisioning.Name, r.kubeconfig} {
		r.cloud.front.breaks(fault{on: "/secrets/" + secret, times: 1, answer: unavailableAnswer})
	}
	for _, file := range []string{"/gpg", "/kubelet", "/kubelet.sha256", "/kubeadm", "/InRelease"} {
		r.cloud.publishers.breaks(fault{on: file, times: 1, answer: unavailableAnswer})
	}
}

// back lets the API server come back after a number of attempts: in a soak after those
// of half a minute.
func back(r *rehearsal) {
	attempt := "again in 4 s"
	if soak {
		attempt = "again in 16 s"
	}
	r.cloud.eventually(r.t, "attempts have failed", func() error {
		if !strings.Contains(r.journal("cat"), attempt) {
			return fmt.Errorf("the journal has no %q", attempt)
		}
		return nil
	})
	r.must(r.cloud.front.open())
}

// reboots lets the power fail while the provisioning stage is fetched, and while the
// kubelet is downloaded.
func reboots(r *rehearsal) {
	off := func(_ http.ResponseWriter, req *http.Request) {
		if out, err := r.run("systemctl", "reboot", "--force", "--force"); err != nil {
			r.t.Logf("rebooting: %v: %s", err, out)
		}
		<-req.Context().Done() // the answer never comes
	}
	r.cloud.front.breaks(fault{on: "/secrets/" + r.provisioning.Name, times: 1, answer: off})
	r.cloud.publishers.breaks(fault{on: "/kubelet", times: 1, answer: off})
}
