package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"
	"time"

	"golang.org/x/term"
)

// progressAfter is the time without any output after which a terminal shows progress.
const progressAfter = time.Second

// Screen is what a command prints to. On a terminal it colors verdicts and severities, and
// shows that the command works until its first output.
type Screen struct {
	Stdout, Stderr io.Writer

	mu      sync.Mutex
	raw     io.Writer // standard error
	done    chan struct{}
	ended   bool
	visible bool // the progress is on the line
}

// NewScreen returns a screen without color and progress.
func NewScreen(stdout, stderr io.Writer) *Screen {
	s := &Screen{raw: stderr, done: make(chan struct{})}
	s.Stdout = &screenStream{screen: s, to: stdout, terminal: IsTerminal(stdout)}
	s.Stderr = &screenStream{screen: s, to: stderr, terminal: IsTerminal(stderr)}
	return s
}

// Colors are the values of --color.
func Colors() []string { return []string{"auto", "always", "never"} }

// EnableColor switches colors on, except for data such as JSON on standard output. NO_COLOR
// (https://no-color.org) holds for auto.
func (s *Screen) EnableColor(mode string, data bool) {
	for _, w := range []io.Writer{s.Stdout, s.Stderr} {
		p, _ := w.(*screenStream)
		if w == s.Stdout && data {
			continue
		}
		p.color = mode == "always" || mode == "auto" && p.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
}

// ShowProgress begins to show progress, if standard error is a terminal.
func (s *Screen) ShowProgress() {
	if !IsTerminal(s.raw) {
		return
	}
	go func() {
		begun := time.Now()
		ticker := time.NewTicker(progressAfter)
		defer ticker.Stop()
		for {
			select {
			case <-s.done:
				return
			case <-ticker.C:
				s.mu.Lock()
				if !s.ended {
					fmt.Fprintf(s.raw, "\rosm-gitops: working, %d s", int(time.Since(begun).Seconds()))
					s.visible = true
				}
				s.mu.Unlock()
			}
		}
	}()
}

// Close ends the progress and prints a last line that has no end.
func (s *Screen) Close() {
	for _, w := range []io.Writer{s.Stdout, s.Stderr} {
		p, _ := w.(*screenStream)
		p.flushLine()
	}
}

// endProgress removes the progress. The caller holds the lock.
func (s *Screen) endProgress() {
	if s.ended {
		return
	}
	s.ended = true
	close(s.done)
	if s.visible {
		fmt.Fprint(s.raw, "\r\x1b[K")
	}
}

// screenStream is standard output or standard error of a Screen. Output removes the progress line
// first.
type screenStream struct {
	screen          *Screen
	to              io.Writer
	terminal, color bool
	line            []byte // begun, and not printed yet
}

// Write implements io.Writer. With color, it prints whole lines.
func (p *screenStream) Write(text []byte) (int, error) {
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	p.screen.endProgress()
	if !p.color {
		return p.to.Write(text)
	}
	p.line = append(p.line, text...)
	last := bytes.LastIndexByte(p.line, '\n')
	if last < 0 {
		return len(text), nil
	}
	var out []byte
	for line := range bytes.Lines(p.line[:last+1]) {
		out = append(out, colorizeLine(line)...)
	}
	p.line = append([]byte(nil), p.line[last+1:]...)
	_, err := p.to.Write(out)
	return len(text), err
}

func (p *screenStream) flushLine() {
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	p.screen.endProgress()
	_, _ = p.to.Write(p.line) // the command has ended, so that no caller can report it
	p.line = nil
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// paints color the first group of the first expression that a line matches.
var paints = []struct {
	line  *regexp.Regexp
	color string
}{
	{regexp.MustCompile(`^verdict: (agrees)$`), green},
	{regexp.MustCompile(`^verdict: (.+)$`), red},
	{regexp.MustCompile(`^(ok) +[a-z]`), green},         // doctor
	{regexp.MustCompile(`^(problem|unknown) +\S`), red}, // doctor
	{regexp.MustCompile(`^(warning) +\S`), yellow},      // doctor
	{regexp.MustCompile(`^  (DISAGREES) `), red},        // trace
	{regexp.MustCompile(`^\S+: (error): `), red},        // lint
	{regexp.MustCompile(`^\S+: (warning): `), yellow},   // lint, and standard error
}

const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// colorizeLine colors the part of a line that the first matching pattern selects.
func colorizeLine(line []byte) []byte {
	text := bytes.TrimSuffix(line, []byte("\n"))
	for _, p := range paints {
		if at := p.line.FindSubmatchIndex(text); at != nil {
			return fmt.Appendf(nil, "%s%s%s%s%s", line[:at[2]], p.color, line[at[2]:at[3]], reset, line[at[3]:])
		}
	}
	return line
}
