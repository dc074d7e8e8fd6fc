package testenv

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
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

// reserved are sockets of UDP at the ports of FreeAddress.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreeAddress returns an address on loopback whose port is free and stays so, also between a stop
// and a start of its server: it is below the ports that Linux gives to who asks for any (from
// 32768), and other processes that ask FreeAddress see that the same port of UDP is taken.
func FreeAddress() (string, error) {
	reserved.Lock()
	defer reserved.Unlock()
	var err error
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(12768)))
		var tcp net.Listener
		if tcp, err = net.Listen("tcp", address); err != nil {
			continue
		}
		_ = tcp.Close()
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", address); err != nil {
			continue
		}
		reserved.sockets = append(reserved.sockets, udp)
		return address, nil
	}
	return "", err
}
