package notify

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// kept simulates client-go's aggregation of events: one for each key, with the first
// text.
type kept map[string]string

func (k kept) Eventf(_, _ runtime.Object, eventtype, reason, action, note string, args ...any) {
	key := eventtype + reason + action
	if _, repeated := k[key]; !repeated {
		k[key] = fmt.Sprintf(note, args...)
	}
}

// No event contains a terminal escape, regardless of the author of its text (security.md
// 45).
func TestHostileText(t *testing.T) {
	k := kept{}
	DistinctRecorder{k}.Eventf(nil, nil, corev1.EventTypeWarning, "Refused", "Sync", "%s", "a\x1b[31m\u202e\u009b]0;x\a\nb")
	for _, text := range k {
		if text != "a[31m]0;x\nb" {
			t.Errorf("got %q", text)
		}
	}
}

func TestRecorder(t *testing.T) {
	k := kept{}
	r := DistinctRecorder{k}
	for _, text := range []string{"one", "another", "one", strings.Repeat("long ", 1000)} {
		r.Eventf(nil, nil, corev1.EventTypeNormal, "ProfileCreated", "Sync", "%s", text)
	}
	if len(k) != 3 {
		t.Errorf("of three texts, one of them told twice, %d arrive: %v", len(k), k)
	}
	for key, text := range k {
		if len(text) > redact.MaxEvent {
			t.Errorf("%s: a text of %d bytes", key, len(text))
		}
	}
}
