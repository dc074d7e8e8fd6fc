// Command controlplane runs a throw-away Kubernetes control plane on loopback:
// an embedded etcd and a real kube-apiserver in one process, and (built with
// -tags kcm) the real kube-controller-manager as a child process of the same
// binary. It is a test fixture, not a way to run a cluster: etcd does not fsync.
//
// Nothing of it outlives it: children die with their parent, and package
// test/cluster, which starts it for tests, has it die with the test.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// readyFile appears in the state directory, complete at once, when /readyz is green.
const readyFile = "ready.json"

// smallSet are the controllers that tests need: tokens, garbage collection,
// namespaces, cluster-info, certificates.
var smallSet = strings.Join([]string{
	"bootstrap-signer-controller",
	"certificatesigningrequest-approving-controller",
	"certificatesigningrequest-signing-controller",
	"clusterrole-aggregation-controller",
	"garbage-collector-controller",
	"legacy-serviceaccount-token-cleaner-controller",
	"namespace-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"token-cleaner-controller",
	"validatingadmissionpolicy-status-controller",
}, ",")

// controllerManager is set by kcm.go when built with -tags kcm.
var controllerManager func() int

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "kube-controller-manager":
			if controllerManager == nil {
				fmt.Fprintln(os.Stderr, "controlplane: built without -tags kcm")
				os.Exit(1)
			}
			os.Args = append([]string{"kube-controller-manager"}, os.Args[2:]...)
			os.Exit(controllerManager())
		case "kube-apiserver":
			os.Args = append([]string{"kube-apiserver"}, os.Args[2:]...)
			os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
		}
	}
	var o options
	flag.StringVar(&o.dir, "dir", "", "state directory (etcd data, certificates, kubeconfig, logs)")
	flag.IntVar(&o.port, "port", 0, "apiserver port on 127.0.0.1; 0 picks a free one")
	flag.BoolVar(&o.fsync, "fsync", false, "let etcd fsync as in production")
	flag.BoolVar(&o.kcm, "kcm", false, "also run kube-controller-manager (needs -tags kcm)")
	flag.BoolVar(&o.separate, "separate", false, "run the apiserver as a child process, so that it can be killed and restarted alone")
	flag.BoolVar(&o.etcdOnly, "etcd-only", false, "run only the embedded etcd (on -etcd-port)")
	flag.IntVar(&o.etcdPort, "etcd-port", 0, "etcd client port; 0 picks a free one")
	flag.BoolVar(&o.audit, "audit", false, "write an audit log (Metadata level) to DIR/audit.log")
	flag.StringVar(&o.controllers, "controllers", "", "kube-controller-manager --controllers value; empty is a small set")
	extra := flag.String("apiserver-args", "", "extra kube-apiserver arguments, space separated")
	flag.Parse()
	o.extra = strings.Fields(*extra)
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

type options struct {
	dir                                   string
	port, etcdPort                        int
	fsync, kcm, separate, etcdOnly, audit bool
	controllers                           string
	extra                                 []string
}

func run(o options) error {
	start := time.Now()
	if o.dir == "" {
		return errors.New("-dir is required")
	}
	if o.kcm && controllerManager == nil {
		return errors.New("-kcm needs a binary built with -tags kcm")
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	// Waiting processes must not see the file of an earlier start.
	if err := os.Remove(filepath.Join(o.dir, readyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, p := range []*int{&o.port, &o.etcdPort} {
		if *p == 0 {
			port, err := freePort()
			if err != nil {
				return err
			}
			*p = port
		}
	}
	etcd, err := startEtcd(o)
	if err != nil {
		return err
	}
	defer etcd.Close()
	fmt.Printf("etcd ready after %.2fs\n", time.Since(start).Seconds())
	if o.etcdOnly {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		<-ctx.Done()
		return nil
	}
	pki, err := ensurePKI(o.dir, o.port)
	if err != nil {
		return err
	}
	args, err := apiserverArgs(o, pki)
	if err != nil {
		return err
	}
	go announce(o, pki, start)
	if o.separate {
		return child(o, "kube-apiserver", args)
	}
	if err := callInProcess(etcd.Server); err != nil {
		return err
	}
	os.Args = append([]string{"kube-apiserver"}, args...)
	if rc := cli.Run(apiserver.NewAPIServerCommand()); rc != 0 {
		return fmt.Errorf("kube-apiserver exited with %d", rc)
	}
	return nil
}

func startEtcd(o options) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(o.dir, "etcd")
	cfg.UnsafeNoFsync = !o.fsync
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{filepath.Join(o.dir, "etcd.log")}
	cfg.QuotaBackendBytes = 4 << 30
	client := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(o.etcdPort))}
	peerPort, err := freePort()
	if err != nil {
		return nil, err
	}
	peer := url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(peerPort))}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		return nil, err
	case <-time.After(30 * time.Second):
		e.Close()
		return nil, errors.New("etcd was not ready within 30s")
	}
}

func apiserverArgs(o options, p *pki) ([]string, error) {
	args := []string{
		"--etcd-servers=http://127.0.0.1:" + strconv.Itoa(o.etcdPort),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(o.port),
		"--tls-cert-file=" + p.path("apiserver.crt"),
		"--tls-private-key-file=" + p.path("apiserver.key"),
		"--client-ca-file=" + p.path("ca.crt"),
		"--token-auth-file=" + p.path("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.path("sa.pub"),
		"--service-account-signing-key-file=" + p.path("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC",
		"--enable-bootstrap-token-auth",
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=0",
		"--max-mutating-requests-inflight=0",
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=ServiceAccount",
		"--allow-privileged=true",
		"--v=0",
	}
	if o.audit {
		policy := p.path("audit-policy.yaml")
		body := "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Metadata\n"
		if err := os.WriteFile(policy, []byte(body), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--audit-policy-file="+policy, "--audit-log-path="+filepath.Join(o.dir, "audit.log"), "--audit-log-maxsize=2000")
	}
	return append(args, o.extra...), nil
}

// announce waits for /readyz, then writes DIR/ready.json and starts the
// controller manager if asked to.
func announce(o options, p *pki, start time.Time) {
	c := p.client()
	base := "https://127.0.0.1:" + strconv.Itoa(o.port)
	for {
		if r, err := c.Get(base + "/readyz"); err == nil {
			r.Body.Close()
			if r.StatusCode == 200 {
				break
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	secs := time.Since(start).Seconds()
	if err := writeReady(o.dir, map[string]any{"url": base, "kubeconfig": p.path("admin.kubeconfig"), "readySeconds": secs, "pid": os.Getpid()}); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
	fmt.Printf("ready after %.2fs: export KUBECONFIG=%s\n", secs, p.path("admin.kubeconfig"))
	if !o.kcm {
		return
	}
	if o.controllers == "" {
		o.controllers = smallSet
	}
	err := child(o, "kube-controller-manager", []string{
		"--kubeconfig=" + p.path("admin.kubeconfig"),
		"--service-account-private-key-file=" + p.path("sa.key"),
		"--root-ca-file=" + p.path("ca.crt"),
		"--cluster-signing-cert-file=" + p.path("ca.crt"),
		"--cluster-signing-key-file=" + p.path("ca.key"),
		"--controllers=" + o.controllers,
		"--leader-elect=false",
		"--use-service-account-credentials=false",
		"--bind-address=127.0.0.1",
		"--secure-port=0",
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--v=0",
	})
	fmt.Fprintln(os.Stderr, "controlplane: kube-controller-manager:", err)
}

func writeReady(dir string, content map[string]any) error {
	b, err := json.Marshal(content)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, readyFile)
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// child runs this binary again as component, logging to DIR/component.log,
// and starts it again whenever it ends (so that kill -9 is a restart).
func child(o options, component string, args []string) error {
	runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
	defer runtime.UnlockOSThread()
	for {
		log, err := os.OpenFile(filepath.Join(o.dir, component+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		cmd := exec.Command("/proc/self/exe", append([]string{component}, args...)...)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			return err
		}
		pid := filepath.Join(o.dir, component+".pid")
		if err := os.WriteFile(pid, []byte(strconv.Itoa(cmd.Process.Pid)), 0o600); err != nil {
			return err
		}
		_ = cmd.Wait() // however it ended, it is started again
		log.Close()
		time.Sleep(500 * time.Millisecond)
	}
}

// reserved are sockets of UDP at the ports of freePort.
var reserved []net.PacketConn

// freePort returns a port that is free on loopback and stays so until this process ends: it is
// below those that Linux gives to who asks for any (from 32768), and other processes that choose
// in the same way see that the same port of UDP is taken.
func freePort() (int, error) {
	var err error
	for range 100 {
		port := 10000 + rand.IntN(10000)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var tcp net.Listener
		if tcp, err = net.Listen("tcp", address); err != nil {
			continue
		}
		_ = tcp.Close()
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", address); err != nil {
			continue
		}
		reserved = append(reserved, udp)
		return port, nil
	}
	return 0, err
}
