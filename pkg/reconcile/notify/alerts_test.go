package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// controller is a server that answers as the notification-controller does.
type controller struct {
	t       *testing.T
	url     string
	mu      sync.Mutex
	got     []eventv1.Event
	tries   int
	answers []int // then 202
}

func newController(t *testing.T, answers ...int) *controller {
	c := &controller{t: t, answers: answers}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var e eventv1.Event
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(body, &e) != nil {
			t.Errorf("%s %s %v %q (%v)", r.Method, r.URL, r.Header, body, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.tries++
		if len(c.answers) > 0 {
			w.WriteHeader(c.answers[0])
			c.answers = c.answers[1:]
			return
		}
		c.got = append(c.got, e)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL + "/"
	return c
}

// wait waits for a number of tries, and returns the events that were taken.
func (c *controller) wait(tries int) []eventv1.Event {
	c.t.Helper()
	var got []eventv1.Event
	testenv.Await(c.t, 30*time.Second, fmt.Sprintf("there are %d tries", tries), func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.tries < tries {
			return fmt.Errorf("there are %d", c.tries)
		}
		got = c.got
		return nil
	})
	return got
}

func start(t *testing.T, s *Sender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func source() *api.ProfileSource {
	return &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "platform", UID: "u", ResourceVersion: "7",
			Annotations: map[string]string{"event.toolkit.fluxcd.io/team": "in\x1b[31mfra", "secret.example.com/x": "not for others"},
		},
		Status: api.ProfileSourceStatus{LastAttemptedRevision: "main@sha1:" + strings.Repeat("a", 40)},
	}
}

// What the notification-controller gets (ecosystem.md 7), without text that is harmful to
// terminals (security.md 28), or that chats treat as a link, a tag or a mention
// (security.md 45).
func TestEvent(t *testing.T) {
	c := newController(t)
	s := NewSender(c.url)
	defer start(t, s)()
	kept := events.NewFakeRecorder(10)
	r := Recorder{EventRecorder: kept, Sender: s, Instance: "host-1"}
	r.Eventf(source(), nil, corev1.EventTypeNormal, api.EventRevisionApplied, "Sync", "applied %s", "\x1b]0;title\aone\n<b>two</b>\u202e <!channel> <https://evil.example|x> [x](https://evil.example) @everyone")
	r.Eventf(source(), nil, corev1.EventTypeWarning, api.EventSourceFailed, "Sync", "%s", strings.Repeat("é", 39001))
	r.Eventf(&osm.OperatingSystemConfig{}, nil, corev1.EventTypeNormal, "Other", "Sync", "of another kind")
	got := c.wait(2)
	if len(kept.Events) != 3 {
		t.Errorf("%d events are in the cluster, want 3", len(kept.Events))
	}
	if len(got) != 2 {
		t.Fatalf("got %d events", len(got))
	}
	about := corev1.ObjectReference{APIVersion: "gitops.k8c.io/v1alpha1", Kind: "ProfileSource", Namespace: "kube-system", Name: "platform", UID: "u", ResourceVersion: "7"}
	if age := time.Since(got[0].Timestamp.Time); age < 0 || age > time.Minute {
		t.Errorf("the time is %s", got[0].Timestamp)
	}
	got[0].Timestamp, got[1].Timestamp = metav1.Time{}, metav1.Time{}
	want := eventv1.Event{
		InvolvedObject: about, Severity: "info", Reason: "RevisionApplied", Message: "applied ]0;titleone\n<\u200bb>two<\u200b/b> <\u200b!channel> <\u200bhttps://evil.example|x> [x]\u200b(https://evil.example) @\u200beveryone",
		ReportingController: "osm-gitops", ReportingInstance: "host-1",
		Metadata: map[string]string{"gitops.k8c.io/revision": "main@sha1:" + strings.Repeat("a", 40), "event.toolkit.fluxcd.io/team": "in[31mfra"},
	}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// No commit is to blame for a server that does not answer.
	if e := got[1]; e.Severity != "error" || len(e.Message) > 39000 || len(e.Metadata) != 1 {
		t.Errorf("got %s, %d bytes, %v", e.Severity, len(e.Message), e.Metadata)
	}
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answers []int
		tries   int // for the first event
		taken   int // of two
	}{
		"taken":                       {nil, 1, 2},
		"a duplicate, not sent again": {[]int{429}, 1, 1},
		"refused, not sent again":     {[]int{400}, 1, 1},
		"a redirect, not followed":    {[]int{307}, 1, 1},
		"out of order for a moment":   {[]int{500, 503}, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newController(t, c.answers...)
			s := NewSender(server.url)
			defer start(t, s)()
			s.Send(newEvent(source(), corev1.EventTypeNormal, "One", "one"))
			s.Send(newEvent(source(), corev1.EventTypeNormal, "Two", "two"))
			if got := server.wait(c.tries + 1); len(got) != c.taken || got[len(got)-1].Reason != "Two" {
				t.Errorf("taken are %d events", len(got))
			}
		})
	}
}

// Nothing waits for an unavailable notification-controller, and memory is bounded.
func TestNobodyWaits(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	defer server.Close()
	defer close(hang)
	s := NewSender(server.URL)
	e := newEvent(source(), corev1.EventTypeNormal, "One", "one")
	for range 10 * maxQueued { // nothing receives them
		s.Send(e)
	}
	if waiting, dropped := len(s.queue), s.dropped.Load(); waiting != maxQueued || dropped != 9*maxQueued {
		t.Errorf("%d wait, %d are dropped", waiting, dropped)
	}
	stop := start(t, s)
	stop() // it ends, although no answer comes
}

// What waits when the controller ends is still sent.
func TestLastWords(t *testing.T) {
	server := newController(t)
	s := NewSender(server.url)
	for range 5 {
		s.Send(newEvent(source(), corev1.EventTypeNormal, "One", "one"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Start(ctx); err != nil {
		t.Error(err)
	}
	if got := server.wait(5); len(got) != 5 {
		t.Errorf("%d are sent", len(got))
	}
}
