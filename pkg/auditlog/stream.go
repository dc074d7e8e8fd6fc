package auditlog

import (
	"fmt"
	"io"
	"sync"

	"k8s.io/utils/clock"
)

// Stream is an audit log on standard output. Each run starts a new chain, since earlier
// output is unknown and its reader may not have stored it.
type Stream struct {
	Out   io.Writer
	Clock clock.PassiveClock

	mu   sync.Mutex
	head Head
}

// Append writes events, one line each. After an error none of them counts.
func (s *Stream) Append(events ...Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, head, err := s.head.encodeNextLines(events, s.Clock.Now())
	if err != nil {
		return err
	}
	if _, err := s.Out.Write(text); err != nil {
		return fmt.Errorf("writing the audit log to standard output: %w", err)
	}
	s.head = head
	return nil
}
