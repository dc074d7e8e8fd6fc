package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// The name of the program, or of a file to which it leads, selects the command. Any other name is
// that of this program.
func TestReferenceNames(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{
		"osm-controller": "/ko-app/osm-gitops", "webhook": "osm-gitops", "entrypoint": "osm-controller", "hook": filepath.Join(dir, "webhook"),
		"kubectl-osm_gitops": "osm-gitops", "mywebhook": "osm-gitops", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for argv0, want := range map[string]string{
		"osm-controller": "osm-controller", "/usr/local/bin/osm-controller": "osm-controller", "webhook": "webhook", "./webhook": "webhook",
		filepath.Join(dir, "osm-controller"): "osm-controller", filepath.Join(dir, "webhook"): "webhook",
		filepath.Join(dir, "entrypoint"): "osm-controller", filepath.Join(dir, "hook"): "webhook",
		"osm-gitops": "", "": "", "controller": "", "osm-controller-2": "", filepath.Join(dir, "kubectl-osm_gitops"): "", filepath.Join(dir, "mywebhook"): "", filepath.Join(dir, "loop"): "",
	} {
		got := ""
		if cmd := newOSMCommandForArgv0(argv0); cmd != nil {
			got = cmd.Name()
		}
		if got != want {
			t.Errorf("%q runs %q, want %q", argv0, got, want)
		}
	}
}

// A name without a slash is that of a program in PATH, as for the shell that found it. A file of
// this name in the working directory has no meaning.
func TestReferenceNameInPath(t *testing.T) {
	program, dir, elsewhere := filepath.Join(t.TempDir(), "osm-gitops"), t.TempDir(), t.TempDir()
	if err := os.WriteFile(program, nil, 0o700); err != nil { //nolint:gosec // it has to be executable
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		filepath.Join(dir, "osm-controller"): program, filepath.Join(dir, "tool"): "osm-controller",
		filepath.Join(elsewhere, "webhook"): program, filepath.Join(elsewhere, "tool"): "webhook", filepath.Join(elsewhere, "absent"): "webhook",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(elsewhere)
	t.Setenv("PATH", dir)
	for argv0, want := range map[string]string{"tool": "osm-controller", "./tool": "webhook", "absent": ""} {
		got := ""
		if cmd := newOSMCommandForArgv0(argv0); cmd != nil {
			got = cmd.Name()
		}
		if got != want {
			t.Errorf("%q runs %q, want %q", argv0, got, want)
		}
	}
}

// Both programs accept the flags of klog that Deployments of earlier releases pass, log once which
// of them have no effect, and do not change klog. This program does not have them.
func TestReferenceKlogFlags(t *testing.T) {
	for _, program := range []string{"osm-controller", "webhook"} {
		for args, want := range map[string]string{
			"":                                  "",
			"-logtostderr -v=4":                 `"flags":["logtostderr","v"]`,
			"-v 4 --logtostderr=true":           `"flags":["logtostderr","v"]`,
			"-vmodule=a=2 -stderrthreshold=0":   `"flags":["stderrthreshold","vmodule"]`,
			"-log_dir /logs -alsologtostderr":   `"flags":["alsologtostderr","log_dir"]`,
			"-log-format=Console -skip_headers": `{"flags": ["skip_headers"]}`,
		} {
			cmd := newOSMCommandForArgv0(program)
			cmd.SetArgs(toDoubleDashes(append([]string{"-namespace", "kube-system"}, strings.Fields(args)...)))
			file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			if err != nil {
				t.Fatal(err)
			}
			stderr := os.Stderr
			os.Stderr = file
			stopped, stop := context.WithCancel(t.Context())
			stop()
			err = errors.Join(cmd.ExecuteContext(stopped), file.Close())
			os.Stderr = stderr
			if err != nil && strings.Contains(err.Error(), "flag") {
				t.Errorf("%s %s: %v", program, args, err)
			}
			log, err := os.ReadFile(file.Name())
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Count(string(log), "flags without effect: use -log-debug and -log-format")
			if !strings.Contains(string(log), want) || said != min(len(args), 1) {
				t.Errorf("%s %s logs %d times\n%s\nwant %s", program, args, said, log, want)
			}
		}
	}
	if klog.V(1).Enabled() {
		t.Error("klog is verbose")
	}
	var errs bytes.Buffer
	if status := run(t.Context(), strings.Fields("osm-gitops controller -namespace kube-system -logtostderr"), nil, &errs, &errs); status != exitMisuse {
		t.Errorf("osm-gitops has status %d: %s", status, &errs)
	}
}

// Misuse of either program is reported with its name, and has the status of misuse. Flags have one
// dash or two.
func TestReferenceMisuse(t *testing.T) {
	for args, want := range map[string]string{
		"osm-controller": "--namespace: is required",
		"osm-controller -namespace kube-system controller":       `unexpected argument "controller"`,
		"osm-controller --namespace=kube-system -worker-count=0": "--worker-count: 0 is too small",
		"webhook -log-format json":                               "--namespace: is required",
		"webhook --namespace a -log-format=xml":                  `--log-format: "xml" is neither JSON nor Console`,
		"webhook -namespace kube-system -cert-dir=":              "--cert-dir: is empty: name the folder with tls.crt and tls.key",
		"webhook -namespace kube-system -worker-count 3":         "unknown flag: --worker-count",
		"webhook lint":                      `unexpected argument "lint"`,
		"osm-gitops -namespace kube-system": "unknown shorthand flag: 'n' in -namespace",
		"osm-gitops webhook":                `unknown command "webhook"`,
	} {
		var out, errs bytes.Buffer
		words := strings.Fields(args)
		status := run(t.Context(), words, nil, &out, &errs)
		if status != exitMisuse || !strings.Contains(errs.String(), want) || !strings.Contains(errs.String(), "see "+words[0]+" --help") {
			t.Errorf("%s: status %d, %s; want %q", args, status, &errs, want)
		}
	}
}

// The webhook has the flags of operating-system-manager's webhook with their defaults, and one of its own.
func TestReferenceWebhookFlags(t *testing.T) {
	defaults := map[string]string{
		"kubeconfig": "", "namespace": "", "metrics-bind-address": ":8080", "health-probe-bind-address": ":8081", "leader-elect": "false",
		"cert-dir": filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs"), "log-debug": "false", "log-format": "JSON",
		"webhook-address": ":9443",
	}
	f := newControllerFlags()
	set := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	f.bindOSMWebhook(set)
	set.VisitAll(func(flag *pflag.Flag) {
		if want, known := defaults[flag.Name]; !known || flag.DefValue != want || flag.Value.String() != want {
			t.Errorf("--%s is %q, by default %q; want %q, in operating-system-manager: %v", flag.Name, flag.Value, flag.DefValue, want, known)
		}
		delete(defaults, flag.Name)
	})
	if len(defaults) > 0 {
		t.Errorf("there are no flags %v", defaults)
	}
	if err := set.Parse(toDoubleDashes([]string{"-namespace", "kube-system", "-leader-elect", "-cert-dir", "/certs", "-metrics-bind-address=:1"})); err != nil {
		t.Fatal(err)
	}
	if err := f.parseAndValidate(); err != nil {
		t.Fatal(err)
	}
	if f.Namespace != "kube-system" || f.Webhook.CertDir != "/certs" || f.SecondMetricsAddress != ":1" || f.SecondHealthAddress != ":8081" || f.HealthAddress != "" || f.MetricsAddress != "" {
		t.Errorf("options are %+v", f.Options)
	}
}
