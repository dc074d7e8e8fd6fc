package testenv

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/deploy"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// Server is the URL of the API server in the nodes' documents.
const Server = "https://api.example.com:6443"

// Install applies what an operator applies, and what kubeadm brings: cluster-info,
// with the CA of this control plane.
func Install(ctx context.Context, c *cluster.Cluster) error {
	root, err := program.Root()
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

// InstallWebhooks applies deploy/webhook.yaml with an address in place of the Service, which no API
// server outside a cluster's network reaches. The controller needs --webhook-address with the
// address and --webhook-hosts with its host.
func InstallWebhooks(ctx context.Context, c *cluster.Cluster, address string) error {
	objects, err := deploy.Objects("webhook.yaml")
	if err != nil {
		return err
	}
	for _, o := range objects {
		webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
		if err != nil || len(webhooks) == 0 {
			continue
		}
		for _, w := range webhooks {
			webhook := w.(map[string]any)
			path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			if err != nil || !found {
				return fmt.Errorf("deploy/webhook.yaml: webhook %v has no path of a Service: %w", webhook["name"], err)
			}
			webhook["clientConfig"] = map[string]any{"url": "https://" + address + path}
		}
		if err := unstructured.SetNestedSlice(o.Object, webhooks, "webhooks"); err != nil {
			return err
		}
	}
	return c.ApplyObjects(ctx, objects...)
}

// Kubeconfig writes a kubeconfig for the ServiceAccount of deploy/rbac.yaml, valid for a day.
// Server and ca are those of the cluster, or of a proxy in front of it.
func Kubeconfig(ctx context.Context, c *cluster.Cluster, path, server string, ca []byte) error {
	token, err := Token(ctx, c, "osm-gitops")
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server, CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path)
}

// Token returns a token of a ServiceAccount in kube-system, valid for a day.
func Token(ctx context.Context, c *cluster.Cluster, account string) (string, error) {
	cl, err := c.NewClient()
	if err != nil {
		return "", err
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: account}}
	day := int64(24 * time.Hour / time.Second)
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}
	err = cl.SubResource("token").Create(ctx, sa, token)
	return token.Status.Token, err
}

// Await waits for a condition in a test, also in its clean-ups, and ends the test if that is in vain.
func Await(t testing.TB, patience time.Duration, what string, condition func() error) {
	t.Helper()
	if err := Until(context.WithoutCancel(t.Context()), patience, what, condition); err != nil {
		t.Fatal(err)
	}
}

// Until waits for a condition, with patience.
func Until(ctx context.Context, patience time.Duration, what string, condition func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := 25 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(pause):
		}
	}
}
