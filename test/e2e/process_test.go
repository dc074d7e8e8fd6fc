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
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// built is the folder of the controller's binary, for TestMain to remove.
var built string

// binary builds the controller once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "osm-gitops-e2e-")
	if err != nil {
		return "", err
	}
	built = dir
	if err := cluster.DependOn("cmd", "pkg", "profiles", "deploy", "go.mod"); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "osm-gitops")
	return path, testenv.Build(context.Background(), path) //nolint:forbidigo // once for all tests
})

// runs runs the program to its end.
func (s *system) runs(args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	status, stdout, stderr, err := s.command(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return status, stdout, stderr
}

// command is runs for any goroutine.
func (s *system) command(args ...string) (status int, stdout, stderr string, err error) {
	path, err := binary()
	if err != nil {
		return 0, "", "", err
	}
	cmd := exec.CommandContext(s.t.Context(), path, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return 0, "", "", err
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String(), nil
}

// start runs the controller with the rights of its ServiceAccount.
func (s *system) start(flags ...string) {
	s.t.Helper()
	path, err := binary()
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = exec.Command(path, s.args(s.kubeconfig(), flags...)...)
	s.process.Stdout, s.process.Stderr = s, s
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.exited = make(chan struct{})
	started := make(chan error)
	go func(cmd *exec.Cmd, exited chan struct{}) {
		runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(exited)
	}(s.process, s.exited)
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
}

// args are the controller's.
func (s *system) args(kubeconfig string, flags ...string) []string {
	return append([]string{"controller",
		"--kubeconfig", kubeconfig, "--namespace", namespace, "--leader-elect=false",
		"--health-probe-address", "0", "--metrics-address", "0", "--webhook-address", "0", "--log-format", "Console",
		"--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8", "--cache-dir", s.cache,
	}, flags...)
}

// stop ends the controller and waits until it is gone.
func (s *system) stop() {
	s.t.Helper()
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.t.Error("the controller did not stop when asked to")
		_ = s.process.Process.Kill()
		<-s.exited
	}
	if code := s.process.ProcessState.ExitCode(); code != 0 && !s.t.Failed() {
		s.t.Errorf("the controller ended with %d", code)
	}
	s.process = nil
}

// Write collects the controller's log.
func (s *system) Write(b []byte) (int, error) {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	return s.log.Write(b)
}

// kubeconfig writes one for the ServiceAccount of deploy/rbac.yaml.
func (s *system) kubeconfig() string {
	s.t.Helper()
	if s.identity != "" {
		return s.identity
	}
	return s.kubeconfigOf(namespace, "osm-gitops")
}

// kubeconfigOf writes one for a ServiceAccount.
func (s *system) kubeconfigOf(namespace, name string) string {
	s.t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	token := &authenticationv1.TokenRequest{}
	if err := s.client.SubResource("token").Create(s.t.Context(), sa, token); err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: s.cluster.Config.Host, CertificateAuthorityData: []byte(caOf(s.t, s.cluster))}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

func caOf(t *testing.T, c *cluster.Cluster) string {
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

func (s *system) exitedOrNever() <-chan struct{} {
	if s.process == nil {
		return nil
	}
	return s.exited
}
