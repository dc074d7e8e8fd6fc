package main

import (
	"slices"
	"strings"
	"testing"
)

func TestAdmissionFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                                 "",
		"--webhook-address=0":              "",
		"--webhook-address=":               "",
		"--webhook-address=127.0.0.1:9443": "",
		"-cert-dir=/certs":                 "", // operating-system-manager's
		"--webhook-service=a/b":            "",
		"--webhook-hosts=10.0.0.7,Osm.example.com,fd00::1":      "",
		"--webhook-address=9443":                                `--webhook-address: invalid address "9443"`,
		"--webhook-address=:0":                                  `--webhook-address: ":0" has no port between 1 and 65535`,
		"--webhook-address=:http":                               `--webhook-address: ":http" has no port`,
		"--webhook-service=b":                                   `--webhook-service: "b" is not of the form namespace/name`,
		"--webhook-hosts=https://a":                             `--webhook-hosts: "https://a" is neither a name nor an IP`,
		"--webhook-hosts=a:443":                                 `--webhook-hosts: "a:443" is neither`,
		"--hooks-address=:9443":                                 "--webhook-address: port 9443 is also that of --hooks-address",
		"--hooks-address=:9292":                                 "",
		"--hooks-address=:9443 --webhook-address=0":             "",
		"--webhook-address=0 --cert-dir=/x":                     "--cert-dir: has no effect without --webhook-address",
		"--webhook-address=0 --admission-deny-unknown-profiles": "--admission-deny-unknown-profiles: has no effect",
	} {
		_, err := parsedFlags(strings.Join(normalizeControllerDashes(append([]string{"controller"}, strings.Fields(args)...))[1:], " "))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", args, err, want)
		}
	}
	f, err := parsedFlags("--webhook-hosts=,10.0.0.7,Osm.example.com")
	if err != nil || !slices.Equal(f.Webhook.Hosts, []string{"10.0.0.7", "osm.example.com"}) {
		t.Errorf("hosts %q, %v", f.Webhook.Hosts, err)
	}
}
