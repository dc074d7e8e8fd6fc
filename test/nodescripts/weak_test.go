package nodescripts_test

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/nodefixture"
	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

// TestChecksFind: the checks that every test here relies on do find something.
func TestChecksFind(t *testing.T) {
	needNodes(t)
	for name, do := range map[string]func(r *rehearsal){
		"a half-written kubeconfig": func(r *rehearsal) { r.write("/etc/kubernetes/bootstrap-kubelet.conf", "clusters:\n", 0o600) },
		"a kubeconfig for everybody": func(r *rehearsal) {
			r.write("/etc/kubernetes/bootstrap-kubelet.conf", string(r.want["/etc/kubernetes/bootstrap-kubelet.conf"].content), 0o644)
		},
		"a token in a file for everybody": func(r *rehearsal) { r.write("/opt/x", "a "+apiToken, 0o640) },
		"a token on a command line": func(r *rehearsal) {
			r.calls = nil
			r.check(protocol.Call{Argv: []string{"curl", "Bearer " + apiToken}})
		},
		"a kubelet that starts too early": func(r *rehearsal) { r.onKubelet() },
	} {
		t.Run(name, func(t *testing.T) {
			found := &recorder{TB: t}
			r := rehearse(t, scenarios[0])
			r.t = found
			do(r)
			r.check(protocol.Call{Argv: []string{"sleep", "1"}})
			r.t = t
			if !found.failed {
				t.Error("the checks have nothing to say of it")
			}
		})
	}
}

// TestWeakScripts: scripts that lack one of their precautions are found out.
func TestWeakScripts(t *testing.T) {
	needNodes(t)
	fails := func(on, name string, faults []named) func(*rehearsal) {
		return func(r *rehearsal) {
			i := slices.IndexFunc(faults, func(f named) bool { return f.name == name })
			r.cloud.faults.Add(nodefixture.Fault{On: on, Times: 1, Handler: faults[i].answer})
		}
	}
	for name, c := range map[string]struct {
		weaken [2]string
		fault  func(*rehearsal)
	}{
		"a value that is not checked": {
			[2]string{`if ! grep -q -E -e "$pattern" "$target.part"; then`, "if false; then"},
			func(r *rehearsal) { fails(r.kubeconfig, "three bytes of junk", secretFaults(kubeconfigKey))(r) },
		},
		"files that everybody can read": {[2]string{"umask 077", "umask 022"}, nil},
		"a token as an argument": {
			[2]string{"--header @/etc/osm-gitops/token-header", `--header "$(cat /etc/osm-gitops/token-header)"`}, nil,
		},
		"a token in the log": {[2]string{"umask 077", "umask 077; cat /etc/osm-gitops/token-header"}, nil},
		"no certificates": {
			[2]string{"--cacert /etc/kubernetes/pki/ca.crt", "--insecure"},
			func(r *rehearsal) { r.cloud.stranger("api", 1) },
		},
		"a checksum that is not compared": {
			[2]string{`if ! is "$target.part" "$sum"; then`, "if false; then"},
			fails("/kubelet", "an HTML page", everywhere),
		},
		"a download in place": {
			[2]string{`get "$url" "$target.part"`, `get "$url" "$target"; cp "$target" "$target.part"`},
			fails("/kubelet", "half a body without a length", everywhere),
		},
		"a mark before its time": {
			[2]string{"systemctl enable setup.service\n", "touch /etc/bootstrap-complete\nsystemctl enable setup.service\n"},
			func(r *rehearsal) { r.failBefore("systemctl enable setup.service") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			found := &recorder{TB: t}
			var done sync.WaitGroup
			done.Go(func() {
				r := rehearse(found, scenarios[0].with(func(s *scenario) { s.weaken, s.everyCommand = c.weaken, true }))
				r.onSleep = func(n int) {
					if n == 5 {
						r.off()
					}
				}
				if c.fault != nil {
					c.fault(r)
				}
				faults := r.cloud.left()
				if !r.boot() {
					r.killAt, r.override = 0, nil
					r.up()
				}
				r.finished()
				if len(r.sleeps) != faults {
					found.Errorf("%d faults made %d attempts fail", faults, len(r.sleeps))
				}
			})
			done.Wait()
			if !found.failed {
				t.Error("nothing is found")
			}
		})
	}
}

// failBefore lets the power fail before a command.
func (r *rehearsal) failBefore(line string) {
	r.override = func(c protocol.Call) *protocol.Reply {
		if strings.Join(c.Argv, " ") == line {
			r.off()
			return &protocol.Reply{}
		}
		return nil
	}
}

// recorder takes note of failures.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func (r *recorder) Fatal(...any)          { r.failed = true; runtime.Goexit() }
func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }
