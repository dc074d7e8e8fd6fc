package e2e

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/test/testenv"
)

func (s *System) Scrape(address string) string {
	s.T.Helper()
	res, err := http.Get("http://" + address + "/metrics") //nolint:noctx // a page of this machine
	if err != nil {
		return "" // not listening yet
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.T.Fatal(err)
	}
	return string(b)
}

func MicroTime() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// Listening compares the ports at which the controller listens with those that are
// asked for, as the kernel knows them (security.md 29).
func (s *System) Listening(want ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("to listen at %q and at no other address", want), func() error {
		got, err := listeners(s.Process.Process.Pid)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("it listens at %q", got)
		}
		return err
	})
}

// listeners returns the addresses at which a process listens for TCP connections. The controller
// uses no UDP. See proc_pid_net(5) and proc_net_tcp in the kernel's documentation.
func listeners(pid int) ([]string, error) {
	sockets := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(fds) == 0 {
		return nil, fmt.Errorf("found no open files of process %d: %w", pid, err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			sockets[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	var out []string
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			const listen = "0A"
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != listen || !sockets[fields[9]] {
				continue
			}
			address, err := kernelAddress(fields[1])
			if err != nil {
				return nil, err
			}
			out = append(out, address)
		}
	}
	slices.Sort(out)
	return out, nil
}

// kernelAddress reads an address as the kernel prints it: words of four bytes in
// the machine's order, and the port.
func kernelAddress(text string) (string, error) {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if err != nil {
		return "", err
	}
	for i := 0; i+4 <= len(b); i += 4 {
		slices.Reverse(b[i : i+4]) // little endian, as every machine that we test on
	}
	addr, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return "", fmt.Errorf("the kernel has the address %q", text)
	}
	return netip.AddrPortFrom(addr, uint16(n)).String(), nil
}

// FreeAddress is testenv's, for a test.
func FreeAddress(t *testing.T) string {
	t.Helper()
	address, err := testenv.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return address
}
