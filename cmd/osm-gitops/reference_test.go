package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
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
		if cmd := newReferenceProgram(argv0); cmd != nil {
			got = cmd.Name()
		}
		if got != want {
			t.Errorf("%q runs %q, want %q", argv0, got, want)
		}
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

// The webhook has the flags of contract section 11.2 with their defaults, and one of its own.
func TestReferenceWebhookFlags(t *testing.T) {
	defaults := map[string]string{
		"kubeconfig": "", "namespace": "", "metrics-bind-address": ":8080", "health-probe-bind-address": ":8081", "leader-elect": "false",
		"cert-dir": filepath.Join(os.TempDir(), "k8s-webhook-server", "serving-certs"), "log-debug": "false", "log-format": "JSON",
		"webhook-address": ":9443",
	}
	f := newControllerFlags()
	set := pflag.NewFlagSet("webhook", pflag.ContinueOnError)
	f.bindReferenceWebhook(set)
	set.VisitAll(func(flag *pflag.Flag) {
		if want, known := defaults[flag.Name]; !known || flag.DefValue != want || flag.Value.String() != want {
			t.Errorf("--%s is %q, by default %q; want %q, in the contract: %v", flag.Name, flag.Value, flag.DefValue, want, known)
		}
		delete(defaults, flag.Name)
	})
	if len(defaults) > 0 {
		t.Errorf("there are no flags %v", defaults)
	}
	if err := set.Parse(doubleDashes([]string{"-namespace", "kube-system", "-leader-elect", "-cert-dir", "/certs", "-metrics-bind-address=:1"})); err != nil {
		t.Fatal(err)
	}
	if err := f.validate(); err != nil {
		t.Fatal(err)
	}
	if f.Namespace != "kube-system" || f.Webhook.CertDir != "/certs" || f.SecondMetricsAddress != ":1" || f.SecondHealthAddress != ":8081" || f.HealthAddress != "" || f.MetricsAddress != "" {
		t.Errorf("options are %+v", f.Options)
	}
}
