package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// Server is the URL of the API server in the nodes' documents.
const Server = "https://api.example.com:6443"

// Build builds the controller as "make build" does. In a soak it gets the race detector,
// with which it takes some five times the CPU; tests of cmd/ and pkg/ have that in every run. It is
// linked once for all tests, in the user's cache, which takes seconds of a processor.
func Build(ctx context.Context, path string) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	built := filepath.Join(cache, "osm-gitops", "controller")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false")
	if os.Getenv("OSM_SOAK") == "1" {
		built += "-race"
		cmd.Args = append(cmd.Args, "-race")
	} else {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	}
	cmd.Args = append(cmd.Args, "-o", filepath.Join(built, "osm-gitops"), "./cmd/osm-gitops")
	cmd.Dir = root
	if err := os.MkdirAll(built, 0o755); err != nil {
		return err
	}
	lock, err := os.Create(filepath.Join(built, "lock"))
	if err != nil {
		return err
	}
	defer lock.Close()
	// Other packages, or another tree, may build at the same time. The file that is closed is unlocked.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the controller: %w\n%s", err, out)
	}
	// Not by this process: a child that it forks meanwhile would have the file open for writing, which
	// then cannot be executed (https://go.dev/issue/22315).
	if out, err := exec.CommandContext(ctx, "cp", filepath.Join(built, "osm-gitops"), path).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the controller: %w\n%s", err, out)
	}
	return nil
}

// Install applies what an operator applies, and what kubeadm brings: cluster-info,
// with the CA of this control plane.
func Install(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if err := c.Install(ctx); err != nil {
		return err
	}
	if err := c.Apply(ctx, filepath.Join(root, "deploy/cloud-init-settings.yaml"), filepath.Join(root, "deploy/rbac.yaml"), filepath.Join(root, "deploy/controller-policy.yaml")); err != nil {
		return err
	}
	cl, err := c.NewClient()
	if err != nil {
		return err
	}
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {
		Server: Server, CertificateAuthorityData: c.Config.CAData,
	}}})
	if err != nil {
		return err
	}
	if err := cl.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": string(info)},
	}); err != nil {
		return err
	}
	return Until(ctx, time.Minute, "the token with which nodes fetch their Secrets exists", func() error {
		var secret corev1.Secret
		err := cl.Get(ctx, client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: api.SecretGetterToken}, &secret)
		if err == nil && len(secret.Data["token"]) == 0 {
			err = fmt.Errorf("the Secret %s is empty", secret.Name)
		}
		return err
	})
}

// Kubeconfig writes a kubeconfig for the ServiceAccount of deploy/rbac.yaml, valid for a day.
// Server and ca are those of the cluster, or of a proxy in front of it.
func Kubeconfig(ctx context.Context, c *cluster.Cluster, path, server string, ca []byte) error {
	cl, err := c.NewClient()
	if err != nil {
		return err
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "osm-gitops"}}
	day := int64(24 * time.Hour / time.Second)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	if err := cl.SubResource("token").Create(ctx, sa, token); err != nil {
		return err
	}
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path)
}

// Until waits for a condition, with patience.
func Until(ctx context.Context, patience time.Duration, what string, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
