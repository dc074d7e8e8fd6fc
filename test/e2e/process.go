package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// built is the folder of the controller's binary, for TestMain to remove.
var built string

// Binary builds the controller once.
var Binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "osm-gitops-e2e-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "osm-gitops")
	return path, program.Controller(context.Background(), path)
})

// Runs runs the program to its end.
func (s *System) Runs(args ...string) (status int, stdout, stderr string) {
	s.T.Helper()
	status, stdout, stderr, err := s.Command(args...)
	if err != nil {
		s.T.Fatal(err)
	}
	return status, stdout, stderr
}

// Command is runs for any goroutine.
func (s *System) Command(args ...string) (status int, stdout, stderr string, err error) {
	path, err := Binary()
	if err != nil {
		return 0, "", "", err
	}
	cmd := exec.CommandContext(s.T.Context(), path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return 0, "", "", err
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String(), nil
}

// Start runs the controller with the rights of its ServiceAccount.
func (s *System) Start(flags ...string) {
	s.T.Helper()
	path, err := Binary()
	if err != nil {
		s.T.Fatal(err)
	}
	s.StartCommand(exec.Command(path, s.Args(s.Kubeconfig(), flags...)...))
}

// StartCommand runs a command that is, or becomes, the controller.
func (s *System) StartCommand(cmd *exec.Cmd) {
	s.T.Helper()
	s.Process = cmd
	s.Process.Stdout, s.Process.Stderr = s, s
	s.Process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.Exited = make(chan struct{})
	started := make(chan error)
	go func(cmd *exec.Cmd, exited chan struct{}) {
		runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(exited)
	}(s.Process, s.Exited)
	if err := <-started; err != nil {
		s.T.Fatal(err)
	}
}

// Args are the controller's.
func (s *System) Args(kubeconfig string, flags ...string) []string {
	return append([]string{"controller",
		"--kubeconfig", kubeconfig, "--namespace", Namespace, "--leader-elect=false",
		"--health-probe-address", "0", "--metrics-address", "0", "--webhook-address", "0", "--log-format", "Console",
		"--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8", "--cache-dir", s.Cache,
	}, flags...)
}

// Stop ends the controller and waits until its process has exited.
func (s *System) Stop() {
	s.T.Helper()
	if s.Process == nil {
		return
	}
	_ = s.Process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.Exited:
	case <-time.After(Patience):
		s.T.Error("the controller did not stop when asked to")
		_ = s.Process.Process.Kill()
		<-s.Exited
	}
	if code := s.Process.ProcessState.ExitCode(); code != 0 && !s.T.Failed() {
		s.T.Errorf("the controller ended with %d", code)
	}
	s.Process = nil
}

// Write collects the controller's log.
func (s *System) Write(b []byte) (int, error) {
	s.LogMu.Lock()
	defer s.LogMu.Unlock()
	return s.Log.Write(b)
}

// Kubeconfig writes one for the ServiceAccount of deploy/rbac.yaml.
func (s *System) Kubeconfig() string {
	s.T.Helper()
	if s.Identity != "" {
		return s.Identity
	}
	return s.KubeconfigOf(Namespace, "osm-gitops")
}

// KubeconfigOf writes one for a ServiceAccount.
func (s *System) KubeconfigOf(namespace, name string) string {
	s.T.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	token := &authenticationv1.TokenRequest{}
	if err := s.Client.SubResource("token").Create(s.T.Context(), sa, token); err != nil {
		s.T.Fatal(err)
	}
	server := s.Cluster.Config.Host
	if s.Link != nil {
		server = s.Link.URL()
	}
	path := filepath.Join(s.T.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server, CertificateAuthorityData: []byte(CaOf(s.T, s.Cluster))}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		s.T.Fatal(err)
	}
	return path
}

func CaOf(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	if len(c.Config.CAData) > 0 {
		return string(c.Config.CAData)
	}
	b, err := os.ReadFile(c.Config.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (s *System) exitedOrNever() <-chan struct{} {
	if s.Process == nil {
		return nil
	}
	return s.Exited
}
