package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/pkg/manager"
)

// The programs of operating-system-manager (contract, section 11). Deployments that only
// allow another image run this program under their names.
const (
	referenceController = "osm-controller"
	referenceWebhook    = "webhook"
)

// newReferenceProgram returns the program that argv[0] names, or nil if it is this program.
// The name of a link counts, and then that of its target.
func newReferenceProgram(argv0 string) *cobra.Command {
	path := argv0
	const maxLinks = 40 // as in Linux: path_resolution(7)
	for range maxLinks {
		var cmd *cobra.Command
		switch filepath.Base(path) {
		case referenceController:
			cmd = newControllerCommand()
			cmd.Use = referenceController
		case referenceWebhook:
			cmd = newWebhookCommand()
		}
		if cmd != nil {
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			cmd.SetFlagErrorFunc(flagError)
			return cmd
		}
		target, err := os.Readlink(path)
		if err != nil {
			return nil
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return nil
}

// newWebhookCommand returns the program that only serves admission.
func newWebhookCommand() *cobra.Command {
	f := newControllerFlags()
	cmd := &cobra.Command{
		Use:   referenceWebhook,
		Short: "serve the admission webhooks only",
		Long: `Serve the admission webhooks only, without a lease and without a write.

The flags are those of the program of this name in operating-system-manager. You can write
them with one dash or two.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return flagError(cmd, err)
			}
			if f.Webhook.CertDir == "" {
				return cli.Misusef("see "+cmd.CommandPath()+" --help", "--cert-dir: is empty: name the folder with tls.crt and tls.key")
			}
			ctrl.SetLogger(f.logger(os.Stderr))
			return manager.ServeAdmission(cmd.Context(), &f.Options)
		},
	}
	f.bindReferenceWebhook(cmd.Flags())
	return cmd
}

// bindReferenceWebhook binds the flags of contract section 11.2 with their defaults, and the
// address, which the contract fixes. All other settings have the controller's defaults.
func (f *controllerFlags) bindReferenceWebhook(fs *pflag.FlagSet) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.bind(all)
	f.HealthAddress, f.MetricsAddress = "", "" // those of the controller
	for name, standard := range map[string]string{
		"kubeconfig": "", "namespace": "", "log-debug": "false", "log-format": "JSON", "webhook-address": ":9443",
		"metrics-bind-address": ":8080", "health-probe-bind-address": ":8081", "leader-elect": "false",
		// https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/webhook/server.go
		"cert-dir": filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs"),
	} {
		flag := all.Lookup(name)
		flag.DefValue = standard
		_ = flag.Value.Set(standard) // these are valid
		fs.AddFlag(flag)
	}
	fs.Lookup("cert-dir").Usage = "folder with tls.crt and tls.key, read again when they change"
	fs.Lookup("leader-elect").Usage = "accepted and ignored: every replica answers, and none writes"
}
