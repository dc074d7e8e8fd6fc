package operators

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// The commands of daily operations, and every bad input of theirs, do what
// testdata/*.txtar says, while the controller runs: two pools, the second with a node, and a
// source that has v1.0.0 and then v1.1.0. What --show-kubectl prints is executed by kubectl.
func TestDailyOperations(t *testing.T) {
	s := newSystem(t)
	s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source(func(spec map[string]any) { spec["interval"] = "1h" })
	s.Start()
	s.Pool("web", "osp-a")
	s.Pool("batch", "osp-a")
	_, provisioning := s.Served("web", "v1.0.0")
	s.Served("batch", "v1.0.0")
	node := s.Joins("web", "one", provisioning)
	s.Eventually("the node to be known", func() error { return s.written(node) })

	identity := s.reader("auditor", [2]string{machines.GroupVersion.Group, "*"}, [2]string{api.GroupVersion.Group, "*"}, [2]string{osm.GroupVersion.Group, "operatingsystemprofiles"})
	s.Eventually("the rights to hold", func() error {
		if _, out, errs := s.Runs("get", "pools", "-n", s.Pools, "--kubeconfig", identity); !strings.Contains(out, "web") {
			return errors.New(errs)
		}
		return nil
	})
	kubectl, err := program.Kubectl.Path(t.Context(), os.Stderr)
	s.Must(err)
	binary, err := e2e.Binary()
	s.Must(err)
	for _, script := range []string{"get", "windows", "sources", "pools", "rollouts"} {
		s.Run(script, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Files: []string{filepath.Join("testdata", script+".txtar")},
				Setup: func(env *testscript.Env) error {
					bin := filepath.Join(env.WorkDir, "bin")
					err := os.Mkdir(bin, 0o700)
					for name, target := range map[string]string{"osm-gitops": binary, "kubectl-osm": binary, "flux-osm": binary, "kubectl": kubectl} {
						err = errors.Join(err, os.Symlink(target, filepath.Join(bin, name)))
					}
					env.Vars = append(env.Vars, "KUBECONFIG="+s.Cluster.Kubeconfig, "AUDITOR="+identity, "NS="+s.Pools, "NODE="+node.Name,
						"CONFIG="+node.Labels[api.LabelConfig], "TIME="+time.Now().UTC().Format(time.RFC3339),
						"PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
					return err
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"status": exits, "eventually": s.scriptEventually, "push": s.scriptPush, "printed": printed,
				},
			})
		})
	}
}

// exits expects an exit status: status N program args...
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var exit *exec.ExitError
	got := 0
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// scriptEventually runs a program until its output matches: eventually REGEXP program args...
func (s *system) scriptEventually(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	s.Eventually(args[0], func() error {
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			return fmt.Errorf("%w: %s", err, ts.ReadFile("stderr"))
		}
		if out := ts.ReadFile("stdout"); !want.MatchString(out) {
			return errors.New(out)
		}
		return nil
	})
}

// scriptPush pushes a version of profile osp-a: push VERSION, or a file: push FILE TEXT.
func (s *system) scriptPush(ts *testscript.TestScript, _ bool, args []string) {
	file, text := "a.yaml", e2e.OSP("osp-a", args[0], "echo "+args[0])
	if len(args) == 2 {
		file, text = args[0], args[1]
	}
	ts.Setenv("COMMIT", s.Git.Push(map[string]string{file: text}))
}

// printed executes the command that the program printed before.
func printed(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(ts.Exec("sh", "-ec", ts.ReadFile("stdout")))
}
