package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: pty(7).
func terminal(t *testing.T) (screen *bufio.Reader, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(master), tty
}

// A command that prints nothing for a second shows on a terminal that it works.
func TestProgress(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: one\nclusters:\n- {name: one, cluster: {server: \"http://%s\"}}\ncontexts:\n- {name: one, context: {cluster: one}}\n", silent.Addr())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	screen, tty := terminal(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(build(t), programName), "trace", "node/one", "--kubeconfig", config)
	cmd.Stderr = tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = tty.Close()
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	line, err := screen.ReadString('s')
	for err == nil && !strings.Contains(line, "osm-gitops: working, 1 s") {
		var more string
		more, err = screen.ReadString('s')
		line += more
	}
	if err != nil {
		t.Errorf("%v: %q", err, line)
	}
}

// Severities are colored on a terminal, or if --color says so; NO_COLOR switches it off.
func TestColor(t *testing.T) {
	program := filepath.Join(build(t), programName)
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("apiVersion: operatingsystemmanager.k8c.io/v1alpha1\nkind: OperatingSystemProfile\nmetadata: {name: osp-a}\nspec: {colour: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const red = "\x1b[31merror\x1b[0m"
	for name, c := range map[string]struct {
		terminal bool
		env      []string
		args     []string
		colored  bool
	}{
		"terminal":         {terminal: true, colored: true},
		"file":             {},
		"file, always":     {args: []string{"--color", "always"}, colored: true},
		"terminal, never":  {terminal: true, args: []string{"--color=never"}},
		"NO_COLOR":         {terminal: true, env: []string{"NO_COLOR=1"}},
		"NO_COLOR, always": {terminal: true, env: []string{"NO_COLOR=1"}, args: []string{"--color=always"}, colored: true},
		"data":             {args: []string{"-o", "json", "--color=always"}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), program, append([]string{"lint", "--shellcheck=off", broken}, c.args...)...)
			cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
			cmd.Env = append(cmd.Env, c.env...)
			var text string
			if c.terminal {
				screen, tty := terminal(t)
				cmd.Stdout = tty
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				_ = tty.Close()
				for {
					line, err := screen.ReadString('\n')
					text += line
					if err != nil { // the other side is closed
						break
					}
				}
				_ = cmd.Wait() // there are findings
			} else {
				out, _ := cmd.Output() // there are findings
				text = string(out)
			}
			if strings.Contains(text, red) != c.colored || !c.colored && strings.Contains(text, "\x1b") || !strings.Contains(text, "error") {
				t.Errorf("colored is %t, want %t: %q", !c.colored, c.colored, text)
			}
		})
	}
	if got := runs(t, "lint", "--color", "red"); got.status != exitMisuse || !strings.Contains(got.stderr, `--color: unknown value "red"`) {
		t.Errorf("it ended with %d and said %q", got.status, got.stderr)
	}
}
