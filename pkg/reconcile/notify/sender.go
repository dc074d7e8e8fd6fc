package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// maxQueued is the maximum number of waiting events.
	maxQueued = 1000
	// requestTime is the timeout of one request.
	requestTime = 5 * time.Second
	// maxTries limits the attempts for one event; the wait between them doubles.
	maxTries  = 4
	firstWait = time.Second
	// stopTime is for waiting events when the controller ends.
	stopTime = 2 * time.Second
)

// Sender posts events to a notification-controller. Create it with NewSender.
type Sender struct {
	address string
	queue   chan eventv1.Event
	client  *http.Client
	dropped atomic.Int64
}

// NewSender returns a Sender for an address such as
// http://notification-controller.flux-system.svc.cluster.local./
func NewSender(address string) *Sender {
	return &Sender{
		address: address,
		queue:   make(chan eventv1.Event, maxQueued),
		client: &http.Client{
			Timeout:       requestTime,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// Send queues an event, or drops it if too many wait. It returns at once.
func (s *Sender) Send(e eventv1.Event) {
	select {
	case s.queue <- e:
	default:
		s.dropped.Add(1)
	}
}

// NeedLeaderElection returns false, so it runs from the start: only the leader creates
// events, and a leader that loses the lease still sends its last ones.
func (*Sender) NeedLeaderElection() bool { return false }

// Start posts events until ctx ends. It is for a manager's Add.
func (s *Sender) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			s.drain(context.WithoutCancel(ctx))
			return nil
		case e := <-s.queue:
			s.deliverWithRetry(ctx, e)
		}
		if n := s.dropped.Swap(0); n > 0 {
			log.FromContext(ctx).Info("events for the notification-controller were dropped: too many waited", "number", n)
		}
	}
}

// drain tries to send each waiting event once.
func (s *Sender) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case e := <-s.queue:
			if _, err := s.post(ctx, e); err != nil {
				log.FromContext(ctx).Info("an event for the notification-controller is lost", "reason", e.Reason, "error", err.Error())
			}
		default:
			return
		}
	}
}

// deliverWithRetry retries until the event is accepted, rejected or too old.
func (s *Sender) deliverWithRetry(ctx context.Context, e eventv1.Event) {
	wait := firstWait
	for try := 1; ; try++ {
		again, err := s.post(ctx, e)
		if err == nil {
			return
		}
		if !again || try == maxTries {
			log.FromContext(ctx).Info("an event for the notification-controller is lost", "reason", e.Reason, "error", err.Error())
			return
		}
		select {
		case <-ctx.Done():
			s.Send(e) // drain sends it
			return
		case <-time.After(wait):
		}
		wait *= 2
	}
}

// post makes one request, and reports whether a retry can succeed. 429 is the response to
// an event that was sent recently, so it is not an error
// (https://github.com/fluxcd/pkg/blob/runtime/v0.111.0/runtime/events/recorder.go).
func (s *Sender) post(ctx context.Context, e eventv1.Event) (again bool, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return false, fmt.Errorf("encoding an event: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.address, bytes.NewReader(body))
	if err != nil {
		return false, errors.New("--events-addr cannot be used as a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL
		}
		return true, fmt.Errorf("posting to --events-addr: %w", err)
	}
	res.Body.Close()
	switch code := res.StatusCode; {
	case code >= 200 && code < 300, code == http.StatusTooManyRequests:
		return false, nil
	default:
		return code >= 500, fmt.Errorf("posting to --events-addr: the answer is %d", code)
	}
}
