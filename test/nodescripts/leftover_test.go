package nodescripts_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// endless is the script of a node that runs until it is killed.
const endless = "while :; do read -r -t 60 <> <(:) || true; done"

// TestKilled: when a test is killed, so is everything in its nodes, and with it go
// their mounts and networks. The test that is killed is this one, in another process.
func TestKilled(t *testing.T) {
	needNodes(t)
	const child = "NODESCRIPTS_KILLED"
	if os.Getenv(child) != "" {
		runForever(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var pid int
	var dir string
	lines := bufio.NewScanner(out)
	for pid == 0 && lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "node of process %d in %s", &pid, &dir)
	}
	if pid == 0 {
		t.Fatalf("no node has started: %v", lines.Err())
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid))); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("process 1 of the node, %d, outlives its test", pid)
		}
	}
	// Only a directory remains, without a mount in it.
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("mounts are left in %s", dir)
	}
	for _, left := range []string{dir, filepath.Join(filepath.Dir(dir), "nodescripts-of-"+strconv.Itoa(cmd.Process.Pid))} {
		if err := os.RemoveAll(left); err != nil {
			t.Error(err)
		}
	}
}

// runForever starts a node in which something runs until this process ends.
func runForever(t *testing.T) {
	n := newNode(t, images["ubuntu"])
	go func() {
		for {
			n.mu.Lock()
			if n.power != nil {
				fmt.Printf("node of process %d in %s\n", n.power.Pid, n.dir)
				n.mu.Unlock()
				return
			}
			n.mu.Unlock()
			time.Sleep(10 * time.Millisecond) // until it runs; the other process waits for the line
		}
	}()
	n.run(nil, "/bin/bash", "-c", endless)
}

// TestHostIsSafe: a node writes to its own root, and neither to the machine's
// programs nor its kernel's settings.
func TestHostIsSafe(t *testing.T) {
	parallel(t)
	n := newNode(t, images["ubuntu"])
	got := n.run(nil, "/bin/bash", "-c", `
		touch /etc/osm-gitops-was-here /usr/osm-gitops-was-here || exit 1
		touch /usr/lib/osm-gitops-was-here 2>/dev/null && exit 2
		echo 0 2>/dev/null >/proc/sys/vm/overcommit_memory && exit 3
		[[ $(ip -o link show | grep -c -v ' lo:') == 0 ]] || exit 4
		hostname osm-gitops-was-here`)
	if got.status != 0 {
		t.Errorf("status %d: %s", got.status, got.output)
	}
	if name, err := os.Hostname(); err != nil || name == "osm-gitops-was-here" {
		t.Errorf("the machine is called %q (%v)", name, err)
	}
	for _, path := range []string{"/etc/osm-gitops-was-here", "/usr/osm-gitops-was-here"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is there", path)
		}
		if !n.exists(path) {
			t.Errorf("%s is not in the node", path)
		}
	}
}
