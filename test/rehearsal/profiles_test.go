package rehearsal_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// rehearsal is a machine with what the controller has written for its pool.
type rehearsal struct {
	*machine
	bootstrap, provisioning *corev1.Secret
	// documents are what the machine boots from, and what it fetches.
	documents []string
	// kubeconfig is the Secret with the kubelet's first.
	kubeconfig string
	owner      types.UID // the Machine
	stop       context.CancelFunc
}

// rehearse makes a pool, and a machine of it that is switched off.
func rehearse(t *testing.T, image, pool string) *rehearsal {
	t.Helper()
	c := theCloud(t)
	r := &rehearsal{}
	r.bootstrap, r.provisioning = c.pool(t, pool, "osp-ubuntu", "ubuntu")
	name := pool + "-7d9f4-x2x7p"
	r.documents = []string{forMachine(r.bootstrap.Data[configKey], name), string(r.provisioning.Data[configKey])}
	fetched := regexp.MustCompile(`fetch-secret (\S+) kubeconfig`).FindStringSubmatch(r.documents[1])
	if fetched == nil {
		t.Fatal("no kubeconfig is fetched")
	}
	r.kubeconfig = fetched[1]
	r.machine = newMachine(t, c, image, name)
	r.userData(r.documents[0])
	r.inContainer(files(t, r.documents...)["/etc/systemd/system/kubelet.service"].Content)
	r.owner = c.machineObject(t, pool, name).UID
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	go r.watch(ctx)
	return r
}

// inContainer lets the profile's unit start a kubelet that bears with a container.
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
	r.write("/etc/systemd/system/kubelet.service.d/90-rehearsal.conf", "[Service]\nExecStartPre=/usr/local/sbin/rehearsal-kernel\nExecStart=\nExecStart="+
		strings.Join(lines, " ")+" --config-dir=/etc/kubernetes/kubelet.conf.d\n", 0o644)
}

// finished waits until the machine is a node as it is to be, and looks at all of it.
func (r *rehearsal) finished() {
	r.t.Helper()
	node := r.joins()
	// machine-controller finds the Node of a Machine, and says so (contract: section 12.3).
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+api.LabelOwnedBy+`":"`+string(r.owner)+`"}}}`))
	if err := r.cloud.client.Patch(r.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, patch); err != nil {
		r.t.Fatal(err)
	}
	r.running()
	r.certified()
	r.comesFrom(node, r.provisioning, "osp-ubuntu")
	r.cloud.eventually(r.t, "setup.service has done its work", func() error {
		_, err := r.run("sh", "-c", "! systemctl is-enabled --quiet setup.service && ! systemctl is-enabled --quiet bootstrap.service")
		return err
	})
	r.stop()
	r.hasFiles(files(r.t, r.documents...))
	secrets := tokens(r.t, r.documents...)
	if _, token, ok := strings.Cut(r.read("/etc/kubernetes/bootstrap-kubelet.conf"), "token: "); ok {
		secrets = append(secrets, strings.Fields(token)[0])
	} else {
		r.t.Error("bootstrap-kubelet.conf has no token")
	}
	r.keepsSecrets(secrets...)
	for _, want := range []string{"modprobe br_netfilter", "sysctl --quiet --system", "swapoff -a"} {
		if !strings.Contains(r.read(kernelRecord), want+"\n") {
			r.t.Errorf("%q was not run", want)
		}
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

// TestUbuntu: from a commit to a Node that is Ready and says so, on two generations of
// cloud-init and systemd.
func TestUbuntu(t *testing.T) {
	for _, image := range images {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			r := rehearse(t, image, "ubuntu-"+image)
			start := time.Now()
			r.on()
			node := r.joins()
			t.Logf("a Node that is Ready %.1f s after it was switched on, %.1f s after it was made", time.Since(start).Seconds(), time.Since(node.CreationTimestamp.Time).Seconds())
			r.finished()
		})
	}
}
