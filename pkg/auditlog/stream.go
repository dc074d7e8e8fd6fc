package auditlog

import (
	"fmt"
	"io"
	"sync"

	"k8s.io/utils/clock"
)

// Stream is a journal on standard output. Each run has a chain of its own, which
// begins anew: nothing is known of what was written before, and nobody says whether
// what reads it kept it.
type Stream struct {
	Out   io.Writer
	Clock clock.PassiveClock

	mu   sync.Mutex
	head Head
}

// Append writes facts, one line each. After an error none of them counts.
func (s *Stream) Append(facts ...Fact) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	head, now := s.head, s.Clock.Now()
	var text []byte
	for _, f := range facts {
		line, next, err := head.Next(f, now)
		if err != nil {
			return err
		}
		text, head = append(append(text, line...), '\n'), next
	}
	if _, err := s.Out.Write(text); err != nil {
		return fmt.Errorf("writing the audit log to standard output: %w", err)
	}
	s.head = head
	return nil
}
