package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"golang.org/x/sys/unix"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// indexPatience is how long envtest's index has to answer before the control plane is built.
const indexPatience = 5 * time.Second

// archiveVersion is a release in envtest's index, which does not have every release of Kubernetes.
const archiveVersion = "v1.36.2"

// archiveSums are the SHA-512 sums of its archives for Linux, as
// https://github.com/sloper-ai/cucina/blob/603bf9d75ebb75d400faa39dbe9f9357fcc4752e/tools/pinned.bzl
// has them from envtest's index.
var archiveSums = map[string]string{
	"amd64": "ea743186c8a799f5cf8faf16969f86189d003cb7d130e0ac4b58789f1e5748dcf30ebe91c837a10d5ac415383da3e10b9e64d65785c938c23e739781cfb76f08",
	"arm64": "2d72ee985a8e262a3c57dc9f7f0fd891f6a8c7bf7ebaa2db6dc6d8eac8ae28181afe51c1f368b67756cdb40b10de9b205609e1726e5f27f7c6d824dd9c6649ac",
}

// startPatience bounds the start of a downloaded control plane on a machine that compiles meanwhile.
const startPatience = 2 * time.Minute

// downloadedPrograms are those that start runs.
var downloadedPrograms = []string{"etcd", "kube-apiserver"}

// assetsEnv names the folder of the downloaded programs for startDownloaded.
const assetsEnv = "OSM_DEMO_ASSETS"

// startDownloaded becomes a downloaded program if this program was started by the name of one. The
// kernel then kills it with the demo: envtest does not ask for that.
func startDownloaded() error {
	name := filepath.Base(os.Args[0])
	dir := os.Getenv(assetsEnv)
	if dir == "" || name != downloadedPrograms[0] && name != downloadedPrograms[1] {
		return nil
	}
	runtime.LockOSThread() // the signal belongs to the thread that calls exec
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return syscall.Exec(filepath.Join(dir, name), os.Args, os.Environ())
}

// downloaded returns the folder with kube-apiserver and etcd of archiveVersion, in the user's cache. It
// downloads them the first time, and verifies the sum of the archive.
func (s *stage) downloaded(ctx context.Context, index, sum string, progress io.Writer) (string, error) {
	if sum == "" {
		return "", fmt.Errorf("the sum of envtest's archive for %s is not known here", runtime.GOARCH)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	parent := filepath.Join(cache, "osm-gitops", "envtest")
	dir := filepath.Join(parent, archiveVersion)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := answers(ctx, index); err != nil {
		return "", err
	}
	downloader, err := program.Envtest.Path(ctx, progress)
	if err != nil {
		return "", err
	}
	partial, err := os.MkdirTemp(parent, "partial-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(partial)
	unpacked, err := output(ctx, s.dir, nil, downloader, "-index", index, "-version", archiveVersion, "-sum", sum, "-dir", partial)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(unpacked, 0o755); err != nil { // only a writable folder can be moved or removed
		return "", err
	}
	for _, name := range downloadedPrograms {
		if _, err := os.Stat(filepath.Join(unpacked, name)); err != nil {
			return "", fmt.Errorf("the archive of envtest: %w", err)
		}
	}
	err = os.Rename(unpacked, dir)
	if _, found := os.Stat(dir); found == nil {
		return dir, nil // possibly of another demo that was faster
	}
	return "", err
}

// answers reports whether a URL can be read.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, indexPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// runDownloaded starts the downloaded programs.
func (s *stage) runDownloaded(assets string) (*cluster.Cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	other := false // whatever USE_EXISTING_CLUSTER says
	env := &envtest.Environment{UseExistingCluster: &other, ControlPlaneStartTimeout: startPatience, ControlPlaneStopTimeout: stopPatience}
	apiServer := env.ControlPlane.GetAPIServer()
	env.ControlPlane.Etcd = &envtest.Etcd{DataDir: s.path("cluster/etcd")}
	apiServer.CertDir = s.path("cluster/pki")
	for _, dir := range []string{env.ControlPlane.Etcd.DataDir, apiServer.CertDir, s.path("downloaded")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	for i, path := range []*string{&env.ControlPlane.Etcd.Path, &apiServer.Path} {
		*path = s.path(filepath.Join("downloaded", downloadedPrograms[i]))
		if err := os.Symlink(self, *path); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(s.path("cluster/downloaded.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	env.ControlPlane.Etcd.Out, env.ControlPlane.Etcd.Err, apiServer.Out, apiServer.Err = log, log, log, log
	if err := os.Setenv(assetsEnv, assets); err != nil {
		return nil, err
	}
	apiServer.Configure().
		Set("advertise-address", "127.0.0.1"). // there may be no default route
		Set("enable-bootstrap-token-auth", "true")
	config, err := env.Start()
	if err != nil {
		err = fmt.Errorf("starting the downloaded control plane: %w: delete %s to download it again\n%s", err, assets, tail(log.Name(), logLines))
		return nil, errors.Join(err, env.Stop())
	}
	s.cluster = cluster.Attach(config, filepath.Join(apiServer.CertDir, "admin.kubeconfig"), s.path("cluster"), func() {
		_ = env.Stop() // it kills what does not end in time, and reports that as an error
	})
	return s.cluster, os.WriteFile(s.cluster.Kubeconfig, env.KubeConfig, 0o600)
}

// issueGetterToken does what kube-controller-manager does for the Secret with the token of nodes:
// envtest has none.
func (s *stage) issueGetterToken(ctx context.Context) error {
	key := client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: api.SecretGetterToken}
	var secret corev1.Secret
	if err := s.client.Get(ctx, key, &secret); err != nil {
		return err
	}
	token, err := s.api.CoreV1().ServiceAccounts(key.Namespace).CreateToken(ctx, secret.Annotations[corev1.ServiceAccountNameKey],
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("issuing the token of Secret %s: %w", key, err)
	}
	secret.Data = map[string][]byte{
		corev1.ServiceAccountTokenKey:     []byte(token.Status.Token),
		corev1.ServiceAccountRootCAKey:    s.cluster.Config.CAData,
		corev1.ServiceAccountNamespaceKey: []byte(key.Namespace),
	}
	return s.client.Update(ctx, &secret)
}
