package bootnodes_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/gittestserver"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinesapi "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/profiles"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// Addresses of the cloud. The first is one that the API server's certificate names.
const (
	apiAddress        = "10.96.0.1"
	apiPort           = "6443"
	publishersAddress = "10.96.0.2"
)

// Of the controller, and of the server of its profiles.
const (
	auditLog    = "/run/audit.log"
	pageAddress = "127.0.0.1:8080"
	gitRoot     = "/run/git"
)

// configKey is the key of a document in its Secret.
const configKey = "cloud-config"

// cloud is what machines can reach, and what decides about them: the API server with
// the controller, and the publishers. It lives as long as the tests.
type cloud struct {
	cluster    *cluster.Cluster
	client     client.WithWatch
	front      *front
	publishers *publishers
	git        string // address of the Git server, which has repositories by folder
	repo       *testenv.Repository
	commit     string // that git rev-parse HEAD prints
	namespace  string // of the pools
	log        string

	mu       sync.Mutex
	networks int
	seen     map[string]bool // arguments of processes, of all machines
}

var shared struct {
	sync.Mutex
	cloud *cloud
	err   error
}

// theCloud is the one of all tests.
func theCloud(t *testing.T) *cloud {
	t.Helper()
	need(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.cloud == nil && shared.err == nil {
		shared.cloud, shared.err = newCloud(context.WithoutCancel(t.Context()), cluster.Shared(t))
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cloud
}

func newCloud(ctx context.Context, cp *cluster.Cluster) (*cloud, error) {
	c := &cloud{cluster: cp, namespace: "rehearsal", log: "/run/controller.log", seen: map[string]bool{}}
	go c.watch()
	var err error
	if c.client, err = cp.NewClient(); err != nil {
		return nil, err
	}
	if c.publishers, err = newPublishers(ctx); err != nil {
		return nil, err
	}
	if err := testenv.Install(ctx, cp); err != nil {
		return nil, err
	}
	if err := c.openFront(); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{c.announce, c.admitNodes, c.startController, c.offerProfiles} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// nextNetwork is the number of a network that no machine has.
func (c *cloud) nextNetwork() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.networks++
	return c.networks
}

// openFront puts something before the API server that can break.
func (c *cloud) openFront() error {
	to, err := url.Parse(c.cluster.URL)
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(c.cluster.Dir, "pki", "apiserver.crt"), filepath.Join(c.cluster.Dir, "pki", "apiserver.key"))
	if err != nil {
		return err
	}
	stranger, _, err := selfSigned("kubernetes", apiAddress)
	if err != nil {
		return err
	}
	c.front = &front{address: apiAddress + ":" + apiPort, to: to, certificate: certificate, stranger: stranger, ca: c.cluster.Config.CAData}
	return c.front.open()
}

// watch notes the arguments of all processes, until the tests end.
func (c *cloud) watch() {
	for {
		// Not /proc/[0-9]*/cmdline: Glob would list every folder, which takes four times as long.
		processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
		for _, dir := range processes {
			if b, err := os.ReadFile(dir + "/cmdline"); err == nil && len(b) > 0 {
				c.mu.Lock()
				c.seen[string(bytes.ReplaceAll(b, []byte{0}, []byte{' '}))] = true
				c.mu.Unlock()
			}
		}
		time.Sleep(50 * time.Millisecond) // to look more often takes CPU of the machines
	}
}

// announce publishes the API server's address in cluster-info, as kubeadm does.
func (c *cloud) announce(ctx context.Context) error {
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {
		Server: "https://" + c.front.address, CertificateAuthorityData: c.cluster.Config.CAData,
	}}})
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: metav1.NamespacePublic, Name: "cluster-info"}
	var cm corev1.ConfigMap
	if err := c.client.Get(ctx, key, &cm); err != nil {
		return err
	}
	cm.Data["kubeconfig"] = string(info)
	return c.client.Update(ctx, &cm)
}

// admitNodes lets those with a bootstrap token ask for a certificate and have it
// approved, as machine-controller's manifests do.
func (c *cloud) admitNodes(ctx context.Context) error {
	for name, role := range map[string]string{
		"machine-controller:kubelet-bootstrap":          "system:node-bootstrapper",
		"machine-controller:node-autoapprove-bootstrap": "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
	} {
		if err := c.client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers:machine-controller:default-node-token"}},
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *cloud) startController(ctx context.Context) error {
	server := gittestserver.NewGitServer(gitRoot)
	if err := os.Mkdir(gitRoot, 0o700); err != nil {
		return err
	}
	if err := server.StartHTTP(); err != nil {
		return err
	}
	c.git = server.HTTPAddress()
	var err error
	if c.repo, err = testenv.NewRepository(ctx, gitRoot+"/platform"); err != nil {
		return err
	}
	if err := os.Symlink("work/.git", gitRoot+"/platform/profiles.git"); err != nil {
		return err
	}
	const kubeconfig = "/run/controller.kubeconfig"
	if err := testenv.Kubeconfig(ctx, c.cluster, kubeconfig, c.cluster.URL, c.cluster.Config.CAData); err != nil {
		return err
	}
	_, err = testenv.Start(c.log, os.Getenv(controllerEnv), "controller",
		"--kubeconfig", kubeconfig, "--namespace", metav1.NamespaceSystem, "--leader-elect=false", "--health-probe-address", "0",
		"--metrics-address", "0", "--webhook-address", "0", "--disable-default-osps", "--cache-dir", "/run/mirrors",
		"--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8", "--audit-log", auditLog, "--ui-address", pageAddress)
	return err
}

// offerProfiles commits our profiles, and lets the controller have them from Git.
func (c *cloud) offerProfiles(ctx context.Context) error {
	from := profiles.FS()
	if yours := os.Getenv(yourProfileEnv); yours != "" {
		from = os.DirFS(yours) // replaces our profiles, and can use the same names
	}
	files := map[string]string{}
	names, err := fs.Glob(from, "*.yaml")
	if err != nil || len(names) == 0 {
		return fmt.Errorf("found %d profiles: %w", len(names), err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		files[name] = string(b)
	}
	if c.commit, err = c.repo.Push(ctx, files); err != nil {
		return err
	}
	if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}); err != nil {
		return err
	}
	return c.client.Create(ctx, &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "profiles"},
		Spec: api.ProfileSourceSpec{
			Git:      &api.GitSource{URL: c.git + "/platform/profiles.git", Timeout: metav1.Duration{Duration: time.Minute}},
			Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: 5 * time.Second},
		},
	})
}

// object returns the pool of a system as a user would apply it.
func (s *system) object(name string) *unstructured.Unstructured {
	if s.pool != nil {
		return s.pool.DeepCopy()
	}
	provider := map[string]any{"cloudProvider": s.provider, "cloudProviderSpec": map[string]any{}, "operatingSystem": s.os, "sshPublicKeys": []any{}}
	if s.spec != nil {
		provider["operatingSystemSpec"] = s.spec
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": machinesapi.GroupVersion.String(), "kind": "MachineDeployment",
		"metadata": map[string]any{"name": name, "annotations": map[string]any{api.AnnotationOSP: s.profile}},
		"spec": map[string]any{
			"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"pool": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"pool": name}},
				"spec": map[string]any{
					"versions":     map[string]any{"kubelet": strings.TrimPrefix(program.KubernetesVersion, "v")},
					"providerSpec": map[string]any{"value": provider},
				},
			},
		},
	}}
}

// makePool creates the pool of a system if it does not exist, and returns its documents when the
// controller has written them.
func (c *cloud) makePool(t *testing.T, name string, s *system) (bootstrap, provisioning *corev1.Secret) {
	t.Helper()
	md := s.object(name)
	md.SetNamespace(c.namespace)
	md.SetName(name)
	annotations := md.GetAnnotations()
	annotations[api.AnnotationMDRevision] = "1" // machine-controller counts
	md.SetAnnotations(annotations)
	if err := c.client.Create(t.Context(), md); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return c.documents(t, name)
}

// documents are the Secrets of a pool.
func (c *cloud) documents(t *testing.T, name string) (bootstrap, provisioning *corev1.Secret) {
	t.Helper()
	names := lineage.NamesOf(types.NamespacedName{Namespace: c.namespace, Name: name})
	get := func(secret string) *corev1.Secret {
		var s corev1.Secret
		c.eventually(t, "the controller writes the Secret "+secret, func() error {
			err := c.client.Get(t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: secret}, &s)
			if err == nil && len(s.Data[configKey]) == 0 {
				err = errors.New("it is empty")
			}
			if err != nil {
				if why := c.objection(t, name); why != "" {
					t.Fatalf("the controller writes nothing for the pool %s: correct what it tells of, then rehearse again\n%s", name, why)
				}
			}
			return err
		})
		return &s
	}
	return get(names.Bootstrap), get(names.Provisioning)
}

// eventually waits for a condition; if that is in vain, the controller's log is shown.
func (c *cloud) eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	if err := testenv.Until(t.Context(), patience, what, condition); err != nil {
		text, _ := os.ReadFile(c.log) // a missing log only shortens the message
		t.Fatalf("%v\nthe controller's log:\n%s", err, text[max(0, len(text)-8<<10):])
	}
}

var blank = regexp.MustCompile(`(?m)^[ \t]+$`)

// forMachine does what machine-controller does to a document.
func forMachine(document []byte, name string) string {
	return blank.ReplaceAllString(strings.NewReplacer("<MACHINE_NAME>", name, "%3CMACHINE_NAME%3E", url.QueryEscape(name)).Replace(string(document)), "")
}

// machineObject makes the Machine of a pool, as machine-controller does.
func (c *cloud) machineObject(t *testing.T, pool, name string) *machinesapi.Machine {
	t.Helper()
	var md machinesapi.MachineDeployment
	if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: pool}, &md); err != nil {
		t.Fatal(err)
	}
	group := machinesapi.GroupVersion.String()
	set := &machinesapi.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.namespace, Name: pool + "-7d9f4", Annotations: map[string]string{api.AnnotationMDRevision: "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: "MachineDeployment", Name: md.Name, UID: md.UID}},
	}}
	if err := c.client.Create(t.Context(), set); apierrors.IsAlreadyExists(err) {
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
			t.Fatal(err)
		}
	} else if err != nil {
		t.Fatal(err)
	}
	object := &machinesapi.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: "MachineSet", Name: set.Name, UID: set.UID}},
	}}
	if err := c.client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return object
}
