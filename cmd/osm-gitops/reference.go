package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/pkg/manager"
)

// The programs of operating-system-manager. Deployments that only
// allow another image run this program under their names.
const (
	referenceController = "osm-controller"
	referenceWebhook    = "webhook"
)

// newOSMCommandForArgv0 returns the command of operating-system-manager that argv[0] names, or nil
// if it names this program. The name of a link counts, and then that of its target.
func newOSMCommandForArgv0(argv0 string) *cobra.Command {
	if cmd := osmCommandNamed(filepath.Base(argv0)); cmd != nil {
		return cmd
	}
	path := argv0
	if !strings.ContainsRune(argv0, filepath.Separator) {
		path = findInPath(argv0) // not a file of the working directory
	}
	const maxLinks = 40 // as in Linux: path_resolution(7)
	for range maxLinks {
		if cmd := osmCommandNamed(filepath.Base(path)); cmd != nil {
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

// findInPath returns the path of a program in $PATH, or "". It is exec.LookPath for a package that
// must not start programs (test/imports).
func findInPath(name string) string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// osmCommandNamed returns a command of operating-system-manager by the name of its program, or nil.
func osmCommandNamed(name string) *cobra.Command {
	var cmd *cobra.Command
	f := newControllerFlags()
	switch name {
	case referenceController:
		cmd = controllerCommand(f)
		cmd.Use = referenceController
	case referenceWebhook:
		cmd = newWebhookCommand(f)
	default:
		return nil
	}
	f.acceptKlogFlags(cmd.Flags())
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(flagError)
	return cmd
}

// acceptKlogFlags accepts the flags with which Deployments start earlier releases of
// operating-system-manager, such as -logtostderr and -v=4. They have no effect: klog stays as it is,
// because its lines are not in the format of --log-format.
func (f *controllerFlags) acceptKlogFlags(fs *pflag.FlagSet) {
	theirs, shorthand := flag.NewFlagSet("", flag.ContinueOnError), map[string]string{"v": "v"}
	klog.InitFlags(theirs)
	f.ignored = pflag.NewFlagSet("", pflag.ContinueOnError)
	theirs.VisitAll(func(their *flag.Flag) {
		f.ignored.StringP(their.Name, shorthand[their.Name], their.DefValue, "accepted and ignored")
		ours := f.ignored.Lookup(their.Name)
		ours.Hidden = true
		if boolean, ok := their.Value.(interface{ IsBoolFlag() bool }); ok && boolean.IsBoolFlag() {
			ours.NoOptDefVal = "true"
		}
	})
	fs.AddFlagSet(f.ignored)
}

// ignoredFlags are the names of those that were set.
func (f *controllerFlags) ignoredFlags() (names []string) {
	if f.ignored != nil {
		f.ignored.VisitAll(func(flag *pflag.Flag) {
			if flag.Changed {
				names = append(names, flag.Name)
			}
		})
	}
	return names
}

// newWebhookCommand returns the program that only serves admission.
func newWebhookCommand(f *controllerFlags) *cobra.Command {
	cmd := &cobra.Command{
		Annotations: map[string]string{runsUntilStopped: ""},

		Use:   referenceWebhook,
		Short: "serve the admission webhooks only",
		Long: `Serve the admission webhooks only, without a lease and without a write.

The flags are those of the program of this name in operating-system-manager. You can write
them with one dash or two.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parseAndValidate(); err != nil {
				return flagError(cmd, err)
			}
			if f.Webhook.CertDir == "" {
				return cli.Misusef("see "+cmd.CommandPath()+" --help", "--cert-dir: is empty: name the folder with tls.crt and tls.key")
			}
			f.setLogger()
			return manager.ServeAdmission(cmd.Context(), &f.Options)
		},
	}
	f.bindOSMWebhook(cmd.Flags())
	return cmd
}

// bindOSMWebhook binds the flags of operating-system-manager's webhook with their defaults, and the
// address, which is the same there. All other settings have the controller's defaults.
func (f *controllerFlags) bindOSMWebhook(fs *pflag.FlagSet) {
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
