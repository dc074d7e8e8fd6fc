package docs_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/offline"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// fleet is the dump that the examples of trace.md read.
const fleet = "examples/audit/fleet.jsonl"

// TestExampleDump: the example is what `osm-gitops trace --dump` writes of an estate.
func TestExampleDump(t *testing.T) {
	var want bytes.Buffer
	if _, err := offline.Write(t.Context(), clusterfixture.TwoPools(t).Clusters(), &want, clusterfixture.At(100)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("../"+fleet, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(read(t, "../"+fleet), want.Bytes()) {
		t.Errorf("%s is not what a dump is now: go test ./docs -update", fleet)
	}
}

// traceSession shows `osm-gitops trace` on the example, or only the end of its output if the command
// pipes it to tail.
func traceSession(t *testing.T, program, what string) string {
	t.Helper()
	args, tail, cut := strings.Cut(what, " | tail -14")
	subject, flags, _ := strings.Cut(args, " ")
	cmd := exec.CommandContext(t.Context(), program, append([]string{"trace", subject, "--from", fleet}, strings.Fields(flags)...)...)
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	shown := string(out)
	command := strings.TrimSuffix("osm-gitops trace "+subject+" --from "+fleet+" "+flags, " ")
	if cut {
		lines := strings.SplitAfter(strings.TrimSuffix(shown, "\n"), "\n")
		shown, command = strings.Join(lines[max(0, len(lines)-14):], "")+"\n", command+" | tail -14"+tail
	}
	return "```\n$ " + command + "\n" + shown + "```\n"
}
