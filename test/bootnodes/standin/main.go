// Command standin replaces the kubelet on machines outside a soak, because building the real one
// takes minutes. For the API server it behaves like a kubelet: it requests a certificate with its
// bootstrap token, creates the Node of that certificate with the labels of its unit, and reports
// Ready. It runs no pods.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// pause is between attempts, and between two signs of life.
const pause = 2 * time.Second

// kubelet is what its unit says.
type kubelet struct {
	bootstrap, kubeconfig, config, configDir, certificates string
	name, address, labels, runtime                         string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	k, err := parse(args)
	if err != nil {
		return err
	}
	for _, path := range []string{k.config, k.bootstrap} {
		if _, err := os.ReadFile(path); err != nil {
			return err
		}
	}
	go k.health()
	for {
		fmt.Fprintln(os.Stderr, "kubelet:", k.live(ctx))
		if !wait(ctx) {
			return nil // asked to end
		}
	}
}

func parse(args []string) (*kubelet, error) {
	k := &kubelet{}
	flags := flag.NewFlagSet("kubelet", flag.ContinueOnError)
	flags.StringVar(&k.bootstrap, "bootstrap-kubeconfig", "", "")
	flags.StringVar(&k.kubeconfig, "kubeconfig", "", "")
	flags.StringVar(&k.config, "config", "", "")
	flags.StringVar(&k.configDir, "config-dir", "", "")
	flags.StringVar(&k.certificates, "cert-dir", "", "")
	flags.StringVar(&k.name, "hostname-override", "", "")
	flags.StringVar(&k.address, "node-ip", "", "")
	flags.StringVar(&k.labels, "node-labels", "", "")
	flags.StringVar(&k.runtime, "container-runtime-endpoint", "", "")
	flags.String("cloud-provider", "", "")
	flags.String("register-with-taints", "", "")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unknown command %q", flags.Args())
	}
	if k.name == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		k.name = strings.ToLower(name)
	}
	return k, nil
}

// health answers as the profiles' health monitor asks.
func (k *kubelet) health() {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	server := &http.Server{Addr: "127.0.0.1:10248", Handler: mux, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, "kubelet:", server.ListenAndServe())
}

// live joins the cluster, and says again and again that the Node is Ready. It ends with
// an error, never without.
func (k *kubelet) live(ctx context.Context) error {
	pair, err := k.certificate(ctx)
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", k.bootstrap)
	if err != nil {
		return err
	}
	config.BearerToken = ""
	config.CertFile, config.KeyFile = pair, pair
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := k.register(ctx, client); err != nil {
		return err
	}
	for {
		if err := k.report(ctx, client); err != nil {
			return err
		}
		if !wait(ctx) {
			return ctx.Err()
		}
	}
}

func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// version returns the version in the name of the folder in which the profiles install the program.
func version() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	v, _ := strings.CutPrefix(filepath.Base(filepath.Dir(self)), "kubernetes-")
	return v
}
