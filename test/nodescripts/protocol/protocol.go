// Package protocol has the messages between a node of test/nodescripts and the test that controls
// it. It makes no decisions; start with Call.
package protocol

import (
	"errors"
	"strconv"
	"strings"
)

// Inside a node everything of the test's own is below Dir.
const (
	Dir = "/.rehearsal"
	// Socket is the socket on which the test answers the programs of the node. Who connects has
	// asked; the answer is a Reply.
	Socket = Dir + "/socket"
	// StandIn is the program that does, in place of every other one.
	StandIn = Dir + "/standin"
	// HostUsr is the machine's own /usr, read-only.
	HostUsr = Dir + "/usr"
)

// StatusBroken is the exit status for a fault of the node itself; no other exit uses it.
const StatusBroken = 121

// Boot says how process 1 makes a node of a directory, and what it runs there. It
// is the one argument of the program "boot", in JSON.
type Boot struct {
	// Root is the node's root directory on the host.
	Root string
	// Binds are directories of the host that a node sees, read-only, by their path
	// in the node.
	Binds map[string]string
	// Devices are device nodes of the host.
	Devices  []string
	Hostname string
	Argv     []string
	Env      []string
}

// Call is one start of a program in a node.
type Call struct {
	// Argv is the command line. Parents are those of the processes that called it,
	// the nearest first.
	Argv    []string
	Parents [][]string
}

// Reply says what the program does.
type Reply struct {
	// Exec is a program to become, with the arguments Argv; empty: none.
	Exec string
	Argv []string
	// Otherwise it prints these and exits.
	Stdout, Stderr string
	Exit           int
}

// String encodes a reply whose texts have no NUL.
func (r Reply) String() string {
	return strings.Join(append([]string{r.Exec, strconv.Itoa(r.Exit), r.Stdout, r.Stderr}, r.Argv...), "\x00")
}

// ParseReply is the inverse of String.
func ParseReply(s string) (Reply, error) {
	fields := strings.Split(s, "\x00")
	if len(fields) < 4 {
		return Reply{}, errors.New("there is no reply")
	}
	exit, err := strconv.Atoi(fields[1])
	return Reply{Exec: fields[0], Exit: exit, Stdout: fields[2], Stderr: fields[3], Argv: fields[4:]}, err
}
