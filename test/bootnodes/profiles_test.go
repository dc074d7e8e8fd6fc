package bootnodes_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinesapi "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
)

// rehearsal is a machine with what the controller has written for its pool.
type rehearsal struct {
	*machine
	pool                    string
	bootstrap, provisioning *corev1.Secret
	// documents are what the machine boots from, and what it fetches.
	documents []string
	// kubeconfig is the Secret with the kubelet's first.
	kubeconfig string
	owner      types.UID // the Machine
}

var fetchesKubeconfig = regexp.MustCompile(`fetch-secret (\S+) kubeconfig`)

// rehearse creates a pool if it does not exist, and a machine of it that is switched off.
func rehearse(t *testing.T, s *system, pool, suffix string) *rehearsal {
	t.Helper()
	c := theCloud(t)
	r := &rehearsal{pool: pool}
	r.bootstrap, r.provisioning = c.makePool(t, pool, s)
	name := pool + "-7d9f4-" + suffix
	r.machine = newMachine(t, c, s, name, forMachine(r.bootstrap.Data[configKey], name))
	r.expects(r.provisioning)
	all := files(t, r.documents...)
	if fetched := fetchesKubeconfig.FindStringSubmatch(all["/opt/bin/setup"].Content); fetched != nil {
		r.kubeconfig = fetched[1]
	} else if s.pool == nil { // a user's profile can do this differently
		t.Fatal("no kubeconfig is fetched")
	}
	if s.virtual {
		r.inMachine()
	}
	r.owner = c.machineObject(t, pool, name).UID
	return r
}

// expects says which provisioning stage the machine will fetch.
func (r *rehearsal) expects(provisioning *corev1.Secret) {
	r.t.Helper()
	r.provisioning = provisioning
	r.documents = []string{r.document, string(provisioning.Data[configKey])}
	if !r.system.virtual {
		r.inContainer(files(r.t, r.documents...)["/etc/systemd/system/kubelet.service"].Content)
	}
}

// inContainer lets the profile's unit start a kubelet that bears with a container. The drop-in is
// where packages have theirs: the node reports those of its administrator.
func (r *rehearsal) inContainer(unit string) {
	r.t.Helper()
	_, command, ok := strings.Cut(unit, "\nExecStart=")
	if !ok {
		r.t.Fatalf("kubelet.service has no ExecStart=:\n%s", unit)
	}
	var lines []string
	for line := range strings.Lines(command) {
		lines = append(lines, strings.TrimRight(line, "\\\n "))
		if !strings.HasSuffix(line, "\\\n") {
			break
		}
	}
	r.write("/usr/lib/systemd/system/kubelet.service.d/90-rehearsal.conf", "[Service]\nExecStartPre=/usr/local/sbin/rehearsal-kernel\nExecStart=\nExecStart="+
		strings.Join(lines, " ")+" --config-dir=/etc/kubernetes/kubelet.conf.d\n", 0o644)
}

// isNode waits until the machine is a Node with a signed certificate that reports its
// configuration.
func (r *rehearsal) isNode() {
	r.t.Helper()
	node := r.joins()
	// machine-controller finds the Node of a Machine, and says so.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+api.LabelOwnedBy+`":"`+string(r.owner)+`"}}}`))
	if err := r.cloud.client.Patch(r.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, patch); err != nil {
		r.t.Fatal(err)
	}
	joined := client.RawPatch(types.MergePatchType, []byte(`{"status":{"nodeRef":{"name":"`+node.Name+`","uid":"`+string(node.UID)+`"}}}`))
	machine := &machinesapi.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: r.cloud.namespace, Name: r.name}}
	if err := r.cloud.client.Status().Patch(r.t.Context(), machine, joined); err != nil {
		r.t.Fatal(err)
	}
	r.certified()
	r.comesFrom(node, r.provisioning, r.system.profile)
}

// finished waits until the machine has become a complete node, and checks all of it.
func (r *rehearsal) finished() {
	r.t.Helper()
	r.isNode()
	r.running()
	if !r.system.is(coreOS) { // Flatcar writes its links at every boot
		r.cloud.eventually(r.t, "setup.service has done its work", func() error {
			for _, unit := range []string{"bootstrap.service", "setup.service"} {
				if r.exists("/etc/systemd/system/multi-user.target.wants/" + unit) {
					return errors.New(unit + " is enabled")
				}
			}
			return nil
		})
	}
	r.unitsAreRight()
	r.hasWhatWasRendered()
	for _, want := range r.system.kernel {
		if !strings.Contains(r.read(kernelRecord), want+"\n") {
			r.t.Errorf("%q was not run", want)
		}
	}
}

// hasWhatWasRendered: its files equal those of the documents, and only root can read their
// credentials.
func (r *rehearsal) hasWhatWasRendered() {
	r.t.Helper()
	r.hasFiles(r.files())
	r.keepsSecrets(append(r.tokens(), r.bootstrapToken())...)
}

// tokens are the API server's in its documents.
func (r *rehearsal) tokens() []string {
	r.t.Helper()
	documents := r.documents
	if r.system.is(coreOS) { // it is in the first only
		documents = documents[:1]
	}
	var tokens []string
	for _, document := range documents {
		tokens = append(tokens, token(r.t, document))
	}
	return tokens
}

// bootstrapToken is the credential in the kubelet's first kubeconfig.
func (r *rehearsal) bootstrapToken() string {
	r.t.Helper()
	_, token, ok := strings.Cut(r.read("/etc/kubernetes/bootstrap-kubelet.conf"), "token: ")
	if !ok {
		r.t.Fatal("bootstrap-kubelet.conf has no token")
	}
	return strings.Fields(token)[0]
}

// files are what documents leave on the machine: Flatcar's bootstrap stage removes the
// unit that has run it.
func (r *rehearsal) files() map[string]written {
	r.t.Helper()
	all := files(r.t, r.documents...)
	if r.system.is(flatcar) {
		maps.DeleteFunc(all, func(path string, _ written) bool {
			return strings.HasPrefix(path, "/etc/systemd/system/bootstrap.service")
		})
	}
	return all
}

// unitsAreRight: the machine's own systemd has no complaint about the units, now that all programs
// that they start are installed. test/profiles checks every combination of settings with the
// systemd of this machine.
func (r *rehearsal) unitsAreRight() {
	r.t.Helper()
	verify := []string{"systemd-analyze", "verify", "--man=no"}
	for path := range r.files() {
		if name, ok := strings.CutPrefix(path, "/etc/systemd/system/"); ok && !strings.Contains(name, "/") {
			verify = append(verify, name)
		}
	}
	slices.Sort(verify[3:])
	if out, err := r.run(verify...); err != nil || out != "" {
		r.t.Errorf("%q: %v\n%s", verify, err, out)
	}
}

// names are the common names in certificates.
func names(t *testing.T, text []byte) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all[c.Subject.CommonName] = true
	}
	return all
}

// TestProfiles: from a commit to a Node that is Ready and says so, and notices what is changed on it.
// With every profile in a soak, and with two otherwise: Ubuntu's newer cloud-init and systemd boot
// to the end in the test of the fault api-away.
func TestProfiles(t *testing.T) {
	onlyOurs(t)
	for _, s := range systems {
		if !nodefixture.Booted(s.profile) || s == trixie && !soak {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := rehearse(t, s, s.name, "first")
			start := time.Now()
			r.on()
			node := r.joins()
			t.Logf("%s: a Node that is Ready %.1f s after it was switched on, %.1f s after it was made", s.name, time.Since(start).Seconds(), time.Since(node.CreationTimestamp.Time).Seconds())
			r.finished()
			if out, err := r.run("test", "!", "-s", "/run/osm-gitops/sent", "-a", "!", "-e", "/var/log/boot-reports"); err != nil {
				t.Errorf("a healthy boot has sent reports: %v %s", err, out)
			}
			func() {
				trees.Lock()
				defer trees.Unlock()
				r.remember()
			}()
			if s == bookworm || soak {
				r.tellsChanges()
			}
		})
	}
}
