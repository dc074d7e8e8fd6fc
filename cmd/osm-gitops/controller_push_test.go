package main

import (
	"strings"
	"testing"
)

func TestPushFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "",
		"--hooks-address=0":              "",
		"--hooks-address=:9292":          "",
		"--hooks-address=127.0.0.1:9292": "",
		"--hooks-address=:9292 --hooks-cert-file=a --hooks-key-file=b": "",
		"--hooks-address=9292":                           `--hooks-address: "9292" is not an address`,
		"--hooks-address=:9292 --hooks-cert-file=a":      "--hooks-cert-file: --hooks-cert-file and --hooks-key-file belong together",
		"--hooks-cert-file=a --hooks-key-file=b":         "--hooks-cert-file: has no effect without --hooks-address",
		"--events-addr=http://notification-controller./": "",
		"--events-addr=notification-controller":          "--events-addr: it must be an http or https URL",
		"--events-addr=http://user:c4n4ry@host/":         "--events-addr: it must be an http or https URL",
		"--events-addr=ftp://host/":                      "--events-addr: it must be an http or https URL",
		"--cluster-name=eu-1.prod":                       "",
		"--cluster-name=a/b":                             `--cluster-name: "a/b": at most 63`,
		"--cluster-name=-a":                              `--cluster-name: "-a": at most 63`,
	} {
		_, err := parsedFlags(args)
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", args, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "c4n4ry")):
			t.Errorf("%q: error %v, want %q", args, err, want)
		}
	}
}
