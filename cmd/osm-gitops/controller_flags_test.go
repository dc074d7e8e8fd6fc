package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Whether the default version of Ignition was written or not makes no difference
// to what is recorded; every other version reaches the nodes' settings.
func TestIgnitionVersionFlag(t *testing.T) {
	for args, want := range map[string]string{"": "", "--ignition-version=3.3.0": "", "--ignition-version=3.4.0": "3.4.0", "--ignition-version=2.3.0": "2.3.0"} {
		f, err := parsedFlags(args)
		if got := f.Settings.IgnitionVersion; err != nil || got != want {
			t.Errorf("%q: setting %q, %v, want %q", args, got, err, want)
		}
	}
	if _, err := parsedFlags("--ignition-version=3.5.0"); err == nil || !strings.Contains(err.Error(), `--ignition-version: "3.5.0" is not a supported version`) {
		t.Errorf("error %v", err)
	}
}

// Nodes send their tokens to the server that a flag names.
func TestServerFlag(t *testing.T) {
	for server, well := range map[string]bool{
		"https://api.example.com": true, "https://[fd00::1]:6443": true, "https://lb.example.com:443/clusters/a": true,
		"http://api.example.com": false, "api.example.com:6443": false, "https://": false, "https://user:canary@api.example.com": false, "https://a?b": false,
	} {
		_, err := parsedFlags("--override-bootstrap-kubelet-apiserver=" + server)
		if (err == nil) != well || err != nil && (!strings.Contains(err.Error(), "--override-bootstrap-kubelet-apiserver: ") || strings.Contains(err.Error(), "canary")) {
			t.Errorf("%s: error %v", server, err)
		}
	}
	f := newControllerFlags()
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	f.bind(set)
	if err := set.Parse([]string{"--namespace=kube_system"}); err != nil {
		t.Fatal(err)
	}
	if err := f.parseAndValidate(); err == nil || !strings.Contains(err.Error(), `--namespace: "kube_system" is not a namespace`) {
		t.Errorf("error %v", err)
	}
}

// A rehearsal prints once, or says it on and on.
func TestRehearsalFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--dry-run": "", "--dry-run --output=json": "", "-o yaml --dry-run": "", "--observe": "",
		"--dry-run --observe":    "--observe: runs until it is stopped and --dry-run exits: set only one of them",
		"--dry-run --output=xml": `unknown output "xml"`,
	} {
		_, err := parsedFlags(args)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}

// Without the flag no other namespace is watched for profiles (security.md 24).
func TestProfileNamespacesFlag(t *testing.T) {
	for args, want := range map[string][]string{
		"": nil,
		"--allow-cross-namespace-profiles=platform,,team-b": {"platform", "team-b"},
		"--allow-cross-namespace-profiles=*":                {"*"},
	} {
		f, err := parsedFlags(args)
		if got := f.CrossNamespaces; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", args, got, err, want)
		}
	}
	for _, wrong := range []string{"a/b", "team-*", "Team"} {
		if _, err := parsedFlags("--allow-cross-namespace-profiles=" + wrong); err == nil || !strings.Contains(err.Error(), "--allow-cross-namespace-profiles: ") {
			t.Errorf("%s: error %v", wrong, err)
		}
	}
}

// Without the flag no object of another namespace is allowed, and no pattern allows several
// (security.md 35).
func TestReferencesFlag(t *testing.T) {
	for args, want := range map[string]string{
		"": "[]",
		"--cloud-provider-references=kube-system/openstack,,shop/values.v2": "[kube-system/openstack shop/values.v2]",
	} {
		f, err := parsedFlags(args)
		if got := fmt.Sprint(f.CloudProviderReferences); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", args, got, err, want)
		}
	}
	for _, wrong := range []string{"openstack", "kube-system/", "/openstack", "kube-system/*", "*/openstack", "a/b/c", "Kube/x"} {
		if _, err := parsedFlags("--cloud-provider-references=" + wrong); err == nil || !strings.Contains(err.Error(), "--cloud-provider-references: ") {
			t.Errorf("%s: error %v", wrong, err)
		}
	}
}

// parsedFlags are the controller's flags with what every controller needs, and
// the error of validating them.
func parsedFlags(args string) (*controllerFlags, error) {
	f := newControllerFlags()
	set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	f.bind(set)
	if err := set.Parse(append(strings.Fields(args), "--namespace=kube-system")); err != nil {
		return f, err
	}
	return f, f.parseAndValidate()
}

// The audit page is for loopback, or asks for tokens, which go over TLS (security.md 29).
func TestUIFlags(t *testing.T) {
	const tls = " --ui-tls-cert=a.pem --ui-tls-key=b.pem"
	for args, want := range map[string]string{
		"":                                        " false ",
		"--ui-address=0":                          " false ",
		"--ui-address=8087":                       "127.0.0.1:8087 true ",
		"--ui-address=:8087":                      "127.0.0.1:8087 true ",
		"--ui-address=[::1]:8087 --cert-dir=/c":   "[::1]:8087 true ",
		"--ui-address=8087" + tls:                 "127.0.0.1:8087 false a.pem",
		"--ui-address=0.0.0.0:8087" + tls:         "0.0.0.0:8087 false a.pem",
		"--ui-address=0.0.0.0:8087 --cert-dir=/c": "0.0.0.0:8087 false /c/tls.crt",
	} {
		f, err := parsedFlags(args)
		if got := fmt.Sprint(f.UI.Address, " ", f.UI.Open, " ", f.UI.CertFile); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", args, got, err, want)
		}
	}
	for args, want := range map[string]string{
		"--ui-address=0.0.0.0:8087":              "needs TLS",
		"--ui-address=page.example.com:8087":     "needs TLS",
		"--ui-address=page":                      "is not an address",
		"--ui-address=8087 --ui-tls-cert=a.pem":  "belong together",
		"--ui-tls-cert=a.pem --ui-tls-key=b.pem": "has no effect without --ui-address",
	} {
		if _, err := parsedFlags(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", args, err, want)
		}
	}
}

// A controller in a seed of KKP has no pools, so it refuses what is about them.
func TestProfilesOnlyFlag(t *testing.T) {
	for args, want := range map[string]string{
		"--profiles-only=cosp": "", "--profiles-only=cosp --webhook-address=0 --hooks-address=:9292": "",
		"--profiles-only=osp":                                 `--profiles-only: "osp" is not cosp`,
		"--profiles-only=cosp --dry-run":                      "--dry-run: is about a cluster with pools, which --profiles-only=cosp leaves alone: remove one of them",
		"--profiles-only=cosp --observe":                      "--observe: is about",
		"--profiles-only=cosp --publish-snapshot":             "--publish-snapshot: is about",
		"--profiles-only=cosp --ui-address=8087":              "--ui-address: is about",
		"--profiles-only=cosp --worker-cluster-kubeconfig=/w": "--worker-cluster-kubeconfig: is about",
	} {
		_, err := parsedFlags(args)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", args, err, want)
		}
	}
}
