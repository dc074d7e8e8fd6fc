package bootnodes_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/nodefixture"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// written is the expected state of a file on a machine.
type written struct {
	Mode    string
	Content string
}

// files returns the files of documents; a later document wins over an earlier one.
func files(t *testing.T, documents ...string) map[string]written {
	t.Helper()
	all := map[string]written{}
	for _, text := range documents {
		d, err := nodefixture.Parse([]byte(text))
		if err != nil || len(d.Files) == 0 {
			t.Fatalf("a document with %+v: %v", d, err)
		}
		list := d.Files
		for _, u := range d.Units {
			list = append(list, u.Files()...)
		}
		for _, f := range list {
			all[f.Path] = written{fmt.Sprintf("%04o", f.Mode), string(f.Content)}
		}
	}
	return all
}

// hasFiles: every file equals the rendered one, byte for byte, with its mode.
func (m *machine) hasFiles(want map[string]written) {
	m.t.Helper()
	for path, w := range want {
		info, err := os.Lstat(m.path(path))
		if err != nil || !info.Mode().IsRegular() {
			m.t.Errorf("%s is no file: %v", path, err)
			continue
		}
		got := written{fmt.Sprintf("%04o", info.Mode().Perm()), m.read(path)}
		if diff := cmp.Diff(w, got); diff != "" {
			m.t.Errorf("%s (-rendered +on the machine):\n%s", path, diff)
		}
	}
}

// running: systemd is done with the boot, and no unit has failed.
func (m *machine) running() {
	m.t.Helper()
	var state string
	m.cloud.eventually(m.t, m.name+" has booted", func() error {
		var err error
		// It ends with 1 for every state but "running". The machine may just be going off.
		if state, err = m.run("systemctl", "is-system-running"); !slices.Contains([]string{"running", "degraded", "maintenance"}, state) {
			return fmt.Errorf("it is %q: %w", state, err)
		}
		return nil
	})
	if state != "running" {
		failed, _ := m.run("systemctl", "list-units", "--failed", "--no-legend", "--plain") // says so itself
		m.t.Errorf("%s is %s: %s", m.name, state, failed)
	}
}

// keepsSecrets: no secret is in the systemd journal, in the arguments of a process, or in a file
// that users other than root can read (security.md 15).
func (m *machine) keepsSecrets(secrets ...string) {
	m.t.Helper()
	journal := m.journal("export")
	m.cloud.mu.Lock()
	seenArguments := maps.Clone(m.cloud.seen)
	m.cloud.mu.Unlock()
	// The processes of a machine with a kernel of its own are not seen from here.
	if len(seenArguments) < 20 && !m.system.virtual {
		m.t.Errorf("the arguments of %d processes were seen only", len(seenArguments))
	}
	for i, secret := range secrets {
		if len(secret) < 16 {
			m.t.Fatalf("secret %d has %d characters", i, len(secret))
		}
		if strings.Contains(journal, secret) {
			m.t.Errorf("the journal has secret %d", i)
		}
		for args := range seenArguments {
			if strings.Contains(args, secret) {
				m.t.Errorf("secret %d is an argument of %q", i, strings.ReplaceAll(args, secret, "SECRET"))
			}
		}
	}
	seen := 0
	err := filepath.WalkDir(m.upper, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && info.Mode().Perm()&0o001 == 0:
			return fs.SkipDir // others do not get in
		case !info.Mode().IsRegular() || info.Mode().Perm()&0o004 == 0 || info.Size() > 8<<20:
			return nil
		}
		seen++
		b, err := os.ReadFile(path)
		for i, secret := range secrets {
			if bytes.Contains(b, []byte(secret)) {
				m.t.Errorf("%s has mode %v and secret %d", strings.TrimPrefix(path, m.upper), info.Mode(), i)
			}
		}
		return err
	})
	if err != nil || seen < 20 {
		m.t.Errorf("looked at %d files: %v", seen, err)
	}
}

// joins waits until the machine is a Node that is Ready, and says what a Node of ours
// says. It returns it.
func (m *machine) joins() *corev1.Node {
	m.t.Helper()
	node := &corev1.Node{}
	var looked time.Time
	m.cloud.eventually(m.t, m.name+" is a Node and Ready", func() error {
		if m.system.pool != nil && time.Since(looked) > time.Second {
			m.despairs()
			looked = time.Now()
		}
		if err := m.cloud.client.Get(m.t.Context(), client.ObjectKey{Name: m.name}, node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
	})
	want := program.KubernetesVersion
	if !soak { // what was downloaded says of itself what it was downloaded as
		kubelet, _, _ := unstructured.NestedString(m.system.object("").Object, "spec", "template", "spec", "versions", "kubelet")
		want = "v" + strings.TrimPrefix(kubelet, "v")
	}
	if v := node.Status.NodeInfo.KubeletVersion; v != want {
		m.t.Errorf("its kubelet is %s, want %s", v, want)
	}
	if v := node.Status.NodeInfo.ContainerRuntimeVersion; !strings.HasPrefix(v, "containerd://") {
		m.t.Errorf("its runtime is %s", v)
	}
	return node
}

// certified: the kubelet has asked for its certificate with its pool's bootstrap token,
// and got it from the cluster.
func (m *machine) certified() {
	m.t.Helper()
	var list certificatesv1.CertificateSigningRequestList
	if err := m.cloud.client.List(m.t.Context(), &list); err != nil {
		m.t.Fatal(err)
	}
	for _, csr := range list.Items {
		if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || !bytes.Contains(csr.Status.Certificate, []byte("BEGIN CERTIFICATE")) {
			continue
		}
		if names(m.t, csr.Status.Certificate)["system:node:"+m.name] {
			if !strings.HasPrefix(csr.Spec.Username, "system:bootstrap:") {
				m.t.Errorf("%s asked for the certificate of %s", csr.Spec.Username, m.name)
			}
			return
		}
	}
	m.t.Errorf("none of %d requests is one of %s that was signed", len(list.Items), m.name)
}

// comesFrom: the Node says which commit it comes from, and so does its NodeProvenance,
// on the Node's own word.
func (m *machine) comesFrom(node *corev1.Node, provisioning *corev1.Secret, profile string) {
	m.t.Helper()
	for key, want := range map[string]string{
		api.LabelCommit:  m.cloud.commit,
		api.LabelProfile: profile,
		api.LabelVersion: provisioning.Annotations[api.AnnotationVersion],
		api.LabelConfig:  render.ShortDigest(provisioning.Annotations[api.AnnotationInputDigest]),
	} {
		if node.Labels[key] != want || want == "" {
			m.t.Errorf("label %s is %q, want %q", key, node.Labels[key], want)
		}
	}
	m.cloud.eventually(m.t, "it is known which commit "+m.name+" comes from", func() error {
		var np api.NodeProvenance
		if err := m.cloud.client.Get(m.t.Context(), client.ObjectKey{Name: lineage.ProvenanceName(node.Name, node.UID)}, &np); err != nil {
			return err
		}
		if c := np.Spec.Configuration; c == nil || np.Spec.Evidence != api.EvidenceReported || c.Commit != m.cloud.commit || c.Profile != profile {
			return fmt.Errorf("got %+v of %+v", c, np.Spec)
		}
		return nil
	})
}

var bearer = regexp.MustCompile(`Authorization: Bearer (\S+)`)

// token is the credential with which a document lets a machine fetch Secrets.
func token(t *testing.T, document string) string {
	t.Helper()
	for _, f := range files(t, document) {
		if found := bearer.FindStringSubmatch(f.Content); found != nil {
			return found[1]
		}
	}
	t.Fatal("a document has no token")
	return ""
}
