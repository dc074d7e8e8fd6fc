package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
	"github.com/osm-gitops/osm-gitops/test/conformance"
	"github.com/osm-gitops/osm-gitops/test/program"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/script that are compared word for word")

// TestScripts runs the scripts of testdata/script with the built program and fleet.jsonl,
// the dump of a cluster. The command `status N program args...` expects an exit status.
func TestScripts(t *testing.T) {
	bin := build(t)
	fleet := clusterfixture.TwoPools(t).Dump()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			env.Setenv("BIN", bin)
			env.Values[sessionKey{}] = map[any]any{}
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			return os.WriteFile(filepath.Join(env.WorkDir, "fleet.jsonl"), fleet, 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "watching": watching, "expect": expect, "interrupt": interrupt,
			"edit": edit, "noise": noise, "said": said,
		},
	})
}

// built is the folder of the program, for TestMain to remove.
var (
	built     string
	buildOnce sync.Once
	errBuild  error
)

// build returns the folder of the built program.
func build(t *testing.T) string {
	t.Helper()
	buildOnce.Do(func() {
		if built, errBuild = os.MkdirTemp("", "osm-gitops-cmd-"); errBuild == nil {
			errBuild = program.Controller(t.Context(), filepath.Join(built, programName))
		}
	})
	if errBuild != nil {
		t.Fatal(errBuild)
	}
	return built
}

func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N program args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// TestRenderConformance runs the program with unchanged cases of the corpus.
func TestRenderConformance(t *testing.T) {
	cases := conformance.Cases(t)
	bin := filepath.Join(build(t), "osm-gitops")
	for _, c := range cases {
		if c.ProfileName != "osp-ubuntu" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string][]byte{"profile": c.ProfileYAML, "md": c.MachineDeploymentYAML, "cluster": c.CaseYAML} {
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for output, want := range map[string][]byte{"bootstrap": c.WantBootstrap, "provisioning": c.WantProvisioning} {
				cmd := exec.Command(bin, "render", "--profile", "profile", "--machine-deployment", "md", "--cluster", "cluster", "-o", output)
				cmd.Dir = dir
				got, err := cmd.Output()
				if c.WantError != "" {
					var exit *exec.ExitError
					if !errors.As(err, &exit) || exit.ExitCode() != exitFailure || len(exit.Stderr) == 0 || len(got) > 0 {
						t.Errorf("error %v, but the reference refuses it with %q", err, c.WantError)
					}
					continue
				}
				if err != nil {
					t.Fatal(fmt.Errorf("%s: %w", output, err))
				}
				conformance.CompareUserData(t, want, got)
			}
		})
	}
}
