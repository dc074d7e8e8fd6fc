package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// DistinctRecorder records events so that every text is delivered.
//
// client-go treats two events with the same object, type, reason and action as
// repetitions, and only reports the first text for the next six minutes: of three created
// profiles it reported one. Each text therefore has its own action: the caller's with a
// digest of the text.
type DistinctRecorder struct {
	events.EventRecorder
}

// Eventf records an event.
func (r DistinctRecorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	text := redact.Shorten(redact.RemoveControlChars(fmt.Sprintf(note, args...)), redact.MaxEvent)
	sum := sha256.Sum256([]byte(text))
	r.EventRecorder.Eventf(regarding, related, eventtype, reason, action+"-"+hex.EncodeToString(sum[:4]), "%s", text)
}
