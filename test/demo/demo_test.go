package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// actEnv makes this test binary be the demo.
const actEnv = "OSM_TEST_DEMO"

func TestMain(m *testing.M) {
	if err := startDownloaded(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(actEnv) == "1" {
		os.Exit(run(os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestDemo is the acceptance test: from a commit to the user-data of a node.
func TestDemo(t *testing.T) {
	needControlPlane(t)
	if err := program.DependOn("cmd", "pkg", "profiles", "deploy", "examples", "go.mod", "test/crds", "test/controlplane"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	var got result
	if err := demo(t.Context(), options{}, &out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if t.Failed() || testing.Verbose() {
		t.Log(out.String())
	}
	pageShows(t, out.String())
	example := []string{"research/batch", "shop/web-eu", "shop/web-us"}
	others := []string{"research/gpu-campus", "research/gpu-cloud", "shop/cache-fra"}

	var pools, authors []string
	for _, p := range got.first.pools {
		pools, authors = append(pools, p.pool.String()), append(authors, p.author)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(append(slices.Clone(example), others...))), pools); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	wantAuthors := []string{nadia.name, priya.name, priya.name, tomasz.name, nadia.name, nadia.name}
	if diff := cmp.Diff(wantAuthors, authors); diff != "" {
		t.Errorf("authors of the first profiles (-want +got):\n%s", diff)
	}
	for _, push := range []struct {
		name    string
		outcome outcome
		version string
		commit  commit
	}{
		{"the change", got.changed, "v1.1.0", got.commits[3]},
		{"the mended mistake", got.mended, "v1.2.0", got.commits[5]},
		{"the revert", got.rolledBack, "v1.1.0", got.commits[3]},
	} {
		if diff := cmp.Diff(example, push.outcome.rotated); diff != "" {
			t.Errorf("pools that %s rotated (-want +got):\n%s", push.name, diff)
		}
		if diff := cmp.Diff(others, push.outcome.kept); diff != "" {
			t.Errorf("pools that %s left alone (-want +got):\n%s", push.name, diff)
		}
		for _, p := range push.outcome.pools {
			rotated := slices.Contains(example, p.pool.String())
			if rotated != (p.version == push.version) || rotated != (p.commit == push.commit.hash) {
				t.Errorf("after %s %s has %s of %s", push.name, p.pool, p.version, p.commit)
			}
		}
	}
	for i, p := range got.rolledBack.pools {
		before := got.changed.pools[i]
		if d := p.bootstrap.Annotations[api.AnnotationInputDigest]; d != before.bootstrap.Annotations[api.AnnotationInputDigest] {
			t.Errorf("after the revert %s has input %s, before the reverted commits %s", p.pool, d, before.bootstrap.Annotations[api.AnnotationInputDigest])
		}
	}
	if want := "key cloud-config of Secret " + editedPool.secret("provisioning"); !strings.Contains(got.restored, want) {
		t.Errorf("the event about the edited Secret is %q, without %q", got.restored, want)
	}
	if c := got.failed.Cause; c == nil || c.File != profilePath || c.Line != int32(got.line) || c.Commit != got.commits[5].hash || got.failed.Version != "v1.2.0" {
		t.Errorf("the machine that does not boot is explained by %+v, %+v", got.failed, c)
	}
	if len(got.deleted) > 0 {
		t.Errorf("absent for a moment: %s", strings.Join(got.deleted, ", "))
	}

	for name, text := range map[string]string{"condition": got.told.condition.Message, "event": got.told.event} {
		for _, want := range []string{
			fmt.Sprintf("%s:%d: ", profilePath, got.line), `spec.provisioningConfig.files[5].content.inline.data: file "/opt/bin/setup": `, `did you mean "KubeVersion"?`, got.commits[4].hash[:12],
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s does not tell %q: %s", name, want, text)
			}
		}
	}
	if c := got.told.condition; c.Status != "False" || c.Reason != api.ReasonProfilesInvalid {
		t.Errorf("a refused profile is Ready=%s, %s", c.Status, c.Reason)
	}
	// Each of these has an event, although several share an object and a reason.
	c := got.commits
	for _, want := range []string{
		`platform: ProfileCreated: profile "osp-ubuntu-example" v1.0.1 is in the cluster, from profiles/osp-ubuntu-example.yaml at commit ` + c[0].hash,
		`platform: ProfileCreated: profile "osp-ubuntu-gpu" v1.0.1 is in the cluster, from profiles/osp-ubuntu-gpu.yaml at commit ` + c[1].hash,
		`platform: ProfileCreated: profile "osp-ubuntu-edge-cache" v1.0.1 is in the cluster, from profiles/osp-ubuntu-edge-cache.yaml at commit ` + c[2].hash,
		`web-eu: ConfigCreated: made the configuration of profile "osp-ubuntu-example" v1.0.1 at commit ` + c[0].hash[:12],
		fmt.Sprintf(`web-eu: ConfigRotated: rotated from profile %q v1.0.1 at commit %s to %q v1.1.0 at commit %s`, profileName, c[0].hash[:12], profileName, c[3].hash[:12]) + "; changed: provisioning /etc/sysctl.d/90-kubernetes.conf",
		fmt.Sprintf(`web-eu: ConfigRotated: rotated from profile %q v1.1.0 at commit %s to %q v1.2.0 at commit %s`, profileName, c[3].hash[:12], profileName, c[5].hash[:12]),
	} {
		if !slices.ContainsFunc(got.events, func(e string) bool { return strings.HasPrefix(e, want) }) {
			t.Errorf("no event says %q; there are:\n%s", want, strings.Join(got.events, "\n"))
		}
	}
	// A right that is missing in deploy/rbac.yaml shows here, and a controller that
	// holds itself back.
	for line := range strings.SplitSeq(got.log, "\n") {
		for _, bad := range []string{"forbidden", "client-side throttling", `"level":"error"`} {
			if strings.Contains(line, bad) {
				t.Errorf("the controller's log: %s", line)
				break
			}
		}
	}
	nothingLeft(t, os.Getenv("TMPDIR"))
}

// changing is what differs from run to run.
var changing = regexp.MustCompile(`[0-9a-f]{7,40}|20[0-9]{2}-[0-9T:-]+Z|web-eu-1\.[0-9a-f]+|[0-9.]+ (s|KiB)\b|127\.0\.0\.1:[0-9]+|version \S+|requestedAt=\S+|took [0-9a-z]+| +`)

// progress is what a busy machine prints in between.
var progress = regexp.MustCompile(`(?m)^   .* \.\.\. [0-9a-z]+\n|^   cluster: .*\n`)

// pageShows compares what docs/demo.md says the demo prints with what it prints.
func pageShows(t *testing.T, out string) {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "demo.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "## What it prints\n")
	_, rest, _ = strings.Cut(rest, "\n```\n") // below the picture
	shown, _, ok := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("docs/demo.md does not show what the demo prints")
	}
	out = progress.ReplaceAllString(out, "")
	if diff := cmp.Diff(changing.ReplaceAllString(shown, "*"), changing.ReplaceAllString(out, "*")); diff != "" {
		t.Errorf("docs/demo.md shows something else than the demo prints: paste it again (-page +printed):\n%s", diff)
	}
}

// TestKeep: everything runs on until Ctrl-C, which is a good end then. The printed commands work, in
// the shell of a user without any configuration.
func TestKeep(t *testing.T) {
	d := launch(t, "KEEP=1")
	d.await("In another terminal")
	var exports, commands []string
	var page string // the command of the audit page
	for d.lines.Scan() && !strings.Contains(d.lines.Text(), "With kubectl") {
		switch line := strings.TrimSpace(d.lines.Text()); {
		case strings.HasPrefix(line, "export "):
			exports = append(exports, line)
		case strings.HasPrefix(line, "osm-gitops ui"):
			page = line
		default:
			commands = append(commands, line)
		}
	}
	home := t.TempDir()
	shell := func(commands ...string) *exec.Cmd {
		sh := exec.CommandContext(t.Context(), "bash", "-eu", "-c", strings.Join(append(exports, commands...), "\n"))
		sh.Dir, sh.Env = home, append(os.Environ(), "HOME="+home, "GIT_CONFIG_SYSTEM=/dev/null")
		return sh
	}
	commands = append(commands, "echo more >> README.md", "git commit --quiet --all --message 'Say more'", "git push",
		`test "$(git rev-parse HEAD)" = "$(git ls-remote origin refs/heads/main | cut -f1)"`)
	out, err := shell(commands...).CombinedOutput()
	if err != nil {
		t.Errorf("the printed commands: %v\n%s\n%s", err, strings.Join(commands, "\n"), out)
	}
	for _, want := range []string{"Node " + editedPool.node() + "\n", "verdict: agrees\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the printed commands do not say %q:\n%s", want, out)
		}
	}
	verifyOnPage(t, shell("exec "+page+" --address 0"))
	d.await("base64 -d")
	d.interrupt(syscall.SIGINT)
	if status := d.wait(); status != 0 {
		t.Errorf("exit status %d after it was kept and then ended", status)
	}
}

// verifyOnPage starts the audit page and does what its button "Verify now" does.
func verifyOnPage(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	lines := bufio.NewScanner(stderr)
	var address string
	for address == "" && lines.Scan() {
		address = regexp.MustCompile(`http://[^/]+/`).FindString(lines.Text())
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"nodes/"+editedPool.node()+"?verify=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	html, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK || !bytes.Contains(html, []byte("agrees")) || bytes.Contains(html, []byte("unproven")) {
		t.Errorf("Verify now: status %d\n%s", res.StatusCode, html)
	}
}

// TestInterrupted: whenever it is interrupted, nothing of it is left.
func TestInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		after  string // a line of output
		signal syscall.Signal
	}{
		"at once":                       {"osm-gitops demo:", syscall.SIGINT},
		"while the controller is built": {"Git server", syscall.SIGTERM},
		"while pools get their Secrets": {"kubectl apply -f examples/pools", syscall.SIGHUP},
	} {
		t.Run(name, func(t *testing.T) {
			d := launch(t, "OSM_CONTROLLER=") // so that it is built
			d.await(c.after)
			d.interrupt(c.signal)
			if status := d.wait(); status != exitInterrupted {
				t.Errorf("exit status %d, want %d", status, exitInterrupted)
			}
		})
	}
}

// TestKilled: the kernel ends what the demo started when the demo cannot.
func TestKilled(t *testing.T) {
	d := launch(t)
	d.await("AUTHOR")
	d.interrupt(syscall.SIGKILL)
	_ = d.cmd.Wait() // it was killed
	noProcess(t, d.tmp)
}

// running is a demo in a process of its own.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	tmp    string
	lines  *bufio.Scanner
	last   string
	stderr bytes.Buffer
}

func launch(t *testing.T, env ...string) *running {
	t.Helper()
	t.Parallel() // it is a process of its own, with a directory of its own
	needControlPlane(t)
	return launchIn(t, env...)
}

func launchIn(t *testing.T, env ...string) *running {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &running{t: t, tmp: t.TempDir(), cmd: exec.CommandContext(t.Context(), self)}
	d.cmd.Env = append(os.Environ(), append(env, actEnv+"=1", "TMPDIR="+d.tmp)...)
	d.cmd.Stderr = &d.stderr
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.lines = bufio.NewScanner(out)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return d
}

// await reads until a line that holds a text.
func (d *running) await(text string) {
	d.t.Helper()
	var all []string
	for d.lines.Scan() {
		d.last = d.lines.Text()
		all = append(all, d.last)
		if strings.Contains(d.last, text) {
			return
		}
	}
	_ = d.cmd.Wait()
	d.t.Fatalf("it ended without %q:\n%s\n%s", text, strings.Join(all, "\n"), d.stderr.String())
}

func (d *running) interrupt(signal syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(signal); err != nil {
		d.t.Fatal(err)
	}
}

// wait waits for the end, which must come soon and leave nothing, and returns the
// exit status.
func (d *running) wait() int {
	d.t.Helper()
	begin := time.Now()
	for d.lines.Scan() { // the pipe has to be empty before Wait
	}
	err := d.cmd.Wait()
	if took := time.Since(begin); took > 15*time.Second {
		d.t.Errorf("it took %s to end", took)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	if d.cmd.ProcessState.ExitCode() < 0 {
		d.t.Errorf("it was ended by the signal itself: %v", err)
	}
	nothingLeft(d.t, d.tmp)
	return d.cmd.ProcessState.ExitCode()
}

// nothingLeft checks that a temporary directory is empty and that no process
// knows it.
func nothingLeft(t *testing.T, tmp string) {
	t.Helper()
	entries, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "osm-gitops-demo-") {
			t.Errorf("%s is left", filepath.Join(tmp, e.Name()))
		}
	}
	noProcess(t, tmp)
}

// noProcess checks that no process but this one has a directory on its command
// line or in its environment.
func noProcess(t *testing.T, dir string) {
	t.Helper()
	// Killed processes take a moment to be gone.
	if err := testenv.Until(context.WithoutCancel(t.Context()), 5*time.Second, "no process is left", func() error {
		if left := processesOf(t, dir); len(left) > 0 {
			return fmt.Errorf("left running:\n%s", strings.Join(left, "\n"))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

var number = regexp.MustCompile(`^[0-9]+$`)

func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		if !number.MatchString(e.Name()) || e.Name() == strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, file := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(filepath.Join("/proc", e.Name(), file))
			if err == nil && bytes.Contains(b, []byte(dir)) { // it can have exited meanwhile
				cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
				found = append(found, e.Name()+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
				break
			}
		}
	}
	return found
}

// needControlPlane skips if no control plane can be started, as test/cluster does.
func needControlPlane(t *testing.T) {
	t.Helper()
	err := errors.New("OSM_SKIP_CONTROLPLANE=1")
	if os.Getenv("OSM_SKIP_CONTROLPLANE") != "1" {
		_, err = program.ControlPlane.Path(t.Context(), os.Stderr)
	}
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" || os.Getenv("OSM_SKIP_CONTROLPLANE") != "1" && !errors.Is(err, program.ErrUnavailable) {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "demo: SKIPPED %s: %v\n", t.Name(), err)
	t.Skip(err) // without a control plane; CI has failed above
}
