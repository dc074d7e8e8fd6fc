package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
)

// Completions of a flag are the values in its help, and every flag whose help lists values
// has completions.
func TestOfferedWords(t *testing.T) {
	offers, looked := fixedFlagValues(), 0
	for _, cmd := range newRoot().Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			looked++
			values := offers[cmd.Name()+" "+f.Name]
			delete(offers, cmd.Name()+" "+f.Name)
			_, list, counts := strings.Cut(f.Usage, "what to print: ")
			if formats, ok := f.Value.(*cli.Formats); ok {
				values = formats.Names()
			}
			if counts && values == nil {
				t.Errorf("%s --%s: nothing is offered, and it takes %s", cmd.Name(), f.Name, list)
			}
			for _, v := range values {
				if !strings.Contains(f.Usage, strings.TrimSuffix(v, "=")) {
					t.Errorf("%s --%s: %q is offered, and the help is %q", cmd.Name(), f.Name, v, f.Usage)
				}
			}
		})
	}
	for name := range offers {
		t.Errorf("values are offered for %s, which does not exist", name)
	}
	if looked < 100 {
		t.Errorf("looked at %d flags", looked)
	}
}

// Every flag with a value and every argument states whether files complete it.
func TestEveryFlagSaysWhatFollows(t *testing.T) {
	files := map[string]bool{}
	for _, cmd := range newRoot().Commands() {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			if _, ok := cmd.GetFlagCompletionFunc(f.Name); !ok {
				files[f.Name] = true
			}
		})
	}
	got := make([]string, 0, len(files))
	for f := range files {
		got = append(got, f)
	}
	slices.Sort(got)
	want := []string{
		"audit-log", "config", "dump", "from", "hooks-cert-file", "hooks-key-file", "host-ca-bundle", "identity", "keys", "known-hosts", "kubeconfig",
		"kubernetes-ca-bundle", "mirrors", "output", "repo", "sign", "snapshot", "ui-tls-cert", "ui-tls-key", "webhook-client-ca-file", "worker-cluster-kubeconfig",
	}
	if !slices.Equal(got, want) {
		t.Errorf("files of any name may follow\n%q, want\n%q", got, want)
	}
	for _, complete := range []cobra.CompletionFunc{argumentCompletion("diff"), argumentCompletion("doctor")} {
		if _, directive := complete(nil, nil, ""); directive&cobra.ShellCompDirectiveNoFileComp == 0 {
			t.Error("files are offered for what is no file")
		}
	}
}
