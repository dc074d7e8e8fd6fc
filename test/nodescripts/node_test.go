package nodescripts_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

// bootTimeout bounds one run in a node: what hangs is a finding.
const bootTimeout = 10 * time.Minute

// servicePath is where systemd's services look for programs:
// https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Environment%20Variables%20in%20Spawned%20Processes
const servicePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"

// node is a machine: a root directory, a network of its own, and what systemd and
// the distribution would know of it. Runs come one after the other; what is said
// of a node by a program in it is said under mu.
type node struct {
	t    testing.TB
	dir  string
	net  *network
	hold *os.File // closed: every process of the node ends

	mu      sync.Mutex
	system  system
	machine machine
	// document is the user-data. cloudInitDies says how often cloud-init ends in the
	// middle of writing files.
	document      *document
	cloudInitDies int
	calls         []protocol.Call
	output        bytes.Buffer // of all runs
	said          bytes.Buffer // of this one
	// killAt is the number of the call, from 1, at which the power fails; 0: never.
	killAt int
	power  *os.Process   // process 1 of the current run
	dead   chan struct{} // closed when that has ended
	// onCall, if set, is asked before every call; onSleep after every failed attempt.
	onCall  func(protocol.Call)
	onSleep func(n int)
	// onKubelet, if set, is called when the kubelet starts.
	onKubelet func()
	sleeps    []float64 // in seconds, of supervise.sh
	// override, if set, can answer a call in place of the stand-ins.
	override func(protocol.Call) *protocol.Reply
}

// newNode makes a machine of an image, without a network address but for loopback.
func newNode(t testing.TB, s system) *node {
	t.Helper()
	needNodes(t)
	// Not t.TempDir: a socket's path has room for 108 bytes.
	dir, err := os.MkdirTemp("", "node-")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: dir, system: s}
	t.Cleanup(func() {
		if t.Failed() {
			n.report()
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("a node has left something behind: %v", err)
		}
	})
	n.machine = newMachine()
	n.image()
	n.net = newNetwork(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	n.hold = reader
	t.Cleanup(func() { writer.Close(); reader.Close() })
	n.listen()
	return n
}

// path is a path of the node on the host. The directories of a node have no links
// but those of image, so no path leads out of it.
func (n *node) path(parts ...string) string {
	return filepath.Join(append([]string{n.dir}, parts...)...)
}

// image fills the root: directories, the programs as links to the stand-in, and the few files that
// an image has in /etc.
func (n *node) image() {
	for _, dir := range []string{
		"/boot", "/dev", "/etc/cloud/cloud.cfg.d", "/etc/ssl/certs", "/etc/systemd/system", "/home", "/opt", "/proc", "/root", "/run", "/sys", "/tmp",
		"/usr/bin", "/usr/lib", "/usr/lib64", "/usr/sbin", "/usr/share", "/usr/local/bin", "/usr/local/sbin", "/var/lib", "/var/log",
		protocol.HostUsr,
	} {
		n.must(os.MkdirAll(n.path(dir), 0o755))
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		n.must(os.Symlink("usr/"+dir, n.path(dir)))
	}
	for _, program := range n.system.programs() {
		n.install(program)
	}
	for path, text := range n.system.files() {
		n.write(path, text, 0o644)
	}
	// One file for all nodes: nothing may write to it or change its mode.
	n.must(os.Link(standIn, n.path(protocol.StandIn)))
}

// install puts a program into the node. Shells are themselves: they are what is
// tested, and their commands are what is recorded.
func (n *node) install(program string) {
	target := protocol.StandIn
	shell := program == "bash" || program == "sh" || program == "env"
	if shell || !n.system.recorded && slices.Contains(realPrograms, program) && !slices.Contains(watched, program) {
		real, err := hostProgram(program)
		n.must(err)
		target = inNode(real)
	}
	if err := os.Symlink(target, n.path("/usr/bin", program)); !errors.Is(err, os.ErrExist) {
		n.must(err)
	}
}

// hostPrograms are the paths that hostProgram found, by name: each node asks for some 40 of them.
var hostPrograms sync.Map

// hostProgram finds a program of the machine below /usr.
func hostProgram(name string) (string, error) {
	if path, ok := hostPrograms.Load(name); ok {
		return path.(string), nil
	}
	path, err := findHostProgram(name)
	if err == nil {
		hostPrograms.Store(name, path)
	}
	return path, err
}

func findHostProgram(name string) (string, error) {
	if name == "sh" {
		name = "bash" // the usual /bin/sh of the systems that profiles are for
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("there is no program %q on this machine", name)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	if strings.HasPrefix(path, "/bin/") || strings.HasPrefix(path, "/sbin/") {
		path = "/usr" + path
	}
	if !strings.HasPrefix(path, "/usr/") {
		return "", fmt.Errorf("%s is not below /usr, which is what nodes see of this machine", path)
	}
	return path, nil
}

// inNode returns the path of a file of the host's /usr inside a node.
func inNode(path string) string { return protocol.HostUsr + strings.TrimPrefix(path, "/usr") }

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) write(path, content string, mode os.FileMode) {
	n.t.Helper()
	n.must(os.MkdirAll(n.path(filepath.Dir(path)), 0o755))
	n.must(os.RemoveAll(n.path(path)))
	n.must(os.WriteFile(n.path(path), []byte(content), mode))
	n.must(os.Chmod(n.path(path), mode)) // independent of the umask
}

func (n *node) read(path string) string {
	n.t.Helper()
	b, err := os.ReadFile(n.path(path))
	n.must(err)
	return string(b)
}

func (n *node) exists(path string) bool {
	_, err := os.Lstat(n.path(path))
	return err == nil
}

// result is how a run ended.
type result struct {
	status int
	output string
	// died: the power failed, or the machine was rebooted.
	died bool
}

// run runs a command in the node until it ends, as a service with this environment
// would.
func (n *node) run(env []string, argv ...string) result {
	n.t.Helper()
	hostname, err := os.ReadFile(n.path("/etc/hostname"))
	n.must(err)
	how, err := json.Marshal(protocol.Boot{
		Root: n.dir, Binds: hostBinds(), Devices: []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"},
		Hostname: strings.TrimSpace(string(hostname)),
		Argv:     argv, Env: append([]string{"PATH=" + servicePath, "LANG=C.UTF-8"}, env...),
	})
	n.must(err)
	out := &speech{n}
	cmd := &exec.Cmd{
		Path: boot, Args: []string{"boot", string(how)}, Stdout: out, Stderr: out, ExtraFiles: []*os.File{n.hold},
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC},
	}
	n.mu.Lock() // no program of the node is heard before its process is known
	n.said.Reset()
	n.net.do(func() { err = cmd.Start() })
	n.power, n.dead = cmd.Process, make(chan struct{})
	n.mu.Unlock()
	n.must(err)
	hung := time.AfterFunc(bootTimeout, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	close(n.dead)
	if !hung.Stop() {
		n.t.Errorf("%q still ran after %s", argv, bootTimeout)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.power = nil
	fmt.Fprintf(&n.output, "--- %q\n%s", argv, n.said.String())
	r := result{status: cmd.ProcessState.ExitCode(), output: n.said.String(), died: cmd.ProcessState.ExitCode() < 0}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.t.Fatal(err)
	}
	return r
}

// speech is where a run's output goes.
type speech struct{ n *node }

func (s *speech) Write(b []byte) (int, error) {
	s.n.mu.Lock()
	defer s.n.mu.Unlock()
	return s.n.said.Write(b)
}

// hostBinds are the parts of the machine that a node sees: libraries, and programs
// out of the way.
var hostBinds = sync.OnceValue(func() map[string]string {
	binds := map[string]string{protocol.HostUsr: "/usr"}
	for _, dir := range []string{"/usr/lib", "/usr/lib64"} {
		for _, source := range []string{dir, strings.TrimPrefix(dir, "/usr")} {
			if real, err := filepath.EvalSymlinks(source); err == nil {
				binds[dir] = real
			}
		}
	}
	return binds
})

// listen answers the programs of the node.
func (n *node) listen() {
	l, err := net.Listen("unix", n.path(protocol.Socket))
	n.must(err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				n.mu.Lock()
				power, dead := n.power, n.dead
				n.mu.Unlock()
				if power == nil {
					<-dead
					return
				}
				c, err := callOf(conn.(*net.UnixConn), power.Pid)
				if ended := errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone); err != nil && !ended {
					n.t.Errorf("finding out who asks: %v", err)
				}
				if err != nil {
					return
				}
				r, dead := n.answer(c)
				if r == nil {
					<-dead // an end of file would be an answer, and the script go on
					return
				}
				_, _ = io.WriteString(conn, r.String()) // fails if the node has exited
			})
		}
	})
	n.t.Cleanup(func() { l.Close(); wg.Wait() })
}

// callOf returns the call of the process that has connected. first is process 1 of its node.
func callOf(conn *net.UnixConn, first int) (c protocol.Call, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return c, err
	}
	var peer *syscall.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); controlErr != nil {
		return c, controlErr
	}
	if err != nil {
		return c, err
	}
	argv, pid, err := process(int(peer.Pid))
	if err != nil {
		return c, err
	}
	c.Argv = append([]string{filepath.Base(argv[0])}, argv[1:]...)
	for pid != first {
		argv, pid, err = process(pid)
		if err != nil {
			break // it has ended
		}
		c.Parents = append(c.Parents, argv)
	}
	return c, nil
}

// process returns a process's command line and its parent.
func process(pid int) (argv []string, parent int, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	line, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return nil, 0, err
	}
	if len(line) == 0 {
		return nil, 0, fmt.Errorf("process %d: %w", pid, os.ErrProcessDone)
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return nil, 0, err
	}
	// pid (name) state ppid; a name may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return nil, 0, fmt.Errorf("%s/stat: %q", dir, stat)
	}
	parent, err = strconv.Atoi(fields[1])
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), parent, err
}

// answer records a call and says what the program does; nil: it never gets to know,
// for the machine is off, and will have ended when dead is closed.
func (n *node) answer(c protocol.Call) (r *protocol.Reply, dead chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.power == nil {
		return nil, n.dead
	}
	n.calls = append(n.calls, c)
	if n.onCall != nil {
		n.onCall(c)
	}
	if len(n.calls) == n.killAt {
		n.off()
		return nil, n.dead
	}
	if n.override != nil {
		r = n.override(c)
	}
	if r == nil && n.power != nil {
		usual := n.program(c)
		r = &usual
	}
	if n.power == nil {
		r = nil
	}
	return r, n.dead
}

// off ends every process of the node at once. The caller holds mu.
func (n *node) off() {
	_ = n.power.Kill() // fails if it has exited
	n.power = nil
}

// report says what happened in a node, for a failed test.
func (n *node) report() {
	n.mu.Lock()
	defer n.mu.Unlock()
	var calls strings.Builder
	from := max(0, len(n.calls)-60)
	for i, c := range n.calls[from:] {
		fmt.Fprintf(&calls, "%4d %s\n", from+i+1, strings.Join(c.Argv, " "))
	}
	out := n.output.String()
	if len(out) > 8000 {
		out = "..." + out[len(out)-8000:]
	}
	n.t.Logf("output of the node:\n%s\nits last calls:\n%s", out, calls.String())
}

// network is a network namespace: a thread that is in it, and runs what is sent.
type network struct {
	work chan func()
}

func newNetwork(t testing.TB) *network {
	t.Helper()
	n := &network{work: make(chan func())}
	ready := make(chan error)
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		ready <- err
		if err == nil {
			for f := range n.work {
				f()
			}
		}
	})
	if err := <-ready; err != nil {
		t.Fatalf("making a network: %v", err)
	}
	t.Cleanup(func() { close(n.work); wg.Wait() })
	n.ip(t, "link set lo up")
	return n
}

// do runs f inside the network. What f starts, or listens on, stays there.
func (n *network) do(f func()) {
	done := make(chan struct{})
	n.work <- func() { f(); close(done) }
	<-done
}

// ip runs ip commands in the network.
func (n *network) ip(t testing.TB, commands ...string) {
	t.Helper()
	n.do(func() {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ip %q: %v: %s", commands, err, out)
		}
	})
}

// uplink gives the network an interface with these addresses and default routes.
func (n *network) uplink(t testing.TB, addresses ...string) {
	t.Helper()
	commands := []string{"link add eth0 type veth peer name peer0", "link set eth0 up", "link set peer0 up"}
	for _, a := range addresses {
		if strings.Contains(a, ":") {
			commands = append(commands, "addr add "+a+" dev eth0 nodad", "route add ::/0 dev eth0")
		} else {
			commands = append(commands, "addr add "+a+" dev eth0", "route add default dev eth0")
		}
	}
	n.ip(t, commands...)
}

func (n *network) listen(t testing.TB, address string) net.Listener {
	t.Helper()
	var l net.Listener
	var err error
	n.do(func() { l, err = net.Listen("tcp", address) })
	if err != nil {
		t.Fatalf("listening on %s: %v", address, err)
	}
	return l
}

// contains reports whether list has all of want, in any order.
func contains(list []string, want ...string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(list, w) })
}
