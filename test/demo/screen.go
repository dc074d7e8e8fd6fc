package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// progressInterval is how often a step says that it still runs.
const progressInterval = 10 * time.Second

// screen prints the demo: the same on a terminal and in a log.
type screen struct {
	mu       sync.Mutex
	w        io.Writer
	chapters int
}

func (s *screen) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// chapter begins a part of the story.
func (s *screen) chapter(title string) {
	s.chapters++
	s.say("\n%d. %s\n", s.chapters, title)
}

// text prints indented lines.
func (s *screen) text(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		s.say("%s", strings.TrimRight("   "+line, " "))
	}
}

// step does something and prints a line when it is done: its name, what came of
// it, and how long it took. What takes long says so meanwhile.
func (s *screen) step(name string, do func() (string, error)) error {
	begin := time.Now()
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-time.After(progressInterval):
				s.say("   %-15s ... %s", name, time.Since(begin).Round(time.Second))
			}
		}
	}()
	result, err := do()
	close(done)
	<-stopped
	if err != nil {
		return err
	}
	s.say("   %-15s %-66s %s", name, result, seconds(time.Since(begin)))
	return nil
}

// table prints rows in columns; the first row has their names. Columns whose names begin with "<"
// are right-aligned.
func (s *screen) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	right := make([]bool, len(rows[0]))
	for i, name := range rows[0] {
		rows[0][i], right[i] = strings.CutPrefix(name, "<")
	}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if right[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			b.WriteString(cell + "  ")
		}
		s.text(strings.TrimRight(b.String(), " "))
	}
}

// indented is a writer for others' progress.
func (s *screen) indented() io.Writer { return &indenter{s: s} }

type indenter struct {
	s    *screen
	rest []byte
}

func (w *indenter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		w.s.text(string(line))
		w.rest = rest
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func kib(n int) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }
