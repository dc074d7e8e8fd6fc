package main

import (
	"strings"
	"testing"
	"time"
)

// Tokens are bound to their pool unless the flag says otherwise, and live a day.
func TestNodeTokenFlags(t *testing.T) {
	for args, want := range map[string]time.Duration{
		"": 24 * time.Hour, "--node-token=bound": 24 * time.Hour, "--node-token-ttl=10m": 10 * time.Minute,
		"--node-token=shared": 0, "--node-token=shared --node-token-ttl=1h": 0,
	} {
		f, err := parsedFlags(args)
		if got := f.NodeTokenTTL; err != nil || got != want {
			t.Errorf("%q: a token lives %s (err %v), want %s", args, got, err, want)
		}
	}
	for args, says := range map[string]string{
		"--node-token=none":         `--node-token: "none" is neither bound nor shared`,
		"--node-token-ttl=9m59s":    "--node-token-ttl: 9m59s is out of range: set a lifetime from 10m0s to 1193046h28m16s",
		"--node-token-ttl=-1h":      "--node-token-ttl: -1h0m0s is out of range",
		"--node-token-ttl=1300000h": "--node-token-ttl: 1300000h",
	} {
		if _, err := parsedFlags(args); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
