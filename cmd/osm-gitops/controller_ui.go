package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// uiFlags are about the audit page of the controller.
type uiFlags struct {
	address, cert, key string

	// What validate makes of them.
	listen string
	open   bool // on loopback, without TLS: nobody is asked who he is
}

func (u *uiFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&u.address, "ui-address", "", "address of the audit page: a port, such as 8087, is on loopback, for kubectl port-forward, and asks nobody who he is; host:port elsewhere takes TLS; empty or 0: nowhere. With TLS it lets in who has a token of the worker cluster and the right to get the nonResourceURL "+ui.RightPath)
	fs.StringVar(&u.cert, "ui-tls-cert", "", "PEM file with the certificate of --ui-address, read again when it changes; empty: tls.crt and tls.key of --cert-dir, if that is given")
	fs.StringVar(&u.key, "ui-tls-key", "", "PEM file with the key of --ui-tls-cert")
}

func (u *uiFlags) off() bool { return u.address == "" || u.address == "0" }

func (u *uiFlags) validate(certDir string, bad func(flag, format string, args ...any)) {
	if (u.cert == "") != (u.key == "") {
		bad("ui-tls-cert", "--ui-tls-cert and --ui-tls-key belong together: give both or neither")
	}
	if u.off() {
		if u.cert != "" {
			bad("ui-tls-cert", "is of no use without --ui-address")
		}
		return
	}
	listen, loopback, err := ui.SplitAddress(u.address)
	if err != nil {
		bad("ui-address", "%w", err)
		return
	}
	u.listen, u.open = listen, loopback && u.cert == ""
	if u.cert == "" && !loopback {
		if certDir == "" {
			bad("ui-address", "%q is not on loopback, and takes TLS, since tokens are sent to it: give --ui-tls-cert and --ui-tls-key, or --cert-dir", u.address)
			return
		}
		u.cert, u.key = filepath.Join(certDir, "tls.crt"), filepath.Join(certDir, "tls.key")
	}
}

// How old what the audit page shows may be: of caches, which cost nothing but time to
// put together, and of a cluster that is read for it.
const (
	uiFresh, uiStale               = 2 * time.Second, 2 * time.Second
	uiFreshRead, uiStaleRead       = 15 * time.Second, 5 * time.Minute
	uiWaitRead                     = 2 * time.Second
	uiPageSize               int64 = 500
)

// addUI adds the audit page to the manager of the worker cluster.
func addUI(management ctrlcluster.Cluster, mgr ctrl.Manager, f *controllerFlags, facts nodeFacts) error {
	if f.ui.off() {
		return nil
	}
	reader := &ui.Reader{Management: management.GetClient(), Worker: mgr.GetClient(), Namespace: f.namespace}
	verifier := &verify.Verifier{
		Management: management.GetAPIReader(), Worker: mgr.GetAPIReader(), Namespace: f.namespace,
		Engine: facts.engine, Check: lint.TemplateCheck(facts.engine), Builtin: profile.Builtin(), Git: facts.mirrors,
		FollowedOnly: true, // who looks decides what is verified
	}
	v, _ := buildVersion()
	server := &ui.Server{
		Snapshots: &ui.Snapshots{Read: reader.Read, Clock: clock.RealClock{}, Fresh: uiFresh, Stale: uiStale},
		Trails:    trace.Clusters{Management: management.GetAPIReader(), Worker: mgr.GetAPIReader(), Namespace: f.namespace},
		Verifier:  verifier, Clock: clock.RealClock{}, Version: v,
	}
	if !f.ui.open {
		server.Guard = &ui.Guard{Client: mgr.GetClient(), Clock: clock.RealClock{}}
	}
	if err := mgr.Add(&ui.Listener{Server: server, Address: f.ui.listen, CertFile: f.ui.cert, KeyFile: f.ui.key}); err != nil {
		return fmt.Errorf("setting up --ui-address: %w", err)
	}
	return nil
}
