package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"
)

// certificate returns the file with the kubelet's certificate and key, at the path that a kubelet
// uses. If the file does not exist it requests a certificate from the cluster.
func (k *kubelet) certificate(ctx context.Context) (string, error) {
	store, err := certificate.NewFileStore("kubelet-client", k.certificates, k.certificates, "", "")
	if err != nil {
		return "", err
	}
	path := store.CurrentPath()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", k.bootstrap)
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + k.name},
	}, key)
	if err != nil {
		return "", err
	}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}), "",
		certificatesv1.KubeAPIServerClientKubeletSignerName, nil, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, key)
	if err != nil {
		return "", fmt.Errorf("cannot create certificate signing request: %w", err)
	}
	signed, err := csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return "", err
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(k.kubeconfig), 0o750); err != nil {
		return "", err
	}
	_, err = store.Update(signed, private)
	return path, err
}

// register creates the Node if it does not exist.
func (k *kubelet) register(ctx context.Context, client kubernetes.Interface) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.name, Labels: map[string]string{
		corev1.LabelHostname: k.name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
	}}}
	for label := range strings.SplitSeq(k.labels, ",") {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return fmt.Errorf("--node-labels: %q is not a label", label)
		}
		node.Labels[key] = value
	}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // a kubelet sets labels only when it makes its Node
	}
	return err
}

// report says that the Node is Ready.
func (k *kubelet) report(ctx context.Context, client kubernetes.Interface) error {
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: k.address}, {Type: corev1.NodeHostName, Address: k.name}},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "a stand-in is posting ready status",
			LastHeartbeatTime: now, LastTransitionTime: now,
		}},
		NodeInfo: corev1.NodeSystemInfo{
			KubeletVersion: version(), ContainerRuntimeVersion: "containerd://stand-in", OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
		},
	}})
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, k.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
