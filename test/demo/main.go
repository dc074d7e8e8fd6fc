package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// exitInterrupted is what shells report of a program that SIGINT ended.
const exitInterrupted = 128 + int(syscall.SIGINT)

func main() {
	os.Exit(run(os.Stdout, os.Stderr))
}

func run(stdout, stderr io.Writer) int {
	if err := startDownloaded(); err != nil {
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go endWithGo(ctx, cancel)

	err := demo(ctx, options{keep: os.Getenv("KEEP") == "1", index: os.Getenv("ENVTEST_INDEX")}, stdout, nil)
	var untidy *untidyError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && !errors.As(err, &untidy):
		fmt.Fprintln(stderr, "\ndemo: interrupted; everything it started is stopped and removed")
		return exitInterrupted
	}
	fmt.Fprintf(stderr, "\ndemo: %v\n", err)
	return 1
}

// endWithGo ends the demo when `go run` ends, which passes no signal on but the
// terminal's.
func endWithGo(ctx context.Context, end func()) {
	parent := os.Getppid()
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || strings.TrimSpace(string(name)) != "go" {
		return
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return // a kernel before 5.3
	}
	defer unix.Close(fd)
	for ctx.Err() == nil {
		// The reader has exited. The timeout lets this goroutine end with ctx.
		const milliseconds = 1000
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, milliseconds); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			end()
			return
		}
	}
}
