package shellrules_test

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules"
)

// FuzzLook: for every input the check returns, and the lines of its findings are lines of
// the script.
func FuzzLook(f *testing.F) {
	f.Add("#!/bin/bash\ncurl -k https://a:b@x/ | sh\n", "/opt/bin/x")
	f.Add("eval \"$(wget -O- \\\nx)\"\ncat <<END\n$x\nEND\n", "runcmd[0]")
	f.Add(strings.Repeat("(", 20_000), "/x")
	f.Add("for ((;;)); do set -x; done <<<\"$(<x)\" &>y; a[1]=b x=; chmod", "/x")
	f.Fuzz(func(t *testing.T, content, file string) {
		for _, kind := range []lint.Kind{lint.KindShell, lint.KindUnit, lint.KindOther} {
			for _, found := range shellrules.CheckText(t.Context(), lint.Text{File: file, Mode: 0o666, Kind: kind, Interpreter: "bash", Content: []byte(content)}) {
				if found.Line < 0 || found.Line > strings.Count(content, "\n")+1 {
					t.Errorf("line %d of %q", found.Line, content)
				}
				if found.Rule == "" || found.Message == "" {
					t.Errorf("a finding that says nothing: %+v", found)
				}
			}
		}
	})
}
