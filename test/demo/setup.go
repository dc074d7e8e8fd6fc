package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// stage is everything the story plays on.
type stage struct {
	dir  string // temporary; everything of the demo is below it
	root string // of this repository

	index   string // URL of envtest's index
	sum     string // of its archive
	assets  string // folder of downloaded programs, empty if the control plane is built
	cluster *cluster.Cluster
	client  client.WithWatch
	api     kubernetes.Interface
	repo    *repository
	seen    *observer

	binary     string
	controller *process
	background sync.WaitGroup // builds that run while the rest is prepared
}

// path returns the path of a file of the demo.
func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

// log is the file with the controller's log.
func (s *stage) log() string { return s.path("controller.log") }

// strike stops everything and removes it.
func (s *stage) strike() error {
	if s.controller != nil {
		s.controller.stop()
	}
	if s.repo != nil {
		s.repo.server.StopHTTP()
	}
	if s.cluster != nil {
		s.cluster.Stop()
	}
	s.background.Wait() // a build would write into the directory
	return os.RemoveAll(s.dir)
}

// set prepares the stage.
func (s *stage) set(ctx context.Context, out *screen) error {
	controllerBuilt := s.inBackground(ctx, s.buildController)
	if err := s.obtainControlPlane(ctx, out); err != nil {
		return err
	}
	steps := []struct {
		name string
		do   func(context.Context) (string, error)
	}{
		{"control plane", s.startCluster},
		{"Git server", s.startGit},
		{"osm-gitops", controllerBuilt},
		{"installed", s.install},
		{"controller", s.startController},
	}
	for _, step := range steps {
		if err := out.step(step.name, func() (string, error) { return step.do(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// inBackground begins a step and returns one that waits for it.
func (s *stage) inBackground(ctx context.Context, step func(context.Context) (string, error)) func(context.Context) (string, error) {
	type outcome struct {
		text string
		err  error
	}
	done := make(chan outcome, 1)
	s.background.Go(func() {
		text, err := step(ctx)
		done <- outcome{text, err}
	})
	return func(context.Context) (string, error) {
		o := <-done
		return o.text, o.err
	}
}

// obtainControlPlane downloads a control plane if none is built. If that fails it builds one.
func (s *stage) obtainControlPlane(ctx context.Context, out *screen) error {
	if program.ControlPlane.IsBuilt(ctx) {
		return nil
	}
	err := out.step("download", func() (text string, err error) {
		s.assets, err = s.downloaded(ctx, s.index, s.sum, out.indented())
		return "Kubernetes " + archiveVersion + " from envtest's releases", err
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out.text(fmt.Sprintf("building the control plane, because it cannot be downloaded: %v", err))
	_, err = program.ControlPlane.Path(ctx, out.indented())
	return err
}

func (s *stage) startCluster(ctx context.Context) (string, error) {
	var c *cluster.Cluster
	var err error
	if s.assets != "" {
		c, err = s.runDownloaded(s.assets)
	} else {
		c, err = cluster.Run(ctx, s.path("cluster"), cluster.Options{}, os.Stderr)
	}
	if err != nil {
		return "", err
	}
	s.cluster = c
	if s.api, err = kubernetes.NewForConfig(c.Config); err != nil {
		return "", err
	}
	version, err := s.api.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("asking the API server for its version: %w", err)
	}
	return fmt.Sprintf("Kubernetes %s at %s", version.GitVersion, c.URL), nil
}

func (s *stage) startGit(ctx context.Context) (string, error) {
	var err error
	if s.repo, err = serve(ctx, s.dir); err != nil {
		return "", err
	}
	return s.repo.url, nil
}

func (s *stage) buildController(ctx context.Context) (string, error) {
	s.binary = s.path("osm-gitops")
	err := program.Controller(ctx, s.binary)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return "built from this tree", err
}

// install applies what an operator applies, and what machine-controller and kubeadm
// would bring.
func (s *stage) install(ctx context.Context) (string, error) {
	if err := s.cluster.Install(ctx); err != nil {
		return "", err
	}
	if err := s.cluster.Apply(ctx, filepath.Join(s.root, "deploy/cloud-init-settings.yaml"), filepath.Join(s.root, "deploy/rbac.yaml"), filepath.Join(s.root, "deploy/controller-policy.yaml")); err != nil {
		return "", err
	}
	var err error
	if s.client, err = s.cluster.NewClient(); err != nil {
		return "", err
	}
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {
		Server: s.cluster.URL, CertificateAuthorityData: s.cluster.Config.CAData,
	}}})
	if err != nil {
		return "", err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": string(info)},
	}
	if err := s.client.Create(ctx, cm); err != nil {
		return "", fmt.Errorf("creating cluster-info: %w", err)
	}
	if s.assets != "" {
		if err := s.issueGetterToken(ctx); err != nil {
			return "", err
		}
	}
	if s.seen, err = observe(ctx, s.cluster.Config); err != nil {
		return "", err
	}
	err = s.seen.until(ctx, "the token with which nodes fetch their Secrets", func() string {
		secret, _, ok := get[*corev1.Secret](s.seen, api.NamespaceCloudInitSettings, api.SecretGetterToken)
		if ok && len(secret.Data["token"]) > 0 {
			return ""
		}
		return "kube-controller-manager has not filled Secret " + api.SecretGetterToken
	})
	return "kinds, cloud-init-settings.yaml and rbac.yaml of deploy/", err
}

// startController runs the binary with the rights of deploy/rbac.yaml.
func (s *stage) startController(ctx context.Context) (string, error) {
	kubeconfig := s.path("controller.kubeconfig")
	if err := s.writeKubeconfig(ctx, kubeconfig); err != nil {
		return "", err
	}
	health, err := testenv.FreeAddress()
	if err != nil {
		return "", err
	}
	metrics, err := testenv.FreeAddress()
	if err != nil {
		return "", err
	}
	log, err := os.Create(s.log())
	if err != nil {
		return "", err
	}
	defer log.Close()
	cmd := exec.Command(s.binary, "controller",
		"--kubeconfig", kubeconfig, "--namespace", metav1.NamespaceSystem,
		"--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8", "--cache-dir", s.path("mirrors"),
		"--health-probe-address", health, "--metrics-address", metrics, "--webhook-address", "0")
	cmd.Stdout, cmd.Stderr = log, log
	if s.controller, err = start(cmd); err != nil {
		return "", fmt.Errorf("starting the controller: %w", err)
	}
	return "runs with the rights of deploy/rbac.yaml and no others", nil
}

// controllerEnded cancels the demo if the controller exits.
func (s *stage) controllerEnded(ctx context.Context, tell context.CancelCauseFunc) {
	select {
	case <-s.controller.exited:
		tell(fmt.Errorf("the controller ended: %w", errors.Join(s.controller.err, errEnded)))
	case <-ctx.Done():
	}
}

var errEnded = errors.New("the controller exited before the demo stopped it")

// writeKubeconfig writes a kubeconfig of ServiceAccount kube-system/osm-gitops.
func (s *stage) writeKubeconfig(ctx context.Context, path string) error {
	const name, lifetime = "osm-gitops", int64(24 * time.Hour / time.Second)
	expires := lifetime
	token, err := s.api.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &expires}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("asking for a token of ServiceAccount %s: %w", name, err)
	}
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: s.cluster.URL, CertificateAuthorityData: s.cluster.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
}

// applySource applies examples/profilesource.yaml with the demo's URL.
func (s *stage) applySource(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(s.root, "examples/profilesource.yaml"))
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(b, &o.Object); err != nil {
		return fmt.Errorf("reading examples/profilesource.yaml: %w", err)
	}
	if err := unstructured.SetNestedField(o.Object, s.repo.url, "spec", "git", "url"); err != nil {
		return err
	}
	return s.cluster.ApplyObjects(ctx, o)
}

// applyPools applies examples/pools and returns the pools.
func (s *stage) applyPools(ctx context.Context) error {
	return s.cluster.Apply(ctx, filepath.Join(s.root, "examples/pools"))
}
