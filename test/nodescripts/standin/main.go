// Command standin stands in for a program inside a node of test/nodescripts. It asks the test for its
// action, which is to print something or to become the real program.
//
// It starts 12,000 times in a run of the tests. It imports hardly anything, because half of the CPU of
// a start was the initialization of packages.
package main

import (
	"os"
	"strings"
	"syscall"

	"github.com/osm-gitops/osm-gitops/test/nodescripts/protocol"
)

func main() {
	reply, err := ask()
	if err == nil && reply.Exec != "" {
		err = syscall.Exec(reply.Exec, reply.Argv, os.Environ()) // returns only if it fails
	}
	if err != nil {
		_, _ = os.Stderr.WriteString("standin: " + err.Error() + "\n")
		os.Exit(protocol.StatusBroken)
	}
	// A pipe that nobody reads ends the program, as it would end the real one.
	_, _ = os.Stdout.WriteString(reply.Stdout)
	_, _ = os.Stderr.WriteString(reply.Stderr)
	os.Exit(reply.Exit)
}

// ask waits for what to do. The test finds out by itself who asks.
func ask() (protocol.Reply, error) {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return protocol.Reply{}, err
	}
	if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: protocol.Socket}); err != nil {
		return protocol.Reply{}, err
	}
	var text strings.Builder
	for buffer := make([]byte, 4096); ; {
		n, err := syscall.Read(fd, buffer)
		if err != nil {
			return protocol.Reply{}, err
		}
		if n == 0 {
			return protocol.ParseReply(text.String())
		}
		text.Write(buffer[:n])
	}
}
