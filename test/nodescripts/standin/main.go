// Command standin is the only program of ours inside a node of test/nodescripts.
//
// With the name "boot" it is process 1: it makes a root of a directory, in new namespaces, runs
// one program there and ends with it. When the test exits its file descriptor 3 is closed, and
// the kernel ends the node with process 1, so nothing has to be cleaned up.
//
// With any other name it stands in for the program of that name: it asks the test for its action,
// which is to print something or to execute the real program.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

// statusBroken is the exit status for a fault of the node itself; no other exit uses it.
const statusBroken = 121

func main() {
	run := call
	if os.Args[0] == "boot" {
		run = boot
	}
	status, err := run()
	if err != nil {
		fmt.Fprintf(os.Stderr, "standin: %s: %v\n", os.Args[0], err)
		os.Exit(statusBroken)
	}
	os.Exit(status)
}

func boot() (int, error) {
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "test"))
		os.Exit(statusBroken) // the test has exited
	}()
	var b protocol.Boot
	if err := json.Unmarshal([]byte(os.Args[1]), &b); err != nil {
		return 0, err
	}
	if err := enter(b); err != nil {
		return 0, err
	}
	// By hand, not by exec.Cmd: process 1 also reaps what others leave behind.
	pid, err := syscall.ForkExec(b.Argv[0], b.Argv, &syscall.ProcAttr{Dir: "/", Env: b.Env, Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, fmt.Errorf("starting %q: %w", b.Argv, err)
	}
	for {
		var status syscall.WaitStatus
		switch got, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case got == pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case got == pid:
			return status.ExitStatus(), nil
		}
	}
}

// enter makes the root of this process.
func enter(b protocol.Boot) error {
	type mount struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	in := func(path string) string { return filepath.Join(b.Root, path) }
	mounts := []mount{{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE, ""}}
	readOnly := func(source, target string) {
		mounts = append(mounts,
			mount{source, target, "", syscall.MS_BIND, ""},
			mount{"", target, "", syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY, ""})
	}
	mounts = append(mounts,
		mount{"tmpfs", in("/run"), "tmpfs", syscall.MS_NODEV, "mode=755"},
		mount{"tmpfs", in("/tmp"), "tmpfs", syscall.MS_NODEV, "mode=1777"},
		mount{"tmpfs", in("/dev"), "tmpfs", 0, "mode=755"},
		mount{"proc", in("/proc"), "proc", 0, ""},
		mount{"sysfs", in("/sys"), "sysfs", syscall.MS_RDONLY, ""})
	readOnly(in("/proc/sys"), in("/proc/sys"))
	for target, source := range b.Binds {
		readOnly(source, in(target))
	}
	for _, m := range mounts {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %q at %s: %w", m.source, m.target, err)
		}
	}
	for _, device := range b.Devices {
		if err := os.WriteFile(in(device), nil, 0o666); err != nil {
			return err
		}
		if err := syscall.Mount(device, in(device), "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", device, err)
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, in("/dev/"+name)); err != nil {
			return err
		}
	}
	if err := syscall.Sethostname([]byte(b.Hostname)); err != nil {
		return fmt.Errorf("setting the host name %q: %w", b.Hostname, err)
	}
	if err := syscall.Chroot(b.Root); err != nil {
		return err
	}
	return os.Chdir("/")
}

func call() (int, error) {
	conn, err := net.Dial("unix", protocol.Socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	argv := slices.Clone(os.Args)
	argv[0] = filepath.Base(argv[0])
	c := protocol.Call{Argv: argv, Env: os.Environ(), Dir: dir}
	for pid := os.Getppid(); pid > 1; {
		var line []string
		line, pid, err = process(pid)
		if err != nil {
			break // it has ended
		}
		c.Parents = append(c.Parents, line)
	}
	if err := json.NewEncoder(conn).Encode(c); err != nil {
		return 0, err
	}
	var r protocol.Reply
	if err := json.NewDecoder(conn).Decode(&r); err != nil {
		return 0, fmt.Errorf("waiting for what to do: %w", err)
	}
	if r.Exec != "" {
		return 0, syscall.Exec(r.Exec, r.Argv, os.Environ())
	}
	fmt.Fprint(os.Stdout, r.Stdout)
	fmt.Fprint(os.Stderr, r.Stderr)
	return r.Exit, nil
}

// process returns a process's command line and its parent.
func process(pid int) (argv []string, parent int, err error) {
	dir := "/proc/" + strconv.Itoa(pid)
	line, err := os.ReadFile(dir + "/cmdline")
	if err != nil {
		return nil, 0, err
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return nil, 0, err
	}
	// pid (name) state ppid; a name may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 2 {
		return nil, 0, fmt.Errorf("%s/stat: %q", dir, stat)
	}
	parent, err = strconv.Atoi(fields[1])
	return strings.Split(strings.TrimRight(string(line), "\x00"), "\x00"), parent, err
}
