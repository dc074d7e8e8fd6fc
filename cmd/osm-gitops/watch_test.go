package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// session is a program that a script talks to while it runs.
type session struct {
	cmd   *exec.Cmd
	lines chan string
	ended chan error
}

// sessionKey is the session's place among the values of a script.
type sessionKey struct{}

// hangs is when a program that says nothing is taken to hang.
const hangs = 2 * time.Minute

// watching starts a program and leaves it running: `watching program args...`.
func watching(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: watching program args...")
	}
	reader, writer := io.Pipe()
	program, err := exec.LookPath(ts.Getenv("BIN") + "/" + args[0])
	ts.Check(err)
	s := &session{cmd: exec.Command(program, args[1:]...), lines: make(chan string, 1000), ended: make(chan error, 1)}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = ts.Getenv("WORK"), writer, writer
	ts.Check(s.cmd.Start())
	go func() {
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			s.lines <- lines.Text()
		}
		close(s.lines)
	}()
	go func() {
		s.ended <- s.cmd.Wait()
		writer.Close()
	}()
	ts.Defer(func() { _ = s.cmd.Process.Kill() }) // it may have ended already
	sessions(ts)[sessionKey{}] = s
}

// sessions are the values of a script, which Setup has made.
func sessions(ts *testscript.TestScript) map[any]any {
	values, ok := ts.Value(sessionKey{}).(map[any]any)
	if !ok {
		ts.Fatalf("there is no place for a session")
	}
	return values
}

func running(ts *testscript.TestScript) *session {
	s, ok := sessions(ts)[sessionKey{}].(*session)
	if !ok {
		ts.Fatalf("nothing is being watched")
	}
	return s
}

// expect waits for a line that holds a text: `expect TEXT`.
func expect(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expect TEXT")
	}
	s := running(ts)
	var seen []string
	late := time.After(hangs)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				ts.Fatalf("it ended without %q:\n%s", args[0], strings.Join(seen, "\n"))
			}
			seen = append(seen, line)
			if strings.Contains(line, args[0]) {
				ts.Logf("%s", strings.Join(seen, "\n"))
				return
			}
		case <-late:
			ts.Fatalf("it does not say %q:\n%s", args[0], strings.Join(seen, "\n"))
		}
	}
}

// interrupt sends the program the signal of Ctrl-C; it must end with status 0.
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: interrupt")
	}
	s := running(ts)
	ts.Check(s.cmd.Process.Signal(os.Interrupt))
	select {
	case err := <-s.ended:
		if err != nil {
			ts.Fatalf("an interrupt ends it with %v", err)
		}
	case <-time.After(hangs):
		ts.Fatalf("an interrupt does not end it")
	}
}
