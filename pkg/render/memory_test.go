package render_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// controllerEnv makes this test binary act as the controller; its value is the memory limit.
const controllerEnv = "RENDER_AS_CONTROLLER"

// ballastBytes is the memory that the controller uses for some thousand pools.
const ballastBytes = 150 << 20

// Ten hostile profiles at once, each rendered many times, do not push the process over the
// memory limit of the Pod, and a pool with a usual profile is rendered meanwhile (security.md
// 37).
func TestHostileProfilesAtOnce(t *testing.T) {
	if os.Getenv(controllerEnv) != "" {
		renderAtOnce(t)
		return
	}
	limit, soft := podLimits(t)
	if testing.Short() {
		t.Skip("it renders for some seconds")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHostileProfilesAtOnce$", "-test.v")
	cmd.Env = append(os.Environ(), controllerEnv+"=1", "GOMEMLIMIT="+soft, "GOGC=100") // the default, as in the Pod
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := regexp.MustCompile(`(?m)^peak (\d+) of (\d+) served$`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("the process said\n%s", out)
	}
	peak, _ := strconv.Atoi(string(m[1]))
	// The race detector takes several times as much. make test runs this without it, too.
	if !render.RaceDetector && (peak < ballastBytes || peak > limit) {
		t.Errorf("the process took %d MiB, want at most the Pod's %d", peak>>20, limit>>20)
	}
	t.Logf("the process took %d MiB of the Pod's %d; %s renderings of another pool were served", peak>>20, limit>>20, m[2])
}

// podLimits are the memory limit of the Pod in bytes, and its GOMEMLIMIT.
func podLimits(t *testing.T) (limit int, soft string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/controller.yaml")
	if err != nil {
		t.Fatal(err)
	}
	memory := regexp.MustCompile(`limits:\s+memory: (\d+)Mi\n`).FindSubmatch(text)
	variable := regexp.MustCompile(`name: GOMEMLIMIT\s+value: (\S+)\n`).FindSubmatch(text)
	if memory == nil || variable == nil {
		t.Fatal("deploy/controller.yaml has no memory limit, or no GOMEMLIMIT")
	}
	n, err := strconv.Atoi(string(memory[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n << 20, string(variable[1])
}

// renderAtOnce is the process: workers with a hostile profile each, and one pool that has
// to be served while they render.
func renderAtOnce(t *testing.T) {
	ballast := bytes.Repeat([]byte{1}, ballastBytes)
	defer runtime.KeepAlive(ballast)
	engine := render.NewEngine()
	templates := []string{}
	for _, name := range []string{"fromToml", "fromToml wide", "fromYaml wide", "fromJson wide", "toYaml once", "snakecase", "variables", "output", "output, quick", "actions"} {
		text := hostile()[name]
		if text == "" {
			t.Fatalf("there is no template %q", name)
		}
		templates = append(templates, text)
	}
	var wg sync.WaitGroup
	for i, text := range templates {
		wg.Go(func() {
			in := hostileInput(t, text)
			for n := range 2 { // new versions of it
				in.Profile.Digest = fmt.Sprintf("v1:sha256:%d.%d", i, n)
				if _, err := engine.Render(in); err != nil && strings.Contains(err.Error(), "room") {
					t.Errorf("the error speaks of rooms: %v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	usual := sampleInput(t)
	served := 0
	for waiting := true; waiting; served++ {
		if _, err := engine.Render(usual); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			waiting = false
		default:
		}
	}
	if served < len(templates) {
		t.Errorf("only %d renderings of the usual pool were served", served)
	}
	fmt.Printf("\npeak %d of %d served\n", peakRSS(t), served)
}

// peakRSS is the most memory that this process has had, as the kernel counts it.
func peakRSS(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skipf("the kernel does not say what a process takes: %v", err)
	}
	for s := bufio.NewScanner(bytes.NewReader(status)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatal("/proc/self/status has no VmHWM")
	return 0
}
