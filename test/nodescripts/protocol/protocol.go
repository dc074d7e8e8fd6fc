// Package protocol has the messages between a node of test/nodescripts and the test that controls
// it. It makes no decisions; start with Call.
package protocol

// Inside a node everything of the test's own is below Dir.
const (
	Dir = "/.rehearsal"
	// Socket is the socket on which the test answers the programs of the node.
	Socket = Dir + "/socket"
	// StandIn is the program that does, in place of every other one.
	StandIn = Dir + "/standin"
	// HostUsr is the machine's own /usr, read-only.
	HostUsr = Dir + "/usr"
)

// Boot says how process 1 makes a node of a directory, and what it runs there. It
// is the one argument of the program "boot".
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
	Env     []string
	Dir     string
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
