package nodescripts_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

// soak runs every fault and every step on its own, for each of the six profiles: `make soak`.
// Otherwise the faults of a place come one after the other, in one node, for two profiles.
var soak = os.Getenv("OSM_SOAK") == "1"

const page = "<html><body><h1>Sign in to the network</h1></body></html>\n"

// stalls sends half an answer and nothing more, until the other side gives up.
func stalls(w http.ResponseWriter, r *http.Request, healthy []byte) {
	w.Header().Set("Content-Length", fmt.Sprint(len(healthy)))
	_, _ = w.Write(nodefixture.Half(healthy))
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// named is a fault with what it is called.
type named struct {
	name   string
	answer nodefixture.FaultyHandler
}

// everywhere is what can go wrong with any answer that is checked as a whole.
var everywhere = []named{
	{"403", nodefixture.Says(http.StatusForbidden, "no\n")},
	{"404", nodefixture.Says(http.StatusNotFound, "not found\n")},
	{"429", nodefixture.Says(http.StatusTooManyRequests, "later\n")},
	{"500", nodefixture.Says(http.StatusInternalServerError, "oh\n")},
	{"503", nodefixture.Says(http.StatusServiceUnavailable, "away\n")},
	{"half a body, shorter than its length", nodefixture.Raw(nodefixture.WithLength, nodefixture.Half)},
	{"half a body without a length", nodefixture.Raw(nodefixture.WithoutLength, nodefixture.Half)},
	{"a body that ends at once", nodefixture.Raw(nodefixture.WithoutLength, func([]byte) []byte { return nil })},
	{"no answer at all", nodefixture.Raw("%.0d", func([]byte) []byte { return nil })},
	{"an HTML page", nodefixture.Says(http.StatusOK, page)},
	{"it stalls", stalls},
}

// secretFaults are those of a Secret with a key.
func secretFaults(key string) []named {
	secret := func(key, value string) nodefixture.FaultyHandler {
		return nodefixture.Says(http.StatusOK, fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","data":{%q:%q},"metadata":{"name":"x"}}`, key, value))
	}
	return slices.Concat(everywhere, []named{
		{"401", nodefixture.Says(http.StatusUnauthorized, string(apiStatus(http.StatusUnauthorized, "Unauthorized")))},
		{"a redirect", func(w http.ResponseWriter, r *http.Request, _ []byte) {
			http.Redirect(w, r, "https://"+mirrorHost+"/elsewhere", http.StatusFound)
		}},
		{"a Status with 200", nodefixture.Says(http.StatusOK, string(apiStatus(http.StatusOK, "fine")))},
		{"JSON of something else", nodefixture.Says(http.StatusOK, "[1, 2, 3]\n")},
		{"no key", secret("another", "aGVsbG8K")},
		{"an empty value", secret(key, "")},
		{"no base64", secret(key, "!!!")},
		{"base64 with an end too much", secret(key, "aGVsbG8=aGVsbG8")},
		{"three bytes of junk", secret(key, "nul0")}, // what base64 makes of "null" and the like
		{"a document of another kind", secret(key, "aGVsbG8sIHdvcmxkCg==")},
	})
}

// place is something that is fetched, and what can go wrong there.
type place struct {
	on     string
	faults []named
	// alone: only one of the profiles that are booted fetches it.
	alone bool
}

// sharers is how many profiles share the faults of a place: all take the same scripts
// for it.
const sharers = 2

// share returns the part of a place's faults that a profile is tested with outside a soak.
func (p place) share(profile int) place {
	if p.alone {
		return p
	}
	var faults []named
	for i, f := range p.faults {
		if i%sharers == profile%sharers {
			faults = append(faults, f)
		}
	}
	return place{on: p.on, faults: faults}
}

func profileNumber(s scenario) int {
	return slices.IndexFunc(booted(), func(o scenario) bool { return o.profile == s.profile })
}

// places are all that a profile's node fetches. A key of packages has no checksum to
// hold it to: what is half is found by the package manager.
func places(r *rehearsal) []place {
	files := []string{"/kubelet", ".tgz", ".tar.gz"} // of Kubernetes, the plugins and crictl
	all := []place{{on: r.kubeconfig, faults: secretFaults(kubeconfigKey)}, {on: r.secret, faults: secretFaults(configKey)}}
	for _, file := range files {
		all = append(all, place{on: file, faults: slices.Concat(everywhere, []named{
			{"other bytes of the same length", func(w http.ResponseWriter, _ *http.Request, healthy []byte) {
				_, _ = w.Write(bytes.Repeat([]byte("x"), len(healthy)))
			}},
			{"the checksum of something else", nodefixture.Says(http.StatusOK, strings.Repeat("0", 64)+"\n")},
		})})
	}
	if name := r.scenario.profile; name == "osp-ubuntu" || name == "osp-rhel" || name == "osp-rockylinux" {
		all = append(all, place{on: "/gpg", faults: []named{everywhere[1], everywhere[4], everywhere[5], everywhere[8]}, alone: true})
	}
	return all
}

// TestNode: every profile makes a node of a machine, and the kubelet's unit gives it
// arguments that it can use.
func TestNode(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			s.everyCommand = true
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
		})
	}
}

// healthy is the tree of a scenario's node that had no faults, how many commands it
// took, and which of them, from 1, was to boot again; 0: none. It is made once for a
// profile.
type healthy struct {
	tree          map[string]string
	calls, reboot int
}

var healthyNodes struct {
	sync.Mutex
	byProfile map[string]*healthy
}

func withoutFaults(t *testing.T, s scenario) *healthy {
	t.Helper()
	healthyNodes.Lock()
	defer healthyNodes.Unlock()
	if h := healthyNodes.byProfile[s.profile]; h != nil {
		return h
	}
	s.everyCommand = true
	r := rehearse(t, s)
	r.up()
	r.finished()
	if t.Failed() {
		t.FailNow()
	}
	if healthyNodes.byProfile == nil {
		healthyNodes.byProfile = map[string]*healthy{}
	}
	reboot := 1 + slices.IndexFunc(r.calls, func(c protocol.Call) bool { return slices.Equal(c.Argv, []string{"systemctl", "reboot"}) })
	h := &healthy{r.tree(), len(r.calls), reboot}
	healthyNodes.byProfile[s.profile] = h
	return h
}

// TestFaults: for every fault of every download the node retries, has no partial file meanwhile,
// and ends in the same state as without the fault.
func TestFaults(t *testing.T) {
	for _, s := range booted() {
		for _, p := range placesOf(s) {
			t.Run(s.profile+" "+strings.Trim(p.on, "/."), func(t *testing.T) {
				parallel(t)
				want := withoutFaults(t, s)
				if !soak {
					heals(t, s, want, p.share(profileNumber(s)))
					return
				}
				for _, f := range p.faults {
					t.Run(f.name, func(t *testing.T) {
						heals(t, s, want, place{on: p.on, faults: []named{f}})
					})
				}
			})
		}
	}
}

// placesOf is places, for a node that is not there yet.
func placesOf(s scenario) []place {
	return places(&rehearsal{
		scenario: s, secret: "/secrets/web-kube-system-provisioning-config", kubeconfig: "/secrets/kube-system-web-kubelet-bootstrap-config",
	})
}

// heals boots a node while these faults come one after the other.
func heals(t *testing.T, s scenario, want *healthy, p place) {
	t.Helper()
	r := rehearse(t, s)
	for _, f := range p.faults {
		r.cloud.faults.Add(nodefixture.Fault{On: p.on, Times: 1, Handler: f.answer})
	}
	r.up()
	r.finished()
	r.equals(want.tree)
	if len(r.sleeps) != len(p.faults) {
		t.Errorf("%d faults made %d attempts fail", len(p.faults), len(r.sleeps))
	}
}

// TestChecksums: the same for the files with the checksums, whose faults must not
// become a reason to take a download unchecked.
func TestChecksums(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			want := withoutFaults(t, s)
			r := rehearse(t, s)
			faults := slices.Concat(everywhere, []named{
				{"of something else", nodefixture.Says(http.StatusOK, strings.Repeat("0", 64)+"\n")},
				{"in capitals and too short", nodefixture.Says(http.StatusOK, strings.Repeat("A", 63)+"\n")},
			})
			for i, f := range faults {
				if !soak && i%sharers != profileNumber(s)%sharers {
					continue
				}
				on := []string{"/kubelet.sha256", ".tgz.sha256", ".tar.gz.sha256", "/kubeadm.sha256"}[i%4]
				r.cloud.faults.Add(nodefixture.Fault{On: on, Times: 1, Handler: f.answer})
			}
			r.up()
			r.finished()
			r.equals(want.tree)
		})
	}
}

// TestStrangers: a server with an untrusted certificate receives no token and delivers nothing that
// is installed.
func TestStrangers(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			want := withoutFaults(t, s)
			r := rehearse(t, s)
			r.cloud.stranger("api", 3)
			r.cloud.stranger("downloads", 3)
			r.up()
			r.finished()
			r.equals(want.tree)
			if len(r.sleeps) != 6 {
				t.Errorf("6 handshakes with strangers made %d attempts fail", len(r.sleeps))
			}
			for _, request := range r.cloud.requests {
				if request.host != apiHost && request.authorization != "" {
					t.Errorf("%s is sent the token", request.host)
				}
			}
		})
	}
}

// TestAway: the API server can be unreachable for an hour and a half, which is a hundred attempts.
// Attempts become rare, and the node joins when the server answers again.
func TestAway(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			want := withoutFaults(t, s)
			r := rehearse(t, s)
			attempts := 20
			switch {
			case s.profile == "osp-flatcar-cloud-init":
				attempts = 10 // each takes all of setup, which fetches Secrets last
			case soak || s.profile == "osp-ubuntu":
				attempts = 100
			}
			r.cloud.away()
			r.onSleep = func(n int) {
				if n == attempts {
					r.cloud.listenAPI()
				}
			}
			r.up()
			r.finished()
			r.equals(want.tree)
			if len(r.sleeps) != attempts {
				t.Fatalf("the API server was away for %d attempts, %d have failed", attempts, len(r.sleeps))
			}
			shape := []float64{1, 2, 4, 8, 16, 32, 60, 60}
			if !slices.Equal(r.sleeps[:len(shape)], shape) || r.sleeps[attempts-1] != 60 {
				t.Errorf("the pauses between attempts are %v seconds, want %v and 60 from there on", r.sleeps, shape)
			}
		})
	}
}

// TestDrip: an answer that comes a few bytes at a time is an answer.
func TestDrip(t *testing.T) {
	parallel(t)
	r := rehearse(t, scenarios[0])
	drips := func(w http.ResponseWriter, _ *http.Request, healthy []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(healthy)))
		for piece := range slices.Chunk(healthy, 1+len(healthy)/50) {
			_, _ = w.Write(piece)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(20 * time.Millisecond) // as a slow server does
		}
	}
	for _, on := range []string{r.secret, r.kubeconfig, "/kubelet"} {
		r.cloud.faults.Add(nodefixture.Fault{On: on, Times: 1, Handler: drips})
	}
	r.up()
	r.finished()
	if len(r.sleeps) > 0 {
		t.Errorf("%d attempts have failed", len(r.sleeps))
	}
}

// TestCloudInitDies: cloud-init that ends in the middle of writing files is run again.
func TestCloudInitDies(t *testing.T) {
	for _, s := range booted() {
		if strings.HasPrefix(s.profile, "osp-flatcar") {
			continue
		}
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			want := withoutFaults(t, s)
			for _, old := range []bool{false, true} {
				r := rehearse(t, s.with(func(s *scenario) { s.image = func(i *system) { i.oldCloudInit = old } }))
				r.cloudInitDies = 2
				r.up()
				r.finished()
				r.equals(want.tree)
				if len(r.sleeps) != 2 {
					t.Errorf("cloud-init has died twice, %d attempts have failed", len(r.sleeps))
				}
			}
		})
	}
}

// TestPinned: a download whose digest is in the settings must match that digest, independent of
// the checksum that its publisher serves.
func TestPinned(t *testing.T) {
	name := "kubelet-" + kubeVersion + "-linux-" + runtime.GOARCH
	evil := []byte("#!/bin/sh\necho evil\n")
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			right := sum(program("kubelet", kubeVersion))
			r := rehearse(t, s.with(func(s *scenario) {
				s.settings = func(s *render.Settings) { s.DownloadDigests = map[string]string{name: right} }
			}))
			for range 3 {
				r.cloud.faults.Add(nodefixture.Fault{On: "/kubelet.sha256", Times: 1, Handler: nodefixture.Says(http.StatusOK, sum(evil)+"\n")})
			}
			r.up()
			r.finished()
			if len(r.sleeps) != 3 {
				t.Errorf("3 wrong checksums made %d attempts fail", len(r.sleeps))
			}
		})
	}
	t.Run("a pin that never fits", func(t *testing.T) {
		parallel(t)
		r := rehearse(t, scenarios[0].with(func(s *scenario) {
			s.settings = func(s *render.Settings) { s.DownloadDigests = map[string]string{name: sum(evil)} }
		}))
		r.onSleep = func(n int) {
			if n == 3 {
				r.off()
			}
		}
		if r.boot() || r.machine.kubelets > 0 || r.exists("/opt/bin/kubelet") || r.exists("/etc/kubernetes/bootstrap-kubelet.conf") {
			t.Error("a kubelet that is not the pinned one was taken")
		}
		if !strings.Contains(r.output.String(), "the settings say "+sum(evil)) {
			t.Error("nothing says that the pinned digest is another")
		}
	})
}

// TestPowerInMidstream: the power fails in the middle of an answer.
func TestPowerInMidstream(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			want := withoutFaults(t, s)
			r := rehearse(t, s)
			cut := func(w http.ResponseWriter, _ *http.Request, healthy []byte) {
				w.Header().Set("Content-Length", fmt.Sprint(len(healthy)))
				_, _ = w.Write(nodefixture.Half(healthy))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Millisecond) // curl has written it by then
				r.mu.Lock()
				defer r.mu.Unlock()
				r.off()
			}
			failures := 0
			for _, p := range placesOf(s) {
				r.cloud.faults.Add(nodefixture.Fault{On: p.on, Times: 1, Handler: cut})
				failures++
			}
			for i := 0; !r.boot(); i++ {
				if i == failures {
					t.Fatalf("the machine went off %d times, %d were meant", i+1, failures)
				}
			}
			r.finished()
			r.equals(want.tree)
		})
	}
}

// TestUnsigned: a kubelet whose certificate request is denied, for example because its token has
// expired, gets another kubeconfig and is restarted with it.
func TestUnsigned(t *testing.T) {
	for _, s := range booted() {
		t.Run(s.profile, func(t *testing.T) {
			parallel(t)
			r := rehearse(t, s)
			r.machine.unsigned = 1
			r.up()
			r.finished()
			fetched := 0
			for _, url := range r.cloud.seen() {
				if strings.HasSuffix(url, r.kubeconfig) {
					fetched++
				}
			}
			if fetched != 2 || r.machine.kubelets != 2 {
				t.Errorf("the kubeconfig was fetched %d times and the kubelet started %d times, want both twice", fetched, r.machine.kubelets)
			}
		})
	}
}

// TestImageProxy: the proxy settings of an image remain if the settings of the cluster have none.
func TestImageProxy(t *testing.T) {
	parallel(t)
	r := rehearse(t, scenarios[0].with(func(s *scenario) {
		s.settings = func(s *render.Settings) { s.NodeNoProxy = ".example.com" }
	}))
	r.write("/etc/environment", "EDITOR=vi\nHTTP_PROXY=http://image.example.com\nno_proxy=image\nNO_PROXY=image\n", 0o644)
	r.up()
	const want = "EDITOR=vi\nHTTP_PROXY=http://image.example.com\nNO_PROXY=.example.com\nno_proxy=.example.com\n"
	if got := r.read("/etc/environment"); got != want {
		t.Errorf("/etc/environment has\n%s, want\n%s", got, want)
	}
}
