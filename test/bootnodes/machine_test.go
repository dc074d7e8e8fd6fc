package bootnodes_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/test/nodefixture"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// machinesDir has the machines' file systems, in memory.
const machinesDir = "/run/machines"

// patience bounds every wait. A test that reaches it fails, so it is generous: a soak has a machine
// with an emulated processor.
var patience = func() time.Duration {
	if soak {
		return 30 * time.Minute
	}
	return 10 * time.Minute
}()

// rebooted is the exit status of systemd-nspawn if the machine asks to be started again: see
// --keep-unit and "EXIT STATUS" in systemd-nspawn(1).
const rebooted = 133

// machine is a container: it shares the kernel of this machine and nothing more.
type machine struct {
	t      *testing.T
	cloud  *cloud
	system *system
	name   string
	// document is its user-data.
	document string
	// number is that of its network, 10.77.NUMBER.0/24.
	number int
	// Root is its file system, Upper what it has changed of its image.
	root, upper string

	mu       sync.Mutex
	leader   int      // its process 1, as this process sees it
	exited   chan int // of systemd-nspawn
	status   chan int // of the last start
	consoles int
}

// newMachine makes one that is switched off, and boots from a document.
func newMachine(t *testing.T, c *cloud, s *system, name, document string) *machine {
	t.Helper()
	m := &machine{t: t, cloud: c, system: s, name: name, document: document, number: c.nextNetwork()}
	dir := filepath.Join(machinesDir, name)
	m.root, m.upper = filepath.Join(dir, "root"), filepath.Join(dir, "upper")
	work := filepath.Join(dir, "work")
	for _, d := range []string{m.root, m.upper, m.images(), work} {
		m.must(os.MkdirAll(d, 0o755))
	}
	lower := filepath.Join(os.Getenv(rootEnv+s.image), "root")
	m.must(syscall.Mount("overlay", m.root, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, m.upper, work)))
	t.Cleanup(func() {
		m.off()
		if t.Failed() {
			m.report()
		}
		for _, err := range []error{syscall.Unmount(filepath.Join(dir, "root"), syscall.MNT_DETACH), os.RemoveAll(dir), ip("netns del " + m.name)} {
			if err != nil {
				t.Errorf("a machine has left something behind: %v", err)
			}
		}
	})
	m.connect()
	m.furnish()
	return m
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// connect joins a network of its own to the cloud's.
func (m *machine) connect() {
	m.t.Helper()
	cloudEnd := fmt.Sprintf("to-machine-%d", m.number)
	m.must(ip(
		"netns add "+m.name,
		fmt.Sprintf("link add %s type veth peer name eth0 netns %s", cloudEnd, m.name),
		fmt.Sprintf("addr add 10.77.%d.1/24 dev %s", m.number, cloudEnd),
		"link set "+cloudEnd+" up",
		"-netns "+m.name+" link set lo up",
		fmt.Sprintf("-netns %s addr add %s/24 dev eth0", m.name, m.address()),
		"-netns "+m.name+" link set eth0 up",
		fmt.Sprintf("-netns %s route add default via 10.77.%d.1", m.name, m.number),
	))
}

// api and downloads are what goes wrong for this machine.
func (m *machine) api() *trouble       { return m.cloud.front.troubles.of(m.address()) }
func (m *machine) downloads() *trouble { return m.cloud.publishers.troubles.of(m.address()) }

func (m *machine) address() string { return fmt.Sprintf("10.77.%d.10", m.number) }

// path is a path of the machine on the host. Only the test and its images make links.
func (m *machine) path(path string) string { return filepath.Join(m.root, path) }

func (m *machine) write(path, text string, mode os.FileMode) {
	m.t.Helper()
	m.must(m.put(nodefixture.File{Path: path, Content: []byte(text), Mode: mode}))
}

// put writes a file and replaces an existing one.
func (m *machine) put(f nodefixture.File) error {
	path := m.path(f.Path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, f.Content, f.Mode); err != nil {
		return err
	}
	return os.Chmod(path, f.Mode) // independent of the umask
}

func (m *machine) exists(path string) bool {
	_, err := os.Lstat(m.path(path))
	return err == nil
}

func (m *machine) read(path string) string {
	m.t.Helper()
	b, err := os.ReadFile(m.path(path))
	m.must(err)
	return string(b)
}

// on switches the machine on, and again whenever it reboots.
func (m *machine) on() {
	m.t.Helper()
	m.status = make(chan int, 1)
	m.must(m.start())
	go func() {
		for {
			status := m.wait()
			m.mu.Lock()
			m.leader = 0
			m.mu.Unlock()
			if status != rebooted {
				m.status <- status
				return
			}
			if err := m.start(); err != nil {
				m.t.Errorf("starting %s again: %v", m.name, err)
				m.status <- -1
				return
			}
		}
	}()
}

// console is the file with what the machine prints at its nth start.
func (m *machine) console(n int) string {
	return filepath.Join(filepath.Dir(m.root), fmt.Sprintf("console-%d", n))
}

// images is containerd's folder of images, outside of root: an overlay cannot be on top of an overlay.
func (m *machine) images() string { return filepath.Join(filepath.Dir(m.root), "images") }

// groups are the control groups of the machine. They are this process's to remove:
// systemd-nspawn leaves its own.
func (m *machine) groups() []string {
	var groups []string
	for _, tree := range cgroupTrees() {
		groups = append(groups, filepath.Join(tree, ours+os.Getenv(insideEnv)+"-"+m.name))
	}
	return groups
}

// freeze stops every process of the machine if the kernel has control groups of version 2.
// Frozen processes can only be killed.
func (m *machine) freeze() error {
	for _, group := range m.groups() {
		payload := filepath.Join(group, "payload") // as systemd-nspawn calls it
		if _, err := os.Stat(filepath.Join(payload, "cgroup.freeze")); err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(payload, "cgroup.freeze"), []byte("1"), 0); err != nil {
			return err
		}
		return testenv.Until(m.t.Context(), patience, m.name+" stands still", func() error {
			b, err := os.ReadFile(filepath.Join(payload, "cgroup.events"))
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it is off
			}
			if err == nil && !bytes.Contains(b, []byte("frozen 1\n")) {
				err = fmt.Errorf("it says %q", b)
			}
			return err
		})
	}
	return nil
}

// start starts systemd-nspawn, on a terminal: without one it waits for ever.
func (m *machine) start() error {
	if err := m.system.reads(m); err != nil {
		return fmt.Errorf("before the start of %s: %w", m.name, err)
	}
	m.mu.Lock()
	m.consoles++
	console := m.console(m.consoles)
	m.mu.Unlock()
	var script strings.Builder
	for _, group := range m.groups() {
		if err := os.MkdirAll(group, 0o755); err != nil {
			return err
		}
		fmt.Fprintf(&script, "echo $$ >%s/cgroup.procs && ", group)
	}
	fmt.Fprintf(&script, "exec systemd-nspawn --quiet --register=no --keep-unit --resolv-conf=off --timezone=off --link-journal=no "+
		"--directory=%s --bind=%s:/var/lib/containerd --machine=%s --network-namespace-path=/run/netns/%s --boot", m.root, m.images(), m.name, m.name)
	cmd := exec.Command("script", "--quiet", "--return", "--command", script.String(), console)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	exited := make(chan int, 1)
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the status says how it ended
			exited <- cmd.ProcessState.ExitCode()
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	m.mu.Lock()
	m.exited = exited
	m.mu.Unlock()
	var ended error
	err := testenv.Until(m.t.Context(), patience, m.name+" has a process 1", func() error {
		select {
		case status := <-exited:
			exited <- status
			out, _ := os.ReadFile(console) // a missing file only shortens the message
			ended = fmt.Errorf("systemd-nspawn ended with %d: %s", status, out)
			return nil
		default:
		}
		leader, err := initOf(cmd.Process.Pid)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.leader = leader
		return err
	})
	return errors.Join(err, ended)
}

// leads reports whether it has a process 1 that programs can be run below.
func (m *machine) leads() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leader != 0
}

// starts is how often it has booted.
func (m *machine) starts() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.consoles
}

// wait waits until the machine is off, and removes its control groups.
func (m *machine) wait() int {
	m.mu.Lock()
	exited := m.exited
	m.mu.Unlock()
	status := <-exited
	for _, group := range m.groups() {
		if err := removeCgroup(group); err != nil {
			m.t.Errorf("%v", err)
		}
	}
	return status
}

// initOf finds, below a process, the one that is number 1 in a namespace of its own.
func initOf(pid int) (int, error) {
	below := map[int]bool{pid: true}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	found := 0
	parents, inits := map[int]int{}, []int{}
	for _, dir := range processes {
		b, err := os.ReadFile(dir + "/status")
		if err != nil {
			continue // it has ended
		}
		id, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return 0, err
		}
		var name string
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			fields := strings.Fields(value)
			switch {
			case key == "Name":
				name = strings.TrimSpace(value)
			case key == "PPid" && len(fields) == 1:
				parents[id], _ = strconv.Atoi(fields[0])
			case key == "NSpid" && len(fields) == 2 && fields[1] == "1" && name == "systemd":
				inits = append(inits, id)
			}
		}
	}
	for _, id := range inits {
		for p := id; p > 1; p = parents[p] {
			if below[p] {
				found = id
			}
		}
	}
	if found == 0 {
		return 0, errors.New("there is none yet")
	}
	return found, nil
}

// run runs a program in the machine.
func (m *machine) run(argv ...string) (string, error) {
	m.mu.Lock()
	leader := m.leader
	m.mu.Unlock()
	if leader == 0 {
		return "", errors.New("the machine is off")
	}
	args := append([]string{"--target", strconv.Itoa(leader), "--all", "--"}, argv...)
	cmd := exec.Command("nsenter", args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// journal is what the machine's journal has, over all boots, in a format.
func (m *machine) journal(format string) string {
	cmd := exec.Command("journalctl", "--no-pager", "--quiet", "--all", "--output", format, "--directory", m.path("/var/log/journal"))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		m.t.Errorf("reading the journal of %s: %v: %s", m.name, err, &said)
	}
	return string(out)
}

// off switches the machine off, if it is on.
func (m *machine) off() {
	if m.status == nil {
		return
	}
	_, _ = m.run("systemctl", "poweroff", "--force") // fails if it is off already
	select {
	case <-m.status:
	case <-time.After(30 * time.Second):
		m.mu.Lock()
		leader := m.leader
		m.mu.Unlock()
		if leader != 0 {
			_ = syscall.Kill(leader, syscall.SIGKILL)
		}
		<-m.status
	}
	m.status = nil
}

// report shows what is known of a machine on which a test has failed.
func (m *machine) report() {
	const most = 20 << 10 // bytes
	for n := range m.starts() {
		out, _ := os.ReadFile(m.console(n + 1)) // a missing file only shortens the message
		m.t.Logf("console of %s, start %d:\n%s", m.name, n+1, out[max(0, len(out)-most/4):])
	}
	journal := m.journal("short-monotonic")
	m.t.Logf("journal of %s:\n%s", m.name, journal[max(0, len(journal)-most):])
}
