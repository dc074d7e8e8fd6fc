package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// stopPatience is how long the controller may take to end by itself.
const stopPatience = 5 * time.Second

// process is a program of the demo. It leads its own process group, so that it can be ended with
// all of its children, and the kernel kills it when the demo ends, even if that is killed.
type process struct {
	pid    int
	exited chan struct{}
	err    error // of Wait, once exited is closed
}

// start starts a command from a thread that lives as long as the command: the
// kernel sends Pdeathsig when the starting thread ends, and Go ends threads at will.
func start(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	return p, <-started
}

// kill ends a process and its children, and waits until they have exited.
func (p *process) kill() {
	select {
	case <-p.exited: // its process id can belong to another process now
	default:
		_ = syscall.Kill(-p.pid, syscall.SIGKILL)
		<-p.exited
	}
}

// stop asks a process to end, and insists after a while.
func (p *process) stop() {
	select {
	case <-p.exited:
		return
	default:
		_ = syscall.Kill(p.pid, syscall.SIGTERM)
	}
	select {
	case <-p.exited:
	case <-time.After(stopPatience):
		p.kill()
	}
}

// output runs a command to its end and returns what it printed.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	p, err := start(cmd)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		p.kill()
		return "", context.Cause(ctx)
	}
	if p.err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), p.err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// tail returns the last lines of a file.
func tail(path string, lines int) string {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
