// Command boot is process 1 of a node of test/nodescripts: it makes a root of a directory, in new
// namespaces, runs one program there and ends with it. When the test exits its file descriptor 3 is
// closed, and the kernel ends the node with process 1, so nothing has to be cleaned up.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

func main() {
	status, err := boot()
	if err != nil {
		fmt.Fprintf(os.Stderr, "boot: %v\n", err)
		os.Exit(protocol.StatusBroken)
	}
	os.Exit(status)
}

func boot() (int, error) {
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "test"))
		os.Exit(protocol.StatusBroken) // the test has exited
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
