package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
)

// A command that runs until it is stopped shows no progress, and none does on the line of a
// prompt of the kubeconfig's program.
func TestCanShowProgress(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Setenv("HOME", dir)
	kubeconfig := func(name, user string) string {
		path := filepath.Join(dir, name)
		text := "apiVersion: v1\nkind: Config\ncurrent-context: one\nclusters:\n- {name: one, cluster: {server: \"https://127.0.0.1:1\"}}\n" +
			"contexts:\n- {name: one, context: {cluster: one, user: one}}\nusers:\n- {name: one, user: " + user + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := kubeconfig("plain", "{token: a}")
	prompts := kubeconfig("prompts", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: login, interactiveMode: IfAvailable}}")
	for name, c := range map[string]struct {
		root *cobra.Command
		args []string
		pipe bool // standard input is no terminal
		want bool
	}{
		"controller":                {args: []string{"controller"}},
		"controller of OSM":         {root: osmCommandNamed(referenceController)},
		"webhook of OSM":            {root: osmCommandNamed(referenceWebhook)},
		"ui":                        {args: []string{"ui", "--kubeconfig", plain}},
		"get --watch":               {args: []string{"get", "pools", "--watch", "--kubeconfig", plain}},
		"get":                       {args: []string{"get", "pools", "--kubeconfig", plain}, want: true},
		"lint":                      {args: []string{"lint"}, want: true},
		"a prompt":                  {args: []string{"get", "pools", "--kubeconfig", prompts}},
		"a prompt in a worker":      {args: []string{"get", "pools", "--kubeconfig", plain, "--worker-cluster-kubeconfig", prompts}},
		"a prompt, not of terminal": {args: []string{"get", "pools", "--kubeconfig", prompts}, pipe: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, rest := c.root, c.args
			if cmd == nil {
				var err error
				if cmd, rest, err = newRoot().Find(c.args); err != nil {
					t.Fatal(err)
				}
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Fatal(err)
			}
			if got := canShowProgress(cmd, !c.pipe); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
}
