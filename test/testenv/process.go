package testenv

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running program, which ends with the one that started it.
type Process struct {
	Cmd *exec.Cmd
	// Exited is closed when it has ended.
	Exited chan struct{}
}

// Start runs a program whose output is added to a file.
func Start(log, program string, args ...string) (*Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &Process{Cmd: exec.Command(program, args...), Exited: make(chan struct{})}
	p.Cmd.Stdout, p.Cmd.Stderr = out, out
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
		err := p.Cmd.Start()
		started <- err
		if err == nil {
			_ = p.Cmd.Wait() // the log has the reason of its exit
			close(p.Exited)
		}
	}()
	return p, <-started
}

// Stop asks it to end, and insists after a minute.
func (p *Process) Stop() {
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.Exited:
	case <-time.After(time.Minute):
		p.Kill()
	}
}

// Kill ends it as a crash would.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.Exited
}

// FreeAddress returns a free port on loopback. If another process takes the port before it is used,
// its user fails with an error that says so.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
