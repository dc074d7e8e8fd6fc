package ci_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRehearse runs the commands of the workflow like a runner of GitHub, twice: the second run has
// the cache of the first. make is a stand-in, because its targets take minutes: test/bootnodes
// runs them.
func TestRehearse(t *testing.T) {
	var w workflow
	decode(t, "rehearse.yaml", &w)
	steps := w.Jobs["rehearse"].Steps
	if got := w.Jobs["rehearse"].Permissions; len(w.Permissions) != 0 || len(got) != 1 || got["contents"] != "read" {
		t.Errorf("the job may %v, others %v", got, w.Permissions)
	}
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40}$`)
	for _, s := range steps {
		if s.Uses != "" && !pinned.MatchString(s.Uses) || strings.Contains(s.Run, "${{") {
			t.Errorf("step %s: %q %q", s.Name, s.Uses, s.Run)
		}
	}
	r := newRepository(t, build(t))
	r.write("pools/good.yaml", "kind: MachineDeployment\n")
	bin, temp := t.TempDir(), t.TempDir()
	origin := releasedAs(t, "v9.9.9")
	stub(t, bin, "sudo", `exec "$@"`)
	stub(t, bin, "make", `echo "make $*" >>"$CALLS"
[[ -e $XDG_CACHE_HOME/osm-gitops/image ]] || { mkdir -p "$XDG_CACHE_HOME/osm-gitops" && echo built >>"$CALLS" && touch "$XDG_CACHE_HOME/osm-gitops/image"; }
for word in "$@"; do
  case $word in
  POOL=*|PROFILE=*) [[ -e ${word#*=} ]] ;;
  esac
done
[[ $* != *bad.yaml* ]]`)
	env := []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "RUNNER_TEMP=" + temp, "CALLS=" + filepath.Join(temp, "calls"), "OSM_GITOPS_VERSION=v9.9.9", "PROFILES=profiles", "POOLS=pools",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + origin + ".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/osm-gitops/osm-gitops",
	}
	run := func(name string) error {
		for _, s := range steps {
			if s.Name == name {
				_, err := r.bash(s.Run, "-eo", "pipefail", env)
				return err
			}
		}
		t.Fatalf("there is no step %q", name)
		return nil
	}
	if err := run("Get osm-gitops"); err != nil {
		t.Fatal(err)
	}
	if err := run("Rehearse"); err != nil {
		t.Errorf("good pools: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(temp, "cache")); err != nil {
		t.Fatal(err)
	}
	r.write("pools/bad.yaml", "kind: MachineDeployment\n")
	if err := run("Rehearse"); err == nil {
		t.Error("a pool whose machines become no nodes passes")
	}
	calls := string(read(t, filepath.Join(temp, "calls")))
	if strings.Count(calls, "built\n") != 1 || strings.Count(calls, "pools/bad.yaml") != 1 || strings.Count(calls, "-C "+temp+"/osm-gitops rehearse PROFILE="+r.dir+"/profiles ") < 3 {
		t.Errorf("make was called so:\n%s", calls)
	}
}

// releasedAs is a repository of a project with one release.
func releasedAs(t *testing.T, tag string) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "--quiet"}, {"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "--allow-empty", "--message=x"}, {"tag", tag},
	} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	return dir
}

func stub(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\nset -euo pipefail\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
